"""Members of an account, the API keys that they make, and the key of their playground."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from attrs import evolve, frozen

from meetcore.domain.errors import NotFound, Unprocessable
from meetcore.domain.mails import contents
from meetcore.domain.mails.mails import Recipient
from meetcore.domain.meetings.schedule import cap_day
from meetcore.domain.members import sign_in
from meetcore.domain.members.members import (
    Invitation,
    Member,
    check_invitations,
    check_owner_stays,
    invitations_left,
    is_pending,
)
from meetcore.domain.members.roles import Action, Role, is_allowed, playground_scopes
from meetcore.domain.members.views import SignedIn, check_member, inviter_name
from meetcore.domain.notes.notes import Language
from meetcore.domain.records.pages import KeyUse
from meetcore.domain.requests.accounts import check_email
from meetcore.domain.requests.keys import PLAYGROUND_LASTS, PLAYGROUND_NAME, ApiKey, Scope, is_playground_key
from meetcore.ports.members import MemberQueries
from meetcore.ports.queries import DashboardQueries
from meetcore.ports.runtime import WorkerNotifier
from meetcore.ports.store import Store
from meetcore.usecases.mails import MailQueue
from meetcore.usecases.members import audit, sign_in_links
from meetcore.usecases.requests.administration import Administration, MintedKey
from meetcore.usecases.requests.erasure import check_role, lock_unerased
from meetcore.usecases.runtime import Runtime


@frozen
class Invited:
    """An invitation, and how many more the account can make now."""

    invitation: Invitation
    left: int


@frozen
class Members:
    """The use cases of a team. `signed_in` acts, from `client_address`."""

    store: Store
    queries: MemberQueries
    mails: MailQueue
    notifier: WorkerNotifier
    runtime: Runtime
    base_url: str

    async def list_members(self, signed_in: SignedIn) -> Sequence[Member]:
        """Return the members of the caller's account, the oldest first."""
        check_member(signed_in, Action.VIEW_MEMBERS)
        return await self.queries.list_members(signed_in.account.id)

    async def list_invitations(self, signed_in: SignedIn) -> Sequence[Invitation]:
        """Return the pending invitations to the caller's account, the newest first."""
        check_member(signed_in, Action.VIEW_MEMBERS)
        return await self.queries.list_invitations(signed_in.account.id, self.runtime.now())

    async def invite(
        self, signed_in: SignedIn, email: str, role: Role, client_address: str | None,
        language: Language = Language.INDONESIAN,
    ) -> Invited:  # fmt: skip
        """Invite a member by e-mail; a pending invitation to the same address is replaced.

        Raises:
            Conflict: the account was erased.
            InvalidEmail: it cannot be an address.
            Unprocessable: too many are pending, or were made or mailed.
        """
        check_member(signed_in, Action.MANAGE_MEMBERS)
        check_email(email)
        now, account, user = self.runtime.now(), signed_in.account, signed_in.user
        token = sign_in.mint_token(self.runtime.entropy.token_bytes(sign_in.TOKEN_BYTES))
        invitation = Invitation(
            self.runtime.new_id(now), account.id, email, role,
            _user_id(signed_in), now, now + sign_in.INVITATION_FOR,
        )  # fmt: skip
        link = sign_in.SignInLink(
            self.runtime.new_id(now), sign_in.LinkPurpose.INVITATION, now, invitation.expires_at, account.id,
            invitation_id=invitation.id,
        )  # fmt: skip
        content = contents.Invitation(
            sign_in_links.dashboard_url(self.base_url, token), account.full_name,
            account.full_name if user is None else inviter_name(user.full_name, user.email), role,
            invitation.expires_at,
        )  # fmt: skip
        async with self.store.begin() as tx:
            await lock_unerased(tx, account.id)
            await check_role(tx, account.id, _user_id(signed_in), Action.MANAGE_MEMBERS)
            counts = await tx.members.count_invitations(account.id, email, now)
            check_invitations(counts)
            await tx.members.add_invitation(invitation)
            await tx.sign_in.add_link(link, sign_in.token_digest(token))
            await audit.record_action(
                tx, self.runtime, now, signed_in.origin(client_address), "member.invited", account.id,
                invitation.id, role=role,
            )  # fmt: skip
            added = await self.mails.add(tx, [Recipient(email, language)], content, account.id)
            if self.mails.is_on and not added:
                raise Unprocessable("Too many invitations were mailed in the last hour. Try again later.")
        if added:
            self.notifier.notify()
        return Invited(invitation, invitations_left(counts) - 1)

    async def revoke_invitation(
        self, signed_in: SignedIn, invitation_id: UUID, client_address: str | None
    ) -> None:
        """Take an invitation back: its link works no more."""
        check_member(signed_in, Action.MANAGE_MEMBERS)
        now, account_id = self.runtime.now(), signed_in.account.id
        async with self.store.begin() as tx:
            await tx.lock_account(account_id)
            await check_role(tx, account_id, _user_id(signed_in), Action.MANAGE_MEMBERS)
            found = await tx.members.load_invitation(invitation_id)
            if found is None or found.account_id != account_id or not is_pending(found, now):
                raise NotFound("No invitation with this id.")
            await tx.members.save_invitation(evolve(found, revoked_at=now))
            await audit.record_action(
                tx, self.runtime, now, signed_in.origin(client_address), "member.invitation_revoked",
                account_id, invitation_id,
            )  # fmt: skip

    async def remove(self, signed_in: SignedIn, user_id: UUID, client_address: str | None) -> None:
        """End a membership, and the user's sessions and grants in the account.

        Pending invitations by the member, and to the member's address, are revoked. The last owner is
        `Unprocessable`.
        """
        await self._change(signed_in, user_id, None, client_address)

    async def change_role(
        self, signed_in: SignedIn, user_id: UUID, role: Role, client_address: str | None
    ) -> None:
        """Give a member another role, from the next request on; the last owner's is `Unprocessable`.

        A role that manages no members revokes the pending invitations that the member made.
        """
        await self._change(signed_in, user_id, role, client_address)

    async def _change(
        self, signed_in: SignedIn, user_id: UUID, role: Role | None, client_address: str | None
    ) -> None:
        check_member(signed_in, Action.MANAGE_MEMBERS)
        now, account_id = self.runtime.now(), signed_in.account.id
        async with self.store.begin() as tx:
            await tx.lock_account(account_id)
            members = await check_role(tx, account_id, _user_id(signed_in), Action.MANAGE_MEMBERS)
            before = check_owner_stays(members, user_id, role)
            if role is before.role:
                return
            if role is None:
                await tx.members.remove_membership(account_id, user_id, now)
            else:
                await tx.members.save_membership(evolve(before, role=role))
            action = "member.removed" if role is None else "member.role_changed"
            origin = signed_in.origin(client_address)
            await audit.record_action(
                tx, self.runtime, now, origin, action, account_id, user_id, before=before.role, after=role
            )
            if role is None or not is_allowed(role, Action.MANAGE_MEMBERS):
                for invitation in await tx.members.revoke_invitations_of(
                    account_id, user_id, now, to_member=role is None
                ):
                    await audit.record_action(
                        tx, self.runtime, now, origin, "member.invitation_revoked", account_id, invitation.id
                    )
            if role is None or not is_allowed(role, Action.MANAGE_KEYS):
                for key in await tx.grants.revoke_of_member(account_id, user_id, now):
                    await audit.record_action(
                        tx, self.runtime, now, origin, "grant.revoked", account_id, key.id
                    )


