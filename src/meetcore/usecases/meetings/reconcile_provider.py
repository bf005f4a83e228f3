"""Compare the store with the provider's lists, and make both agree: after a restore, or a deletion by hand.

A *lost* meeting is at the provider with our reference, and no record names it. It is adopted, which charges
an account that the operator names, or removed. A *gone* meeting is scheduled here and not at the provider: it
is cancelled and refunded.

Every change is a fenced transaction of its own with its audit entry, and the provider is called outside of
any. After a crash the reconciler finishes a cancellation, and the next survey finds everything else again. A
survey may run beside the service: a meeting in the making is recorded before the provider lists it.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, TypeVar
from uuid import UUID

from attrs import evolve, frozen

from meetcore.domain.meetings.cancellation import ProviderMeetingState
from meetcore.domain.meetings.hosts import Host
from meetcore.domain.meetings.meetings import Meeting, MeetingStatus, ProviderAbilities
from meetcore.domain.meetings.views import FoundMeeting, ListedMeeting
from meetcore.domain.members.audit import SERVICE, ActionOrigin
from meetcore.domain.money.pricing import PricingTier, RecordingFlags, TierCatalogue, quote_meeting
from meetcore.domain.money.transfers import TransferKind
from meetcore.domain.requests.keys import dashboard_key
from meetcore.ports import observability, requests, video_provider
from meetcore.ports.runtime import Lease
from meetcore.ports.store import Store, Transaction
from meetcore.usecases.meetings.cancellation import Cancellation, mark_cancelling
from meetcore.usecases.meetings.creation import Creation, CreationTerms, creation_query, provisioning, settle
from meetcore.usecases.members.audit import record_action
from meetcore.usecases.requests.idempotency import IdempotentRequest
from meetcore.usecases.runtime import Runtime, gather_all

S = TypeVar("S")
T = TypeVar("T")

CLOCKS_DIFFER_BY: Final = timedelta(minutes=10)
"""By how much the provider's clock may be behind the store's."""

_PAGE: Final = 1000
_AT_ONCE: Final = 4
_LEASE_S: Final = 60.0

_Listed = Mapping[str, tuple[Host, ListedMeeting]]


class CannotCompare(Exception):
    """The provider's lists allow no conclusion; the message says why."""


class NotReconciled(Exception):
    """A meeting stays as it is; the message says why."""


@frozen
class LostMeeting:
    """A meeting at the provider that no record names; `known` where a record has its reference."""

    host: Host
    found: FoundMeeting
    meeting_id: UUID
    known: Meeting | None = None

    @property
    def name(self) -> str:
        """Its id at the provider."""
        return self.found.made.provider_meeting_id


Finding = LostMeeting | Meeting


@frozen
class Survey:
    """The meetings that only the provider has, and those that only the store has."""

    lost: Sequence[LostMeeting]
    gone: Sequence[Meeting]


