"""The columns of members, links and sessions."""

from meetcore.adapters.postgres.columns import Columns
from meetcore.domain.members.members import Invitation, Membership, User
from meetcore.domain.members.operators import Operator
from meetcore.domain.members.sessions import OperatorSession, Session
from meetcore.domain.members.sign_in_links import SignInLink

USER = Columns(User, "u", "user_")
MEMBERSHIP = Columns(Membership, "b", "membership_")
INVITATION = Columns(Invitation, "i", "invitation_")
OPERATOR = Columns(Operator, "o", "operator_")
LINK = Columns(SignInLink, "l", "link_")
SESSION = Columns(Session, "s", "session_")
OPERATOR_SESSION = Columns(OperatorSession, "s", "session_")
