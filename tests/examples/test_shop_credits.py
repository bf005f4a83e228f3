"""Credits in a shop: transactions, constraints and proof, on SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from threading import Barrier
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Engine, delete, event, func, insert, select, text, update
from sqlalchemy.exc import DatabaseError, IntegrityError

from examples.shop.credits import Credits, ShopKind, accounts, entries, open_holds
from meetcore.domain.errors import Conflict, InsufficientCredits, NotFound
from meetcore.domain.money.ledger import ChainKey, CreditsFellLow, Funds, InvalidAmount, Posting

NOW = datetime(2026, 12, 1, 2, 0, 0, 123_456, tzinfo=UTC)


@pytest.fixture
def shop(engine: Engine) -> Credits:
    return Credits(engine, ChainKey.of(bytes(range(32))))


@pytest.fixture
def account(shop: Credits) -> UUID:
    """An account with 100 credits."""
    account_id = uuid4()
    shop.open_account(account_id)
    shop.top_up(account_id, "INV-1", 100, NOW)
    return account_id


def funds_of(shop: Credits, account_id: UUID) -> Funds:
    with shop.engine.begin() as connection:
        found = select(accounts).filter_by(account_id=account_id)
        return Funds(**connection.execute(found).mappings().one())


def pay(shop: Credits, account_id: UUID, order: str, price: int) -> Posting:
    shop.reserve(account_id, order, price, NOW)
    return shop.ship(account_id, order, price, NOW)


def unguard(connection: Any) -> None:
    """Remove the guard, as the tables' owner can; the caller rolls it back."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("DROP TRIGGER entries_UPDATE")
        connection.exec_driver_sql("DROP TRIGGER entries_DELETE")
    else:
        connection.exec_driver_sql("DROP TRIGGER entries_kept ON entries")


def at_once(*operations: Callable[[], object]) -> list[object]:
    """Run each in a thread, and return each result or exception."""
    start = Barrier(len(operations))

    def run(operation: Callable[[], object]) -> object:
        try:
            start.wait(10)
            return operation()
        except Exception as refusal:  # noqa: BLE001 - the test inspects every exception
            return refusal

    with ThreadPoolExecutor(len(operations)) as pool:
        return list(pool.map(run, operations))


def test_an_order_is_reserved_shipped_and_taken_back_once(shop: Credits, account: UUID) -> None:
    reserved = shop.reserve(account, "o-1", 70, NOW)
    assert (reserved.balance, reserved.available) == (100, 30)
    with pytest.raises(InsufficientCredits):
        shop.reserve(account, "o-2", 31, NOW)
    shipped = [shop.ship(account, "o-1", 65, NOW) for _ in range(2)]
    assert [(each.funds.balance, each.funds.held) for each in shipped] == [(35, 0)] * 2
    assert shipped[1].entry is None
    returned = [shop.take_back(account, "o-1", NOW).funds.balance for _ in range(2)]
    assert returned == [100, 100]
    with shop.engine.begin() as connection:
        kinds = connection.execute(select(entries.c.kind).order_by(entries.c.number)).scalars().all()
    assert kinds == ["topup", ShopKind.ORDER, ShopKind.RETURN]
    assert shop.faults(account) == ()


def test_a_cancelled_order_costs_nothing_and_is_not_shipped(shop: Credits, account: UUID) -> None:
    shop.reserve(account, "o-1", 70, NOW)
    assert [shop.cancel(account, "o-1").available for _ in range(2)] == [100, 100]
    with pytest.raises(NotFound):
        shop.ship(account, "o-1", 70, NOW)
    assert (funds_of(shop, account).balance, shop.faults(account)) == (100, ())


def test_an_order_that_is_open_or_paid_is_not_reserved_again(shop: Credits, account: UUID) -> None:
    assert [shop.reserve(account, "o-1", 10, NOW).held for _ in range(2)] == [10, 10]
    with pytest.raises(Conflict):
        shop.reserve(account, "o-1", 11, NOW)
    shop.ship(account, "o-1", 10, NOW)
    with pytest.raises(Conflict):
        shop.reserve(account, "o-1", 10, NOW)
    assert (funds_of(shop, account).balance, shop.faults(account)) == (90, ())


def test_a_top_up_reference_counts_once(shop: Credits, account: UUID) -> None:
    assert shop.top_up(account, "INV-1", 100, NOW).entry is None
    with pytest.raises(Conflict):
        shop.top_up(account, "INV-1", 101, NOW)
    assert shop.top_up(account, "INV-2", 5, NOW).funds.balance == 105


def test_what_is_missing_is_not_found(shop: Credits, account: UUID) -> None:
    for operation in (
        lambda: shop.reserve(uuid4(), "o-1", 1, NOW),
        lambda: shop.top_up(uuid4(), "INV-1", 1, NOW),
        lambda: shop.ship(account, "never-reserved", 1, NOW),
        lambda: shop.take_back(account, "never-paid", NOW),
    ):
        with pytest.raises(NotFound):
            operation()


@pytest.mark.parametrize("amount", [0, -1, 1.5, True])
def test_an_invalid_amount_changes_nothing(shop: Credits, account: UUID, amount: Any) -> None:
    with pytest.raises(InvalidAmount):
        shop.reserve(account, "o-1", amount, NOW)
    with pytest.raises(InvalidAmount):
        shop.top_up(account, "INV-2", amount, NOW)
    assert (funds_of(shop, account).balance, shop.faults(account)) == (100, ())