def _user_id(signed_in: SignedIn) -> UUID | None:
    return None if signed_in.user is None else signed_in.user.id


@frozen
class MemberKeys:
    """Keys as a member sees and changes them; `client_address` goes into the audit log."""

    administration: Administration
    queries: DashboardQueries
    runtime: Runtime

    async def list_use(self, who: SignedIn) -> Sequence[KeyUse]:
        """List the keys, the newest first, with today's use of their caps."""
        check_member(who, Action.VIEW_KEYS)
        return await self.queries.list_key_use(who.account.id, cap_day(self.runtime.now()))

    async def create(
        self, who: SignedIn, client_address: str | None, name: str, scopes: Sequence[Scope],
        daily_cap: int | None, expires_at: datetime | None, new_id: UUID | None,
    ) -> MintedKey:  # fmt: skip
        """Make a key; see `KeyAdministration.create`."""
        check_member(who, Action.MANAGE_KEYS)
        acting = self.administration.acting_as(who.origin(client_address))
        return await acting.keys.create(
            who.account.id, scopes, daily_cap, expires_at, name=name, new_id=new_id
        )

    async def set_daily_cap(
        self, who: SignedIn, client_address: str | None, key_id: UUID, daily_cap: int | None
    ) -> ApiKey:
        """Change the cap of a key and of those that share it; `None` removes it (rule 5/7)."""
        check_member(who, Action.MANAGE_CAPS)
        await self._check_own(who, key_id)
        return await self.administration.acting_as(who.origin(client_address)).keys.set_daily_cap(
            key_id, daily_cap
        )

    async def roll(
        self, who: SignedIn, client_address: str | None, key_id: UUID, overlap_h: int, new_id: UUID | None
    ) -> MintedKey:
        """Put a new key in the place of another; see `KeyAdministration.roll`."""
        check_member(who, Action.MANAGE_KEYS)
        await self._check_own(who, key_id)
        acting = self.administration.acting_as(who.origin(client_address))
        minted, _old = await acting.keys.roll(key_id, overlap_h, new_id)
        return minted

    async def revoke(self, who: SignedIn, client_address: str | None, key_id: UUID) -> ApiKey:
        """Revoke a key at once."""
        check_member(who, Action.MANAGE_KEYS)
        await self._check_own(who, key_id)
        return await self.administration.acting_as(who.origin(client_address)).keys.revoke(key_id)

    async def _check_own(self, who: SignedIn, key_id: UUID) -> None:
        keys = await self.administration.registry.list_keys(who.account.id)
        if key_id not in {key.id for key in keys}:
            raise NotFound("No key with this id.")


