"""Making a meeting (spec 4.1): reserve, ask the provider, charge. No step holds a transaction open
over the network.

1. One transaction: idempotency key, hold, host, the meeting under a lease.
2. The provider is called, with our meeting's id as the correlation.
3. One transaction: the hold becomes the charge, the meeting is shown, its event goes out. Or, when
   the provider refused, everything is given back.

A process that dies in between leaves the lease, and `reconcile_meetings` finishes or undoes.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Final
from uuid import UUID

from attrs import evolve, frozen

from meetcore.domain.errors import (
    CreationsUsedUp,
    DomainError,
    IdempotencyKeyReused,
    InvalidRequest,
    NoHostFree,
    ServiceUnavailable,
    UpstreamError,
)
from meetcore.domain.meetings import meetings
from meetcore.domain.meetings.hosts import (
    DEFAULT_SHARE_PERCENT,
    DayCreations,
    Host,
    choose_host,
    may_create,
    next_creation_day,
)
from meetcore.domain.meetings.meetings import Meeting, MeetingPlan, MeetingRequest, MeetingStatus
from meetcore.domain.meetings.orphans import DEFAULT_WINDOW_S
from meetcore.domain.meetings.schedule import cap_day
from meetcore.domain.money import holds
from meetcore.domain.money.ledger import Reference, TransferKind
from meetcore.domain.money.pricing import TierCatalogue
from meetcore.domain.requests.idempotency import DUPLICATE_WAIT_S, Verdict
from meetcore.ports.lease import Lease
from meetcore.ports.meetings import CreationQuery, CreationView, LeaseView, Provisioning
from meetcore.ports.queries import Caller, FreeStartQuery, Queries
from meetcore.ports.store import Store, StoreUnavailable
from meetcore.ports.video_provider import HostUnavailable, ProviderRefused, ProviderUnknown, VideoProvider
from meetcore.ports.worker_notifier import WorkerNotifier
from meetcore.usecases.duplicates import wait_while_in_progress
from meetcore.usecases.idempotency import (
    Answer,
    IdempotentRequest,
    KeyLookup,
    check_key,
    store_first_replay,
    store_refusal,
)
from meetcore.usecases.provision import Provisioner, order_of
from meetcore.usecases.reconcile_meetings import ReconcileMeetings
from meetcore.usecases.repeat import repeated_when_lost
from meetcore.usecases.runtime import Runtime

__all__ = ["CapacityRefusal", "CreateMeeting"]

NO_HOST_RETRY_AFTER_S = 60
MAX_HOST_ATTEMPTS = 64
MAX_HOSTS_TRIED = 8

# By whether there is an idempotency key, with which a retry can be given the result.
_UNKNOWN: Final = {
    True: "The video provider did not answer. The meeting is being looked into: it is finished or undone; "
    "a retry with the same Idempotency-Key gets its result.",
    False: "The video provider did not answer. Without an Idempotency-Key the meeting cannot be delivered: "
    "it is undone, and nothing is charged. Try again, with an Idempotency-Key.",
}
_TOO_LATE: Final = {
    True: "The meeting took too long to make. Try again with the same key.",
    False: "The meeting took too long to make. It was undone, and nothing was charged. Try again.",
}


@frozen
class CapacityRefusal:
    """A meeting that was refused for want of hosts, for an operator. `account_id` used up its own share."""

    refusal: ServiceUnavailable
    seats: int
    start_at: datetime
    account_id: UUID | None = None


def no_report(refusal: CapacityRefusal) -> None:
    """Report nothing."""


@frozen
class CreateMeeting:
    """Creates a meeting once for each request.

    `lease_s` must exceed the provider's time limit; `wait_s` bounds how long a duplicate waits for
    the first request's result in another process, looking after `poll_s` and then less and less often.
    `share_percent` is how much of the day's creations that others left one account may use, and `report` is
    called with each meeting that was refused for want of hosts. `orphan_window_s` is how long after a
    creation the provider's list must be clean.
    """

    store: Store
    queries: Queries
    provider: VideoProvider
    provisioner: Provisioner
    reconcile: ReconcileMeetings
    catalogue: TierCatalogue
    notifier: WorkerNotifier
    runtime: Runtime
    lease_s: float = 20.0
    wait_s: float = DUPLICATE_WAIT_S
    poll_s: float = 0.05
    share_percent: int = DEFAULT_SHARE_PERCENT
    report: Callable[[CapacityRefusal], None] = no_report
    orphan_window_s: float = DEFAULT_WINDOW_S

    async def __call__(
        self, caller: Caller, request: MeetingRequest, request_key: IdempotentRequest, now: datetime
    ) -> Answer:
        """Make the meeting, or answer as the first request with this key was answered.

        Raises:
            InvalidRequest: the date or time does not exist.
            NotFound, Unprocessable: what `plan_meeting` refuses, when no key stores it.
            InsufficientCredits, CreditCapExceeded: likewise.
            IdempotencyKeyReused: the key belongs to another request.
            NoHostFree: no host is free for the whole of it.
            CreationsUsedUp: no host, or not this account, may have another meeting made today.
            ServiceUnavailable: the first request is still in progress.
            UpstreamError: the provider refused or did not answer.
            StoreUnavailable: the database does not answer.
        """
        deadline = request_key.deadline(self.wait_s)
        for _ in range(MAX_HOSTS_TRIED):
            step = await self._reserve_or_wait(caller, request, request_key, now, deadline)
            if isinstance(step, Answer):
                return step
            if (answer := await self._make(step, request_key, now)) is not None:
                return answer
        raise NoHostFree(NO_HOST_RETRY_AFTER_S)

    async def _reserve_or_wait(
        self,
        caller: Caller,
        request: MeetingRequest,
        request_key: IdempotentRequest,
        now: datetime,
        deadline: float,
    ) -> Answer | LeaseView:
        """Return a meeting to make, or the result of the process that is making it."""
        while True:
            step = await self._reserve(caller, request, request_key, now)
            if not isinstance(step, KeyLookup):
                return step
            if (answer := await self._catch_up(caller, request_key, step)) is not None:
                return answer
            if not await self._wait(caller, step, deadline):
                raise ServiceUnavailable("The first request with this key is still in progress.", 1)

    async def _wait(self, caller: Caller, lookup: KeyLookup, deadline: float) -> bool:
        """Wait for the work of another process; False when there is no time left."""
        subject_id = None if lookup.record is None else lookup.record.subject_id
        return subject_id is not None and await wait_while_in_progress(
            self.queries, caller.account.id, subject_id, deadline, self.poll_s
        )

    async def _reserve(
        self, caller: Caller, request: MeetingRequest, request_key: IdempotentRequest, now: datetime
    ) -> Answer | LeaseView | KeyLookup:
        try:
            plan = meetings.plan_meeting(request, self.catalogue, self.provider.abilities, now)
        except InvalidRequest:
            raise
        except DomainError as error:
            return await self._remember(caller, request_key, error)
        meeting_id = self.runtime.new_id(now)
        for attempt in range(MAX_HOST_ATTEMPTS):
            query = self._query(caller, plan, request_key, meeting_id, now, can_wait=attempt > 0)
            try:
                step = await self._try_reserve(caller, plan, request_key, query, meeting_id, now)
            except NoHostFree:
                break
            except CreationsUsedUp as refusal:
                self.report(CapacityRefusal(refusal, plan.tier.capacity, plan.start_at, caller.account.id))
                raise
            if step is not None:
                return step
        raise await self._no_host_free(plan, now)

    async def _no_host_free(self, plan: MeetingPlan, now: datetime) -> ServiceUnavailable:
        """Return the refusal, with the next free time if known; read when no transaction is open."""
        per_day = self.provider.abilities.creations_per_host_day
        wanted = FreeStartQuery(plan.tier.capacity, plan.start_at, plan.tier.max_duration, now, per_day)
        refusal: ServiceUnavailable = NoHostFree(NO_HOST_RETRY_AFTER_S)
        with suppress(StoreUnavailable):  # the refusal stands without it
            start_at = await self.queries.next_free_start(wanted)
            creation_at = None if start_at else await self.queries.next_creation_at(wanted)
            if start_at is not None:
                refusal = NoHostFree(NO_HOST_RETRY_AFTER_S, start_at)
            elif creation_at is not None and creation_at > now:
                refusal = CreationsUsedUp(now, creation_at, is_share=False)
        self.report(CapacityRefusal(refusal, plan.tier.capacity, plan.start_at))
        return refusal

    @repeated_when_lost
    async def _try_reserve(
        self, caller: Caller, plan: MeetingPlan, request_key: IdempotentRequest, query: CreationQuery,
        meeting_id: UUID, now: datetime,
    ) -> Answer | LeaseView | KeyLookup | None:  # fmt: skip
        """Reserve in one transaction; `None` when a host was taken meanwhile and it is to be retried."""
        async with self.store.begin() as tx:
            view = await tx.meetings.load_creation(query)
            if request_key.key is not None:
                lookup = check_key(view.idempotency, request_key)
                if lookup.verdict is not Verdict.CLAIM:
                    return _replay(lookup)
            if view.is_contended:
                return None
            try:
                provisioning = self._decide(caller, plan, request_key, view, query.operation, meeting_id, now)
            except DomainError as error:
                refusal, payload = error, await store_refusal(tx, query.account_id, request_key, error)
            else:
                return await tx.meetings.save_provisioning(provisioning)
        if payload is None or request_key.key is None:
            raise refusal
        return Answer(payload)

    def _query(
        self, caller: Caller, plan: MeetingPlan, request_key: IdempotentRequest, meeting_id: UUID,
        now: datetime, *, can_wait: bool,
    ) -> CreationQuery:  # fmt: skip
        abilities = self.provider.abilities
        # The charge's permanent name comes from the caller's key where there is one, so that even a
        # key that was purged after its 24 hours cannot charge again.
        operation = f"meeting:{meeting_id}" if request_key.key is None else f"meeting:key:{request_key.key}"
        return CreationQuery(
            caller.account.id, caller.key.id, cap_day(now), operation, request_key.key, plan.tier.capacity,
            plan.start_at, plan.end_at, now, abilities.creations_per_host_day, abilities.has_hosts, can_wait,
        )  # fmt: skip

    def _decide(
        self, caller: Caller, plan: MeetingPlan, request_key: IdempotentRequest, view: CreationView,
        operation: str, meeting_id: UUID, now: datetime,
    ) -> Provisioning:  # fmt: skip
        if view.charged is not None:
            raise IdempotencyKeyReused(
                "This Idempotency-Key paid for a meeting long ago. Use a new key for a new meeting.",
                {"id": view.charged.reference.id},
            )
        hold = holds.Hold(
            self.runtime.new_id(now),
            operation,
            TransferKind.MEETING_CHARGE,
            plan.quote.credits,
            Reference("meeting", str(meeting_id)),
            caller.key.id,
            view.usage.day,
        )
        reserved = holds.take(view.funds, view.usage, view.daily_cap, hold)
        if view.creations is not None and not self._is_within_share(view.creations):
            raise CreationsUsedUp(now, next_creation_day(now), is_share=True)
        host = choose_host(view.free_hosts, plan.tier.capacity)
        if host is None and self.provider.abilities.has_hosts:
            raise NoHostFree(NO_HOST_RETRY_AFTER_S)
        meeting = self._draft(caller, plan, host, meeting_id, now)
        lease = Lease(self.runtime.new_id(now), self.lease_s)
        return Provisioning(
            meeting, hold, reserved.funds, reserved.usage, lease, request_key.claim(meeting_id),
            "" if host is None else host.provider_user_id, view.creations is not None,
            self.orphan_window_s if self.provider.abilities.leaves_orphans else None,
        )  # fmt: skip

    def _is_within_share(self, today: DayCreations) -> bool:
        # Where nothing is left for any account, the hosts decide.
        return today.left == 0 or may_create(today, self.share_percent)

    def _draft(
        self, caller: Caller, plan: MeetingPlan, host: Host | None, id_: UUID, now: datetime
    ) -> Meeting:
        request, abilities = plan.request, self.provider.abilities
        password = request.password
        if password is None and abilities.password is not None:
            random = self.runtime.entropy.token_bytes(meetings.PASSWORD_RANDOM_BYTES)
            password = meetings.generate_password(abilities.password, random)
        return Meeting(
            id=id_,
            account_id=caller.account.id,
            api_key_id=caller.key.id,
            status=MeetingStatus.PROVISIONING,
            title=request.title,
            description=request.description,
            start_at=plan.start_at,
            end_at=plan.end_at,
            duration=plan.tier.max_duration,
            capacity=plan.tier.capacity if abilities.has_capacity else None,
            pricing_tier_id=plan.tier.id,
            credits=plan.quote.credits,
            with_recording=plan.quote.with_recording,
            auto_notulen=request.auto_notulen,
            must_login=request.must_login,
            mic_off=request.mic_off,
            email_notification=request.email_notification,
            host_id=None if host is None else host.id,
            provider=abilities.name,
            created_at=now,
            password=password,
        )

    async def _make(self, view: LeaseView, request_key: IdempotentRequest, now: datetime) -> Answer | None:
        """Create it at the provider; `None` when its host cannot take it and another is to be tried."""
        meeting = view.meeting
        try:
            made = await self.provider.create(order_of(meeting, view.provider_user_id))
        except HostUnavailable as error:
            await self.provisioner.undo(
                meeting.account_id, meeting.id, view.token, host_unavailable_until=error.until
            )
            return None
        except ProviderRefused as error:
            await self.provisioner.undo(meeting.account_id, meeting.id, view.token)
            raise UpstreamError(
                "The video provider refused the meeting. Nothing was charged; try again."
            ) from error
        except ProviderUnknown as error:
            raise UpstreamError(_UNKNOWN[request_key.key is not None]) from error
        finished = await self.provisioner.finish(view, made, now, request_key.render)
        if finished is None or finished.payload is None:
            return await self._overtaken(meeting, made.provider_meeting_id, request_key)
        if finished.due:
            self.notifier.notify()
        return Answer(finished.payload, due=finished.due)

    async def _overtaken(
        self, meeting: Meeting, provider_meeting_id: str, request_key: IdempotentRequest
    ) -> Answer:
        """The lease ran out meanwhile: undo what this call made, unless its new owner kept it."""
        stored = await self.queries.find_meeting(meeting.account_id, meeting.id)
        if stored is not None and stored.provider_meeting_id == provider_meeting_id:
            return await store_first_replay(self.store, meeting.account_id, request_key, _as_made(stored))
        if stored is None or stored.status is MeetingStatus.ABANDONED:
            await self._remove_late(meeting, provider_meeting_id)
        raise ServiceUnavailable(_TOO_LATE[request_key.key is not None], 1)

    async def _remove_late(self, meeting: Meeting, provider_meeting_id: str) -> None:
        """Remove a meeting that was made after it had been given up; where that fails, it is looked for."""
        try:
            await self.provider.remove(provider_meeting_id)
        except (ProviderRefused, ProviderUnknown):
            async with self.store.begin() as tx:
                await tx.orphan_checks.open(meeting.account_id, meeting.id)

    async def _catch_up(
        self, caller: Caller, request_key: IdempotentRequest, lookup: KeyLookup
    ) -> Answer | None:
        """Handle work that another process has or had; `None` when there is no result yet."""
        record, account_id = lookup.record, caller.account.id
        if record is None or record.subject_id is None:
            return None
        if lookup.verdict is Verdict.TAKE_OVER:
            await self.reconcile.one(account_id, record.subject_id)
            return None
        if lookup.verdict is Verdict.REPLAY:
            meeting = await self.queries.find_meeting(account_id, record.subject_id)
            if meeting is not None:
                return await store_first_replay(self.store, account_id, request_key, _as_made(meeting))
        return None

    async def _remember(
        self, caller: Caller, request_key: IdempotentRequest, refusal: DomainError
    ) -> Answer | KeyLookup:
        """A refusal that needs no reservation: under its key, the first result still comes first."""
        if request_key.key is None:
            raise refusal
        account_id = caller.account.id
        async with self.store.begin() as tx:
            lookup = check_key(await tx.idempotency.load(account_id, request_key.key), request_key)
            if lookup.verdict is not Verdict.CLAIM:
                return _replay(lookup)
            payload = await store_refusal(tx, account_id, request_key, refusal)
        if payload is None:
            raise refusal
        return Answer(payload)


def _replay(lookup: KeyLookup) -> Answer | KeyLookup:
    record = lookup.record
    if lookup.verdict is Verdict.REPLAY and record is not None and record.answer is not None:
        return Answer(record.answer, is_replay=True)
    return lookup


def _as_made(meeting: Meeting) -> Meeting:
    """The meeting as the first answer showed it, whatever happened to it since."""
    return evolve(meeting, status=MeetingStatus.SCHEDULED, host_key=None)
