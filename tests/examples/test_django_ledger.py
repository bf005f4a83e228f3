"""The ledger inside a Django project: transactions, constraints and proof, on SQLite and PostgreSQL."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from importlib import import_module
from io import StringIO
from pathlib import Path
from threading import Barrier
from typing import Any
from uuid import UUID, uuid4

import django
import pytest

# Models can be imported only after the setup. It moves the process to its time zone; other tests want theirs.
os.environ["DJANGO_SETTINGS_MODULE"] = "examples.django_ledger.settings"
zone = os.environ.get("TZ")
django.setup()
os.environ.pop("TZ", None)
if zone is not None:
    os.environ["TZ"] = zone
time.tzset()

from django.core.management import CommandError, call_command  # noqa: E402
from django.db import IntegrityError, connection, connections, transaction  # noqa: E402
from django.db.models import F  # noqa: E402
from django.db.models.signals import pre_save  # noqa: E402
from django.test import Client  # noqa: E402

from examples.django_ledger.settings import postgres, sqlite  # noqa: E402
from examples.django_ledger.wallet import services  # noqa: E402
from examples.django_ledger.wallet.models import Account, EntryRow  # noqa: E402
from meetcore.domain.errors import Conflict, InsufficientCredits, NotFound  # noqa: E402
from meetcore.domain.money.ledger import CreditsFellLow, InvalidAmount  # noqa: E402
from tests.support import servers  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
NOW = datetime(2026, 12, 1, 2, 0, 0, 123_456, tzinfo=UTC)


@contextmanager
def connected(configuration: dict[str, Any]) -> Iterator[None]:
    """Django's default connection leads there, in every thread, with the tables made."""
    before = connections.settings["default"]
    connect_by(connections.configure_settings({"default": configuration})["default"])
    try:
        call_command("migrate", verbosity=0)
        yield
    finally:
        connect_by(before)


def connect_by(settings: dict[str, Any]) -> None:
    connections["default"].close()
    del connections["default"]
    connections.settings["default"] = settings


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if request.param == "sqlite":
        with connected(sqlite(str(tmp_path_factory.mktemp("wallet") / "wallet.sqlite3"))):
            yield "sqlite"
    else:
        server = request.getfixturevalue("postgres_server_url")
        with servers.fresh_database(server) as url, connected(postgres(url)):
            yield "postgres"


@pytest.fixture
def account(database: str) -> UUID:
    """An account with 100 credits."""
    account_id = uuid4()
    services.open_account(account_id)
    services.top_up(account_id, "INV-1", 100, NOW)
    return account_id


@pytest.fixture(autouse=True)
def low_credit_events() -> Iterator[list[CreditsFellLow]]:
    """Record the signals of low credits."""
    facts: list[CreditsFellLow] = []

    def record(fact: CreditsFellLow, **_: object) -> None:
        facts.append(fact)

    services.credits_fell_low.connect(record)
    yield facts
    services.credits_fell_low.disconnect(record)


def balance(account_id: UUID) -> int:
    account: Account = Account.objects.get(pk=account_id)
    return account.funds().balance


def is_proven(account_id: UUID) -> bool:
    return account_id not in dict(services.unproven())


def unguard() -> None:
    """Remove the guard, as the tables' owner can; the caller rolls it back."""
    guard = import_module("examples.django_ledger.wallet.migrations.0002_entries_never_change")
    guard.open_up(None, connection.schema_editor())


def at_once(*operations: Callable[[], object]) -> list[object]:
    """Run each in a thread with its own connection, and return each result or exception."""
    start = Barrier(len(operations))

    def run(operation: Callable[[], object]) -> object:
        try:
            start.wait(10)
            return operation()
        except Exception as refusal:  # noqa: BLE001 - the test inspects every exception
            return refusal
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(operations)) as pool:
        return list(pool.map(run, operations))


def test_the_lifecycle_of_an_account(account: UUID) -> None:
    assert services.buy(account, "o-1", 70, NOW) == 30
    assert services.buy(account, "o-1", 70, NOW) == 30
    with pytest.raises(InsufficientCredits):
        services.buy(account, "o-2", 31, NOW)
    assert services.refund(account, "o-1", NOW) == 100
    assert services.refund(account, "o-1", NOW) == 100
    kinds = EntryRow.objects.filter(account=account).order_by("number").values_list("number", "kind")
    assert list(kinds) == [(1, "topup"), (2, "meeting_charge"), (3, "meeting_refund")]
    assert is_proven(account)


def test_a_top_up_reference_counts_once(account: UUID) -> None:
    assert services.top_up(account, "INV-1", 100, NOW) == 100
    with pytest.raises(Conflict):
        services.top_up(account, "INV-1", 101, NOW)
    assert services.top_up(account, "INV-2", 5, NOW) == 105
    assert EntryRow.objects.filter(account=account).count() == 2


def test_an_order_is_not_paid_at_two_prices(account: UUID) -> None:
    services.buy(account, "o-1", 10, NOW)
    with pytest.raises(Conflict):
        services.buy(account, "o-1", 11, NOW)
    assert balance(account) == 90


