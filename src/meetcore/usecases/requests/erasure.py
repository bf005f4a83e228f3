"""Removal: accounts that are erased, records past their time, and values sealed under old keys.

An erasure removes personal data and contents; the ledger stays. A request ends every access at once; the rest
goes in portions, each in a repeatable transaction, and the workers finish what was interrupted.

Resealing goes through every column in the order of ids while the service runs, so that an old key can be
removed. What was interrupted begins anew and passes over what is done.
"""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from attrs import evolve, field, frozen

from meetcore.domain.errors import Conflict, require_record
from meetcore.domain.mails.mails import MAILS_KEPT
from meetcore.domain.members import audit, members, roles, views
from meetcore.domain.requests.idempotency import KEY_RETENTION_HOURS
from meetcore.domain.requests.request_log import REQUESTS_KEPT
from meetcore.domain.requests.retention import Erasure, Retention, check_erasable
from meetcore.ports.maintenance import Housekeeping, Resealed, RetentionStore, SealedValues
from meetcore.ports.queries import MAX_PAGE, Queries
from meetcore.ports.requests import ErasureRepository
from meetcore.ports.runtime import WorkerNotifier
from meetcore.ports.store import Store, Transaction
from meetcore.usecases.members.audit import record_action
from meetcore.usecases.notes.recordings import end_recording
from meetcore.usecases.runtime import Runtime, collect_fault


async def check_role(
    tx: Transaction, account_id: UUID, user_id: UUID | None, action: roles.Action
) -> Sequence[members.Membership]:
    """Check a member's role once more under the account's lock: it may have been taken away meanwhile.

    Returns the members. Of a guest, who has no user, nothing is checked.
    """
    found = await tx.members.load_members(account_id)
    if user_id is not None:
        role = next((each.role for each in found if each.user_id == user_id), None)
        roles.check_allowed(require_record(role, "member"), action)
    return found


async def lock_unerased(tx: Transaction, account_id: UUID) -> None:
    """Take an account's lock; raise `Conflict` where it was erased."""
    await tx.lock_account(account_id)
    if await tx.erasures.is_requested(account_id):
        raise Conflict("It was erased, and nothing brings it back: open another one.", account_id)


PORTION: Final = 500
"""Records that one transaction erases: some 0.1 s of an account's lock."""
ErasePart = Callable[[UUID, UUID | None, int], Awaitable[UUID | None]]

AT_ONCE: Final = 10
"""Erasures that a worker takes at a time."""


@frozen
class EraseAccount:
    """Erases accounts. `notes_notifier` wakes the workers that remove files of recordings."""

    store: Store
    queries: Queries
    notes_notifier: WorkerNotifier
    runtime: Runtime
    origin: audit.ActionOrigin = audit.SERVICE
    portion: int = PORTION

    async def for_member(self, who: views.SignedIn, client_address: str | None) -> Erasure:
        """Erase a member's account; see `__call__`."""
        views.check_member(who, roles.Action.ERASE_ACCOUNT)
        return await evolve(self, origin=who.origin(client_address))(who.account.id)

    async def __call__(self, account_id: UUID) -> Erasure:
        """Request the erasure of an account, which ends every access to it; idempotent.

        Raises:
            ActionNotAllowed: the acting member's role was taken away meanwhile.
            NotFound: there is no such account, or the acting member was removed meanwhile.
            Unprocessable: its meetings are still to take place, or notes are being written.
        """
        now = self.runtime.now()
        async with self.store.begin() as tx:
            erasure = await tx.erasures.load_locked(account_id)
            if erasure.requested_at is not None:
                return erasure
            await check_role(tx, account_id, self.origin.member_id, roles.Action.ERASE_ACCOUNT)
            check_erasable(erasure)
            await tx.erasures.start(account_id, now)
            await record_action(tx, self.runtime, now, self.origin, "account.erased", account_id, account_id)
        await self._remove_webhooks(account_id)
        return evolve(erasure, requested_at=now)

    async def sweep(self) -> None:
        """Go on with the erasures that are due, each by itself; one that failed is tried again later."""
        now = self.runtime.now()
        faults: list[Exception] = []
        is_more = True
        while is_more:  # ends: a claimed erasure is due later than `now`
            async with self.store.begin() as tx:
                claimed = await tx.erasures.claim_due(now, AT_ONCE)
            for account_id in claimed:
                await collect_fault(faults, self.work_on(account_id), f"the erasure of account {account_id}")
            is_more = len(claimed) == AT_ONCE
        if faults:
            raise ExceptionGroup("not every erasure that is due went on", faults)

    async def work_on(self, account_id: UUID) -> bool:
        """Erase the rest of an account, unless work on it is under way; return whether that finished it.

        Else meetings wait for their recordings, or recordings for the removal of their files at the provider.
        Raises `ExceptionGroup`: of the recordings that could not be ended; everything else is erased.
        """
        await self._remove_webhooks(account_id)
        faults = await self._end_recordings(account_id)
        await self._erase_all(account_id, lambda erasures: erasures.erase_meetings)
        await self._erase_all(account_id, lambda erasures: erasures.erase_notes)
        while True:
            async with self.store.begin() as tx:
                if not await tx.erasures.delete_portion(account_id, self.portion):
                    break
        if faults:
            raise ExceptionGroup("not every recording of an erased account could be ended", faults)
        async with self.store.begin() as tx:
            await tx.lock_account(account_id)
            return await tx.erasures.finish(account_id, self.runtime.now())

    async def _remove_webhooks(self, account_id: UUID) -> None:
        while found := await self.queries.list_endpoints(account_id, MAX_PAGE, None):
            for endpoint in found:
                async with self.store.begin() as tx:
                    await tx.lock_account(account_id)
                    await tx.endpoints.remove(account_id, endpoint.id)

    async def _end_recordings(self, account_id: UUID) -> list[Exception]:
        faults: list[Exception] = []
        seen: set[UUID] = set()
        while True:
            async with self.store.at_once() as tx:
                recorded = await tx.erasures.find_recorded(account_id, self.portion + len(faults))
            left = [meeting_id for meeting_id in recorded if meeting_id not in seen]
            if not left:
                return faults
            for meeting_id in left:
                ending = self._end_recording(account_id, meeting_id, self.runtime.now())
                await collect_fault(faults, ending, f"the recording of meeting {meeting_id}")
            seen.update(left)
            self.notes_notifier.notify()

    async def _end_recording(self, account_id: UUID, meeting_id: UUID, now: datetime) -> None:
        async with self.store.begin() as tx:
            await tx.lock_account(account_id)
            recording = await tx.recordings.load(account_id, meeting_id)
            if recording is not None:
                await end_recording(tx, self.runtime, recording, now, with_notes=True)

    async def _erase_all(self, account_id: UUID, part: Callable[[ErasureRepository], ErasePart]) -> None:
        after: UUID | None = None
        while True:
            async with self.store.begin() as tx:
                await tx.lock_account(account_id)
                after = await part(tx.erasures)(account_id, after, self.portion)
            if after is None:
                break


