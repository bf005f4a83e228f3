"""Erase an account: who it was and what was said goes, the ledger stays.

A request ends every access at once. The rest goes in portions, each in a transaction of its own and each
repeatable: what was interrupted is finished by the workers.
"""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Final
from uuid import UUID

from attrs import evolve, frozen

from meetcore.domain.members.audit import SERVICE, ActionOrigin
from meetcore.domain.members.roles import Action, check_allowed
from meetcore.domain.requests.erasures import Erasure, check_erasable
from meetcore.ports.erasures import ErasureRepository
from meetcore.ports.member_queries import SignedIn
from meetcore.ports.queries import MAX_PAGE, Queries
from meetcore.ports.store import Store, StoreUnavailable
from meetcore.ports.worker_notifier import WorkerNotifier
from meetcore.usecases.audit import record_action
from meetcore.usecases.expire_recordings import end_recording
from meetcore.usecases.runtime import Runtime

PORTION: Final = 500
"""Records that one transaction erases: some 0.1 s of an account's lock."""
ErasePart = Callable[[UUID, UUID | None, int], Awaitable[UUID | None]]

AT_ONCE: Final = 10
"""Erasures that a worker takes at a time."""


@frozen
class EraseAccount:
    """Erases accounts. `notes_notifier` wakes those who remove the files of recordings."""

    store: Store
    queries: Queries
    notes_notifier: WorkerNotifier
    runtime: Runtime
    origin: ActionOrigin = SERVICE
    portion: int = PORTION

    def acting_as(self, origin: ActionOrigin) -> "EraseAccount":
        """The same use case, on behalf of somebody."""
        return evolve(self, origin=origin)

    async def for_member(self, who: SignedIn, client_address: str | None) -> Erasure:
        """Erase a member's account; see `__call__`.

        Raises:
            ActionNotAllowed: the role does not allow it.
        """
        check_allowed(who.role, Action.ERASE_ACCOUNT)
        return await self.acting_as(who.origin(client_address))(who.account.id)

    async def __call__(self, account_id: UUID) -> Erasure:
        """Request the erasure of an account, which ends every access to it; idempotent.

        Raises:
            NotFound: no such account.
            Unprocessable: its meetings are still to take place, or notes are being written.
        """
        now = self.runtime.now()
        async with self.store.begin() as tx:
            erasure = await tx.erasures.load_locked(account_id)
            if erasure.requested_at is not None:
                return erasure
            check_erasable(erasure)
            await tx.erasures.start(account_id, now)
            await record_action(tx, self.runtime, now, self.origin, "account.erased", account_id, account_id)
        await self._remove_webhooks(account_id)
        return evolve(erasure, requested_at=now)

    async def sweep(self) -> None:
        """Go on with the erasures that are due, each by itself.

        Raises:
            ExceptionGroup: of those that failed, to be tried again later; the others went on.
        """
        now = self.runtime.now()
        faults: list[Exception] = []
        is_more = True
        while is_more:  # ends: what is taken is due later than `now`
            async with self.store.begin() as tx:
                claimed = await tx.erasures.claim_due(now, AT_ONCE)
            for account_id in claimed:
                await _collect(faults, self.work_on(account_id), f"the erasure of account {account_id}")
            is_more = len(claimed) == AT_ONCE
        if faults:
            raise ExceptionGroup("not every erasure that is due went on", faults)

    async def work_on(self, account_id: UUID) -> bool:
        """Erase what is left of an account, and finish if nothing is worked on any more.

        Returns:
            Whether the erasure is finished. Else meetings wait for their recordings, or recordings for the
            removal of their files at the provider.

        Raises:
            ExceptionGroup: of the recordings that could not be ended; everything else is erased.
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
                await _collect(faults, ending, f"the recording of meeting {meeting_id}")
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


async def _collect(faults: list[Exception], work: Awaitable[object], what: str) -> None:
    try:
        await work
    except StoreUnavailable:
        raise
    except Exception as fault:  # noqa: BLE001  # what fails stops nothing else
        fault.add_note(what)
        faults.append(fault)
