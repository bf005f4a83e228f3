"""Write audit entries: of a change in its transaction, and of what can be repeated at will within a bound."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from attrs import frozen

from meetcore.domain.members.audit import (
    REPEATS_IN_A_WINDOW,
    ActionOrigin,
    AuditEntry,
    Detail,
    repeat_counter,
)
from meetcore.domain.members.sign_in import request_window
from meetcore.domain.requests.rate_window import OperationClass
from meetcore.usecases.runtime import Runtime

if TYPE_CHECKING:
    from meetcore.ports.queries import Caller
    from meetcore.ports.requests import RateCounters
    from meetcore.ports.store import Store, Transaction


def action_of(
    runtime: Runtime,
    now: datetime,
    origin: ActionOrigin,
    action: str,
    account_id: UUID | None,
    target_id: object,
    **details: Detail,
) -> AuditEntry:
    """Say that `origin` did `action` to `target_id`. No secret may be among the details."""
    return AuditEntry(
        runtime.new_id(now), now, account_id, origin.actor, action, str(target_id), details,
        origin.client_address, origin.is_impersonated,
    )  # fmt: skip


async def record_action(
    tx: Transaction,
    runtime: Runtime,
    now: datetime,
    origin: ActionOrigin,
    action: str,
    account_id: UUID | None,
    target_id: object,
    **details: Detail,
) -> None:
    """Write that `origin` did `action` to `target_id`. No secret may be among the details."""
    entry = action_of(runtime, now, origin, action, account_id, target_id, **details)
    await tx.audit_log.append(entry)


async def record_by_hand(
    tx: Transaction,
    runtime: Runtime,
    now: datetime,
    caller: Caller,
    action: str,
    target_id: object,
    **details: Detail,
) -> None:
    """Write an action that a member did by hand; nothing for an API key."""
    if (origin := caller.origin) is not None:
        await record_action(tx, runtime, now, origin, action, caller.account.id, target_id, **details)


@frozen
class BoundedAuditLog:
    """Writes entries of reads and of refused sign-ins, which can be repeated at will.

    Of an action that one `subject` repeats, a window's first `REPEATS_IN_A_WINDOW` have an entry; the others
    are lines of the log only, so that no stranger fills the table.
    """

    store: Store
    counters: RateCounters
    runtime: Runtime

    async def record(
        self,
        origin: ActionOrigin,
        action: str,
        account_id: UUID | None,
        target_id: object,
        subject: object,
        **details: Detail,
    ) -> None:
        """Write that `origin` did `action`, unless `subject` has repeated it too often."""
        now = self.runtime.now()
        counter = repeat_counter(action, subject)
        hits = await self.counters.hit(counter, OperationClass.WRITE, request_window(now))
        if hits <= REPEATS_IN_A_WINDOW:
            async with self.store.at_once() as tx:
                await record_action(tx, self.runtime, now, origin, action, account_id, target_id, **details)