@frozen
class ReconcileProvider:
    """Finds differences, and resolves them one by one, as `origin` asks for it."""

    store: Store
    registry: requests.Registry
    provider: video_provider.VideoProvider
    cancellation: Cancellation
    catalogue: TierCatalogue
    runtime: Runtime
    origin: ActionOrigin = SERVICE

    async def survey(self, since: datetime) -> Survey:
        """Compare both sides: meetings lost that were made after `since`, and gone ones that begin after it.

        Raises:
            CannotCompare: the provider keeps no lists, or knows none of the hosts.
            ProviderRefused, ProviderUnknown, ExceptionGroup: a list or a meeting could not be read.
        """
        if not self.provider.abilities.lists_meetings:
            raise CannotCompare(f"the provider {self.provider.abilities.name} keeps no list of meetings")
        listed = await self._list_all()
        return Survey(await self._lost(listed, since - CLOCKS_DIFFER_BY), await self._gone(listed, since))

    async def _list_all(self) -> _Listed:
        hosts = await self.registry.list_hosts()
        lists = await _in_portions(hosts, self._list)
        if hosts and all(each is None for each in lists):
            raise CannotCompare(
                "the provider knows none of the hosts of this database: are its credentials those of the "
                "account whose meetings were sold?"
            )
        pairs = zip(hosts, lists, strict=True)
        return {one.provider_meeting_id: (host, one) for host, found in pairs for one in found or ()}

    async def _list(self, host: Host) -> Sequence[ListedMeeting] | None:
        try:
            return await self.provider.list_host(host.provider_user_id)
        except video_provider.HostUnknown:
            return None

    async def _lost(self, listed: _Listed, since: datetime) -> Sequence[LostMeeting]:
        names = [name for name, (_, one) in listed.items() if one.created_at >= since]
        async with self.store.begin() as tx:
            known = {each.provider_meeting_id for each in await self._recorded(tx, names)}
        names = [name for name in names if name not in known]
        lost = [
            LostMeeting(listed[name][0], found, found.meeting_id)
            for name, found in zip(names, await _in_portions(names, self.provider.read), strict=True)
            if found is not None and found.meeting_id is not None
        ]
        async with self.store.begin() as tx:
            records = await self._recorded(tx, names, [each.meeting_id for each in lost])
        by_id = {each.id: each for each in records}
        lost = [evolve(each, known=by_id.get(each.meeting_id)) for each in lost]
        return [each for each in lost if not _is_recorded(each)]

    async def _gone(self, listed: _Listed, since: datetime) -> Sequence[Meeting]:
        unlisted, after = list[Meeting](), None
        while True:
            async with self.store.begin() as tx:
                page = await tx.meetings.list_scheduled(self.provider.abilities.name, since, after, _PAGE)
            unlisted += [each for each in page if each.provider_meeting_id not in listed]
            if len(page) < _PAGE:
                break
            after = page[-1]
        # In no list of our hosts: its user may have been renamed, or the list may be late.
        found = await _in_portions([each.provider_meeting_id or "" for each in unlisted], self.provider.read)
        return [each for each, there in zip(unlisted, found, strict=True) if there is None]

    async def adopt(self, lost: LostMeeting, account_id: UUID, tier_id: str) -> Meeting:
        """Charge a lost meeting to an account, by a tier's present price, and schedule it, once.

        The provider shows the flags but `auto_notulen`, which is not set. No API key's cap is asked. The
        charge's permanent name follows from our reference, so that a second charge is impossible.

        Raises:
            InsufficientCredits: more than is available.
            NotReconciled: it has another length than the tier, or cannot be taken over.
        """
        tier, now = self.catalogue.find(tier_id), self.runtime.now()
        draft = _draft(lost, account_id, tier, self.provider.abilities, now)
        async with self.store.begin() as tx:
            if await self._recorded(tx, [lost.name], [lost.meeting_id]):
                raise NotReconciled("the database has it")
            await _reserve_and_settle(tx, self.runtime, draft, lost.found, self.provider.abilities)
            await self._record(tx, now, "meeting.adopted", account_id, draft.id, lost.name)
        observability.count_credits(self.runtime.metrics, TransferKind.MEETING_CHARGE, draft.credits)
        return draft

    async def remove(self, finding: Finding) -> None:
        """Remove a lost meeting at the provider; cancel a gone one and refund it.

        Raises:
            NotReconciled: it has changed since the survey, or people are in it.
            ProviderRefused, ProviderUnknown: it may still be there; the reconciler finishes a cancellation.
        """
        now = self.runtime.now()
        if isinstance(finding, Meeting):
            await self._cancel(finding, now)
            return
        async with self.store.begin() as tx:
            if await self._recorded(tx, [finding.name]):
                raise NotReconciled("the database has it")
            await self._record(tx, now, "meeting.lost", None, finding.meeting_id, finding.name)
        if await self.provider.remove(finding.name) is ProviderMeetingState.IN_PROGRESS:
            raise NotReconciled("people are in it: remove it when it is over")

    async def _cancel(self, gone: Meeting, now: datetime) -> None:
        lease = Lease(self.runtime.new_id(now), _LEASE_S)
        async with self.store.begin() as tx:
            view = await tx.meetings.load_locked(gone.account_id, gone.id, None)
            if view is None or view.meeting.status is not MeetingStatus.SCHEDULED or view.is_leased:
                raise NotReconciled("it has changed meanwhile")
            marked = await mark_cancelling(tx, view.meeting, lease, None)
            await self._record(tx, now, "meeting.gone", gone.account_id, gone.id, gone.provider_meeting_id)
        await self.cancellation.complete(marked, lease.token, now)

    async def _record(
        self, tx: Transaction, now: datetime, action: str, account_id: UUID | None, id_: UUID,
        name: str | None,
    ) -> None:  # fmt: skip
        await record_action(
            tx, self.runtime, now, self.origin, action, account_id, id_, provider_meeting_id=name
        )

    async def _recorded(
        self, tx: Transaction, names: Sequence[str], ids: Sequence[UUID] = ()
    ) -> Sequence[Meeting]:
        return await tx.meetings.find_recorded(self.provider.abilities.name, names, ids)


