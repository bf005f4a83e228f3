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
    InvalidRequest,
    NoHostFree,
    ServiceUnavailable,
    UpstreamError,
)
from meetcore.domain.meetings.hosts import DEFAULT_SHARE_PERCENT
from meetcore.domain.meetings.meetings import (
    Meeting,
    MeetingPlan,
    MeetingRequest,
    MeetingStatus,
    Provisioned,
    plan_meeting,
)
from meetcore.domain.meetings.orphans import DEFAULT_WINDOW_S
from meetcore.domain.money.pricing import TierCatalogue
from meetcore.domain.requests.idempotency import DUPLICATE_WAIT_S, Verdict
from meetcore.ports.account_state import AccountState
from meetcore.ports.lease import Lease
from meetcore.ports.meetings import CreationQuery, LeaseView
from meetcore.ports.queries import Caller, FreeStartQuery, Queries
from meetcore.ports.store import CommitLost, OutcomeUnknown, Store, StoreUnavailable, Transaction
from meetcore.ports.video_provider import (
    HostUnavailable,
    ProviderOrder,
    ProviderRefused,
    ProviderUnknown,
    VideoProvider,
)
from meetcore.ports.worker_notifier import WorkerNotifier
from meetcore.usecases.account_turns import Spender
from meetcore.usecases.audit import record_by_hand
from meetcore.usecases.duplicates import wait_while_in_progress
from meetcore.usecases.idempotency import (
    IdempotentRequest,
    KeyLookup,
    Outcome,
    decide_once,
    refused,
    refusing,
)
from meetcore.usecases.meeting_memos import MeetingMemos
from meetcore.usecases.provision import Provisioner, created_record, order_of
from meetcore.usecases.reconcile_meetings import ReconcileMeetings
from meetcore.usecases.repeat import repeated_when_lost
from meetcore.usecases.reserve_meeting import (
    NO_HOST_RETRY_AFTER_S,
    ReservationTerms,
    creation_query,
    draft_meeting,
    reserve,
    unlocked_provisioning,
)
from meetcore.usecases.runtime import Runtime

MAX_HOST_ATTEMPTS = 64
MAX_HOSTS_TRIED = 8

