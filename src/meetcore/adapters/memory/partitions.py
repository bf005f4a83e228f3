"""Partitions in memory: there are none, and what would be in one goes at once."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from uuid import UUID

from meetcore.adapters.memory.state import MemoryState, Tables
from meetcore.domain.ids import first_id
from meetcore.domain.webhooks.deliveries import DeliveryStatus
from meetcore.ports.partitions import Maintained, PartitionRules

_UNFINISHED = {DeliveryStatus.PENDING, DeliveryStatus.HELD}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class MemoryPartitions:
    """Events, deliveries and attempts of periods that are past their retention, deleted together."""

    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def plan(self, now: datetime, rules: PartitionRules) -> Maintained:
        tables = self._state.committed.copy()
        return Maintained(ahead=rules.ahead, waiting=_forget(tables, now, rules))

    async def maintain(self, now: datetime, rules: PartitionRules) -> Maintained:
        async with self._state.change() as tables:
            if any(each.is_fenced for each in tables.restores.values()):
                return Maintained(ahead=rules.ahead, is_fenced=True)
            waiting = _forget(tables, now, rules)
        return Maintained(ahead=rules.ahead, waiting=waiting)


def _forget(tables: Tables, now: datetime, rules: PartitionRules) -> tuple[str, ...]:
    """Delete what is past its retention; returns the periods in which a delivery is unfinished."""
    end = first_id(rules.begin_of(now - rules.kept))
    for name in [name for name in tables.events if name[1] < end]:
        del tables.events[name]
    old = {name: stored.delivery for name, stored in tables.deliveries.items() if name[1] < end}
    unfinished = _periods((one.id for one in old.values() if one.status in _UNFINISHED), rules)
    for name in old:
        if _period(name[1], rules) not in unfinished:
            del tables.deliveries[name]
    for attempt in [name for name in tables.attempts if name[1] < end]:
        if _period(attempt[1], rules) not in unfinished:
            del tables.attempts[attempt]
    return tuple(f"deliveries of {at:%Y-%m-%d}" for at in sorted(unfinished))


def _periods(ids: Iterable[UUID], rules: PartitionRules) -> set[datetime]:
    return {_period(id_, rules) for id_ in ids}


def _period(id_: UUID, rules: PartitionRules) -> datetime:
    return rules.begin_of(_EPOCH + timedelta(milliseconds=id_.int >> 80))
