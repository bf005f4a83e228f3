"""The first half of making a meeting in SQLite: what the decision needs, and what it reserves."""

from datetime import UTC, date, datetime, timedelta
from uuid import UUID

from meetcore.domain.meetings.hosts import DayCreations, Host
from meetcore.domain.meetings.meetings import Meeting
from meetcore.domain.money.holds import CapUsage, Hold
from meetcore.ports.idempotency import KeyView
from meetcore.ports.meetings import CreationQuery, CreationView, Provisioning

from . import rows
from .connection import Connection
from .idempotency import claim_key, load_key
from .ledger import entry_of, load_funds, write_funds, write_usage
from .orphan_checks import open_check

__all__ = [
    "free_host",
    "give_back_host",
    "load_creation",
    "load_usage",
    "mark_host_unavailable",
    "save_provisioning",
]

# A key's cap in credits a day.
_DAILY_CAP = "SELECT daily_cap FROM api_keys WHERE id = :api_key_id"

# What a key spent and holds on a day.
_USAGE = """
SELECT * FROM cap_usage WHERE account_id = :account_id AND api_key_id = :api_key_id AND day = :day
"""

# Every host that is large enough and has a free slot for the range. Which of them can take another meeting
# now, and which is best, is decided by the domain. There are some dozens of hosts; a store for thousands
# would choose, order and cut here.
_FREE_HOSTS = """
SELECT h.* FROM hosts h
WHERE h.is_active AND h.capacity >= :seats AND h.max_concurrent > (
    SELECT count(DISTINCT r.slot) FROM host_reservations r
    WHERE r.host_id = h.id AND r.start_at < :end_at AND :start_at < r.end_at)
"""

# How many slots an active host has, and which of them are taken in a range.
_SLOTS = "SELECT max_concurrent FROM hosts WHERE id = :host_id AND is_active"
_TAKEN = """
SELECT slot FROM host_reservations WHERE host_id = :host_id AND start_at < :end_at AND :start_at < end_at
"""

# Takes a slot. The trigger on the table has the last word on overlaps.
_RESERVE = """
INSERT INTO host_reservations (account_id, meeting_id, host_id, slot, start_at, end_at)
VALUES (:account_id, :id, :host_id, :slot, :start_at, :end_at)
"""

_HOST = "SELECT * FROM hosts WHERE id = :host_id"
_COUNT_USE = """
UPDATE hosts SET uses = :uses, creations = :creations, creations_on = :creations_on WHERE id = :id
"""

# What was not made counts for nothing in the day of the host and of the account.
_UNCOUNT = "UPDATE hosts SET creations = :creations WHERE id = :id"
_UNCOUNT_ACCOUNT = """
UPDATE account_creations SET creations = max(creations - 1, 0)
WHERE account_id = :account_id AND day = :day AND host_id = :host_id
"""

# Counts a creation among those of its account on this host and day; and all of them on hosts with the seats.
_COUNT_ACCOUNT = """
INSERT INTO account_creations (account_id, day, host_id, creations) VALUES (:account_id, :day, :host_id, 1)
ON CONFLICT (account_id, day, host_id) DO UPDATE SET creations = creations + 1
"""
_USED = """
SELECT coalesce(sum(c.creations), 0) AS used FROM account_creations c JOIN hosts h ON h.id = c.host_id
WHERE c.account_id = :account_id AND c.day = :day AND h.capacity >= :seats
"""
_LARGE_HOSTS = "SELECT * FROM hosts WHERE capacity >= :seats"

# Marks a host unavailable, never for less long than before.
_MARK_UNAVAILABLE = "UPDATE hosts SET rests_until = max(coalesce(rests_until, 0), :until) WHERE id = :host_id"

# Gives the host back; and forgets its key, if that was the meeting's to show: no earlier meeting of the host,
# which runs one at a time, is not over.
_FREE_HOST = "DELETE FROM host_reservations WHERE account_id = :account_id AND meeting_id = :id"
_INVALIDATE_HOST_KEY = """
UPDATE hosts SET host_key = NULL, key_token = NULL, key_due_at = :now
WHERE id = :host_id AND max_concurrent = 1 AND NOT EXISTS (
    SELECT 1 FROM host_reservations WHERE host_id = :host_id AND start_at < :start_at)
"""

_WRITE_HOLD = """
INSERT INTO holds (account_id, id, operation, kind, amount, reference_type, reference_id, api_key_id, cap_day)
VALUES (:account_id, :id, :operation, :kind, :amount, :reference_type, :reference_id, :api_key_id, :cap_day)
"""

# A meeting that is about to be made: it is not visible yet, and its lease names the worker.
_WRITE_MEETING = """
INSERT INTO meetings (account_id, id, api_key_id, status, title, description, start_at, end_at, duration,
    capacity, pricing_tier_id, credits, with_recording, auto_notulen, must_login, mic_off,
    email_notification, host_id, provider, created_at, password, hold_id, idempotency_key,
    lease_token, lease_until)
VALUES (:account_id, :id, :api_key_id, :status, :title, :description, :start_at, :end_at, :duration,
    :capacity, :pricing_tier_id, :credits, :with_recording, :auto_notulen, :must_login, :mic_off,
    :email_notification, :host_id, :provider, :created_at, :password, :hold_id,
    :idempotency_key, :lease_token, :lease_until)
"""


