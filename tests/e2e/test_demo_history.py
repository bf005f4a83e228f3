"""The past of the demo account: whole, sound, the same at every start, and sound where it was interrupted."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.rows import dict_row

from meetcore.adapters.embedded_postgres import EmbeddedPostgres
from meetcore.adapters.postgres.migrate import migrate
from meetcore.cli.demo import Demo, keep_demo_account
from meetcore.cli.demo_history import WEEKS, DemoHistory, opened_at, plan_meetings
from meetcore.cli.dev import _prepare_demo
from meetcore.composition.application import Application, Part
from meetcore.composition.infrastructure import Network, open_application
from meetcore.composition.past import Past, open_past
from meetcore.domain.meetings.schedule import WIB
from meetcore.domain.members.roles import Role
from meetcore.domain.money.statements import last_closed
from meetcore.ports.store import StoreUnavailable
from tests.support.api_harness import settings_for
from tests.support.program import free_port

NOW = datetime.now(UTC)
_CHANGES_OF_LAST_MONTH = f"""
SELECT sum(amount) FROM ledger_entries WHERE book = 'customer'
    AND at >= '{last_closed(NOW).begins_at}' AND at < '{last_closed(NOW).ends_at}'
"""


class Loopback:
    async def resolve(self, host: str, account_id: UUID) -> tuple[IPv4Address, ...]:
        return (IPv4Address("127.0.0.1"),)


@pytest.fixture
async def application(empty_database_url: str) -> AsyncIterator[Application]:
    migrate(empty_database_url)
    settings = settings_for(empty_database_url, tiers_file="", webhook_allowed_networks="127.0.0.1/32")
    async with open_application(settings, Network(Loopback()), [Part.WEBHOOKS, Part.NOTES]) as application:
        yield application


async def begin(application: Application, data_dir: Path) -> tuple[Past, DemoHistory]:
    past = open_past(application, opened_at(NOW))
    assert past is not None
    demo = await keep_demo_account(past.application, data_dir)
    return past, DemoHistory(past, demo, NOW)


def rows(url: str, statement: str) -> list[dict[str, Any]]:
    with psycopg.connect(url, row_factory=dict_row) as connection:
        return connection.execute(statement).fetchall()


async def test_with_another_provider_the_account_has_no_past_and_is_promised_none(
    empty_database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    migrate(empty_database_url)
    settings = settings_for(empty_database_url, tiers_file="", provider="jitsi")
    database = EmbeddedPostgres(tmp_path / "postgres")  # not started: the message names its place
    nowhere = f"http://127.0.0.1:{free_port()}"
    start = await _prepare_demo(settings, Network(Loopback()), tmp_path, database, nowhere)
    assert "demo account" in await start()
    assert rows(empty_database_url, "SELECT FROM meetings") == []
    await _prepare_demo(settings, Network(Loopback()), tmp_path, database, nowhere)
    assert capsys.readouterr().err.splitlines() == [
        "meetcore: opening a demo account ...", "meetcore: looking after the demo account ...",
    ]  # fmt: skip


def counts(url: str, table: str, column: str = "status") -> Counter[str]:
    return Counter(row[column] for row in rows(url, f"SELECT {column} FROM {table}"))


async def assert_sound(application: Application, url: str) -> None:
    verified = await application.verify_ledger()
    assert verified.is_sound, verified
    instants = [row["at"] for row in rows(url, "SELECT at FROM ledger_entries ORDER BY number")]
    assert instants == sorted(instants)


async def work_once(application: Application) -> None:
    """Do once what the workers of the service do."""
    notes, payments = application.notes, application.payments
    assert notes is not None
    assert payments.follow is not None
    await application.meetings.reconcile.sweep()
    await application.meetings.end_due.sweep()
    await notes.work_on_recordings()
    await payments.follow()


async def test_the_past_is_whole_and_leaves_nothing_to_do(
    application: Application, empty_database_url: str, tmp_path: Path
) -> None:
    url = empty_database_url
    past, history = await begin(application, tmp_path)
    await history.fill()
    await assert_sound(application, url)

    meetings = counts(url, "meetings")
    assert meetings["ended"] > 30
    assert meetings["cancelled"] == 2
    assert meetings["scheduled"] > 3
    assert set(meetings) == {"ended", "cancelled", "scheduled"}
    assert counts(url, "notes").keys() == {"completed"}
    assert counts(url, "payments") == {"paid": 3, "expired": 1}
    assert len(rows(url, "SELECT FROM receipts")) == 3
    deliveries = counts(url, "deliveries")
    assert deliveries.pop("failed") == 2
    assert deliveries["succeeded"] > 100
    assert deliveries.keys() == {"succeeded"}
    errors = counts(url, "delivery_attempts", "error")
    assert (errors["timeout"], errors["status_503"]) == (3, 3)
    assert counts(url, "webhook_endpoints", "consecutive_failures") == {0: 1}, "it works again"
    assert counts(url, "memberships", "role") == dict.fromkeys(("owner", "developer", "finance", "viewer"), 1)
    assert rows(url, "SELECT FROM mails") == []
    days = rows(url, "SELECT DISTINCT day FROM ledger_day_totals WHERE kind = 'meeting_charge'")
    assert len(days) > 25
    finance = await history._member(Role.FINANCE)
    statement = await application.dashboard.statements.find(finance, last_closed(NOW), NOW)
    changes = sum(row["sum"] for row in rows(url, _CHANGES_OF_LAST_MONTH))
    assert statement.closing - statement.opening == changes

    before = rows(url, "SELECT * FROM ledger_entries ORDER BY number, book")
    await work_once(application)
    await DemoHistory(past, history.demo, NOW).fill()
    assert rows(url, "SELECT * FROM ledger_entries ORDER BY number, book") == before, "nothing to do twice"
    assert counts(url, "deliveries", "status")["pending"] == 0


async def test_an_interrupted_past_is_sound_and_its_meetings_end(
    application: Application, empty_database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, started = empty_database_url, 0
    past, history = await begin(application, tmp_path)
    start = Past.start_meeting

    async def stop_at_the_tenth(past: Past, meeting_id: UUID) -> None:
        nonlocal started
        started += 1
        if started == 10:
            raise StoreUnavailable("a stop")
        await start(past, meeting_id)

    monkeypatch.setattr(Past, "start_meeting", stop_at_the_tenth)
    with pytest.raises(StoreUnavailable):
        await history.fill()
    await assert_sound(application, url)
    await work_once(application)
    await assert_sound(application, url)
    late = "SELECT FROM meetings WHERE status NOT IN ('ended', 'cancelled') AND end_at < now()"
    assert rows(url, late) == []
    reread = await keep_demo_account(application, tmp_path)
    assert reread == history.demo
    entries = len(rows(url, "SELECT FROM ledger_entries"))
    await DemoHistory(past, Demo(reread.account_id, reread.key, reread.inbox), NOW).fill()
    assert len(rows(url, "SELECT FROM ledger_entries")) == entries


@pytest.mark.parametrize("weekday", range(7))
def test_on_every_day_there_is_a_past_and_a_future(weekday: int) -> None:
    now = datetime(2026, 11, 23 + weekday, 9, 30, tzinfo=WIB)
    planned = list(plan_meetings(now))
    assert all(opened_at(now) < each.made_at(now) < now for each in planned)
    assert all(each.made_at(now) < each.start for each in planned)
    assert sum(each.end < now for each in planned) >= WEEKS * 7
    assert sum(now < each.start < now + timedelta(days=7) for each in planned) >= 5
    assert all(each.end < now for each in planned if each.error or each.is_cancelled)
