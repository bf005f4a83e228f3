"""Host reservations in memory: a host is free for a range when one of its slots is."""

from datetime import datetime
from uuid import UUID

from meetcore.adapters.memory.state import Reservation, StoredHostKey, Tables
from meetcore.domain.hosts import Host

__all__ = ["free_host", "free_slot", "reserve"]


def free_slot(tables: Tables, host: Host, start_at: datetime, end_at: datetime) -> int | None:
    """The first slot of a host that nothing occupies in the range, or none."""
    taken = {
        one.slot
        for one in tables.reservations.values()
        if one.host_id == host.id and one.start_at < end_at and start_at < one.end_at
    }
    return next((slot for slot in range(host.max_concurrent) if slot not in taken), None)


def reserve(
    tables: Tables, owner: tuple[UUID, UUID], host_id: UUID, start_at: datetime, end_at: datetime
) -> Host | None:
    """Take a slot of a host for a meeting (account and meeting id), or none if there is none."""
    host = tables.hosts.get(host_id)
    if host is None or not host.is_active or owner in tables.reservations:
        return None
    slot = free_slot(tables, host, start_at, end_at)
    if slot is None:
        return None
    tables.reservations[owner] = Reservation(host_id, slot, start_at, end_at)
    return host


def free_host(tables: Tables, owner: tuple[UUID, UUID], now: datetime, *, spoils_host_key: bool) -> None:
    """Give back what a meeting (account and meeting id) occupies of a host, if it does.

    The host's key was the meeting's to show, unless an earlier meeting of the host is not over.
    """
    taken = tables.reservations.pop(owner, None)
    if taken is None or not spoils_host_key or tables.hosts[taken.host_id].max_concurrent > 1:
        return
    if not any(
        one.host_id == taken.host_id and one.start_at < taken.start_at for one in tables.reservations.values()
    ):
        tables.host_keys[taken.host_id] = StoredHostKey(due_at=now)