def test_a_missing_account_is_not_found(account: UUID) -> None:
    for operation in (
        lambda: services.buy(uuid4(), "o-1", 1, NOW),
        lambda: services.top_up(uuid4(), "INV-1", 1, NOW),
        lambda: services.refund(account, "never-paid", NOW),
    ):
        with pytest.raises(NotFound):
            operation()


@pytest.mark.parametrize("amount", [0, -1, 1.5, True])
def test_an_invalid_amount_changes_nothing(account: UUID, amount: Any) -> None:
    with pytest.raises(InvalidAmount):
        services.buy(account, "o-1", amount, NOW)
    with pytest.raises(InvalidAmount):
        services.top_up(account, "INV-2", amount, NOW)
    assert (balance(account), is_proven(account)) == (100, True)


def test_a_history_is_verified_whatever_the_time_zone_of_its_times(account: UUID) -> None:
    services.buy(account, "o-1", 1, NOW.astimezone(timezone(timedelta(hours=7))) + timedelta(seconds=1))
    assert is_proven(account)


def test_of_two_buyers_with_credits_for_one_exactly_one_succeeds(account: UUID) -> None:
    for number in range(10):
        outcomes = at_once(
            *(partial(services.buy, account, f"{who}-{number}", 60, NOW) for who in ("alice", "bob"))
        )
        assert {type(outcome) for outcome in outcomes} == {int, InsufficientCredits}
        assert (balance(account), is_proven(account)) == (40, True)
        services.top_up(account, f"again-{number}", 60, NOW)


# SQLite does not report which connection waits.
@pytest.mark.parametrize("database", ["postgres"], indirect=True)
def test_the_second_buyer_waits_for_the_first_and_then_decides(account: UUID) -> None:
    with ThreadPoolExecutor(2) as pool:
        with transaction.atomic():
            Account.objects.select_for_update().get(pk=account)
            buying = [pool.submit(buy_in_thread, account, order) for order in ("a", "b")]
            until_waiting(2)
        outcomes = {type(each.result(timeout=20)) for each in buying}
    # Without the lock the loser would have got as far as the constraint, and seen an IntegrityError.
    assert outcomes == {int, InsufficientCredits}


def buy_in_thread(account_id: UUID, order: str) -> object:
    try:
        return services.buy(account_id, order, 60, NOW)
    except InsufficientCredits as refusal:
        return refusal
    finally:
        connections.close_all()


