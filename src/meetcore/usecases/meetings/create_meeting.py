"""Make a meeting (spec 4.1) in three steps, of which none holds a transaction open over the network.

1. `creation.claim`, one transaction: idempotency key, hold, host, the meeting under a lease.
2. Call the provider, with the meeting's id as the correlation.
3. `creation.settle`, one transaction: the hold becomes the charge, the meeting is shown, its event goes out.
   Or, when the provider refused, `creation.abandon` gives everything back.
A process that dies in between leaves the lease, and `reconcile_meetings` finishes or undoes.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Final
from uuid import UUID

from attrs import evolve, frozen

from meetcore.domain import errors
from meetcore.domain.meetings import hosts, meetings, provider_events
from meetcore.domain.meetings.views import FreeStartQuery, LeaseView
from meetcore.domain.money.pricing import TierCatalogue
from meetcore.domain.money.views import AccountState
from meetcore.domain.requests.idempotency import DUPLICATE_WAIT_S, Verdict
from meetcore.ports import video_provider
from meetcore.ports.meetings import NumberTaken
from meetcore.ports.queries import Caller, Queries
from meetcore.ports.runtime import Lease, WorkerNotifier
from meetcore.ports.store import CommitLost, OutcomeUnknown, Store, StoreUnavailable, Transaction
from meetcore.usecases.meetings.creation import (
    NO_HOST_RETRY_AFTER_S,
    Creation,
    CreationTerms,
    Provisioner,
    claim,
    claim_unlocked,
    created_record,
    creation_query,
    draft_meeting,
    order_of,
    replayed,
)
from meetcore.usecases.meetings.reconcile_meetings import ReconcileMeetings
from meetcore.usecases.members.audit import record_by_hand
from meetcore.usecases.money.turns import Spender
from meetcore.usecases.requests.idempotency import (
    IdempotentRequest,
    KeyLookup,
    Outcome,
    decide_once,
    refused,
    refusing,
    wait_while_in_progress,
)
from meetcore.usecases.runtime import Runtime, ignore, repeated_when_lost

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
"""By then a worker has undone an unfinished meeting: its lease, a round, the provider's answer."""
_TOO_LATE: Final = {
    True: "The meeting took too long to make. Try again with the same key.",
    False: "The meeting took too long to make. It was undone, and nothing was charged. Try again.",
}


@frozen
class CapacityRefusal:
    """A meeting refused for want of hosts, for an operator; `account_id` where it used up its own share."""

    refusal: errors.ServiceUnavailable
    seats: int
    start_at: datetime
    account_id: UUID | None = None


