"""Meetings in doubt, resolved by an operator: finished or undone.

A meeting is in doubt while it is being made or cancelled and the provider does not answer, or refuses. The
reconciler tries again for ever; an operator who knows more decides. Each decision takes the meeting's lease
first, from whatever process has it: that one can write nothing any more, and of two operators one decides.
The change and its audit entry are one transaction, fenced by the lease.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from enum import StrEnum
from functools import partial
from uuid import UUID

from attrs import field, frozen

from meetcore.domain.meetings.cancellation import ProviderMeetingState
from meetcore.domain.meetings.meetings import MeetingStatus, Provisioned
from meetcore.domain.meetings.views import LeaseView
from meetcore.domain.members.roles import OperatorAction, check_operator_allowed
from meetcore.domain.members.views import SignedInOperator
from meetcore.domain.records.pages import Doubts
from meetcore.ports import video_provider
from meetcore.ports.meetings import NumberTaken
from meetcore.ports.queries import ConsoleQueries
from meetcore.ports.runtime import Lease, WorkerNotifier
from meetcore.ports.store import Store, Transaction
from meetcore.usecases.meetings import bounded_provider, cancellation, creation
from meetcore.usecases.members.audit import record_action
from meetcore.usecases.runtime import Runtime

MAX_DOUBTS = 100
IN_PROGRESS_FOR = timedelta(minutes=1)
"""How long a creation may take before it counts as in doubt."""

_Change = Callable[[Transaction, LeaseView], Awaitable[int]]
"""What a decision writes; returns how many deliveries are due."""


class StillInDoubtReason(StrEnum):
    """Why a decision was not carried out. Nothing was changed."""

    OVER = "over"
    PROVIDER_REFUSED = "provider_refused"
    PROVIDER_UNKNOWN = "provider_unknown"
    NOT_MADE = "not_made"
    REMOVED = "removed"


class StillInDoubt(Exception):
    """A decision was not carried out, and nothing was changed."""

    def __init__(self, reason: StillInDoubtReason) -> None:
        super().__init__(reason)
        self.reason = reason


@frozen
class ResolveDoubts:
    """The use cases of doubts; `lease_s` must exceed twice the provider's time limit.

    A decision raises `StillInDoubt` where the provider refuses or is silent, or the meeting is over
    meanwhile.
    """

    store: Store
    queries: ConsoleQueries
    provider: video_provider.VideoProvider
    notifier: WorkerNotifier
    runtime: Runtime
    lease_s: float = 30.0
    pause: Callable[[float], Awaitable[object]] = field(default=asyncio.sleep, repr=False)

    async def list_doubts(self, who: SignedInOperator) -> Doubts:
        """Everything in doubt, the longest first, `MAX_DOUBTS` of each kind at most."""
        check_operator_allowed(who.operator.role, OperatorAction.VIEW_DOUBTS)
        return await self.queries.list_doubts(self.runtime.now() - IN_PROGRESS_FOR, MAX_DOUBTS)

    async def finish(
        self, who: SignedInOperator, client_address: str | None, account_id: UUID, meeting_id: UUID
    ) -> None:
        """Charge a meeting that the provider made, or finish a cancellation and refund it."""
        with video_provider.under_lease(video_provider.lease_time(self.runtime.clock, self.lease_s)):
            view, _ = await self._take(who, account_id, meeting_id)
            if view.meeting.status is MeetingStatus.PROVISIONING:
                found = await self._find(view)
                if not found:
                    raise StillInDoubt(StillInDoubtReason.NOT_MADE)
                change: _Change = partial(self._charge, found[0])
            else:
                change = partial(self._cancel, await self._clear(view))
        await self._write(who, client_address, view, "meeting.finished_by_operator", change)

    async def undo(
        self, who: SignedInOperator, client_address: str | None, account_id: UUID, meeting_id: UUID
    ) -> None:
        """Release the hold of a meeting that is being made, or keep one that is being cancelled.

        It is kept only where the provider still has the meeting whose link the customer paid for.
        """
        view, is_idle = await self._take(who, account_id, meeting_id)
        if view.meeting.status is MeetingStatus.PROVISIONING:
            await self._write(who, client_address, view, "meeting.undone_by_operator", self._release)
            return
        if not is_idle:  # the other process may be asking the provider to remove it
            await self.pause(bounded_provider.PROVIDER_TIMEOUT_S)
        # A duplicate does not count: its link is not the one that the customer has.
        names = {one.provider_meeting_id for one in await self._find(view)}
        if view.meeting.provider_meeting_id not in names:
            raise StillInDoubt(StillInDoubtReason.REMOVED)
        await self._write(who, client_address, view, "meeting.kept_by_operator", self._keep)

    async def _take(
        self, who: SignedInOperator, account_id: UUID, meeting_id: UUID
    ) -> tuple[LeaseView, bool]:
        """Take the lease; return the meeting, and whether no process had it."""
        check_operator_allowed(who.operator.role, OperatorAction.RESOLVE_DOUBTS)
        lease = Lease(self.runtime.new_id(self.runtime.now()), self.lease_s)
        async with self.store.begin() as tx:
            is_idle = await tx.meetings.lease_expired(account_id, meeting_id, lease) is not None
            if not is_idle and await tx.meetings.take_lease(account_id, meeting_id, lease) is None:
                raise StillInDoubt(StillInDoubtReason.OVER)
        async with self.store.begin() as tx:
            view = await tx.meetings.load_leased(account_id, meeting_id, lease.token)
        if view is None:
            raise StillInDoubt(StillInDoubtReason.OVER)
        return view, is_idle

    async def _find(self, view: LeaseView) -> Sequence[Provisioned]:
        """Return the meeting as the provider has it, none, one or several, the first made first."""
        try:
            bounded_provider.require_own(self.provider, view.meeting)
            return await self.provider.find(creation.order_of(view.meeting, view.provider_user_id))
        except (video_provider.ProviderRefused, video_provider.ProviderUnknown) as error:
            raise StillInDoubt(StillInDoubtReason.PROVIDER_UNKNOWN) from error

    async def _clear(self, view: LeaseView) -> cancellation.Cleared:
        if view.meeting.provider != self.provider.abilities.name:  # it cannot be asked: the operator decides
            return cancellation.Cleared(ProviderMeetingState.GONE)
        try:
            return await cancellation.clear(self.provider, view.meeting.provider_meeting_id or "")
        except video_provider.ProviderRefused as error:
            raise StillInDoubt(StillInDoubtReason.PROVIDER_REFUSED) from error
        except video_provider.ProviderUnknown as error:
            raise StillInDoubt(StillInDoubtReason.PROVIDER_UNKNOWN) from error

    async def _write(
        self, who: SignedInOperator, client_address: str | None, view: LeaseView, action: str, change: _Change
    ) -> None:
        account_id, meeting_id = view.meeting.account_id, view.meeting.id
        origin, now = who.origin(client_address), self.runtime.now()
        async with self.store.begin() as tx:
            latest = await tx.meetings.load_leased(account_id, meeting_id, view.token)
            if latest is None:
                raise StillInDoubt(StillInDoubtReason.OVER)
            due = await change(tx, latest)
            await record_action(tx, self.runtime, now, origin, action, account_id, meeting_id)
        if due:
            self.notifier.notify()

    async def _charge(self, made: Provisioned, tx: Transaction, view: LeaseView) -> int:
        try:
            outcome = await creation.settle(tx, self.runtime, view, made, self.runtime.now())
        except NumberTaken as error:  # what the provider found is another meeting's
            raise StillInDoubt(StillInDoubtReason.NOT_MADE) from error
        if outcome is None:
            raise StillInDoubt(StillInDoubtReason.OVER)
        if self.provider.abilities.remembers_meetings:
            await tx.orphan_checks.open(view.meeting.account_id, view.meeting.id)
        return outcome.due

    async def _cancel(self, cleared: cancellation.Cleared, tx: Transaction, view: LeaseView) -> int:
        return (await cancellation.end_cancellation(tx, self.runtime, view, cleared, self.runtime.now())).due

    async def _release(self, tx: Transaction, view: LeaseView) -> int:
        look_again_s = 0.0 if self.provider.abilities.remembers_meetings else None
        meeting = view.meeting
        await creation.abandon(
            tx, meeting.account_id, meeting.id, view.token, look_again_s=look_again_s, was_made=True
        )
        return 0

    async def _keep(self, tx: Transaction, view: LeaseView) -> int:
        await cancellation.restore(tx, view)
        return 0
