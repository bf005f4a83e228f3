"""Members of an account: invite, remove, change a role. Each use case checks the caller's role."""

from collections.abc import Sequence
from uuid import UUID

from attrs import evolve, frozen

from meetcore.domain.errors import NotFound
from meetcore.domain.mails import contents
from meetcore.domain.mails.mails import Recipient
from meetcore.domain.members.members import Invitation, Member, Membership, check_owner_stays, is_pending
from meetcore.domain.members.roles import Action, Role, check_allowed
from meetcore.domain.members.sign_in_links import INVITATION_FOR, LinkPurpose, SignInLink
from meetcore.domain.members.tokens import TOKEN_BYTES, mint_token, token_digest
from meetcore.domain.notes.notes import Language
from meetcore.domain.requests.accounts import check_email
from meetcore.ports.member_queries import MemberQueries, SignedIn
from meetcore.ports.store import Store
from meetcore.ports.worker_notifier import WorkerNotifier
from meetcore.usecases.audit import record_action
from meetcore.usecases.erased_accounts import lock_unerased
from meetcore.usecases.mail_queue import MailQueue
from meetcore.usecases.request_sign_in_link import dashboard_url
from meetcore.usecases.runtime import Runtime


@frozen
class Members:
    """The use cases of a team. `signed_in` is who asks, from `client_address`."""

    store: Store
    queries: MemberQueries
    mails: MailQueue
    notifier: WorkerNotifier
    runtime: Runtime
    base_url: str

    async def list_members(self, signed_in: SignedIn) -> Sequence[Member]:
        """The members of the caller's account, the oldest first.

        Raises:
            ActionNotAllowed: the caller's role may not see them.
        """
        check_allowed(signed_in.role, Action.VIEW_MEMBERS)
        return await self.queries.list_members(signed_in.account.id)

    async def list_invitations(self, signed_in: SignedIn) -> Sequence[Invitation]:
        """The pending invitations to the caller's account, the newest first.

        Raises:
            ActionNotAllowed: the caller's role may not see them.
        """
        check_allowed(signed_in.role, Action.VIEW_MEMBERS)
        return await self.queries.list_invitations(signed_in.account.id, self.runtime.now())

    async def invite(
        self,
        signed_in: SignedIn,
        email: str,
        role: Role,
        client_address: str | None,
        language: Language = Language.INDONESIAN,
    ) -> Invitation:
        """Invite somebody by e-mail; a pending invitation to the same address is replaced.

        Raises:
            ActionNotAllowed: the caller's role may not.
            Conflict: the account was erased.
            InvalidEmail: it cannot be an address.
        """
        check_allowed(signed_in.role, Action.MANAGE_MEMBERS)
        check_email(email)
        now, account, user = self.runtime.now(), signed_in.account, signed_in.user
        token = mint_token(self.runtime.entropy.token_bytes(TOKEN_BYTES))
        invitation = Invitation(
            self.runtime.new_id(now), account.id, email, role,
            None if user is None else user.id, now, now + INVITATION_FOR,
        )  # fmt: skip
        link = SignInLink(
            self.runtime.new_id(now), LinkPurpose.INVITATION, now, invitation.expires_at, account.id,
            invitation_id=invitation.id,
        )  # fmt: skip
        content = contents.Invitation(
            dashboard_url(self.base_url, token), account.full_name,
            account.full_name if user is None else user.full_name, invitation.expires_at,
        )  # fmt: skip
        async with self.store.begin() as tx:
            await lock_unerased(tx, account.id)
            await tx.members.add_invitation(invitation)
            await tx.sign_in.add_link(link, token_digest(token))
            await record_action(
                tx, self.runtime, now, signed_in.origin(client_address), "member.invited", account.id,
                invitation.id, role=role,
            )  # fmt: skip
            added = await self.mails.add(tx, [Recipient(email, language)], content, account.id)
        if added:
            self.notifier.notify()
        return invitation

    async def revoke_invitation(
        self, signed_in: SignedIn, invitation_id: UUID, client_address: str | None
    ) -> None:
        """Take an invitation back: its link works no more.

        Raises:
            ActionNotAllowed: the caller's role may not.
            NotFound: no pending invitation of the account has this id.
        """
        check_allowed(signed_in.role, Action.MANAGE_MEMBERS)
        now, account_id = self.runtime.now(), signed_in.account.id
        async with self.store.begin() as tx:
            await tx.lock_account(account_id)
            found = await tx.members.load_invitation(invitation_id)
            if found is None or found.account_id != account_id or not is_pending(found, now):
                raise NotFound("No invitation with this id.")
            await tx.members.save_invitation(evolve(found, revoked_at=now))
            await record_action(
                tx, self.runtime, now, signed_in.origin(client_address), "member.invitation_revoked",
                account_id, invitation_id,
            )  # fmt: skip

    async def remove(self, signed_in: SignedIn, user_id: UUID, client_address: str | None) -> None:
        """End a membership and the user's sessions in the account.

        Raises:
            ActionNotAllowed: the caller's role may not.
            NotFound: the user is no member.
            Unprocessable: the account would be without an owner.
        """
        await self._change(signed_in, user_id, None, client_address)

    async def change_role(
        self, signed_in: SignedIn, user_id: UUID, role: Role, client_address: str | None
    ) -> None:
        """Give a member another role, from the next request on.

        Raises:
            ActionNotAllowed: the caller's role may not.
            NotFound: the user is no member.
            Unprocessable: the account would be without an owner.
        """
        await self._change(signed_in, user_id, role, client_address)

    async def _change(
        self, signed_in: SignedIn, user_id: UUID, role: Role | None, client_address: str | None
    ) -> None:
        check_allowed(signed_in.role, Action.MANAGE_MEMBERS)
        now, account_id = self.runtime.now(), signed_in.account.id
        async with self.store.begin() as tx:
            await tx.lock_account(account_id)
            members = await tx.members.load_members(account_id)
            _check_caller(signed_in, members)
            before = check_owner_stays(members, user_id, role)
            if role is before.role:
                return
            if role is None:
                await tx.members.remove_membership(account_id, user_id, now)
            else:
                await tx.members.save_membership(evolve(before, role=role))
            action = "member.removed" if role is None else "member.role_changed"
            await record_action(
                tx, self.runtime, now, signed_in.origin(client_address), action, account_id, user_id,
                before=before.role, after=role,
            )  # fmt: skip


def _check_caller(signed_in: SignedIn, members: Sequence[Membership]) -> None:
    """Check the caller's role once more under the lock: it may have been taken away meanwhile."""
    if signed_in.user is None:
        return
    role = next((each.role for each in members if each.user_id == signed_in.user.id), None)
    if role is None:
        raise NotFound("No member with this id.")
    check_allowed(role, Action.MANAGE_MEMBERS)