async def load_usage(connection: Connection, account_id: UUID, usage: CapUsage) -> CapUsage:
    """What a key spent and holds on a day: an unused one, filled in."""
    row = await connection.fetch_one(_USAGE, rows.fields_of(usage) | {"account_id": account_id})
    return usage if row is None else rows.record(CapUsage, row)


async def load_creation(connection: Connection, query: CreationQuery, now: datetime) -> CreationView:
    """Everything that the decision on a new meeting needs. No host is ever locked by another."""
    account_id, parameters = query.account_id, rows.fields_of(query)
    key = await connection.fetch_one(_DAILY_CAP, parameters)
    charged = await entry_of(connection, account_id, query.operation)
    unused = CapUsage(query.api_key_id, query.cap_day)
    return CreationView(
        funds=await load_funds(connection, account_id),
        usage=await load_usage(connection, account_id, unused),
        daily_cap=None if key is None else key["daily_cap"],
        charged=None if charged is None else charged.transfer,
        idempotency=KeyView(await load_key(connection, account_id, query.idempotency_key), now),
        free_hosts=await _free_hosts(connection, query),
        is_contended=False,
        creations=await _day_creations(connection, query),
    )


async def _day_creations(connection: Connection, query: CreationQuery) -> DayCreations | None:
    """What the account used of the day's creations on hosts with the seats, and what is left of them."""
    if query.per_day is None:
        return None
    parameters = rows.fields_of(query) | {"day": _day(query.now)}
    used = await connection.fetch_one(_USED, parameters)
    hosts = [rows.record(Host, row) for row in await connection.fetch(_LARGE_HOSTS, parameters)]
    left = sum(host.creations_left(query.now, query.per_day) for host in hosts)
    return DayCreations(0 if used is None else used["used"], left)


def _day(at: datetime) -> date:
    return at.astimezone(UTC).date()


async def _free_hosts(connection: Connection, query: CreationQuery) -> list[Host]:
    if not query.needs_host:
        return []
    free = [rows.record(Host, row) for row in await connection.fetch(_FREE_HOSTS, rows.fields_of(query))]
    return [host for host in free if host.can_take(query.now, query.per_day)]


async def save_provisioning(connection: Connection, made: Provisioning, now: datetime) -> bool:
    """Write meeting, hold, reservation, lease and claim; false, and nothing, when the host was taken."""
    meeting, until = made.meeting, now + timedelta(seconds=made.lease.seconds)
    if meeting.host_id is not None and not await _reserve_host(connection, meeting):
        return False
    if meeting.host_id is not None and made.counts_creation:
        await connection.change(_COUNT_ACCOUNT, rows.fields_of(meeting) | {"day": _day(meeting.created_at)})
    work = {
        "hold_id": made.hold.id,
        "idempotency_key": None if made.claim is None else made.claim.key,
        "lease_token": made.lease.token,
        "lease_until": until,
    }
    await connection.change(_WRITE_MEETING, rows.fields_of(meeting) | work)
    if made.orphan_window_s is not None:
        await open_check(connection, meeting, until, made.orphan_window_s)
    await write_hold(connection, meeting.account_id, made.hold)
    await write_usage(connection, meeting.account_id, made.usage)
    await write_funds(connection, made.funds)
    await claim_key(connection, meeting.account_id, made.claim, now, until)
    return True


async def _reserve_host(connection: Connection, meeting: Meeting) -> bool:
    wanted = rows.fields_of(meeting)
    slots = await connection.fetch_one(_SLOTS, wanted)
    if slots is None:
        return False
    taken = {row["slot"] for row in await connection.fetch(_TAKEN, wanted)}
    slot = next((slot for slot in range(slots["max_concurrent"]) if slot not in taken), None)
    if slot is None:
        return False
    await connection.change(_RESERVE, wanted | {"slot": slot})
    row = await connection.fetch_one(_HOST, wanted)
    assert row is not None
    await connection.change(_COUNT_USE, rows.fields_of(rows.record(Host, row).used(meeting.created_at)))
    return True


async def write_hold(connection: Connection, account_id: UUID, hold: Hold) -> None:
    """Write a hold that was taken."""
    about = rows.reference_of(hold) | {"account_id": account_id}
    await connection.change(_WRITE_HOLD, rows.fields_of(hold) | about)


async def free_host(
    connection: Connection, meeting: Meeting, now: datetime, *, invalidates_host_key: bool
) -> None:
    """Give the host of a meeting back; its key is deleted where the meeting could show it."""
    was_there = await connection.change(_FREE_HOST, rows.fields_of(meeting))
    if was_there and invalidates_host_key:
        await connection.change(_INVALIDATE_HOST_KEY, rows.fields_of(meeting) | {"now": now})


async def give_back_host(connection: Connection, meeting: Meeting) -> None:
    """Take a meeting that was not made off the day of its host and of its account."""
    row = await connection.fetch_one(_HOST, rows.fields_of(meeting))
    if row is None:
        return
    host = rows.record(Host, row).given_back(meeting.created_at)
    await connection.change(_UNCOUNT, rows.fields_of(host))
    await connection.change(_UNCOUNT_ACCOUNT, rows.fields_of(meeting) | {"day": _day(meeting.created_at)})


async def mark_host_unavailable(connection: Connection, meeting: Meeting, until: datetime) -> None:
    """Mark the host of a meeting unavailable until an instant, never for less long than before."""
    await connection.change(_MARK_UNAVAILABLE, rows.fields_of(meeting) | {"until": until})