# By whether there is an idempotency key, with which a retry can be given the result.
_UNKNOWN: Final = {
    True: "The video provider did not answer. The meeting is being looked into: it is finished or undone; "
    "a retry with the same Idempotency-Key gets its result.",
    False: "The video provider did not answer. Without an Idempotency-Key the meeting cannot be delivered: "
    "it is undone, and nothing is charged. Try again, with an Idempotency-Key.",
}
# Only without a key: with one, a retry gets the result.
_IN_DOUBT: Final = (
    "The meeting is in doubt: the database did not answer in time. Look for it in the list of meetings "
    "(GET /meetings) first: if it is there, it is charged, and can be used or cancelled; if not, nothing is "
    "charged. Only then try again, with an Idempotency-Key."
)
_IN_DOUBT_RETRY_AFTER_S: Final = 30
"""By then a worker has undone what was not kept: its lease, a round, the provider's answer."""
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
    """Creates a meeting once for each request (rule 1/meetings).

    `lease_s` must exceed the provider's time limit; `wait_s` bounds how long a duplicate waits for
    the first request's result in another process, looking after `poll_s` and then less and less often.
    `share_percent` is how much of the day's creations that others left one account may use, and `report` is
    called with each meeting that was refused for want of hosts. `orphan_window_s` is how long after a
    creation the provider's list must be clean. `memos` are written into meetings where the provider keeps
    them.
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
    memos: MeetingMemos | None = None

    async def __call__(
        self, caller: Caller, wanted: MeetingRequest, request: IdempotentRequest, now: datetime
    ) -> Outcome:
        """Make the meeting, or return the outcome of the first request with this key.

        Returns:
            The meeting; or a refusal: what `plan_meeting` refuses, InsufficientCredits, CreditCapExceeded.

        Raises:
            InvalidRequest: the date or time does not exist.
            NoHostFree: no host is free for the whole of it.
            CreationsUsedUp: no host, or not this account, may have another meeting made today.
            ServiceUnavailable: the first request is still in progress.
            UpstreamError: the provider refused or did not answer.
        """
        deadline = request.deadline(self.wait_s)
        for _ in range(MAX_HOSTS_TRIED):
            step = await self._reserve_or_wait(caller, wanted, request, now, deadline)
            if isinstance(step, Outcome):
                return step
            if (outcome := await self._make(step, request, now)) is not None:
                return outcome
        raise NoHostFree(NO_HOST_RETRY_AFTER_S)

    async def _reserve_or_wait(
        self, caller: Caller, wanted: MeetingRequest, request: IdempotentRequest, now: datetime,
        deadline: float,
    ) -> Outcome | LeaseView:  # fmt: skip
        """Return a meeting to make, or the outcome of the process that is making it."""
        while True:
            step = await self._reserve(caller, wanted, request, now)
            if not isinstance(step, KeyLookup):
                return step
            if (outcome := await self._catch_up(caller.account.id, step)) is not None:
                return outcome
            if not await self._wait(caller.account.id, step, deadline):
                raise ServiceUnavailable("The first request with this key is still in progress.", 1)

    async def _reserve(
        self, caller: Caller, wanted: MeetingRequest, request: IdempotentRequest, now: datetime
    ) -> Outcome | LeaseView | KeyLookup:
        abilities = self.provider.abilities
        try:
            plan = plan_meeting(wanted, self.catalogue, abilities, now)
        except InvalidRequest:
            raise
        except DomainError as refusal:
            return await self._refuse(caller.account.id, request, refusal)
        draft, seats = draft_meeting(caller, plan, abilities, self.runtime, now), plan.tier.capacity
        if (view := await self._reserve_if_unchanged(caller, draft, seats, request)) is not None:
            return view
        for attempt in range(MAX_HOST_ATTEMPTS):
            query = creation_query(draft, seats, abilities, request.key, can_wait=attempt > 0)
            step = await self._try_reserve(caller, draft, query, request)
            match step:
                case None:
                    continue
                case NoHostFree():
                    break
                case CreationsUsedUp():
                    self.report(CapacityRefusal(step, seats, plan.start_at, caller.account.id))
                    raise step
                case DomainError():
                    raise step
                case _:
                    return step
        raise await self._no_host_free(plan, now)

    async def _reserve_if_unchanged(
        self, caller: Caller, draft: Meeting, seats: int, request: IdempotentRequest
    ) -> LeaseView | None:
        """Reserve on the account as it was read with the caller, in one statement.

        Returns:
            None where that does not do, and the decision is to be made under the account's lock: so is every
            refusal, what is done by hand, and what is limited by the day.
        """
        abilities, state = self.provider.abilities, caller.state
        if state is None or caller.origin is not None or abilities.creations_per_host_day is not None:
            return None
        query = creation_query(draft, seats, abilities, request.key, can_wait=False)
        lease = Lease(self.runtime.new_id(query.now), self.lease_s)

        async def attempt(tx: Transaction, state: AccountState) -> tuple[LeaseView, AccountState] | None:
            try:
                made = unlocked_provisioning(self.runtime, draft, query, state, request, self._terms, lease)
            except DomainError:
                return None
            view = await tx.meetings.save_if_unchanged(query, made, state)
            return None if view is None else (view, evolve(state, funds=made.funds, usage=made.usage))

        try:
            spender = Spender(draft.account_id, draft.api_key_id, query.cap_day)
            return await self.provisioner.turns.run(spender, state, attempt)
        except CommitLost:  # the lease shows whether it was kept
            return await self._find_reserved(draft, lease.token)

    @repeated_when_lost
    async def _find_reserved(self, draft: Meeting, token: UUID) -> LeaseView | None:
        """Find a draft that may have been reserved; where it was not, it will not be any more."""
        async with self.store.begin() as tx:
            await tx.lock_account(draft.account_id)  # a statement that is still under way finds it changed
            return await tx.meetings.load_leased(draft.account_id, draft.id, token)

    @property
    def _terms(self) -> ReservationTerms:
        window_s = self.orphan_window_s if self.provider.abilities.leaves_orphans else None
        return ReservationTerms(self.lease_s, self.share_percent, window_s)

    @repeated_when_lost
    async def _try_reserve(
        self, caller: Caller, draft: Meeting, query: CreationQuery, request: IdempotentRequest
    ) -> LeaseView | Outcome | KeyLookup | DomainError | None:
        async with self.store.begin() as tx:
            step = await reserve(tx, self.runtime, draft, query, request, self._terms)
            if isinstance(step, LeaseView):
                await record_by_hand(
                    tx, self.runtime, draft.created_at, caller, "meeting.created", draft.id,
                    title=draft.title, credits=draft.credits,
                )  # fmt: skip
            return step

    async def _refuse(
        self, account_id: UUID, request: IdempotentRequest, refusal: DomainError
    ) -> Outcome | KeyLookup:
        """Refuse what needs no reservation; under its key, the first outcome still comes first."""
        if request.key is None:
            step: Outcome | KeyLookup | DomainError = refused(request, refusal)
        else:
            async with self.store.begin() as tx:
                step = await decide_once(tx, account_id, request, refusing(refusal))
        if isinstance(step, DomainError):
            raise step
        return step

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

    async def _catch_up(self, account_id: UUID, lookup: KeyLookup) -> Outcome | None:
        """Handle work that another process has or had; `None` when there is no outcome yet."""
        if lookup.subject_id is None:
            return None
        if lookup.verdict is Verdict.TAKE_OVER:
            await self.reconcile.one(account_id, lookup.subject_id)
        elif lookup.verdict is Verdict.REPLAY:
            # An earlier release stored no outcome where its reconciler finished the meeting.
            meeting = await self.queries.find_meeting(account_id, lookup.subject_id)
            if meeting is not None:
                return Outcome(created_record(meeting), is_replay=True)
        return None

    async def _wait(self, account_id: UUID, lookup: KeyLookup, deadline: float) -> bool:
        """Wait for the work of another process; False when there is no time left."""
        return lookup.subject_id is not None and await wait_while_in_progress(
            self.queries, account_id, lookup.subject_id, deadline, self.poll_s
        )

    async def _make(self, view: LeaseView, request: IdempotentRequest, now: datetime) -> Outcome | None:
        """Create it at the provider; `None` when its host cannot take it and another is to be tried."""
        meeting = view.meeting
        try:
            made = await self.provider.create(self._order(view))
        except HostUnavailable as error:
            await self.provisioner.undo(meeting, view.token, host_unavailable_until=error.until)
            return None
        except ProviderRefused as error:
            await self.provisioner.undo(meeting, view.token)
            raise UpstreamError(
                "The video provider refused the meeting. Nothing was charged; try again."
            ) from error
        except ProviderUnknown as error:
            raise UpstreamError(_UNKNOWN[request.key is not None]) from error
        outcome = await self._finish(view, made, request, now)
        if outcome is None:
            return await self._overtaken(meeting, made.provider_meeting_id, request)
        if outcome.due:
            self.notifier.notify()
        return outcome

    async def _finish(
        self, view: LeaseView, made: Provisioned, request: IdempotentRequest, now: datetime
    ) -> Outcome | None:
        """Settle it; `None` when the lease is lost. Without a key, an unknown outcome is in doubt."""
        try:
            return await self.provisioner.finish(view, made, now)
        except OutcomeUnknown as error:
            if request.key is not None:
                raise
            raise ServiceUnavailable(_IN_DOUBT, _IN_DOUBT_RETRY_AFTER_S) from error

    def _order(self, view: LeaseView) -> ProviderOrder:
        order = order_of(view.meeting, view.provider_user_id)
        if self.memos is None or not self.provider.abilities.keeps_memos:
            return order
        return evolve(order, memo=self.memos.seal(view.meeting, view.claim))

    async def _overtaken(
        self, meeting: Meeting, provider_meeting_id: str, request: IdempotentRequest
    ) -> Outcome:
        """The lease ran out meanwhile: undo what this call made, unless its new owner kept it."""
        stored = await self.queries.find_meeting(meeting.account_id, meeting.id)
        if stored is not None and stored.provider_meeting_id == provider_meeting_id:
            return Outcome(created_record(stored), is_replay=True)
        if stored is None or stored.status is MeetingStatus.ABANDONED:
            await self._remove_late(meeting, provider_meeting_id)
        raise ServiceUnavailable(_TOO_LATE[request.key is not None], 1)

    async def _remove_late(self, meeting: Meeting, provider_meeting_id: str) -> None:
        """Remove a meeting that was made after it had been given up; where that fails, it is looked for."""
        try:
            await self.provider.remove(provider_meeting_id)
        except (ProviderRefused, ProviderUnknown):
            async with self.store.begin() as tx:
                await tx.orphan_checks.open(meeting.account_id, meeting.id)
