"""The store of people: users, memberships, operators, passkeys, sign-in links, sessions and the audit log."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from meetcore.domain.members import audit, sessions, views
from meetcore.domain.members.members import Invitation, InvitationCounts, Member, Membership, User
from meetcore.domain.members.operators import Operator, OperatorToken
from meetcore.domain.members.passkeys import Challenge, ChallengePurpose, Passkey, PasskeyOwner
from meetcore.domain.members.sign_in import SignInLink, SignUp
from meetcore.domain.notes.notes import Language


class AuditLog(Protocol):
    """Entries of changes, each written in the transaction of its change."""

    async def append(self, entry: audit.AuditEntry) -> None:
        """Write an entry; an id is written once."""


class MemberRepository(Protocol):
    """Users, memberships and invitations; the oldest first. Changes of an account's are under its lock."""

    async def ensure_user(self, user: User) -> User:
        """Return the user of this e-mail address by `email_key`; write this one if there is none.

        Concurrent calls with one address write one user, and all return it.
        """

    async def set_language(self, user_id: UUID, language: Language, *, is_first: bool = False) -> None:
        """Change the language of mails to a user; `is_first` where they have none yet."""

    async def set_name(self, user_id: UUID, full_name: str) -> None: ...
    async def load_members(self, account_id: UUID) -> Sequence[Membership]: ...
    async def load_memberships(self, user_id: UUID) -> Sequence[Membership]: ...
    async def add_membership(self, membership: Membership) -> bool:
        """Write a membership; False when the user is a member already.

        A user from `ensure_user` who is a member of no account loses the passkeys: the address may have
        another holder by now.
        """

    async def save_membership(self, membership: Membership) -> None: ...
    async def remove_membership(self, account_id: UUID, user_id: UUID, at: datetime) -> None:
        """End a membership and the user's sessions in the account."""

    async def add_invitation(self, invitation: Invitation) -> None:
        """Write an invitation, and revoke a pending one to the same address from its time on."""

    async def revoke_invitations_of(
        self, account_id: UUID, user_id: UUID, at: datetime, *, to_member: bool
    ) -> Sequence[Invitation]:
        """Revoke an account's pending invitations by a member, and those `to_member`; return them."""

    async def count_invitations(self, account_id: UUID, except_email: str, now: datetime) -> InvitationCounts:
        """Count an account's invitations; a pending one to an address is not counted."""

    async def load_invitation(self, invitation_id: UUID) -> Invitation | None:
        """Lock an invitation and read it."""

    async def save_invitation(self, invitation: Invitation) -> None: ...


class OperatorRepository(Protocol):
    """Operators of the console, and tokens of their programs."""

    async def add(self, operator: Operator) -> None:
        """Write an operator. Raises `Conflict` when a present one has this e-mail address, by `email_key`."""

    async def remove(self, operator_id: UUID, at: datetime) -> Operator:
        """Remove an operator and end the sessions, views of accounts too. Raises `NotFound`.

        A removed one keeps its time.
        """

    async def add_token(self, token: OperatorToken, digest: bytes) -> None: ...
    async def revoke_token(self, token_id: UUID, at: datetime) -> OperatorToken:
        """Revoke a token; a revoked one keeps its time. Raises `NotFound`."""


class PasskeyRepository(Protocol):
    """Passkeys of users and of operators, and the challenges that they answer."""

    async def add_challenge(self, challenge: Challenge) -> None: ...
    async def use_challenge(
        self, digest: bytes, purpose: ChallengePurpose, is_operators: bool, holder_digest: bytes, at: datetime
    ) -> bool:
        """Consume a challenge, once among concurrent calls; `holder_digest` is of the browser's cookie.

        Returns False when there is none, or it has expired, or is another purpose's, owner's or holder's.
        """

    async def load_own(self, owner: PasskeyOwner) -> Sequence[Passkey]:
        """Lock an owner and read the passkeys, the oldest first."""

    async def add(self, passkey: Passkey) -> None:
        """Write a passkey. Raises `Conflict` when its credential is known."""

    async def find_for_sign_in(self, credential: bytes, is_operators: bool) -> Passkey | None:
        """Lock and read a credential's passkey, unless of the other kind or of a removed operator."""

    async def save_use(self, passkey: Passkey) -> None: ...
    async def remove(self, owner: PasskeyOwner, passkey_id: UUID) -> Passkey | None:
        """Delete an owner's passkey and return it."""

    async def purge_challenges(self, expired_before: datetime) -> int:
        """Delete a portion of expired challenges; return how many."""


