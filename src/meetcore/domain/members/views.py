"""Views of members, operators and their sessions that the store reads."""

from uuid import UUID

from attrs import frozen

from meetcore.domain.errors import Unprocessable
from meetcore.domain.members import audit, members, operators, roles, sessions
from meetcore.domain.requests.accounts import AccountStatus, status_of
from meetcore.domain.requests.views import AccountSummary


@frozen
class SignedIn:
    """A customer's session, its account, user and role. `user` is `None` for a guest."""

    session: sessions.Session
    account: AccountSummary
    user: members.User | None
    role: roles.Role

    def origin(self, client_address: str | None) -> audit.ActionOrigin:
        """Return the origin of a change, for the audit log."""
        if self.session.impersonated_by is not None:
            actor = audit.operator_actor(self.session.impersonated_by, "operator")
            return audit.ActionOrigin(actor, client_address, is_impersonated=True)
        if self.user is None:
            actor = audit.guest_actor(self.session.id, self.role)
        else:
            actor = audit.member_actor(self.user.id)
        return audit.ActionOrigin(actor, client_address)


@frozen
class SignedInOperator:
    """An operator and the session, and the number of payments that operators have to look at."""

    session: sessions.OperatorSession
    operator: operators.Operator
    payments_in_doubt: int = 0

    def origin(self, client_address: str | None, *, is_impersonated: bool = False) -> audit.ActionOrigin:
        """Return the origin of a change, for the audit log."""
        actor = audit.operator_actor(self.operator.id, self.operator.email)
        return audit.ActionOrigin(actor, client_address, is_impersonated)


@frozen
class AccountMembership:
    """An account of a user, for a choice among them."""

    account_id: UUID
    full_name: str
    email: str
    role: roles.Role


@frozen
class OpenInvitation:
    """An invitation that can be accepted. `invited_by` names the member who invites, if one does."""

    account_name: str
    role: roles.Role
    invited_by: str | None


def inviter_name(full_name: str, email: str) -> str:
    """Name a member for readers outside the account."""
    return f"{full_name} ({email})"


def check_member(who: SignedIn, action: roles.Action) -> None:
    """Check that a member may do something, by role and by the state of the account: every action asks here.

    Raises `ActionNotAllowed` for another role, and `Unprocessable` for what a suspended account does not do.
    """
    roles.check_allowed(who.role, action)
    is_suspended = status_of(who.account.suspended_at) is AccountStatus.SUSPENDED
    if is_suspended and action not in roles.WHILE_SUSPENDED:
        raise Unprocessable("The account is suspended. Ask the operator of the service.")
