"""Invariants over three systems: the customers' answers, the database, and the provider."""

from __future__ import annotations

import secrets
import threading
from collections import Counter
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx
import psycopg
from attrs import define, field

from meetcore.domain.meetings.schedule import WIB
from tests.e2e.customers import CREDITS, client, enrol
from tests.e2e.outbox import ask
from tests.e2e.zoom_stack import ZoomStack, send_event
from tests.support.program import Site, until

BALANCE = 1_000_000
LIVE = ("scheduled", "started")
VISIBLE = (*LIVE, "ended", "cancelled")
TEMPORARY = (502, 503)
OVER = {"status": "ended", "credits_refunded": 0}


@define
class MeetingCustomer:
    """A customer, its requests and their answers. `abandoned`: keys that are never retried."""

    account_id: str
    key_id: str
    api_key: str = field(repr=False)
    wanted: dict[str, dict[str, object]] = field(factory=dict)
    made: dict[str, dict[str, Any]] = field(factory=dict)
    cancels: dict[str, str] = field(factory=dict)
    cancelled: dict[str, dict[str, Any]] = field(factory=dict)
    abandoned: set[str] = field(factory=set)
    lock: threading.Lock = field(factory=threading.Lock)

    def new_key(self, hour: int) -> str:
        """Record a wanted meeting, `hour` hours from the day after tomorrow, and return its key."""
        midnight = datetime.now(WIB).replace(hour=0, minute=0, second=0, microsecond=0)
        start = midnight + timedelta(days=2, hours=hour)
        key = secrets.token_hex(8)
        with self.lock:
            self.wanted[key] = {
                "title": f"Rapat {key}", "date": f"{start:%Y-%m-%d}", "start_time": f"{start:%H:%M}",
                "pricing_tier_id": "standard-100",
            }  # fmt: skip
        return key

    def create(self, http: httpx.Client, key: str) -> bool:
        """Request a meeting; return `False` and record nothing after a temporary error."""
        answer = http.post("/meetings", json=self.wanted[key], headers={"Idempotency-Key": key})
        if answer.status_code in TEMPORARY:
            return False
        assert answer.status_code == 201, answer.text
        with self.lock:
            before = self.made.setdefault(key, answer.json())
        assert before == answer.json(), "a replay repeats the first answer"
        return True

    def cancel(self, http: httpx.Client, key: str) -> bool:
        """Cancel an acknowledged meeting; return `False` after a temporary error."""
        with self.lock:
            named = self.cancels.setdefault(key, f"cancel-{key}")
        answer = http.delete(f"/meetings/{self.made[key]['id']}", headers={"Idempotency-Key": named})
        if answer.status_code in TEMPORARY:
            return False
        # Too late: it was never marked, and the meeting has ended since.
        outcome = OVER if answer.status_code == 409 else answer.raise_for_status().json()
        with self.lock:
            before = self.cancelled.setdefault(key, outcome)
        assert before == outcome, "a replay repeats the first answer"
        return True

    def settle(self, url: str) -> None:
        """Repeat every request, acknowledged or not, as a client may."""
        with client(url, self.api_key) as http:
            for key in self.wanted.keys() - self.abandoned:
                until(lambda key=key: self.create(http, key), f"an answer for {key}")  # type: ignore[misc]
            for key in self.cancels.keys() - self.abandoned:
                until(lambda key=key: self.cancel(http, key), f"an end of {key}")  # type: ignore[misc]


def enrolled(site: Site) -> MeetingCustomer:
    account_id, key_id, key = enrol(site, BALANCE)
    return MeetingCustomer(account_id, key_id, key)


def add_hosts(site: Site, count: int, *, capacity: int = 100, max_concurrent: int = 1) -> None:
    rows = [(uuid4(), f"host-{uuid4().hex}@example.test", capacity, max_concurrent) for _ in range(count)]
    statement = """INSERT INTO hosts (id, provider_user_id, capacity, max_concurrent, created_at)
                   VALUES (%s, %s, %s, %s, now())"""
    with psycopg.connect(site.database_url) as db:
        db.cursor().executemany(statement, rows)


_MAKE_CHECKS_DUE = """UPDATE orphan_checks SET due_at = now(), since = now() - interval '1 hour'
            WHERE due_at > now() AND lease_token IS NULL RETURNING meeting_id"""
_MAKE_EVENTS_DUE = "UPDATE provider_events SET due_at = now() WHERE due_at > now() RETURNING id"
_UNDER_WAY = """SELECT id FROM meetings WHERE lease_until IS NOT NULL
                OR status IN ('provisioning', 'cancelling')
                OR (status IN ('ended', 'cancelled') AND cleared_at IS NULL)
                UNION ALL SELECT id FROM provider_events WHERE due_at IS NOT NULL
                UNION ALL SELECT meeting_id FROM orphan_checks"""
LATE_S = 300