@frozen
class CreateMeeting:
    """Creates a meeting once for each request (rule 1/meetings).

    `lease_s` must exceed the provider's time limit. A duplicate waits up to `wait_s` seconds for the first
    request in another process, and looks after `poll_s`, then less and less often. One account may use
    `share_percent` of the day's creations that others left. `report` is called with each meeting that is
    refused for want of hosts. For `orphan_window_s` after a creation the provider's list must be clean.
    """

    store: Store
    queries: Queries
    provider: video_provider.VideoProvider
    provisioner: Provisioner
    reconcile: ReconcileMeetings
    catalogue: TierCatalogue
    notifier: WorkerNotifier
    runtime: Runtime
    lease_s: float = 20.0
    wait_s: float = DUPLICATE_WAIT_S
    poll_s: float = 0.05
    share_percent: int = hosts.DEFAULT_SHARE_PERCENT
    report: Callable[[CapacityRefusal], None] = ignore
    orphan_window_s: float = provider_events.DEFAULT_WINDOW_S

    async def __call__(
        self, caller: Caller, wanted: meetings.MeetingRequest, request: IdempotentRequest, now: datetime
    ) -> Outcome:
        """Make the meeting, or return the outcome of the first request with this key.

        A refusal is one of `plan_meeting`, InsufficientCredits or CreditCapExceeded.

        Raises:
            InvalidRequest: the date or time does not exist.
            NoHostFree: no host is free for the whole of it.
            CreationsUsedUp: no host, or not this account, may have another meeting made today.
            ServiceUnavailable: the first request is still in progress.
            UpstreamError: the provider refused or did not answer.
        """
        deadline = request.deadline(self.wait_s)
        for _ in range(MAX_HOSTS_TRIED):
            view, until = await self._claim(caller, wanted, request, now, deadline)
            if isinstance(view, Outcome):
                return view
            with video_provider.under_lease(until):
                made = await self._call(view, request)
            if made is not None:
                return await self._settle(view, made, request, now)
        raise errors.NoHostFree(NO_HOST_RETRY_AFTER_S)

    async def _claim(
        self, caller: Caller, wanted: meetings.MeetingRequest, request: IdempotentRequest, now: datetime,
        deadline: float,
    ) -> tuple[Outcome | LeaseView, video_provider.LeaseTime]:  # fmt: skip
        """Return a meeting under a lease of this process, or the outcome of another request with the key.

        The time is that of the lease.
        """
        account_id = caller.account.id
        while True:
            until = video_provider.lease_time(self.runtime.clock, self.lease_s)
            step = await self._try_claim(caller, wanted, request, now)
            if not isinstance(step, KeyLookup):
                return step, until
            if step.verdict is Verdict.TAKE_OVER and step.subject_id is not None:
                await self.reconcile.one(account_id, step.subject_id)
            if step.subject_id is None or not await wait_while_in_progress(
                self.queries, account_id, step.subject_id, deadline, self.poll_s
            ):
                raise errors.ServiceUnavailable("The first request with this key is still in progress.", 1)

    async def _try_claim(
        self, caller: Caller, wanted: meetings.MeetingRequest, request: IdempotentRequest, now: datetime
    ) -> Outcome | LeaseView | KeyLookup:
        """Claim on the account as it was read, where that works, else under its lock."""
        abilities = self.provider.abilities
        try:
            plan = meetings.plan_meeting(wanted, self.catalogue, abilities, now)
        except errors.InvalidRequest:
            raise
        except errors.DomainError as refusal:
            return await self._refuse(caller.account.id, request, refusal)
        draft, seats = draft_meeting(caller, plan, abilities, self.runtime, now), plan.tier.capacity
        query = creation_query(draft, seats, abilities, request.key, can_wait=False)
        creation = Creation(self.runtime, draft, query, request, self._terms)
        if (view := await self._claim_unlocked(caller, creation)) is not None:
            return view
        for _ in range(MAX_HOST_ATTEMPTS):
            step = await self._claim_locked(caller, creation)
            creation = evolve(creation, query=evolve(query, can_wait_for_host=True))
            match step:
                case None:
                    continue
                case errors.NoHostFree():
                    break
                case errors.CreationsUsedUp():
                    self.report(CapacityRefusal(step, seats, plan.start_at, caller.account.id))
                    raise step
                case errors.DomainError():
                    raise step
                case _:
                    return step
        raise await self._no_host_free(plan, now)

    async def _claim_unlocked(self, caller: Caller, creation: Creation) -> LeaseView | None:
        """Claim in turn with others of the account; `None`: decide under the lock.

        Actions by hand, which have an audit entry, and creations that are limited by the day always do.
        """
        state, draft, query = caller.state, creation.draft, creation.query
        if state is None or caller.origin is not None or query.per_day is not None:
            return None
        lease = Lease(self.runtime.new_id(query.now), self.lease_s)

        async def attempt(tx: Transaction, state: AccountState) -> tuple[LeaseView, AccountState] | None:
            return await claim_unlocked(tx, creation, state, lease)

        try:
            spender = Spender(draft.account_id, draft.api_key_id, query.cap_day)
            return await self.provisioner.turns.run(spender, state, attempt)
        except CommitLost:  # the lease shows whether it was kept
            return await self._find_claimed(draft, lease.token)

    @repeated_when_lost
    async def _find_claimed(self, draft: meetings.Meeting, token: UUID) -> LeaseView | None:
        """Find a draft whose commit was lost; one that is not found will not be written later."""
        async with self.store.begin() as tx:
            await tx.lock_account(draft.account_id)  # a statement that is still under way finds it changed
            return await tx.meetings.load_leased(draft.account_id, draft.id, token)

    @property
    def _terms(self) -> CreationTerms:
        window_s = self.orphan_window_s if self.provider.abilities.leaves_orphans else None
        return CreationTerms(self.lease_s, self.share_percent, window_s)

    @repeated_when_lost
    async def _claim_locked(
        self, caller: Caller, creation: Creation
    ) -> LeaseView | Outcome | KeyLookup | errors.DomainError | None:
        draft = creation.draft
        async with self.store.begin() as tx:
            step = await claim(tx, creation)
            if isinstance(step, LeaseView):
                await record_by_hand(
                    tx, self.runtime, draft.created_at, caller, "meeting.created", draft.id,
                    credits=draft.credits,
                )  # fmt: skip
            return step

    async def _refuse(
        self, account_id: UUID, request: IdempotentRequest, refusal: errors.DomainError
    ) -> Outcome | KeyLookup:
        """Refuse a meeting that cannot be planned; under a key, its first outcome still comes first."""
        if request.key is None:
            step: Outcome | KeyLookup | errors.DomainError = refused(request, refusal)
        else:
            async with self.store.begin() as tx:
                step = await decide_once(tx, account_id, request, refusing(refusal))
                step = await replayed(tx, account_id, step)
        if isinstance(step, errors.DomainError):
            raise step
        return step

    async def _no_host_free(self, plan: meetings.MeetingPlan, now: datetime) -> errors.ServiceUnavailable:
        """Return the refusal (rule 4.1/3), with the next free time if known; no transaction is open."""
        per_day = self.provider.abilities.creations_per_host_day
        wanted = FreeStartQuery(plan.tier.capacity, plan.start_at, plan.tier.max_duration, now, per_day)
        refusal: errors.ServiceUnavailable = errors.NoHostFree(NO_HOST_RETRY_AFTER_S)
        with suppress(StoreUnavailable):  # the refusal stands without it
            start_at = await self.queries.next_free_start(wanted)
            creation_at = None if start_at else await self.queries.next_creation_at(wanted)
            if start_at is not None:
                refusal = errors.NoHostFree(NO_HOST_RETRY_AFTER_S, start_at)
            elif creation_at is not None and creation_at > now:
                refusal = errors.CreationsUsedUp(now, creation_at, is_share=False)
        self.report(CapacityRefusal(refusal, plan.tier.capacity, plan.start_at))
        return refusal

    async def _call(self, view: LeaseView, request: IdempotentRequest) -> meetings.Provisioned | None:
        """Create it at the provider; `None` when its host cannot take it and another is to be tried."""
        meeting = view.meeting
        try:
            return await self.provider.create(order_of(meeting, view.provider_user_id))
        except video_provider.HostUnavailable as error:
            await self.provisioner.undo(meeting, view.token, host_unavailable_until=error.until)
            return None
        except video_provider.ProviderRefused as error:
            await self.provisioner.undo(meeting, view.token)
            raise errors.UpstreamError(
                "The video provider refused the meeting. Nothing was charged; try again."
            ) from error
        except video_provider.ProviderUnknown as error:
            if video_provider.is_lease_over():
                # It may be made after the check for orphans that its reservation has opened.
                await self._check_for_orphans(meeting)
            if isinstance(error, video_provider.LeaseOver):
                raise errors.ServiceUnavailable(_TOO_LATE[request.key is not None], 1) from error
            raise errors.UpstreamError(_UNKNOWN[request.key is not None]) from error

    async def _settle(
        self, view: LeaseView, made: meetings.Provisioned, request: IdempotentRequest, now: datetime
    ) -> Outcome:
        """Charge it and show it. Without a key, an unknown outcome is in doubt."""
        try:
            outcome = await self.provisioner.finish(view, made, now)
        except OutcomeUnknown as error:
            if request.key is not None:
                raise
            raise errors.ServiceUnavailable(_IN_DOUBT, _IN_DOUBT_RETRY_AFTER_S) from error
        except NumberTaken as error:
            await self.provisioner.undo(view.meeting, view.token, look_again_s=0.0, was_made=True)
            raise errors.UpstreamError(
                "The video provider gave the id of another meeting. Nothing was charged; try again."
            ) from error
        if outcome is None:
            return await self._overtaken(view.meeting, made.provider_meeting_id, request)
        if outcome.due:
            self.notifier.notify()
        return outcome

    async def _overtaken(
        self, meeting: meetings.Meeting, provider_meeting_id: str, request: IdempotentRequest
    ) -> Outcome:
        """Return the meeting where the lease's new owner kept it; remove it at the provider where not."""
        stored = await self.queries.find_meeting(meeting.account_id, meeting.id)
        if stored is not None and stored.provider_meeting_id == provider_meeting_id:
            return Outcome(created_record(stored), is_replay=True)
        if stored is None or stored.status is not meetings.MeetingStatus.PROVISIONING:
            await self._remove_late(meeting, provider_meeting_id)
        raise errors.ServiceUnavailable(_TOO_LATE[request.key is not None], 1)

    async def _remove_late(self, meeting: meetings.Meeting, provider_meeting_id: str) -> None:
        """Remove a meeting that was made after it was abandoned; on failure open an orphan check."""
        try:
            await self.provider.remove(provider_meeting_id)
        except (video_provider.ProviderRefused, video_provider.ProviderUnknown):
            await self._check_for_orphans(meeting)

    @repeated_when_lost
    async def _check_for_orphans(self, meeting: meetings.Meeting) -> None:
        if not self.provider.abilities.remembers_meetings:
            return
        async with self.store.begin() as tx:
            await tx.orphan_checks.open(meeting.account_id, meeting.id)