@frozen
class Playground:
    """Makes and finds the key of a member's playground. `is_sandbox`: the video provider is the sandbox."""

    administration: Administration
    runtime: Runtime
    is_sandbox: bool

    def scopes(self, who: SignedIn) -> Sequence[Scope]:
        """Return what a key of this member's playground may do; see `playground_scopes`."""
        return playground_scopes(who.role, is_sandbox=self.is_sandbox)

    async def find_key(self, who: SignedIn) -> ApiKey | None:
        """Return the key of the member's playground, if one works; `None` for operators who look."""
        check_member(who, Action.VIEW_KEYS)
        return next(iter(await self._keys(who)), None)

    async def make_key(self, who: SignedIn, client_address: str | None) -> MintedKey:
        """Make a key and revoke the member's earlier ones, so that at most one stays.

        A crash between the two leaves both for the hour; of two calls at once, each may revoke the other's.
        """
        check_member(who, Action.MANAGE_KEYS)
        acting = self.administration.acting_as(who.origin(client_address))
        scopes, ends_at = self.scopes(who), self.runtime.now() + PLAYGROUND_LASTS
        minted = await acting.keys.create(who.account.id, scopes, None, ends_at, name=PLAYGROUND_NAME)
        for key in await self._keys(who):
            if key.id != minted.key.id:
                await acting.keys.revoke(key.id)
        return minted

    async def _keys(self, who: SignedIn) -> Sequence[ApiKey]:
        member_id = _user_id(who)
        keys, now = await self.administration.registry.list_keys(who.account.id), self.runtime.now()
        return [key for key in keys if is_playground_key(key, member_id, now)]
