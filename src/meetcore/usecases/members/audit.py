"""Write audit entries: of a change in its transaction, and of what can be repeated at will within a bound.

Of refused sign-ins, those of users, operators and accounts that are known have entries; others are lines of
the log only. A refusal is written in a transaction of its own: that of the sign-in was undone.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from attrs import evolve, frozen

from meetcore.domain.members import audit, sign_in
from meetcore.domain.members.audit import (
    REPEATS_IN_A_WINDOW,
    ActionOrigin,
    AuditEntry,
    Detail,
    repeat_counter,
)
from meetcore.domain.members.passkeys import PasskeyOwner, attempts_counter, check_attempts
from meetcore.domain.members.sign_in import request_window
from meetcore.domain.requests.rate_window import OperationClass
from meetcore.usecases.runtime import Runtime

if TYPE_CHECKING:
    from meetcore.ports.queries import Caller
    from meetcore.ports.requests import RateCounters
    from meetcore.ports.store import Store, Transaction


def action_of(
    runtime: Runtime, now: datetime, origin: ActionOrigin, action: str, account_id: UUID | None,
    target_id: object, **details: Detail,
) -> AuditEntry:  # fmt: skip
    """Say that `origin` did `action` to `target_id`. No secret may be among the details."""
    return AuditEntry(
        runtime.new_id(now), now, account_id, origin.actor, action, str(target_id), details,
        origin.client_address, origin.is_impersonated,
    )  # fmt: skip


async def record_action(
    tx: Transaction, runtime: Runtime, now: datetime, origin: ActionOrigin, action: str,
    account_id: UUID | None, target_id: object, **details: Detail,
) -> None:  # fmt: skip
    """Write that `origin` did `action` to `target_id`. No secret may be among the details."""
    entry = action_of(runtime, now, origin, action, account_id, target_id, **details)
    await tx.audit_log.append(entry)


async def record_by_hand(
    tx: Transaction, runtime: Runtime, now: datetime, caller: Caller, action: str, target_id: object,
    **details: Detail,
) -> None:  # fmt: skip
    """Write an action that a member did by hand; nothing for an API key."""
    if (origin := caller.origin) is not None:
        await record_action(tx, runtime, now, origin, action, caller.account.id, target_id, **details)


async def count_hit(counters: RateCounters, counter: UUID, now: datetime) -> int:
    """Count what can be repeated at will; return how often it was done in the window, this time included."""
    return await counters.hit(counter, OperationClass.WRITE, request_window(now))


async def count_attempt(counters: RateCounters, step: str, client: str | None, now: datetime) -> None:
    """Count a step of a client's attempt to sign in; raise `RateLimited` where there were too many."""
    check_attempts(await count_hit(counters, attempts_counter(step, client), now), now)


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
        self, origin: ActionOrigin, action: str, account_id: UUID | None, target_id: object,
        subject: object, **details: Detail,
    ) -> None:  # fmt: skip
        """Write that `origin` did `action`, unless `subject` has repeated it too often."""
        now = self.runtime.now()
        counter = repeat_counter(action, subject)
        hits = await count_hit(self.counters, counter, now)
        if hits <= REPEATS_IN_A_WINDOW:
            async with self.store.at_once() as tx:
                await record_action(tx, self.runtime, now, origin, action, account_id, target_id, **details)


@frozen
class RefusedSignIns:
    """Writes refusals, a few for each user, operator or account in a window.

    The actor is the service: the caller is not authenticated.
    """

    log: BoundedAuditLog

    async def of_link(self, token: str, is_operators: bool, client_address: str | None) -> None:
        """Write that a link was refused: used, expired, or another browser's; nothing for an unknown one."""
        if not sign_in.is_token(token):
            return
        async with self.log.store.at_once() as tx:
            link = await tx.sign_in.find_link(sign_in.token_digest(token), is_operators)
        if link is None:
            return
        how, target = sign_in.method_of(link), link.invitation_id or link.operator_id or link.id
        if link.user_id is not None:
            await self.of_owner(PasskeyOwner(link.user_id), how, client_address, link.account_id)
        else:
            await self._record(link.account_id, target, how, client_address)

    async def of_owner(
        self, owner: PasskeyOwner, how: sign_in.SignInMethod, client_address: str | None,
        account_id: UUID | None = None,
    ) -> None:  # fmt: skip
        """Write that a sign-in as a user, to the account or the first of their own, or an operator failed."""
        if owner.user_id is not None and account_id is None:
            async with self.log.store.at_once() as tx:
                own = await tx.members.load_memberships(owner.user_id)
            account_id = own[0].account_id if own else None
        await self._record(account_id, owner.id, how, client_address)

    async def _record(
        self, account_id: UUID | None, target: UUID, how: sign_in.SignInMethod, client_address: str | None
    ) -> None:
        origin = evolve(audit.SERVICE, client_address=client_address)
        await self.log.record(origin, "session.refused", account_id, target, account_id or target, how=how)
