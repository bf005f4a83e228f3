"""Meetings in memory: reserved and held, fenced while in progress, given back or charged."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from uuid import UUID

from attrs import evolve

from meetcore.adapters.memory.hosts import count_creation, day_creations, free_host, free_slot, reserve
from meetcore.adapters.memory.idempotency import claim_key, end_claim, finish_key, key_view, prolong_claim
from meetcore.adapters.memory.ledger import (
    account_state,
    append_entry,
    entry_of_operation,
    usage_of,
    write_funds,
    write_usage,
)
from meetcore.adapters.memory.orphan_checks import move_check, open_check
from meetcore.adapters.memory.outbox import write_events
from meetcore.adapters.memory.state import (
    ConstraintBroken,
    HeldLease,
    StoredMeeting,
    Tables,
    account_of,
    meeting_at_provider,
)
from meetcore.domain.meetings.hosts import Host, choose_host
from meetcore.domain.meetings.meetings import OPEN, Meeting, MeetingStatus
from meetcore.domain.money.holds import CapUsage, Hold
from meetcore.domain.money.ledger import Entry, Funds, Transfer
from meetcore.domain.webhooks.events import Event
from meetcore.ports.account_state import AccountState
from meetcore.ports.clock import Clock
from meetcore.ports.entropy import Entropy
from meetcore.ports.idempotency import Claim
from meetcore.ports.lease import Lease
from meetcore.ports.meetings import (
    CreationQuery,
    CreationView,
    DueMeeting,
    ExpiredLease,
    LeaseView,
    MeetingView,
    Provisioning,
)


class MemoryMeetingRepository:
    """Meetings, their hosts and their money, on one open transaction."""

    def __init__(self, tables: Tables, clock: Clock, entropy: Entropy) -> None:
        self._tables = tables
        self._clock = clock
        self._entropy = entropy

    async def load_creation(self, query: CreationQuery) -> CreationView:
        tables, account_id = self._tables, query.account_id
        key = tables.keys.get(query.api_key_id)
        charged = entry_of_operation(tables, account_id, query.operation)
        host = self._best_free_host(query) if query.needs_host else None
        return CreationView(
            funds=account_of(tables, account_id).funds,
            usage=usage_of(tables, account_id, query.api_key_id, query.cap_day),
            daily_cap=None if key is None else key.daily_cap,
            charged=None if charged is None else charged.transfer,
            idempotency=key_view(tables, account_id, query.idempotency_key, self._clock.now()),
            free_hosts=() if host is None else (host,),
            is_contended=False,
            creations=day_creations(tables, account_id, query.seats, query.now, query.per_day),
            is_erased=account_id in tables.erasures,
        )

    def _best_free_host(self, query: CreationQuery) -> Host | None:
        free = (
            host
            for host in self._tables.hosts.values()
            if host.can_take(query.now, query.per_day)
            and free_slot(self._tables, host, query.start_at, query.end_at) is not None
        )
        return choose_host(free, query.seats)

    async def save_provisioning(self, provisioning: Provisioning) -> LeaseView | None:
        tables, meeting, hold = self._tables, provisioning.meeting, provisioning.hold
        owner = meeting.account_id, meeting.id
        host = None
        if meeting.host_id is not None:
            host = reserve(tables, owner, meeting.host_id, meeting.start_at, meeting.end_at)
            if host is None:
                return None
        if any(
            account_id == meeting.account_id and hold.operation == other.operation
            for (account_id, _), other in tables.holds.items()
        ):
            raise ConstraintBroken(f"{hold.operation} is held already")
        lease = self._lease(provisioning.lease)
        key = None if provisioning.claim is None else provisioning.claim.key
        if host is not None:
            tables.hosts[host.id] = host.used(meeting.created_at)
            if provisioning.counts_creation:
                count_creation(tables, meeting.account_id, host.id, meeting.created_at, 1)
        tables.meetings[owner] = StoredMeeting(meeting, hold.id, key, lease)
        if provisioning.orphan_window_s is not None:
            open_check(tables, owner, lease.until, provisioning.orphan_window_s)
        tables.holds[meeting.account_id, hold.id] = hold
        write_usage(tables, meeting.account_id, provisioning.usage)
        write_funds(tables, provisioning.funds)
        claim_key(tables, meeting.account_id, provisioning.claim, self._clock.now(), lease.until)
        return await self.load_leased(meeting.account_id, meeting.id, lease.token)

    async def load_state(self, account_id: UUID, api_key_id: UUID, cap_day: date) -> AccountState:
        return evolve(account_state(self._tables, account_id, api_key_id, cap_day), version=None)

    async def save_if_unchanged(
        self, query: CreationQuery, provisioning: Provisioning, state: AccountState
    ) -> LeaseView | None:
        tables, account_id = self._tables, query.account_id
        present = account_state(tables, account_id, query.api_key_id, query.cap_day)
        if evolve(present, version=state.version) != state:
            return None
        key = key_view(tables, account_id, query.idempotency_key, self._clock.now())
        is_known = (
            entry_of_operation(tables, account_id, query.operation) is not None
            or key.record is not None
            or key.is_lost
            or account_id in tables.erasures
        )
        host = self._best_free_host(query) if query.needs_host else None
        if is_known or (host is None and query.needs_host):
            return None
        chosen = evolve(provisioning.meeting, host_id=None if host is None else host.id)
        return await self.save_provisioning(evolve(provisioning, meeting=chosen))

    async def load_leased(self, account_id: UUID, meeting_id: UUID, token: UUID) -> LeaseView | None:
        tables = self._tables
        stored = tables.meetings.get((account_id, meeting_id))
        if stored is None or stored.lease is None or stored.lease.token != token:
            return None
        hold = None if stored.hold_id is None else tables.holds.get((account_id, stored.hold_id))
        charge = _charge(tables, stored.meeting)
        return LeaseView(
            token=token,
            version=0,
            meeting=stored.meeting,
            provider_user_id=self._provider_user_id(stored.meeting),
            funds=account_of(tables, account_id).funds,
            usage=_usage_of_work(tables, account_id, hold, charge),
            hold=hold,
            charge=charge,
            claim=_claim(tables, stored),
        )

    async def save_scheduled(
        self, view: LeaseView, meeting: Meeting, funds: Funds, usage: CapUsage, entry: Entry,
        events: Sequence[Event], encoded_outcome: bytes | None,
    ) -> int | None:  # fmt: skip
        tables, account_id = self._tables, meeting.account_id
        # No version is kept here: the view itself is compared, which is what a version stands for.
        present = await self.load_leased(account_id, meeting.id, view.token)
        if present is None or evolve(present, version=view.version) != view:
            return None
        self._check_provider_id(meeting)
        append_entry(tables, entry)
        write_funds(tables, funds)
        self._end_hold(view, account_id, usage)
        known = tables.meetings[account_id, meeting.id].meeting
        self._put(
            evolve(
                known,
                status=meeting.status,
                provider_meeting_id=meeting.provider_meeting_id,
                join_url=meeting.join_url,
                password=meeting.password,
                charge_id=entry.transfer.id,
            ),
            due_at=meeting.end_at,
        )
        finish_key(tables, account_id, view.claim, encoded_outcome)
        return self._add_events(account_id, events)

    def _check_provider_id(self, meeting: Meeting) -> None:
        if meeting.provider_meeting_id is None:
            return
        known = meeting_at_provider(self._tables, meeting.provider, meeting.provider_meeting_id)
        if known is not None and known.id != meeting.id and known.status in OPEN:
            raise ConstraintBroken("another meeting has this id at the provider")

    async def save_abandoned(
        self, view: LeaseView, meeting: Meeting, funds: Funds, usage: CapUsage, *,
        host_unavailable_until: datetime | None = None, look_again_s: float | None = None,
        was_made: bool = False,
    ) -> None:  # fmt: skip
        account_id, now = meeting.account_id, self._clock.now()
        write_funds(self._tables, funds)
        self._end_hold(view, account_id, usage)
        self._put(evolve(self._known(meeting), status=meeting.status))
        move_check(self._tables, (account_id, meeting.id), now, look_again_s)
        if not was_made:
            self._give_back(meeting)
        self._mark_unavailable(meeting, host_unavailable_until)
        free_host(self._tables, (account_id, meeting.id), now, invalidates_host_key=False)
        end_claim(self._tables, account_id, view.claim)

    def _give_back(self, meeting: Meeting) -> None:
        if meeting.host_id is None:
            return
        host = self._tables.hosts[meeting.host_id].given_back(meeting.created_at)
        self._tables.hosts[host.id] = host
        count_creation(self._tables, meeting.account_id, host.id, meeting.created_at, -1)

    def _mark_unavailable(self, meeting: Meeting, until: datetime | None) -> None:
        if meeting.host_id is None:
            return
        host = self._tables.hosts[meeting.host_id]
        until_times = [each for each in (host.unavailable_until, until) if each is not None]
        self._tables.hosts[host.id] = evolve(host, unavailable_until=max(until_times, default=None))

    async def load_locked(
        self, account_id: UUID, meeting_id: UUID, idempotency_key: str | None
    ) -> MeetingView | None:
        stored = self._tables.meetings.get((account_id, meeting_id))
        if stored is None:
            return None
        now = self._clock.now()
        is_leased = stored.lease is not None and stored.lease.until > now
        return MeetingView(
            stored.meeting, key_view(self._tables, account_id, idempotency_key, now), is_leased
        )

    async def save_cancelling(self, meeting: Meeting, lease: Lease, claim: Claim | None) -> None:
        held = self._lease(lease)
        stored = self._tables.meetings[meeting.account_id, meeting.id]
        self._tables.meetings[meeting.account_id, meeting.id] = StoredMeeting(
            evolve(stored.meeting, status=meeting.status),
            stored.hold_id,
            None if claim is None else claim.key,
            held,
            stored.due_at,
        )
        claim_key(self._tables, meeting.account_id, claim, self._clock.now(), held.until)

    async def save_cancelled(
        self, view: LeaseView, meeting: Meeting, refund: tuple[Funds, CapUsage, Entry] | None,
        events: Sequence[Event], encoded_outcome: bytes | None, *, invalidates_host_key: bool,
    ) -> int:  # fmt: skip
        account_id = meeting.account_id
        if refund is not None:
            funds, usage, entry = refund
            append_entry(self._tables, entry)
            write_funds(self._tables, funds)
            write_usage(self._tables, account_id, usage)
        ended = evolve(self._known(meeting), status=meeting.status, credits_refunded=meeting.credits_refunded)
        self._put(ended, self._looked_for_at(ended))
        owner = account_id, meeting.id
        free_host(self._tables, owner, self._clock.now(), invalidates_host_key=invalidates_host_key)
        finish_key(self._tables, account_id, view.claim, encoded_outcome)
        return self._add_events(account_id, events)

    async def save_cancel_failed(self, view: LeaseView, meeting: Meeting) -> None:
        due_at = self._tables.meetings[meeting.account_id, meeting.id].due_at
        self._put(evolve(self._known(meeting), status=meeting.status), due_at)
        end_claim(self._tables, meeting.account_id, view.claim)

    async def load_by_provider_id(self, provider: str, provider_meeting_id: str) -> Meeting | None:
        return meeting_at_provider(self._tables, provider, provider_meeting_id)

    async def save_lifecycle(
        self, meeting: Meeting, events: Sequence[Event], *, invalidates_host_key: bool
    ) -> int:
        name = meeting.account_id, meeting.id
        stored = self._tables.meetings[name]
        changed = evolve(stored.meeting, status=meeting.status)
        is_over = meeting.status is MeetingStatus.ENDED
        due_at = self._looked_for_at(changed) if is_over else stored.due_at
        self._tables.meetings[name] = evolve(stored, meeting=changed, due_at=due_at)
        if is_over:
            free_host(self._tables, name, self._clock.now(), invalidates_host_key=invalidates_host_key)
        return self._add_events(meeting.account_id, events)

    async def claim_due(self, limit: int, again_s: float) -> Sequence[DueMeeting]:
        tables, now = self._tables, self._clock.now()
        due = [
            (stored.due_at, name)
            for name, stored in tables.meetings.items()
            if stored.due_at is not None and stored.due_at <= now
        ]
        due.sort()
        taken = []
        for _, name in due[:limit]:
            stored = tables.meetings[name]
            is_check = stored.meeting.status is MeetingStatus.ENDED
            again_at = now + timedelta(seconds=again_s)
            stored = evolve(stored, due_at=again_at, recording_checks=stored.recording_checks + is_check)
            tables.meetings[name] = stored
            host = self._provider_user_id(stored.meeting)
            taken.append(DueMeeting(stored.meeting, host, stored.recording_checks))
        return taken

    async def schedule_next_check(self, meeting: Meeting, again_s: float | None = None) -> None:
        name = meeting.account_id, meeting.id
        due_at = None if again_s is None else self._clock.now() + timedelta(seconds=again_s)
        self._tables.meetings[name] = evolve(self._tables.meetings[name], due_at=due_at)

    async def claim_expired(self, limit: int, lease: Lease) -> Sequence[ExpiredLease]:
        now = self._clock.now()
        expired = [
            (stored.lease.until, stored.meeting)
            for stored in self._tables.meetings.values()
            if stored.lease is not None and stored.lease.until <= now
        ]
        expired.sort(key=lambda pair: pair[0])
        return [self._take_over(meeting, lease) for _, meeting in expired[:limit]]

    async def lease_expired(self, account_id: UUID, meeting_id: UUID, lease: Lease) -> ExpiredLease | None:
        stored = self._tables.meetings.get((account_id, meeting_id))
        if stored is None or stored.lease is None or stored.lease.until > self._clock.now():
            return None
        return self._take_over(stored.meeting, lease)

    async def take_lease(self, account_id: UUID, meeting_id: UUID, lease: Lease) -> ExpiredLease | None:
        stored = self._tables.meetings.get((account_id, meeting_id))
        return None if stored is None or stored.lease is None else self._take_over(stored.meeting, lease)

    def _take_over(self, meeting: Meeting, lease: Lease) -> ExpiredLease:
        name = meeting.account_id, meeting.id
        held = self._lease(lease)
        stored = self._tables.meetings[name] = evolve(self._tables.meetings[name], lease=held)
        if stored.idempotency_key is not None:
            prolong_claim(self._tables, meeting.account_id, stored.idempotency_key, held.until)
        return ExpiredLease(meeting.account_id, meeting.id, lease.token)

    def _looked_for_at(self, meeting: Meeting) -> datetime | None:
        """When the recording of a meeting that is over is looked for first."""
        is_sought = meeting.status is MeetingStatus.ENDED and meeting.options.with_recording
        return self._clock.now() if is_sought else None

    def _known(self, meeting: Meeting) -> Meeting:
        return self._tables.meetings[meeting.account_id, meeting.id].meeting

    def _provider_user_id(self, meeting: Meeting) -> str:
        return "" if meeting.host_id is None else self._tables.hosts[meeting.host_id].provider_user_id

    def _put(self, meeting: Meeting, due_at: datetime | None = None) -> None:
        """Write a meeting that is no longer in progress."""
        name = meeting.account_id, meeting.id
        self._tables.meetings[name] = StoredMeeting(meeting, None, None, None, due_at)

    def _end_hold(self, view: LeaseView, account_id: UUID, usage: CapUsage) -> None:
        if view.hold is not None:
            self._tables.holds.pop((account_id, view.hold.id), None)
        write_usage(self._tables, account_id, usage)

    def _lease(self, lease: Lease) -> HeldLease:
        return HeldLease(lease.token, self._clock.now() + timedelta(seconds=lease.seconds))

    def _add_events(self, account_id: UUID, events: Sequence[Event]) -> int:
        return write_events(self._tables, account_id, events, self._clock.now(), self._entropy)


def _usage_of_work(tables: Tables, account_id: UUID, hold: Hold | None, charge: Transfer | None) -> CapUsage:
    if hold is not None:
        return usage_of(tables, account_id, hold.api_key_id, hold.cap_day)
    if charge is not None and charge.api_key_id is not None and charge.cap_day is not None:
        return usage_of(tables, account_id, charge.api_key_id, charge.cap_day)
    raise LookupError("a meeting in progress has neither a hold nor a charge")


def _charge(tables: Tables, meeting: Meeting) -> Transfer | None:
    if meeting.charge_id is None:
        return None
    number = tables.entry_of_transfer.get((meeting.account_id, meeting.charge_id))
    return None if number is None else tables.entries[meeting.account_id, number].transfer


def _claim(tables: Tables, stored: StoredMeeting) -> Claim | None:
    key, meeting = stored.idempotency_key, stored.meeting
    record = None if key is None else tables.idempotency.get((meeting.account_id, key))
    return None if record is None else Claim(record.key, record.fingerprint, meeting.id)
