"""Compare a restored store with its provider, and make them agree again.

Two lists: the provider's meetings with our reference that the store does not know, and ours that the
provider does not have. A lost meeting is adopted where its memo says whose it is (`adopt_meeting`), else
removed at the provider. One of ours that is gone there, and not only from the list of its host, was
cancelled in the lost time: it is cancelled and refunded again.

Each meeting is a transaction of its own, and the provider is called outside of any. What was interrupted is
listed again by the next survey, without what was done.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final, TypeVar
from uuid import UUID

from attrs import evolve, frozen

from meetcore.domain.errors import IdempotencyKeyReused, NotFound
from meetcore.domain.meetings.cancellation import ProviderMeetingState
from meetcore.domain.meetings.hosts import Host
from meetcore.domain.meetings.meetings import Meeting, MeetingStatus
from meetcore.domain.meetings.memos import MeetingMemo
from meetcore.domain.members.audit import SERVICE, ActionOrigin
from meetcore.domain.money.transfers import TransferKind
from meetcore.ports.lease import Lease
from meetcore.ports.registry import Registry
from meetcore.ports.restores import OpenMeeting
from meetcore.ports.store import Store, Transaction
from meetcore.ports.video_provider import (
    HostUnknown,
    ListedMeeting,
    ProviderRefused,
    ProviderUnknown,
    VideoProvider,
)
from meetcore.usecases.adopt_meeting import Adoption, NotAdopted, adopt
from meetcore.usecases.audit import record_action
from meetcore.usecases.cancellation import Cancellation, mark_cancelling
from meetcore.usecases.concurrency import gather_all
from meetcore.usecases.idempotency import IdempotentRequest, Outcome, Refusal, store_outcome
from meetcore.usecases.meeting_memos import MeetingMemos
from meetcore.usecases.restore_findings import (
    Action,
    Finding,
    LostMeeting,
    Survey,
    decide_gone,
    decide_lost,
)
from meetcore.usecases.runtime import Runtime

T = TypeVar("T")

CLOCKS_DIFFER_BY: Final = timedelta(minutes=10)
"""By how much the provider's clock may be behind the store's."""

REMOVED_UNDER_KEY: Final = (
    "The meeting that this Idempotency-Key paid for was lost when the service was restored from a backup. "
    "It was removed, and its credits are in your balance again. Use a new key for a new meeting."
)
ADOPTED_MEANWHILE: Final = "the database has it by now: another run adopted it"
_PAGE: Final = 1000
_AT_ONCE: Final = 4
_LEASE_S: Final = 60.0
_OVER = frozenset({ProviderMeetingState.REMOVED, ProviderMeetingState.GONE, ProviderMeetingState.OVER})

HostList = tuple[Host, Sequence[ListedMeeting]]


class NoHostKnown(Exception):
    """The provider knows none of the hosts: nothing can be concluded. The message says what to look at."""


class ManyCancelled(Exception):
    """More would be cancelled than customers cancel; nothing was. The message says what to look at."""


@frozen
class ReconcileRestore:
    """Surveys, and applies what was found, as `origin` asks for it. `store` passes the fence.

    `memos` open what the provider kept.
    """

    store: Store
    registry: Registry
    provider: VideoProvider
    memos: MeetingMemos
    cancellation: Cancellation
    runtime: Runtime
    origin: ActionOrigin = SERVICE

    def acting_as(self, origin: ActionOrigin) -> "ReconcileRestore":
        """Return the same use case for a user of the system."""
        return evolve(self, origin=origin)

    async def survey(self, since: datetime, *, adopts: bool = True) -> Survey:
        """Compare the hosts that the store knows with their lists; nothing is changed.

        Args:
            since: what was committed later may be lost; what the provider made earlier is passed over.
            adopts: whether lost meetings are to be adopted where they can be; else all are to be removed.

        Raises:
            NoHostKnown: the provider knows none of the hosts.
            ProviderRefused, ProviderUnknown, ExceptionGroup: a host's list, or a meeting, is not known.
        """
        if not self.provider.abilities.keeps_memos:
            return Survey((), lists=False)
        lists = await self._lists()
        lost = await self._lost(lists, since - CLOCKS_DIFFER_BY)
        gone, open_meetings = await self._gone(lists)
        judged = await self._judged(gone, since)
        return Survey(
            [*(decide_lost(each, adopts=adopts) for each in lost), *judged], open_meetings=open_meetings
        )

    async def _lists(self) -> Sequence[HostList]:
        hosts, lists = await self.registry.list_hosts(), list[HostList]()
        for some in _portions(hosts, _AT_ONCE):
            listed = await gather_all(self._list(each) for each in some)
            lists += [(host, found) for host, found in zip(some, listed, strict=True) if found is not None]
        if hosts and not lists:
            raise NoHostKnown(
                "the provider knows none of the hosts of this database: are its credentials those of the "
                "account whose meetings were sold?"
            )
        return lists

    async def _list(self, host: Host) -> Sequence[ListedMeeting] | None:
        try:
            return await self.provider.list_host(host.provider_user_id)
        except HostUnknown:
            return None

    async def _lost(self, lists: Sequence[HostList], since: datetime) -> Sequence[LostMeeting]:
        candidates = [(host, one) for host, listed in lists for one in listed if one.created_at >= since]
        unknown: list[tuple[Host, ListedMeeting]] = []
        for some in _portions(candidates, _PAGE):
            names = [one.provider_meeting_id for _, one in some]
            async with self.store.begin() as tx:
                known = await tx.restores.known_at_provider(self.provider.abilities.name, names)
            unknown += [each for each in some if each[1].provider_meeting_id not in known]
        found: list[LostMeeting] = []
        for pairs in _portions(unknown, _AT_ONCE):
            found += [
                each for each in await gather_all(self._read(*pair) for pair in pairs) if each is not None
            ]
        found.sort(key=lambda each: (each.listed.created_at, each.listed.provider_meeting_id))
        return await self._with_records(found)

    async def _read(self, host: Host, listed: ListedMeeting) -> LostMeeting | None:
        found = await self.provider.read(listed.provider_meeting_id)
        if found is None or found.meeting_id is None:
            return None
        memo = self.memos.open(found.meeting_id, found.memo)
        return LostMeeting(listed, host, found, found.meeting_id, memo)

    async def _with_records(self, found: Sequence[LostMeeting]) -> Sequence[LostMeeting]:
        records: dict[UUID, Meeting] = {}
        for some in _portions(found, _PAGE):
            async with self.store.begin() as tx:
                records |= await tx.restores.meetings_by_id([each.meeting_id for each in some])
        compared = [evolve(each, known=records.get(each.meeting_id)) for each in found]
        return [each for each in compared if not each.is_recorded]

    async def _gone(self, lists: Sequence[HostList]) -> tuple[Sequence[OpenMeeting], int]:
        """Return what the store has and no list, and how many open meetings the store has in all."""
        there = {host.provider_user_id: {one.provider_meeting_id for one in listed} for host, listed in lists}
        gone, seen = list[OpenMeeting](), 0
        after: UUID | None = None
        while True:
            async with self.store.begin() as tx:
                page = await tx.restores.open_meetings(self.provider.abilities.name, after, _PAGE)
            gone += [
                each
                for each in page
                if each.meeting.provider_meeting_id not in there.get(each.provider_user_id, ())
            ]
            seen += len(page)
            if len(page) < _PAGE:
                return gone, seen
            after = page[-1].meeting.id

    async def _judged(self, gone: Sequence[OpenMeeting], since: datetime) -> Sequence[Finding]:
        judged: list[Finding] = []
        for some in _portions(gone, _AT_ONCE):
            judged += await gather_all(self._judge(each, since) for each in some)
        return judged

    async def _judge(self, gone: OpenMeeting, since: datetime) -> Finding:
        """Decide on one, for which the provider is asked by its name.

        It is in no list of the host that the store names: the user may have been renamed or removed at the
        provider, its meetings moved, or the list may be late.
        """
        name = gone.meeting.provider_meeting_id
        is_there = name is not None and await self.provider.read(name) is not None
        return decide_gone(gone, since, is_there=is_there)

    async def apply_all(self, survey: Survey, *, cancels_many: bool = False) -> Sequence[Finding]:
        """Do what was found; returns what became of each.

        Args:
            survey: of the store as it is now.
            cancels_many: whether many cancellations are meant.

        Raises:
            ManyCancelled: they are many, and not said to be meant.
            StoreUnavailable: see `apply`.
        """
        if survey.cancels_many and not cancels_many:
            raise ManyCancelled(
                f"{survey.cancelled} of {survey.open_meetings} open meetings would be cancelled and refunded"
                ": look whether they are gone, or the provider's credentials are those of another account"
            )
        return [await self.apply(each) for each in survey.findings]

    async def apply(self, finding: Finding) -> Finding:
        """Do what was found; returns what became of it.

        Only while the store is fenced: a meeting that is being made would be taken for a lost one.

        Raises:
            StoreUnavailable: the store does not answer; a survey shows what was done.
        """
        subject = finding.subject
        try:
            if isinstance(subject, OpenMeeting):
                return await self._cancel(finding, subject) if finding.action is Action.CANCEL else finding
            if finding.action is Action.ADOPT and subject.sold is not None:
                return await self._adopt(finding, subject, subject.sold)
            if finding.action is Action.REMOVE:
                return await self._remove(finding, subject)
        except (ProviderRefused, ProviderUnknown) as error:
            return finding.left(f"the provider did not do it: {error}")
        return finding

    async def _adopt(self, finding: Finding, lost: LostMeeting, memo: MeetingMemo) -> Finding:
        now = self.runtime.now()
        adoption = Adoption(lost.found, lost.meeting_id, memo, lost.host)
        try:
            async with self.store.begin() as tx:
                meeting = await adopt(tx, self.runtime, self.provider.abilities, adoption, now)
                await self._record(tx, now, "meeting.adopted", lost, memo)
        except NotAdopted as refusal:
            return await self._remove(evolve(finding, action=Action.REMOVE, reason=str(refusal)), lost)
        self.runtime.metrics.credits_moved(TransferKind.MEETING_CHARGE, meeting.credits)
        return finding

    async def _remove(self, finding: Finding, lost: LostMeeting) -> Finding:
        # The key first: where this process dies before the removal, the next survey lists the meeting again.
        if not await self._give_up(lost):
            return evolve(finding, action=Action.LEAVE, reason=ADOPTED_MEANWHILE)
        state = await self.provider.remove(lost.listed.provider_meeting_id)
        if state in _OVER:
            return finding
        return finding.left("it runs: people are in it; survey again when it is over")

    async def _give_up(self, lost: LostMeeting) -> bool:
        """Let a retry with the key of a lost meeting be refused, where its account is there.

        Returns:
            False where the store has the meeting by now: another run surveyed before, and adopted it.
        """
        memo, now = lost.sold, self.runtime.now()
        async with self.store.begin() as tx:
            # Who adopts holds the account's lock, so that what it wrote is read behind it.
            has_account = memo is not None and await _lock_account(tx, memo.account_id)
            if await self._is_recorded(tx, lost):
                return False
            if memo is not None and has_account and lost.known is None:
                await self._refuse_key(tx, now, lost, memo)
        return True

    async def _is_recorded(self, tx: Transaction, lost: LostMeeting) -> bool:
        name = lost.listed.provider_meeting_id
        if name in await tx.restores.known_at_provider(self.provider.abilities.name, [name]):
            return True
        return lost.known is None and lost.meeting_id in await tx.restores.meetings_by_id([lost.meeting_id])

    async def _refuse_key(self, tx: Transaction, now: datetime, lost: LostMeeting, memo: MeetingMemo) -> None:
        key, fingerprint = memo.idempotency_key, memo.fingerprint
        await self._record(tx, now, "meeting.lost", lost, memo)
        if key is None or fingerprint is None:
            return
        view = await tx.idempotency.load_locked(memo.account_id, key)
        if view.record is None or not view.record.is_done:
            request, details = IdempotentRequest(key, fingerprint), {"id": str(lost.meeting_id)}
            refusal = Refusal(
                IdempotencyKeyReused.code, REMOVED_UNDER_KEY, details, str(self.runtime.new_id(now))
            )
            await store_outcome(tx, memo.account_id, request, Outcome(refusal=refusal), lost.meeting_id)

    async def _record(
        self, tx: Transaction, now: datetime, action: str, lost: LostMeeting, memo: MeetingMemo
    ) -> None:
        await record_action(
            tx, self.runtime, now, self.origin, action, memo.account_id, lost.meeting_id,
            provider_meeting_id=lost.listed.provider_meeting_id, credits=memo.credits,
        )  # fmt: skip

    async def _cancel(self, finding: Finding, gone: OpenMeeting) -> Finding:
        meeting, now = gone.meeting, self.runtime.now()
        lease = Lease(self.runtime.new_id(now), _LEASE_S)
        async with self.store.begin() as tx:
            view = await tx.meetings.load_locked(meeting.account_id, meeting.id, None)
            if view is None or view.meeting.status is not MeetingStatus.SCHEDULED or view.is_leased:
                return finding.left("it has changed meanwhile: survey again")
            marked = await mark_cancelling(tx, view.meeting, lease, None)
            await record_action(
                tx, self.runtime, now, self.origin, "meeting.gone", meeting.account_id, meeting.id,
                provider_meeting_id=meeting.provider_meeting_id,
            )  # fmt: skip
        await self.cancellation.complete(marked, lease.token, now)
        return finding


async def _lock_account(tx: Transaction, account_id: UUID) -> bool:
    """Lock an account; returns whether it is there."""
    try:
        await tx.lock_account(account_id)
    except NotFound:
        return False
    return True


def _portions(items: Sequence[T], size: int) -> Iterable[Sequence[T]]:
    return (items[first : first + size] for first in range(0, len(items), size))