def _is_recorded(lost: LostMeeting) -> bool:
    """Return whether it was recorded after the list was read, or is being made under a lease."""
    known = lost.known
    return known is not None and (
        known.provider_meeting_id == lost.name or known.status is MeetingStatus.PROVISIONING
    )


def _draft(
    lost: LostMeeting, account_id: UUID, tier: PricingTier, abilities: ProviderAbilities, now: datetime
) -> Meeting:
    found = lost.found
    if found.start_at is None or found.duration != tier.max_duration:
        raise NotReconciled(f"it has {found.duration} minutes, and {tier.id} has {tier.max_duration}")
    quote = quote_meeting(tier, RecordingFlags(found.options.with_recording))
    return Meeting(
        id=lost.meeting_id,
        account_id=account_id,
        api_key_id=dashboard_key(account_id, now).id,
        status=MeetingStatus.PROVISIONING,
        title=found.title,
        description=found.description,
        start_at=found.start_at,
        end_at=found.start_at + timedelta(minutes=found.duration),
        duration=found.duration,
        capacity=tier.capacity if abilities.has_capacity else None,
        pricing_tier_id=tier.id,
        credits=quote.credits,
        recording_credits=quote.recording_credits,
        options=found.options,
        host_id=lost.host.id,
        provider=abilities.name,
        created_at=now,
        password=found.made.password,
    )


async def _reserve_and_settle(
    tx: Transaction, runtime: Runtime, draft: Meeting, found: FoundMeeting, abilities: ProviderAbilities
) -> None:
    """Make the meeting as `CreateMeeting` does, on its own host and without the call to the provider."""
    query = creation_query(draft, 0, abilities, None, can_wait=False)
    query = evolve(query, needs_host=False, per_day=None)
    view = await tx.meetings.load_creation(query)
    if view.is_erased:
        raise NotReconciled("the account was erased")
    if view.charged is not None:
        raise NotReconciled("the account has paid for it")
    creation = Creation(runtime, draft, query, IdempotentRequest(None, b""), CreationTerms(_LEASE_S))
    leased = await tx.meetings.save_provisioning(provisioning(creation, view))
    if leased is None:
        raise NotReconciled("its host is disabled, or has another meeting at that time")
    if await settle(tx, runtime, leased, found.made, draft.created_at) is None:
        raise RuntimeError("the account changed under its own lock")


async def _in_portions(items: Sequence[S], work: Callable[[S], Awaitable[T]]) -> list[T]:
    """Await the work on each item, a few at a time; return the results in order."""
    done: list[T] = []
    for first in range(0, len(items), _AT_ONCE):
        done += await gather_all(work(each) for each in items[first : first + _AT_ONCE])
    return done