def until_waiting(count: int) -> None:
    deadline = time.monotonic() + 20
    waiting = (
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    while time.monotonic() < deadline:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_stat_clear_snapshot()")  # else a transaction sees what it first saw
            cursor.execute(waiting)
            if cursor.fetchone() == (count,):
                return
        time.sleep(0.01)
    raise AssertionError(f"not {count} transactions wait")


def test_one_reference_at_once_counts_once(account: UUID) -> None:
    outcomes = at_once(*[partial(services.top_up, account, "INV-2", 50, NOW)] * 4)
    assert outcomes == [150] * 4
    assert (balance(account), is_proven(account)) == (150, True)


def test_later_failure_rolls_everything_back(account: UUID, low_credit_events: list[CreditsFellLow]) -> None:
    with transaction.atomic():
        assert services.buy(account, "o-1", 90, NOW) == 10
        transaction.set_rollback(True)  # as an exception would: the seat was taken meanwhile
    assert (balance(account), is_proven(account), low_credit_events) == (100, True, [])
    assert EntryRow.objects.filter(account=account).count() == 1
    assert services.buy(account, "o-1", 90, NOW) == 10


def test_a_fault_between_the_two_writes_leaves_neither(account: UUID) -> None:
    def fault(**_: object) -> None:
        raise OSError("the disk is gone")

    pre_save.connect(fault, sender=Account)
    try:
        with pytest.raises(OSError, match="disk"):
            services.buy(account, "o-1", 10, NOW)
    finally:
        pre_save.disconnect(fault, sender=Account)
    assert (balance(account), is_proven(account)) == (100, True)
    assert EntryRow.objects.filter(account=account).count() == 1


def test_low_credits_are_signalled_once_after_the_commit(
    account: UUID, low_credit_events: list[CreditsFellLow]
) -> None:
    with transaction.atomic():
        services.buy(account, "o-1", 81, NOW)
        assert low_credit_events == []
    assert low_credit_events == [CreditsFellLow(account, 19, 20)]
    services.buy(account, "o-2", 1, NOW)
    assert len(low_credit_events) == 1


@pytest.mark.parametrize(
    "tampering",
    [
        pytest.param(lambda rows: rows.filter(number=2).update(amount=1), id="changed"),
        pytest.param(lambda rows: rows.filter(number=2).update(reference_id="o-9"), id="renamed"),
        pytest.param(lambda rows: rows.filter(number=2).update(at=NOW + timedelta(seconds=1)), id="moved"),
        pytest.param(lambda rows: rows.filter(number=2).delete(), id="dropped"),
        pytest.param(lambda rows: rows.filter(number=3).delete(), id="dropped-last"),
        pytest.param(
            lambda rows: Account.objects.filter(pk=rows[0].account_id).update(balance=F("balance") + 1),
            id="balance",
        ),
    ],
)
def test_tampering_is_detected(account: UUID, tampering: Callable[[Any], object]) -> None:
    services.buy(account, "o-1", 10, NOW)
    services.buy(account, "o-2", 10, NOW)
    with transaction.atomic():
        unguard()
        call_command("wallet", "prove", stdout=StringIO())
        tampering(EntryRow.objects.filter(account=account).order_by("number"))
        assert not is_proven(account)
        with pytest.raises(CommandError, match="1 accounts are not proven"):
            call_command("wallet", "prove", stdout=StringIO())
        transaction.set_rollback(True)
    assert is_proven(account)


CHANGES = [
    "UPDATE wallet_entryrow SET amount = amount + 1",
    "UPDATE wallet_entryrow SET reference_id = reference_id WHERE number = 1",
    "DELETE FROM wallet_entryrow WHERE number = 1",
]
CHANGES_OF = {
    "sqlite": [*CHANGES, "INSERT OR REPLACE INTO wallet_entryrow SELECT * FROM wallet_entryrow"],
    "postgres": [*CHANGES, "TRUNCATE wallet_entryrow"],
}


def test_the_database_refuses_to_change_an_entry(database: str, account: UUID) -> None:
    for statement in CHANGES_OF[database]:
        with pytest.raises(IntegrityError, match="append-only"), connection.cursor() as cursor:
            cursor.execute(statement)
        assert (balance(account), is_proven(account)) == (100, True)
        with transaction.atomic():
            unguard()
            with connection.cursor() as cursor:
                cursor.execute(statement)  # it was the guard alone
            transaction.set_rollback(True)


def test_the_models_are_refused_too(account: UUID) -> None:
    rows = EntryRow.objects.filter(account=account)
    for operation in (rows.delete, rows[0].delete, rows[0].save, partial(rows.update, amount=1)):
        with pytest.raises(IntegrityError, match="append-only"):
            operation()
    assert is_proven(account)


@pytest.mark.parametrize("taken", ["number", "transfer_id", "operation", "reverses"])
def test_the_database_enforces_uniqueness(account: UUID, taken: str) -> None:
    services.buy(account, "o-1", 10, NOW)
    services.refund(account, "o-1", NOW)
    row = EntryRow.objects.get(account=account, number=3)
    kept = getattr(row, taken)
    row.pk, row.number, row.transfer_id, row.operation, row.reverses = None, 4, uuid4(), "other", uuid4()
    setattr(row, taken, kept)
    with pytest.raises(IntegrityError), transaction.atomic():
        row.save(force_insert=True)
    setattr(row, taken, {"number": 4, "operation": "other"}.get(taken, uuid4()))
    with transaction.atomic():
        row.save(force_insert=True)  # it was that alone
        transaction.set_rollback(True)


def test_a_purchase_over_http(account: UUID) -> None:
    client = Client(SERVER_NAME="localhost")

    def post(body: object, account_id: UUID = account) -> tuple[int, Any]:
        answer = client.post(f"/accounts/{account_id}/purchases", body, content_type="application/json")
        return answer.status_code, answer.json()

    assert post({"order": "o-1", "price": 30}) == (200, {"balance": 70})
    assert post({"order": "o-1", "price": 30}) == (200, {"balance": 70})
    assert post({"order": "o-1", "price": 31})[0] == 409
    status, refused = post({"order": "o-2", "price": 71})
    assert (status, refused["error"]["code"]) == (422, "insufficient_credits")
    assert refused["error"]["details"] == {"required": 71, "available": 70}
    assert post({"order": "o-2", "price": 1}, uuid4())[0] == 404
    wrong = [{"order": "o-2"}, {"order": "", "price": 1}, {"order": "o-2", "price": 1.5}, [], "{"]
    assert [post(body)[0] for body in wrong] == [400] * 5
    assert client.get(f"/accounts/{account}/purchases").status_code == 405


@pytest.mark.usefixtures("database")
def test_models_and_migrations_agree() -> None:
    call_command("makemigrations", "--check", "--dry-run", stdout=StringIO())


def test_the_program_runs_as_its_docstring_describes(tmp_path: Path) -> None:
    environment = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}

    def run(*arguments: str) -> str:
        command = [sys.executable, "-m", "examples.django_ledger", *arguments]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout

    run("migrate")
    low_credit_events = run("wallet", "demo").splitlines()
    assert low_credit_events[1:4] == ["topped up: 100", "the same invoice again: 100", "bought for 70: 30"]
    assert low_credit_events[4].startswith("This needs 31 credits and 30 are available.")
    assert low_credit_events[5] == "given back: 100"
    assert run("wallet", "prove") == "every account is proven\n"