class SignInRepository(Protocol):
    """Sign-in links, sign-ups and sessions, by the digests of their tokens.

    Customers' sessions and operators' are kept apart. A `use_` consumes a record, once among concurrent
    calls; it returns `None` when there is none, or it was used, has expired, or belongs to another browser.
    """

    async def add_email_link(self, link: SignInLink, digest: bytes, email: str) -> User | None:
        """Write a link for the user of an e-mail address; `None` when no user with a membership has it."""

    async def add_operator_link(self, link: SignInLink, digest: bytes, email: str) -> Operator | None:
        """Write a link for the operator of an e-mail address; `None` when no operator has it."""

    async def add_link(self, link: SignInLink, digest: bytes) -> None: ...
    async def use_link(
        self, digest: bytes, browser_digest: bytes | None, is_operators: bool, at: datetime
    ) -> SignInLink | None:
        """Consume a link, of the purpose `operator` or not; one from a browser works there alone."""

    async def bind_identity(self, owner: PasskeyOwner, issuer: str, subject: str, at: datetime) -> bool:
        """Write who an owner is at an issuer, the first time; return whether it is this subject."""

    async def forget_identities(self, owner: PasskeyOwner) -> int:
        """Delete who an owner is at issuers; return how many there were."""

    async def find_link(self, digest: bytes, is_operators: bool) -> SignInLink | None:
        """Return a link, of the purpose `operator` or not, whether it can be used or not."""

    async def find_invitation(self, digest: bytes, at: datetime) -> views.OpenInvitation | None:
        """Return the invitation that a link, which stays as it is, would accept."""

    async def find_member(self, email: str) -> User | None:
        """Return the user of an e-mail address who is a member of an account."""

    async def find_operator(self, email: str) -> Operator | None:
        """Return the operator of an e-mail address, unless removed."""

    async def add_sign_up(self, sign_up: SignUp, digest: bytes, only_members: bool) -> bool:
        """Write a request for an account; False when only members may ask and none has the e-mail address."""

    async def use_sign_up(self, digest: bytes, browser_digest: bytes, at: datetime) -> SignUp | None: ...
    async def add_session(self, session: sessions.Session, digest: bytes) -> None: ...
    async def add_operator_session(self, session: sessions.OperatorSession, digest: bytes) -> str | None:
        """Write an operator's session; return the e-mail address, `None` for an operator who was removed."""

    async def touch_session(self, session_id: UUID, at: datetime) -> None:
        """Write when a session was last used, unless that was written in `SEEN_EVERY` before."""

    async def touch_operator_session(self, session_id: UUID, at: datetime) -> None:
        """Write the same of an operator's session."""

    async def end_session(self, session_id: UUID, at: datetime) -> sessions.Session | None:
        """End a session and return it; `None` when it had ended."""

    async def end_sessions_of(self, user_id: UUID, except_id: UUID | None, at: datetime) -> int:
        """End every session of a user but one, and void unused links and sign-ups; return how many sessions.

        Takes the locks of the links first and the user's lock then, so that a link that is being used, or a
        switch of accounts, is over before: its session is ended, too.
        """

    async def end_guest_sessions(self, account_id: UUID, except_id: UUID | None, at: datetime) -> int:
        """End the sessions of guests, and operators' views, in an account but one; return how many.

        Unused links of guests are void.
        """

    async def lock_user(self, user_id: UUID) -> None:
        """Wait for other changes of a user's sessions."""

    async def lock_operator_session(self, session_id: UUID) -> bool:
        """Wait for other changes of its operator's sessions; return whether a session has not been ended."""

    async def end_operator_session(self, session_id: UUID, at: datetime) -> sessions.OperatorSession | None:
        """End an operator's session, and views of accounts, and return it; `None` when it had ended.

        Takes the operator's lock, so that a view that is being begun is ended, too.
        """

    async def end_sessions_of_operator(self, operator_id: UUID, except_id: UUID, at: datetime) -> int:
        """End every session of an operator but one, and the views of accounts; return how many sessions.

        Unused links of the operator are void.
        """

    async def purge(self, seen_before: datetime, expired_before: datetime) -> int:
        """Delete a portion of unused sessions, and of expired links and requests; return how many."""


class MemberQueries(Protocol):
    """Reads of people. Secrets are found by their SHA-256, valid or not.

    Sessions and invitations are listed the newest first, others the oldest.
    """

    async def find_session(self, digest: bytes) -> views.SignedIn | None:
        """Return a session with its account, user and present role, unless the user is no member any more."""

    async def find_operator_session(self, digest: bytes) -> views.SignedInOperator | None:
        """Return an operator's session, unless the operator was removed."""

    async def list_sessions(
        self, user_id: UUID | None, guests_of: UUID | None, seen_after: datetime, limit: int
    ) -> Sequence[sessions.Session]:
        """List sessions in use: a user's in every account; those of guests, and operators' views, in one."""

    async def list_operator_sessions(
        self, operator_id: UUID, seen_after: datetime, limit: int
    ) -> Sequence[sessions.OperatorSession]:
        """List an operator's sessions in use."""

    async def list_account_sessions(
        self, account_id: UUID, limit: int, before: UUID | None
    ) -> Sequence[sessions.Session]:
        """List the sessions in an account, guests' and ended ones included."""

    async def list_members(self, account_id: UUID) -> Sequence[Member]: ...
    async def list_accounts_of(self, user_id: UUID) -> Sequence[views.AccountMembership]: ...
    async def list_invitations(self, account_id: UUID, now: datetime) -> Sequence[Invitation]:
        """List an account's pending invitations."""

    async def list_passkeys(self, owner: PasskeyOwner) -> Sequence[Passkey]: ...
    async def list_operators(self) -> Sequence[Operator]:
        """List operators who were not removed."""

    async def find_operator_token(self, digest: bytes) -> OperatorToken | None: ...
    async def list_operator_tokens(self) -> Sequence[OperatorToken]:
        """List every token, revoked and expired ones included."""
