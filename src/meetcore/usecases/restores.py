"""The fence after a restore of the database: put up before anything is started, released by an operator."""

from contextlib import AbstractAsyncContextManager
from datetime import datetime

from attrs import evolve, frozen

from meetcore.domain.errors import NotFound, Unprocessable
from meetcore.domain.meetings.schedule import utc_text
from meetcore.domain.members.audit import SERVICE, ActionOrigin
from meetcore.domain.requests.restores import Restore
from meetcore.ports.restores import Fence, FenceRefused
from meetcore.ports.store import Store
from meetcore.usecases.audit import record_action
from meetcore.usecases.runtime import Runtime


@frozen
class Restores:
    """Fences and releases, as `origin` asks for it. `store` passes the fence."""

    store: Store
    fence: Fence
    runtime: Runtime
    origin: ActionOrigin = SERVICE

    def acting_as(self, origin: ActionOrigin) -> "Restores":
        """Return the same use cases for a user of the system."""
        return evolve(self, origin=origin)

    async def put_up(self, restored_to: datetime) -> Restore:
        """Refuse every write of the service from now on, until `release`.

        A database that is fenced already keeps its restore. Where it was fenced before `restored_to`, the
        fence came with the backup, and what was lost after it is lost, too.

        Args:
            restored_to: what was committed later is lost.

        Raises:
            Unprocessable: that is in the future.
            FenceRefused: the store does not allow it.
        """
        now = self.runtime.now()
        if restored_to > now:
            raise Unprocessable("A database cannot have been restored to a moment that is to come.")
        await self.fence.put_up()
        async with self.store.begin() as tx:
            before = await tx.restores.latest()
            restore = await tx.restores.add(restored_to)
            if before != restore:
                await record_action(
                    tx, self.runtime, now, self.origin, "restore.fenced", None, restore.epoch,
                    restored_to=utc_text(restored_to),
                )  # fmt: skip
        return restore

    def alone(self) -> AbstractAsyncContextManager[None]:
        """Let no other process apply what it found, or release, while the block lasts.

        Raises:
            FenceRefused: another one is at it.
        """
        return self.fence.alone()

    async def latest(self) -> Restore | None:
        """The last restore."""
        async with self.store.begin() as tx:
            return await tx.restores.latest()

    async def release(self) -> Restore:
        """Let the service write again. Once more finishes what was interrupted.

        Raises:
            NotFound: no restore was ever fenced.
            FenceRefused: the store does not allow it, or what was found is being applied, and nothing was
                changed; or it is released, and some of what enforced the fence is still there, as it says.
        """
        await self.fence.check_owner()
        async with self.fence.alone():
            return await self._release()

    async def _release(self) -> Restore:
        now = self.runtime.now()
        async with self.store.begin() as tx:
            restore = await tx.restores.latest()
            if restore is None:
                raise NotFound("This database was never fenced: see `meetcore restore fence`.")
            released = await tx.restores.release(restore.epoch)
            if released is not None:
                await record_action(
                    tx, self.runtime, now, self.origin, "restore.released", None, restore.epoch
                )
        try:
            await self.fence.take_away()
        except FenceRefused as error:
            raise FenceRefused(
                f"It is released, and the service sells; what enforced the fence still costs time: {error}. "
                "Then release once more."
            ) from None
        return restore if released is None else released
