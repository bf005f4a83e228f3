"""The rules by which a run is judged: what the spec promises once every process and service is well again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from typing import Any

from tests.simulation.aging import judge_erased
from tests.simulation.customers import TIERS, Customer
from tests.simulation.database import SimulatedDatabase
from tests.simulation.enrolment import Crowd
from tests.simulation.guests import Guests
from tests.simulation.loop import START
from tests.simulation.oracle_money import LIVE, judge_money
from tests.simulation.oracle_notes import judge_notes
from tests.simulation.outside import SimulatedProvider, SimulatedReceivers

VISIBLE = (*LIVE, "ended", "cancelled")
_MEETINGS = """SELECT id, account_id, status, title, provider_meeting_id, credits, start_at, end_at,
    auto_notulen, with_recording, recording_credits,
    CASE status WHEN 'ended' THEN COALESCE(credits_refunded, 0) ELSE 0 END AS given_back FROM meetings"""
_UNDER_WAY = """SELECT 'meeting ' || id AS work FROM meetings WHERE lease_until IS NOT NULL
        OR status IN ('provisioning', 'cancelling')
    UNION ALL SELECT 'delivery ' || id FROM deliveries WHERE status = 'pending'
    UNION ALL SELECT 'orphan check of ' || meeting_id FROM orphan_checks
    UNION ALL SELECT 'note ' || id FROM notes WHERE due_at IS NOT NULL
    UNION ALL SELECT 'recording ' || id FROM recordings WHERE due_at IS NOT NULL
    UNION ALL SELECT 'event ' || id FROM provider_events WHERE due_at IS NOT NULL
    UNION ALL SELECT 'hold ' || id FROM ledger_holds"""

_BLOCKED = """SELECT r.meeting_id, m.status FROM host_reservations r
    LEFT JOIN meetings m ON m.account_id = r.account_id AND m.id = r.meeting_id
    WHERE COALESCE(m.status, '') NOT IN ('provisioning', 'scheduled', 'started', 'cancelling')"""
_DUE = """SELECT e.id, e.kind FROM events e JOIN webhook_endpoints w USING (account_id)
    WHERE w.state = 'active' AND e.created_at > w.created_at"""
_UNANNOUNCED = """SELECT meeting_id FROM recordings r WHERE status = 'available' AND NOT EXISTS (
    SELECT FROM events e
    WHERE e.account_id = r.account_id AND e.kind = 'recording.ready' AND e.subject_id = r.meeting_id)"""
_ERASED_NOTES = "SELECT id FROM notes WHERE status = 'erased'"
_TWICE = """SELECT kind, subject_id, count(*) AS number FROM events
    WHERE kind IN ('meeting.created', 'meeting.ended', 'note.completed', 'note.failed', 'recording.ready')
    GROUP BY 1, 2 HAVING count(*) > 1"""


def judge(
    database: SimulatedDatabase, crowd: Crowd, guests: Guests, receivers: SimulatedReceivers
) -> list[str]:
    """Return what is wrong, in sentences."""
    read, provider, customers = database.control.execute, guests.provider, crowd.customers
    meetings = {str(row["id"]): row for row in read(_MEETINGS).fetchall()}
    faults = [f"{row['work']} is still under way" for row in read(_UNDER_WAY).fetchall()]
    faults += [
        f"a host is kept for the meeting {row['meeting_id']}, which is {row['status']}"
        for row in read(_BLOCKED).fetchall()
    ]
    for client in {id(each.client): each.client for each in customers}.values():
        faults += client.faults
    faults += judge_money(database, crowd, meetings)
    faults += _at_provider(meetings, provider)
    faults += _hosts(customers, meetings, provider)
    erased = [each for each in crowd.accounts if each.is_erased]
    for account in erased:
        faults += judge_erased(database, account)
        meetings = {id: row for id, row in meetings.items() if row["account_id"] != account.id}
    customers = [each for each in customers if not each.account.is_erased]
    for each in customers:
        faults += _answers(each, meetings)
        faults += _cancellations(each, meetings, provider)
    faults += _meetings_asked_for(customers, meetings)
    faults += _states(customers, meetings, guests)
    readers = [each for each in crowd.readers if not each.customer.account.is_erased]
    faults += judge_notes(database, meetings, guests.studio, readers)
    faults += _events(database, receivers, meetings, crowd.erased_events)
    return faults


def _answers(customer: Customer, meetings: dict[Any, Any]) -> Iterator[str]:
    for name, record in customer.made.items():
        row = meetings.get(record["id"])
        if row is None:
            yield f"the meeting of {name} is not there"
        elif name in customer.cancelled and row["status"] != customer.cancelled[name]["status"]:
            yield f"the meeting of {name} was cancelled and is {row['status']}"
        elif name not in customer.cancels and row["status"] not in (*LIVE, "ended"):
            yield f"the meeting of {name} was sold and is {row['status']}"


def _cancellations(
    customer: Customer, meetings: dict[Any, Any], provider: SimulatedProvider
) -> Iterator[str]:
    """Return what contradicts rule 3: credits come back before the start, unless a session runs."""
    for name, answer in customer.cancelled.items():
        row, (began_at, answered_at) = meetings[customer.made[name]["id"]], customer.asked[name]
        held = provider.sessions.get(row["provider_meeting_id"], [])
        spans = [(each.started_at or began_at, each.ended_at or answered_at) for each in held]
        is_refunded = answer["status"] == "cancelled"
        if answer["credits_refunded"] != is_refunded * row["credits"]:
            yield f"for {name}, which is {answer['status']}, {answer['credits_refunded']} were returned"
        if is_refunded and began_at >= row["start_at"]:
            yield f"{name} was refunded, and had begun"
        was_cut_short = any(
            each.id in provider.cut_short and began_at <= (each.ended_at or began_at) <= answered_at
            for each in held
        )
        is_unsure = any(
            began_at <= START + timedelta(seconds=each.at_s) <= answered_at
            for each in provider.loop.faults.struck
        )
        if is_refunded and was_cut_short and not is_unsure:
            yield f"{name} was refunded, and a session ran"
        is_empty = not any(start <= answered_at and began_at <= end for start, end in spans)
        if not is_refunded and answered_at < row["start_at"] and is_empty:
            yield f"{name} was not refunded, and had not begun"


def _states(customers: list[Customer], meetings: dict[Any, Any], guests: Guests) -> Iterator[str]:
    """A meeting is over at its end, not before unless it was held, and started while a session runs."""
    now, cancelled = guests.loop.now(), {name for each in customers for name in each.cancels}
    for row in meetings.values():
        name, title = row["provider_meeting_id"], row["title"]
        held = guests.provider.sessions.get(name, [])
        is_live, is_started = row["status"] in LIVE, row["status"] == "started"
        if is_live and row["end_at"] <= now:
            yield f"{title} is over and {row['status']}"
        elif is_live and name not in guests.unreported and is_started != guests.provider.is_running(name):
            yield f"{title} is {row['status']}, and its sessions are {held}"
        was_held = any(each.ended_at and each.ended_at > row["start_at"] for each in held)
        if row["status"] == "ended" and now < row["end_at"] and title not in cancelled and not was_held:
            yield f"{title} has ended before its time"


def _meetings_asked_for(customers: list[Customer], meetings: dict[Any, Any]) -> Iterator[str]:
    """Each meeting that can be seen is the one of its request, whose answer named it or left it in doubt.

    It costs what its tier costs, and its recording if one is needed.
    """
    answered = {str(record["id"]) for each in customers for record in each.made.values()}
    in_doubt = {name for each in customers for name in each.in_doubt}
    wanted = {name: one for each in customers for name, one in each.wanted.items()}
    visible = [row for row in meetings.values() if row["status"] in VISIBLE]
    for row in visible:
        if str(row["id"]) not in answered and row["title"] not in in_doubt:
            yield f"the meeting {row['id']} of {row['title']} was never answered to anyone"
        order = wanted[row["title"]]
        tier, is_recorded = TIERS.find(order.pricing_tier_id), order.options.auto_notulen
        price = tier.credits + is_recorded * tier.recording_credits
        if (row["credits"], row["with_recording"]) != (price, is_recorded):
            yield f"{row['title']} costs {row['credits']} instead of {price}"
    for name, number in Counter(row["title"] for row in visible).items():
        if number > 1:
            yield f"{name} has {number} meetings"


def _hosts(customers: list[Customer], meetings: dict[Any, Any], provider: SimulatedProvider) -> Iterator[str]:
    """No host has two meetings at a time, and each meeting a host with its seats."""
    tiers = {
        name: TIERS.find(wanted.pricing_tier_id) for each in customers for name, wanted in each.wanted.items()
    }
    for held in provider.living():
        if provider.hosts[held.order.provider_user_id] < tiers[held.order.title].capacity:
            yield f"the host of {held.order.title} has too few seats"
    sold = {row["provider_meeting_id"] for row in meetings.values() if row["status"] in VISIBLE}
    runs = sorted(
        (held.order.provider_user_id, held.order.start_at, held.until(), held.order.title)
        for held in provider.held.values()
        if held.name in sold and held.order.start_at < held.until()
    )
    for (host, _, until, title), (other, start_at, _, after) in pairwise(runs):
        if host == other and start_at < until:
            yield f"{host} was sold to {title} and {after} at a time"


def _at_provider(meetings: dict[Any, Any], provider: SimulatedProvider) -> Iterator[str]:
    existing = Counter(str(each.order.meeting_id) for each in provider.living())
    names = {each.name for each in provider.living()}
    for row in meetings.values():
        if row["status"] in LIVE and row["provider_meeting_id"] not in names:
            yield f"the meeting {row['id']} is sold and does not exist"
        if row["status"] in LIVE and existing[str(row["id"])] > 1:
            yield f"the meeting {row['id']} exists {existing[str(row['id'])]} times"
    live = {str(row["id"]) for row in meetings.values() if row["status"] in LIVE}
    for meeting_id in existing.keys() - live:
        yield f"the meeting {meeting_id} exists and is not sold"


def _events(
    database: SimulatedDatabase, receivers: SimulatedReceivers, meetings: dict[Any, Any], erased: set[str]
) -> Iterator[str]:
    rows = database.control.execute("SELECT event_id, status FROM deliveries").fetchall()
    stored = {str(row["event_id"]) for row in rows}
    for row in rows:
        if row["status"] == "succeeded" and not receivers.answered[str(row["event_id"])]:
            yield f"the event {row['event_id']} counts as delivered and was not received"
    announced = {(body["type"], str(body["data"].get("id"))) for body in receivers.bodies.values()}
    for row in meetings.values():
        meeting_id, status = str(row["id"]), row["status"]
        if status in (*LIVE, "ended") and ("meeting.created", meeting_id) not in announced:
            yield f"the creation of the meeting {row['id']} was announced to no receiver"
        if (status == "ended") != (("meeting.ended", meeting_id) in announced):
            yield f"the meeting {row['id']} is {status}; its end was announced, or not"
    for row in database.control.execute(_UNANNOUNCED).fetchall():
        yield f"the recording of the meeting {row['meeting_id']} was announced by no event"
    for body in receivers.bodies.values():
        if body["data"].get("password") or body["data"].get("host_key"):
            yield f"the event {body['id']} shows how to enter a meeting"
    for row in database.control.execute(_DUE).fetchall():
        if str(row["id"]) not in receivers.received:
            yield f"the event {row['id']}, {row['kind']}, was received by no one"
    for row in database.control.execute(_TWICE).fetchall():
        yield f"{row['kind']} is announced {row['number']} times for {row['subject_id']}"
    gone = {str(row["id"]) for row in database.control.execute(_ERASED_NOTES).fetchall()}
    for event_id in receivers.received.keys() - stored - erased:
        if receivers.bodies[event_id]["data"].get("id") not in gone:
            yield f"the event {event_id} was received and is not stored"
