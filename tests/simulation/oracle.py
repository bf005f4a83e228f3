"""The rules by which a run is judged: what the spec promises once every process and service is well again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from meetcore.adapters.postgres.money.rows import entry
from meetcore.domain.money.ledger import first_broken
from tests.simulation.customers import Customer
from tests.simulation.database import SimulatedDatabase
from tests.simulation.outside import SimulatedProvider, SimulatedReceivers
from tests.support.postgres_rig import ENTRIES

LIVE = ("scheduled", "started")
_MEETINGS = """SELECT id, account_id, status, provider_meeting_id, credits, lease_until FROM meetings"""
_UNDER_WAY = """SELECT 'meeting ' || id AS work FROM meetings WHERE lease_until IS NOT NULL
        OR status IN ('provisioning', 'cancelling')
    UNION ALL SELECT 'delivery ' || id FROM deliveries WHERE status = 'pending'
    UNION ALL SELECT 'orphan check of ' || meeting_id FROM orphan_checks
    UNION ALL SELECT 'hold ' || id FROM ledger_holds"""


def judge(
    database: SimulatedDatabase,
    customers: list[Customer],
    provider: SimulatedProvider,
    receivers: SimulatedReceivers,
) -> list[str]:
    """Return what is wrong, in sentences."""
    read = database.control.execute
    meetings = {str(row["id"]): row for row in read(_MEETINGS).fetchall()}
    faults = [f"{row['work']} is still under way" for row in read(_UNDER_WAY).fetchall()]
    for each in customers:
        faults += _money(database, each, meetings)
        faults += _answers(each, meetings)
    faults += _at_provider(meetings, provider)
    faults += _events(database, receivers, meetings)
    return faults


def _money(database: SimulatedDatabase, customer: Customer, meetings: dict[Any, Any]) -> Iterator[str]:
    account_id = customer.caller.account.id
    rows = database.control.execute(ENTRIES, {"account_id": account_id}).fetchall()
    entries = [made for row in rows if (made := entry(row))]
    if (broken := first_broken(account_id, entries)) is not None:
        yield f"the ledger is broken at entry {broken}"
    [funds] = database.control.execute(
        "SELECT balance, held FROM accounts WHERE id = %s", [account_id]
    ).fetchall()
    if funds["balance"] != sum(each.amount for each in entries) or funds["held"]:
        yield f"the funds {funds} are not those of the ledger, {sum(each.amount for each in entries)}"
    own = [row for row in meetings.values() if row["account_id"] == account_id]
    due = sum(row["credits"] for row in own if row["status"] in (*LIVE, "ended"))
    if funds["balance"] != customer.credits - due:
        yield f"the balance is {funds['balance']}; {customer.credits} were bought, {due} are due for meetings"
    if funds["balance"] < 0:
        yield "the balance is below zero"


def _answers(customer: Customer, meetings: dict[Any, Any]) -> Iterator[str]:
    for key, record in customer.made.items():
        row = meetings.get(record["id"])
        if row is None:
            yield f"the meeting of {key} is not there"
        elif key in customer.cancelled and row["status"] != "cancelled":
            yield f"the meeting of {key} was cancelled and is {row['status']}"
        elif key not in customer.cancels and row["status"] not in LIVE:
            yield f"the meeting of {key} was sold and is {row['status']}"
    sold = {record["id"] for record in customer.made.values()}
    for row in meetings.values():
        is_own = row["account_id"] == customer.caller.account.id
        if is_own and row["status"] in LIVE and str(row["id"]) not in sold:
            yield f"the meeting {row['id']} was never answered to anyone"


def _at_provider(meetings: dict[Any, Any], provider: SimulatedProvider) -> Iterator[str]:
    existing = Counter(str(each.order.meeting_id) for each in provider.living())
    names = {each.name for each in provider.living()}
    for row in meetings.values():
        if row["status"] in LIVE and row["provider_meeting_id"] not in names:
            yield f"the meeting {row['id']} is sold and does not exist"
        if row["status"] in LIVE and existing[str(row["id"])] > 1:
            yield f"the meeting {row['id']} exists {existing[row['id']]} times"
    live = {str(row["id"]) for row in meetings.values() if row["status"] in LIVE}
    for meeting_id in existing.keys() - live:
        yield f"the meeting {meeting_id} exists and is not sold"


def _events(
    database: SimulatedDatabase, receivers: SimulatedReceivers, meetings: dict[Any, Any]
) -> Iterator[str]:
    rows = database.control.execute("SELECT event_id, status FROM deliveries").fetchall()
    stored = {str(row["event_id"]) for row in rows}
    for row in rows:
        if row["status"] == "succeeded" and not receivers.answered[str(row["event_id"])]:
            yield f"the event {row['event_id']} counts as delivered and was not received"
    created = {
        str(body["data"]["id"]) for body in receivers.bodies.values() if body["type"] == "meeting.created"
    }
    for row in meetings.values():
        if row["status"] in LIVE and str(row["id"]) not in created:
            yield f"the creation of the meeting {row['id']} was announced to no receiver"
    for event_id in receivers.received.keys() - stored:
        yield f"the event {event_id} was received and is not stored"