@pytest.mark.usefixtures("far_from_utc")
def test_a_history_is_proven_whatever_the_time_zone_of_its_times(shop: Credits, account: UUID) -> None:
    later = NOW.astimezone(timezone(timedelta(hours=7))) + timedelta(seconds=1)
    shop.top_up(account, "INV-2", 1, later)
    assert shop.faults(account) == ()
    assert funds_of(shop, account).last_at == later


def test_low_credits_are_reported_once(shop: Credits, account: UUID) -> None:
    assert pay(shop, account, "o-1", 80).facts == ()
    shop.reserve(account, "o-2", 10, NOW)
    assert shop.ship(account, "o-2", 30, NOW).facts == (CreditsFellLow(account, -10, 20),)
    assert shop.top_up(account, "INV-2", 12, NOW).facts == ()
    assert pay(shop, account, "o-3", 1).facts == ()


def test_of_two_orders_with_credits_for_one_exactly_one_is_reserved(shop: Credits, account: UUID) -> None:
    for number in range(10):
        orders = [f"{who}-{number}" for who in ("alice", "bob")]
        outcomes = at_once(*(partial(shop.reserve, account, order, 60, NOW) for order in orders))
        assert {type(outcome) for outcome in outcomes} == {Funds, InsufficientCredits}
        for order in orders:
            shop.cancel(account, order)


def test_one_order_shipped_at_once_is_charged_once(shop: Credits, account: UUID) -> None:
    shop.reserve(account, "o-1", 60, NOW)
    outcomes = at_once(*[partial(shop.ship, account, "o-1", 60, NOW)] * 4)
    assert [type(outcome) for outcome in outcomes] == [Posting] * 4
    assert (funds_of(shop, account).balance, shop.faults(account)) == (40, ())


def test_a_fault_between_the_two_writes_leaves_neither(shop: Credits, account: UUID) -> None:
    def fault(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if statement.startswith("UPDATE accounts"):
            raise OSError("the disk is gone")

    event.listen(shop.engine, "before_cursor_execute", fault)
    with pytest.raises(OSError, match="disk"):
        shop.top_up(account, "INV-2", 10, NOW)
    event.remove(shop.engine, "before_cursor_execute", fault)
    assert (funds_of(shop, account).balance, shop.faults(account)) == (100, ())


SECOND, LAST = entries.c.number == 2, entries.c.number == 3


@pytest.mark.parametrize(("tampering", "fault"), [
    (update(entries).where(SECOND).values(amount=1), "entry 2 is not what was written"),
    (update(entries).where(SECOND).values(reference_id="o-9"), "entry 2 is not what was written"),
    (
        update(entries).where(SECOND).values(at=NOW + timedelta(seconds=1)),
        "entry 2 is not what was written",
    ),
    (update(entries).where(LAST).values(key_id=b""), "entry 3 is not what was written"),
    (delete(entries).where(SECOND), "entry 2 is not what was written"),
    (delete(entries).where(LAST), "the stored balance is 80, and its entries make 90"),
    (update(accounts).values(balance=81), "the stored balance is 81, and its entries make 80"),
], ids=["amount", "reference", "time", "key", "dropped", "dropped-last", "balance"])  # fmt: skip
def test_tampering_is_detected(shop: Credits, account: UUID, tampering: Any, fault: str) -> None:
    for order in ("o-1", "o-2"):
        pay(shop, account, order, 10)
    assert shop.faults(account) == ()
    with shop.engine.begin() as connection:
        unguard(connection)
        connection.execute(tampering)
    assert shop.faults(account)[0] == fault


def test_a_shop_with_another_key_proves_nothing(shop: Credits, account: UUID) -> None:
    assert Credits(shop.engine, ChainKey.of(bytes(32))).faults(account) == (
        "entry 1 is not what was written",
    )


CHANGES = ["UPDATE entries SET amount = amount + 1", "DELETE FROM entries WHERE number = 1"]
CHANGES_OF = {
    "sqlite": [*CHANGES, "INSERT OR REPLACE INTO entries SELECT * FROM entries"],
    "postgresql": [*CHANGES, "TRUNCATE entries"],
}


def test_the_database_refuses_to_change_an_entry(shop: Credits, account: UUID) -> None:
    for statement in CHANGES_OF[shop.engine.dialect.name]:
        with pytest.raises(DatabaseError, match="append-only"), shop.engine.begin() as connection:
            connection.execute(text(statement))
        assert shop.faults(account) == ()
        with shop.engine.connect() as connection:
            unguard(connection)
            connection.execute(text(statement))  # it was the guard alone
            connection.rollback()


@pytest.mark.parametrize("taken", ["number", "transfer_id", "operation", "reverses"])
def test_the_database_enforces_uniqueness(shop: Credits, account: UUID, taken: str) -> None:
    pay(shop, account, "o-1", 10)
    shop.take_back(account, "o-1", NOW)
    fresh = {"number": 4, "transfer_id": uuid4(), "operation": "other", "reverses": uuid4()}
    with shop.engine.connect() as connection:
        last = dict(connection.execute(select(entries).where(LAST)).mappings().one())
        connection.execute(insert(entries).values({**last, **fresh}))  # it is one of them alone
        connection.rollback()
        with pytest.raises(IntegrityError):
            connection.execute(insert(entries).values({**last, **fresh, taken: last[taken]}))


def test_the_open_holds_sum_up_to_what_is_held(shop: Credits, account: UUID) -> None:
    for number in range(3):
        shop.reserve(account, f"o-{number}", 20, NOW)
    shop.cancel(account, "o-1")
    with shop.engine.begin() as connection:
        held = connection.execute(select(func.sum(open_holds.c.amount))).scalar_one()
    assert held == funds_of(shop, account).held == 40
