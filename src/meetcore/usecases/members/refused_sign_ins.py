"""Refused sign-ins of users, operators and accounts that are known, in the audit log.

Other refusals are lines of the log only. A refusal is written in a transaction of its own: that of the
sign-in was undone.
"""

from uuid import UUID

from attrs import evolve, frozen

from meetcore.domain.members import audit, sign_in
from meetcore.domain.members.passkeys import PasskeyOwner
from meetcore.usecases.members.audit import BoundedAuditLog


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
