"""Write the audit entry of a change, in the transaction of the change."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from meetcore.domain.members.audit import ActionOrigin, AuditEntry, Detail
from meetcore.usecases.runtime import Runtime

if TYPE_CHECKING:
    from meetcore.ports.queries import Caller
    from meetcore.ports.store import Transaction


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
