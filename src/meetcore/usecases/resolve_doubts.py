"""Meetings in doubt, resolved by an operator: finish, undo, or give up a removal that the provider refuses.

A meeting is in doubt while it is being made or cancelled and the provider does not answer, or refuses. The
reconciler tries again for ever; an operator who knows more decides. Each decision takes the meeting's lease
first, from whatever process has it: that one can write nothing any more, and of two operators one decides.
The change and its audit entry are one transaction, fenced by the lease.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from enum import StrEnum
from uuid import UUID

from attrs import field, frozen

from meetcore.domain.meetings.cancellation import ProviderMeetingState
from meetcore.domain.meetings.meetings import MeetingStatus, Provisioned
from meetcore.domain.members.roles import OperatorAction, check_operator_allowed
from meetcore.domain.money.ledger import check_reason
from meetcore.ports.console_queries import ConsoleQueries, Doubts
from meetcore.ports.lease import Lease
from meetcore.ports.meetings import LeaseView
from meetcore.ports.member_queries import SignedInOperator
from meetcore.ports.store import Store, Transaction
from meetcore.ports.video_provider import ProviderRefused, ProviderUnknown, VideoProvider
from meetcore.ports.worker_notifier import WorkerNotifier
from meetcore.usecases.audit import record_action
from meetcore.usecases.bounded_provider import PROVIDER_TIMEOUT_S, require_own
from meetcore.usecases.cancellation import clear, end_cancellation, restore
from meetcore.usecases.provision import abandon, order_of, settle
from meetcore.usecases.runtime import Runtime

MAX_DOUBTS = 100
IN_PROGRESS_FOR = timedelta(minutes=1)
"""How long a creation may take before it counts as in doubt."""


class StillInDoubtReason(StrEnum):
    """Why a decision was not carried out. Nothing was changed."""

    OVER = "over"
    PROVIDER_REFUSED = "provider_refused"
    PROVIDER_UNKNOWN = "provider_unknown"
    NOT_MADE = "not_made"
    REMOVED = "removed"
    NO_REMOVAL = "no_removal"


class StillInDoubt(Exception):
    """A decision was not carried out, and nothing was changed."""

    def __init__(self, reason: StillInDoubtReason) -> None:
        super().__init__(reason)
        self.reason = reason


@frozen
class ResolveDoubts:
    """The use cases of doubts. Each raises `ActionNotAllowed` where the role does not allow it.

    `lease_s` must exceed twice the provider's time limit.
    """

    store: Store
    queries: ConsoleQueries
    provider: VideoProvider
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
        """Complete what was begun: charge a meeting that the provider made, or remove and refund one.

        Raises:
            StillInDoubt: the provider made none, refuses, or does not answer; or it is over meanwhile.
        """
        _check(who)
        view = await self._take(account_id, meeting_id)
        if view.meeting.status is MeetingStatus.PROVISIONING:
            await self._charge(who, client_address, view, (await self._made(view))[0])
            return
        try:
            require_own(self.provider, view.meeting)
            state = await clear(self.provider, view.meeting.provider_meeting_id or "")
        except ProviderRefused as error:
            raise StillInDoubt(StillInDoubtReason.PROVIDER_REFUSED) from error
        except ProviderUnknown as error:
            raise StillInDoubt(StillInDoubtReason.PROVIDER_UNKNOWN) from error
        await self._conclude(who, client_address, view, state, "meeting.finished_by_operator")

    async def undo(
        self, who: SignedInOperator, client_address: str | None, account_id: UUID, meeting_id: UUID
    ) -> None:
        """Release what is held for a meeting that is being made, or keep one that is being cancelled.

        It is kept only where the provider shows that the very one is there whose link its customer paid for.

        Raises:
            StillInDoubt: the provider does not have it any more, or does not answer; or it is over meanwhile.
        """
        _check(who)
        is_idle = await self._expired(account_id, meeting_id)
        view = await self._take(account_id, meeting_id)
        if view.meeting.status is MeetingStatus.PROVISIONING:
            await self._release(who, client_address, view)
            return
        if not is_idle:  # the other process may be asking the provider to remove it
            await self.pause(PROVIDER_TIMEOUT_S)
        made = await self._made(view, otherwise=StillInDoubtReason.REMOVED)
        # A duplicate does not count: its link is not the one that the customer has.
        if view.meeting.provider_meeting_id not in {one.provider_meeting_id for one in made}:
            raise StillInDoubt(StillInDoubtReason.REMOVED)
        async with self.store.begin() as tx:
            latest = await _latest(tx, view)
            await restore(tx, latest)
            await self._record(tx, who, client_address, latest, "meeting.kept_by_operator")

    async def give_up(
        self,
        who: SignedInOperator,
        client_address: str | None,
        account_id: UUID,
        meeting_id: UUID,
        reason: str,
    ) -> None:
        """Cancel and refund a meeting although the provider has not removed it.

        Raises:
            InvalidReason: see `ledger.check_reason`.
            StillInDoubt: it is not being cancelled, or is over meanwhile.
        """
        _check(who)
        check_reason(reason)
        view = await self._take(account_id, meeting_id)
        if view.meeting.status is MeetingStatus.PROVISIONING:
            raise StillInDoubt(StillInDoubtReason.NO_REMOVAL)
        state = ProviderMeetingState.REMOVED
        await self._conclude(who, client_address, view, state, "meeting.removal_given_up", reason)

    async def retry_removal(
        self, who: SignedInOperator, client_address: str | None, account_id: UUID, meeting_id: UUID
    ) -> None:
        """Have the provider asked again at once to remove what no record names.

        Raises:
            StillInDoubt: it was removed meanwhile.
        """
        _check(who)
        async with self.store.begin() as tx:
            if await tx.orphan_checks.take(account_id, meeting_id, self._lease()) is None:
                raise StillInDoubt(StillInDoubtReason.OVER)
            await tx.orphan_checks.open(account_id, meeting_id)
            await self._write(tx, who, client_address, "orphan.retried", account_id, meeting_id)

    async def give_up_removal(
        self,
        who: SignedInOperator,
        client_address: str | None,
        account_id: UUID,
        meeting_id: UUID,
        reason: str,
    ) -> None:
        """Look no more for what no record names, although the provider may have it still.

        Raises:
            InvalidReason: see `ledger.check_reason`.
            StillInDoubt: it was removed meanwhile.
        """
        _check(who)
        check_reason(reason)
        async with self.store.begin() as tx:
            check = await tx.orphan_checks.take(account_id, meeting_id, self._lease())
            if check is None:
                raise StillInDoubt(StillInDoubtReason.OVER)
            await tx.orphan_checks.close(check)
            await self._write(tx, who, client_address, "orphan.given_up", account_id, meeting_id, reason)

    def _lease(self) -> Lease:
        return Lease(self.runtime.new_id(self.runtime.now()), self.lease_s)

    async def _expired(self, account_id: UUID, meeting_id: UUID) -> bool:
        """Whether no process had the meeting's lease."""
        async with self.store.begin() as tx:
            return await tx.meetings.lease_expired(account_id, meeting_id, self._lease()) is not None

    async def _take(self, account_id: UUID, meeting_id: UUID) -> LeaseView:
        lease = self._lease()
        async with self.store.begin() as tx:
            if await tx.meetings.take_lease(account_id, meeting_id, lease) is None:
                raise StillInDoubt(StillInDoubtReason.OVER)
        async with self.store.begin() as tx:
            view = await tx.meetings.load_leased(account_id, meeting_id, lease.token)
        if view is None:
            raise StillInDoubt(StillInDoubtReason.OVER)
        return view

    async def _made(
        self, view: LeaseView, otherwise: StillInDoubtReason = StillInDoubtReason.NOT_MADE
    ) -> Sequence[Provisioned]:
        """The meeting as the provider has it, one or several, the first made first."""
        try:
            require_own(self.provider, view.meeting)
            found = await self.provider.find(order_of(view.meeting, view.provider_user_id))
        except (ProviderRefused, ProviderUnknown) as error:
            raise StillInDoubt(StillInDoubtReason.PROVIDER_UNKNOWN) from error
        if not found:
            raise StillInDoubt(otherwise)
        return found

    async def _charge(
        self, who: SignedInOperator, client_address: str | None, view: LeaseView, made: Provisioned
    ) -> None:
        async with self.store.begin() as tx:
            latest = await _latest(tx, view)
            outcome = await settle(tx, self.runtime, latest, made, self.runtime.now())
            if outcome is None:
                raise StillInDoubt(StillInDoubtReason.OVER)
            if self.provider.abilities.remembers_meetings:
                await tx.orphan_checks.open(latest.meeting.account_id, latest.meeting.id)
            await self._record(tx, who, client_address, latest, "meeting.finished_by_operator")
        if outcome.due:
            self.notifier.notify()

    async def _release(self, who: SignedInOperator, client_address: str | None, view: LeaseView) -> None:
        look_again_s = 0.0 if self.provider.abilities.remembers_meetings else None
        meeting = view.meeting
        async with self.store.begin() as tx:
            is_done = await abandon(
                tx, meeting.account_id, meeting.id, view.token, look_again_s=look_again_s, was_made=True
            )
            if not is_done:
                raise StillInDoubt(StillInDoubtReason.OVER)
            await self._record(tx, who, client_address, view, "meeting.undone_by_operator")

    async def _conclude(
        self, who: SignedInOperator, client_address: str | None, view: LeaseView,
        state: ProviderMeetingState, action: str, reason: str | None = None,
    ) -> None:  # fmt: skip
        async with self.store.begin() as tx:
            latest = await _latest(tx, view)
            outcome = await end_cancellation(tx, self.runtime, latest, state, self.runtime.now())
            await self._record(tx, who, client_address, latest, action, reason)
        if outcome.due:
            self.notifier.notify()

    async def _record(
        self, tx: Transaction, who: SignedInOperator, client_address: str | None, view: LeaseView,
        action: str, reason: str | None = None,
    ) -> None:  # fmt: skip
        meeting = view.meeting
        await self._write(tx, who, client_address, action, meeting.account_id, meeting.id, reason)

    async def _write(
        self, tx: Transaction, who: SignedInOperator, client_address: str | None, action: str,
        account_id: UUID, meeting_id: UUID, reason: str | None = None,
    ) -> None:  # fmt: skip
        details = {} if reason is None else {"reason": reason}
        origin, now = who.origin(client_address), self.runtime.now()
        await record_action(tx, self.runtime, now, origin, action, account_id, meeting_id, **details)


def _check(who: SignedInOperator) -> None:
    check_operator_allowed(who.operator.role, OperatorAction.RESOLVE_DOUBTS)


async def _latest(tx: Transaction, view: LeaseView) -> LeaseView:
    """The meeting under its account's lock, as long as the lease is still ours."""
    latest = await tx.meetings.load_leased(view.meeting.account_id, view.meeting.id, view.token)
    if latest is None:
        raise StillInDoubt(StillInDoubtReason.OVER)
    return latest