PROVIDER_EVENTS_KEPT = timedelta(days=7)


@frozen
class Purge:
    """Delete keys of requests, counts of creations, mails, secrets and requests past their time."""

    housekeeping: Housekeeping

    async def __call__(self) -> None:
        """Delete all that is past its time, in portions that block no other work."""
        await self.housekeeping.purge_idempotency(timedelta(hours=KEY_RETENTION_HOURS).total_seconds())
        await self.housekeeping.purge_provider_events(PROVIDER_EVENTS_KEPT.total_seconds())
        now = await self.housekeeping.now()
        await self.housekeeping.purge_creations(now.astimezone(UTC).date() - timedelta(days=1))
        await self.housekeeping.purge_mails(MAILS_KEPT.total_seconds())
        await self.housekeeping.purge_previous_secrets(now)
        await self.housekeeping.purge_requests(now - REQUESTS_KEPT)


@frozen
class RemovePastRetention:
    """Removes the next portion of notes, then of meetings, which stay until their notes are gone."""

    store: RetentionStore
    retention: Retention

    async def __call__(self) -> None:
        """Remove one portion of each at most."""
        now = await self.store.now()
        if (made_before := self.retention.notes_made_before(now)) is not None:
            await self.store.remove_notes(made_before)
        if (ended_before := self.retention.meetings_ended_before(now)) is not None:
            await self.store.remove_meetings(ended_before)


RESEALED_AT_ONCE: Final = 200
"""Values of one statement: a transcript has some hundred kilobytes."""


@frozen
class Resealing:
    """The values sealed again, and the values left under other keys.

    `left` has the number of values under each key, by its id in hex; `keys` are the ids of the keys that are
    given, the first one first. `unreadable` values are under a key that is not given, or do not open.
    """

    keys: tuple[str, ...]
    resealed: int = 0
    changed: int = 0
    unreadable: int = 0
    left: Mapping[str, int] = field(factory=dict)

    @property
    def is_done(self) -> bool:
        """Whether every value is under the first key."""
        return set(self.left) <= set(self.keys[:1])


@frozen
class ResealSecrets:
    """The use case. `portion` is how many values one statement takes."""

    values: SealedValues
    store: Store
    runtime: Runtime
    portion: int = RESEALED_AT_ONCE
    origin: audit.ActionOrigin = audit.SERVICE

    async def __call__(
        self, *, dry_run: bool = False, on_progress: Callable[[int, int], None] = lambda done, total: None
    ) -> Resealing:
        """Seal every value under the first key, unless `dry_run`, and count those left under each other key.

        The audit log has an entry before anything is written, and the result at the end. `on_progress` is
        called with how many values are seen to, and how many were under other keys.
        """
        keys = tuple(self.values.key_ids)
        left = await self._count()
        waiting = sum(count for key, count in left.items() if key != keys[0])
        if dry_run or not waiting:
            return Resealing(keys, left=left)
        await self._record("secrets.reseal_started", waiting)
        total = Resealed()
        for column in self.values.columns:
            async for portion in self._resealed(column):
                total = _sum(total, portion)
                done = total.resealed + total.changed + total.unreadable
                on_progress(min(done, waiting), waiting)
        if total.resealed:
            await self._record("secrets.resealed", total.resealed)
        return Resealing(keys, total.resealed, total.changed, total.unreadable, await self._count())

    async def _resealed(self, column: str) -> AsyncIterator[Resealed]:
        after: tuple[object, ...] | None = None
        while True:
            portion = await self.values.reseal(column, after, self.portion)
            yield portion
            if (after := portion.after) is None:
                return

    async def _record(self, action: str, values: int) -> None:
        now, first = self.runtime.now(), self.values.key_ids[0]
        async with self.store.begin() as tx:
            await record_action(tx, self.runtime, now, self.origin, action, None, first, values=values)

    async def _count(self) -> Mapping[str, int]:
        left: Counter[str] = Counter()
        for column in self.values.columns:
            after: tuple[object, ...] | None = None
            while True:
                found = await self.values.count(column, after, self.portion * 10)
                left.update(found.found)
                if (after := found.after) is None:
                    break
        return dict(left)


def _sum(one: Resealed, other: Resealed) -> Resealed:
    return Resealed(
        resealed=one.resealed + other.resealed,
        changed=one.changed + other.changed,
        unreadable=one.unreadable + other.unreadable,
    )