def is_idle(site: Site) -> bool:
    """Return whether no work on any meeting is left; makes scheduled work due now.

    That is the delay before orphans are searched for, and before an early provider event is retried.
    """
    hurried = [*ask(site, _MAKE_CHECKS_DUE), *ask(site, _MAKE_EVENTS_DUE)]
    return not hurried and not ask(site, _UNDER_WAY)


def wait_until_idle(site: Site, zoom: ZoomStack, url: str) -> None:
    """Finish late creations at Zoom, resend the end of each ended meeting, and wait until no work is left."""
    zoom.turn(clock_ahead_s=LATE_S)
    assert zoom.counts()["unborn"] == 0
    for each in zoom.meetings():
        if each["status"] == "ended":
            send_event(url, "meeting.ended", each["id"])
    # Checks leased by dead processes are released; there may be as many checks as there were creations.
    checks = ask(site, "UPDATE orphan_checks SET lease_token = NULL RETURNING meeting_id")
    until(lambda: is_idle(site), "all is seen to", 60 + len(checks) / 4, every_s=0.2)


@define
class Records:
    """The database's records when no work is left."""

    statuses: dict[UUID, str]
    numbers: dict[UUID, str]
    charged: dict[UUID, str]
    refunded: Counter[UUID]


def read_records(site: Site) -> Records:
    """Read the meetings and the money."""
    meetings = ask(site, "SELECT id, status, provider_meeting_id FROM meetings")
    charges = ask(
        site, "SELECT reference_id, operation, amount FROM ledger_transfers WHERE kind = 'meeting_charge'"
    )
    refunds = ask(site, "SELECT reference_id, amount FROM ledger_transfers WHERE kind = 'meeting_refund'")
    assert {amount for *_, amount in charges + refunds} <= {CREDITS}
    charged = {UUID(str(id_)): str(operation) for id_, operation, _ in charges}
    assert len(charged) == len(charges), "no meeting is charged twice"
    return Records(
        {UUID(str(id_)): str(status) for id_, status, _ in meetings},
        {UUID(str(id_)): str(number) for id_, _, number in meetings},
        charged,
        Counter(UUID(str(id_)) for id_, _ in refunds),
    )


def prove(site: Site, zoom: ZoomStack, customers: list[MeetingCustomer]) -> Counter[str]:
    """Compare the three systems, and count the meetings by status.

    No work may be left, and no provider event be in flight.
    """
    records = read_records(site)
    of = {status: {id_ for id_, each in records.statuses.items() if each == status} for status in VISIBLE}
    assert records.charged.keys() == set().union(*of.values()), "a charge for each meeting, none without"
    assert records.refunded == Counter(of["cancelled"]), "a refund for each that was cancelled, none else"
    live = of["scheduled"] | of["started"]
    there = zoom.meetings()
    # One whose session is over can be entered again there, and cannot be removed.
    open_there = Counter(each["ours"] for each in there if each["status"] in ("waiting", "started"))
    assert open_there <= Counter(live), "nothing can be entered there that is over here"
    numbers = {each["ours"]: each["id"] for each in there if each["ours"] in live}
    assert numbers == {id_: records.numbers[id_] for id_ in live}, "what exists here exists there"
    reserved = ask(site, "SELECT meeting_id FROM host_reservations")
    assert Counter(id_ for (id_,) in reserved) == Counter(live), "a host is taken for these, and none else"
    assert all(any(_is_of(customer, each) for customer in customers) for each in records.charged.values())
    for customer in customers:
        check_answers(site, customer, records)
    assert ask(site, "SELECT count(*) FROM ledger_holds") == [(0,)]
    proof = site.cli("credits", "verify")
    assert (proof["is_sound"], proof["findings"]) == (True, [])
    return Counter(records.statuses.values())


def check_answers(site: Site, customer: MeetingCustomer, records: Records) -> None:
    """Check one customer's answers and funds against the records."""
    meetings = {id_: operation for id_, operation in records.charged.items() if _is_of(customer, operation)}
    for key, made in customer.made.items():
        assert meetings[UUID(made["id"])] == f"meeting:key:{key}", "each key has one meeting"
        status = records.statuses[UUID(made["id"])]
        if key in customer.cancelled:
            answer = customer.cancelled[key]
            outcome = (answer["status"], answer["credits_refunded"])
            assert outcome in (("cancelled", CREDITS), ("ended", 0))
            assert status == answer["status"]
        elif key not in customer.cancels:
            assert status != "cancelled", "nobody asked for that"
    kept = CREDITS * sum(records.statuses[id_] != "cancelled" for id_ in meetings)
    funds = ask(site, "SELECT balance, held FROM accounts WHERE id = %s", customer.account_id)
    assert funds == [(BALANCE - kept, 0)], "paid is what there is"
    used = ask(
        site, "SELECT coalesce(sum(spent), 0), coalesce(sum(held), 0) FROM cap_usage WHERE account_id = %s",
        customer.account_id,
    )  # fmt: skip
    assert [(int(str(spent)), int(str(held))) for spent, held in used] == [(kept, 0)]


def _is_of(customer: MeetingCustomer, operation: str) -> bool:
    return operation.removeprefix("meeting:key:") in customer.wanted
