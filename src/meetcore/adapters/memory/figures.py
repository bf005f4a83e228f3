"""The figures that an operator watches, in memory."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from meetcore.adapters.memory.state import MemoryState, StoredNote, StoredRound, StoredVerification, Tables
from meetcore.domain.meetings.meetings import MeetingStatus
from meetcore.domain.meetings.schedule import cap_day
from meetcore.domain.money.transfers import TransferKind
from meetcore.domain.notes.notes import NoteStep
from meetcore.domain.requests.retention import RemovedKind
from meetcore.domain.webhooks.deliveries import DeliveryStatus
from meetcore.domain.webhooks.endpoints import EndpointState
from meetcore.ports.clock import Clock
from meetcore.ports.figures import Figures
from meetcore.ports.partitions import PartitionRules


class MemoryFigures:
    """Reads them. Here nothing is parked, and there is no server whose transactions could be old."""

    def __init__(self, state: MemoryState, clock: Clock) -> None:
        self._state = state
        self._clock = clock

    async def read(self) -> Figures:
        now, tables = self._clock.now(), self._state.committed
        deliveries = [stored.delivery for stored in tables.deliveries.values()]
        states = Counter(each.status for each in deliveries)
        endpoints = Counter(each.state for each in tables.endpoints.values())
        verification = tables.verification.get(True, StoredVerification())
        mails = [one.mail for one in tables.mails.values() if one.mail.due_at is not None]
        notes = [one for one in tables.notes.values() if one.due_at is not None]
        return Figures(
            deliveries_oldest_due_s=_oldest(now, (each.next_attempt_at for each in deliveries)),
            deliveries={
                "pending": states[DeliveryStatus.PENDING], "held": states[DeliveryStatus.HELD], "parked": 0,
            },
            endpoints={state.value: endpoints[state] for state in EndpointState},
            provider_events_oldest_due_s=_oldest(
                now, (one.due_at for one in tables.provider_events.values())
            ),
            mails_oldest_due_s=_oldest(now, (each.due_at for each in mails)),
            mails_oldest_failing_s=_oldest(now, (each.created_at for each in mails if each.attempts_made)),
            meetings_oldest_in_progress_s=_oldest(now, _in_progress(tables)),
            notes_oldest_due_s=_by_step(now, notes, lambda one: one.due_at),
            notes_oldest_failing_s=_by_step(
                now, notes, lambda one: one.note.created_at if one.note.tries else None
            ),
            notes_oldest_s=_by_step(now, notes, lambda one: one.note.created_at),
            hosts=_hosts(tables, now),
            retention_rounds_s={
                kind.value: _oldest(now, [tables.retention.get(kind, StoredRound()).started_at])
                for kind in RemovedKind
            },
            ledger_verified_at=verification.verified_at,
            ledger_is_sound=verification.is_sound,
            partitions_ahead=PartitionRules().ahead,
            credits_today=_credits(tables, now),
        )  # fmt: skip


def _oldest(now: datetime, due: Iterable[datetime | None]) -> float:
    since = min((each for each in due if each is not None), default=now)
    return max(0.0, (now - since).total_seconds())


def _by_step(
    now: datetime, notes: Iterable[StoredNote], since: Callable[[StoredNote], datetime | None]
) -> Mapping[str, float]:
    ages = {step: [since(one) for one in notes if one.note.step is step] for step in NoteStep}
    return {step.value: _oldest(now, found) for step, found in ages.items()}


def _credits(tables: Tables, now: datetime) -> Mapping[str, int]:
    credits = {kind.value: 0 for kind in TransferKind}
    for entry in tables.entries.values():
        if cap_day(entry.at) == cap_day(now):
            credits[entry.transfer.kind.value] += entry.amount
    return credits


def _in_progress(tables: Tables) -> Iterable[datetime]:
    for stored in tables.meetings.values():
        if stored.lease is not None:
            is_new = stored.meeting.status is MeetingStatus.PROVISIONING
            yield stored.meeting.created_at if is_new else stored.lease.until


def _hosts(tables: Tables, now: datetime) -> Mapping[str, int]:
    taken = Counter(one.host_id for one in tables.reservations.values() if one.start_at <= now < one.end_at)
    states = Counter({"free": 0, "busy": 0, "unavailable": 0, "disabled": 0})
    for host in tables.hosts.values():
        if not host.is_active:
            states["disabled"] += 1
        elif host.unavailable_until is not None and host.unavailable_until > now:
            states["unavailable"] += 1
        else:
            states["busy" if taken[host.id] >= host.max_concurrent else "free"] += 1
    return states
