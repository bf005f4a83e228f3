"""The flat form of an entry: nothing is lost on the way to a table and back."""

from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum
from uuid import UUID

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from meetcore.domain.meetings.schedule import cap_day
from meetcore.domain.money import holds, ledger
from meetcore.domain.money.hash_chain import canonical_entry
from meetcore.domain.money.ledger import ChainKey, Entry, first_broken
from meetcore.domain.money.rows import EntryRow, from_row, to_row
from meetcore.testing.strategies.account_histories import ACCOUNT, AccountHistory, account_histories

KEY = ChainKey.of(bytes(range(32)))
NOW = datetime(2026, 12, 1, 2, 0, 0, 7, UTC)


class ShopKind(StrEnum):
    """The words of an embedder."""

    ORDER = "order"
    RETURN = "return"


def shop_entries() -> list[Entry]:
    """A top-up, an order that was reserved and settled, and its return."""
    topped = ledger.top_up(ledger.open_account(ACCOUNT), UUID(int=2), "INV-7", 100, NOW, key=KEY)
    hold = holds.Hold(
        UUID(int=3), "order:1", ShopKind.ORDER, 60, ledger.Reference("order", "1"), ACCOUNT, cap_day(NOW)
    )
    reserved = holds.take(topped.funds, holds.CapUsage(ACCOUNT, cap_day(NOW)), None, hold)
    paid = holds.settle(reserved.funds, reserved.usage, hold, 55, UUID(int=4), NOW, KEY)
    assert topped.entry is not None
    assert paid.posting.entry is not None
    charge = paid.posting.entry.transfer
    back = holds.refund(
        paid.posting.funds, paid.usage, charge, UUID(int=5), NOW, key=KEY, kind=ShopKind.RETURN
    )
    assert back.posting.entry is not None
    return [topped.entry, paid.posting.entry, back.posting.entry]


@given(account_histories(), st.sampled_from([UTC, timezone(timedelta(hours=7))]))
def test_every_entry_comes_back_from_its_row(history: AccountHistory, zone: timezone) -> None:
    rows = [to_row(evolve(entry, at=entry.at.astimezone(zone))) for entry in history.entries]
    assert [from_row(row) for row in rows] == history.entries
    assert [from_row({**row, "at": row["at"].astimezone(zone)}) for row in rows] == history.entries
    assert {row["at"].tzinfo for row in rows} <= {UTC}


def test_entries_of_kinds_of_a_callers_own_come_back_and_are_proven() -> None:
    entries = shop_entries()
    rows = [to_row(entry) for entry in entries]
    assert [(row["kind"], row["source"], row["destination"]) for row in rows] == [
        ("topup", "topups", "customer"),
        ("order", "customer", "order"),
        ("return", "order", "customer"),
    ]
    found = [from_row({**row, "id": 1, "hash": memoryview(row["hash"])}, ShopKind) for row in rows]
    assert found == entries
    assert [type(entry.transfer.kind) for entry in found] == [ledger.TransferKind, ShopKind, ShopKind]
    assert [canonical_entry(entry) for entry in found] == [canonical_entry(entry) for entry in entries]
    assert first_broken(ACCOUNT, found, {KEY.id: KEY.secret}) is None


@pytest.mark.usefixtures("far_from_utc")
def test_an_instant_of_another_zone_is_in_utc_on_a_machine_far_from_it() -> None:
    entry = shop_entries()[0]
    row = to_row(evolve(entry, at=entry.at.astimezone(timezone(timedelta(hours=7)))))
    assert row["at"].isoformat() == "2026-12-01T02:00:00.000007+00:00"


def test_a_row_has_one_plain_value_for_each_column() -> None:
    row = to_row(shop_entries()[2])
    assert row.keys() == EntryRow.__annotations__.keys()
    assert row == {
        "account_id": ACCOUNT,
        "number": 3,
        "transfer_id": UUID(int=5),
        "operation": f"refund:{UUID(int=4)}",
        "kind": "return",
        "amount": 55,
        "source": "order",
        "destination": "customer",
        "reference_type": "order",
        "reference_id": "1",
        "reverses": UUID(int=4),
        "api_key_id": ACCOUNT,
        "cap_day": cap_day(NOW),
        "balance_after": 100,
        "at": NOW,
        "hash": row["hash"],
        "key_id": KEY.id,
    }
    assert {type(row["kind"]), type(row["source"]), type(row["destination"])} == {str}


@pytest.mark.parametrize(("changes", "problem"), [
    ({"kind": "gift"}, "'gift' is not in TransferKind, ShopKind"),
    ({"kind": "ORDER"}, "'ORDER' is not in TransferKind, ShopKind"),
    ({"source": "meeting_charge"}, "'meeting_charge' is not in Book, ShopKind"),
    ({"destination": ""}, "'' is not in Book, ShopKind"),
    ({"at": NOW.replace(tzinfo=None)}, "an instant in the ledger has a time zone"),
])  # fmt: skip
def test_a_row_that_no_entry_has_is_refused(changes: dict[str, object], problem: str) -> None:
    with pytest.raises(ValueError, match=f"^{problem}$"):
        from_row({**to_row(shop_entries()[1]), **changes}, ShopKind)


def test_the_kinds_of_a_row_are_the_services_unless_they_are_given() -> None:
    with pytest.raises(ValueError, match=r"^'order' is not in TransferKind$"):
        from_row(to_row(shop_entries()[1]))


def test_an_entry_without_a_time_zone_has_no_row() -> None:
    with pytest.raises(ValueError, match=r"^an instant in the ledger has a time zone$"):
        to_row(evolve(shop_entries()[0], at=NOW.replace(tzinfo=None)))
