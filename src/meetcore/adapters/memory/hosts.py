"""Host reservations in memory: a host is free for a range when one of its slots is."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from meetcore.adapters.memory.state import Reservation, StoredHostKey, Tables
from meetcore.domain.meetings.hosts import DayCreations, Host
from meetcore.domain.meetings.schedule import MAX_DAYS_AHEAD
from meetcore.ports.queries import FREE_START_WITHIN, MAX_ENDS_LOOKED_AT, FreeStartQuery


def free_slot(tables: Tables, host: Host, start_at: datetime, end_at: datetime) -> int | None:
    """The first free slot of a host in the range, or `None`."""
    taken = {
        one.slot
        for one in tables.reservations.values()
        if one.host_id == host.id and one.start_at < end_at and start_at < one.end_at
    }
    return next((slot for slot in range(host.max_concurrent) if slot not in taken), None)


def reserve(
    tables: Tables, owner: tuple[UUID, UUID], host_id: UUID, start_at: datetime, end_at: datetime
) -> Host | None:
    """Take a slot of a host for a meeting (account and meeting id), or return `None`."""
    host = tables.hosts.get(host_id)
    if host is None or not host.is_active or owner in tables.reservations:
        return None
    slot = free_slot(tables, host, start_at, end_at)
    if slot is None:
        return None
    tables.reservations[owner] = Reservation(host_id, slot, start_at, end_at)
    return host


def free_host(tables: Tables, owner: tuple[UUID, UUID], now: datetime, *, invalidates_host_key: bool) -> None:
    """Give back what a meeting (account and meeting id) occupies of a host, if it does.

    The host's key was the meeting's to show, unless an earlier meeting of the host is not over.
    """
    taken = tables.reservations.pop(owner, None)
    if taken is None or not invalidates_host_key or tables.hosts[taken.host_id].max_concurrent > 1:
        return
    if not any(
        one.host_id == taken.host_id and one.start_at < taken.start_at for one in tables.reservations.values()
    ):
        tables.host_keys[taken.host_id] = StoredHostKey(due_at=now)


def day_creations(
    tables: Tables, account_id: UUID, seats: int, now: datetime, per_day: int | None
) -> DayCreations | None:
    """What an account used of a day's creations on hosts with the seats, and what is left of them."""
    if per_day is None:
        return None
    large = [host for host in tables.hosts.values() if host.capacity >= seats]
    day = now.astimezone(UTC).date()
    used = sum(tables.creations.get((account_id, day, host.id), 0) for host in large)
    return DayCreations(used, sum(host.creations_left(now, per_day) for host in large))


def count_creation(tables: Tables, account_id: UUID, host_id: UUID, at: datetime, change: int) -> None:
    """Count a creation of an account on a host for the day of an instant, or take one back."""
    name = account_id, at.astimezone(UTC).date(), host_id
    tables.creations[name] = max(0, tables.creations.get(name, 0) + change)


def next_creation_at(tables: Tables, wanted: FreeStartQuery) -> datetime | None:
    """The first instant at which a host with the seats may be given a meeting."""
    firsts = (
        host.next_creation_at(wanted.now, wanted.per_day)
        for host in tables.hosts.values()
        if host.capacity >= wanted.seats
    )
    return min((first for first in firsts if first is not None), default=None)


def next_free_start(tables: Tables, wanted: FreeStartQuery) -> datetime | None:
    """The earliest instant at which a host is free for such a meeting: the wanted start, or another's end."""
    latest = min(wanted.start_at + FREE_START_WITHIN, wanted.now + timedelta(days=MAX_DAYS_AHEAD))
    ends = sorted(one.end_at for one in tables.reservations.values() if one.end_at > wanted.start_at)
    fitting = [
        host
        for host in tables.hosts.values()
        if host.capacity >= wanted.seats and host.can_take(wanted.now, wanted.per_day)
    ]
    length = timedelta(minutes=wanted.minutes)
    for at in (wanted.start_at, *ends[:MAX_ENDS_LOOKED_AT]):
        if at <= latest and any(free_slot(tables, host, at, at + length) is not None for host in fitting):
            return at
    return None
