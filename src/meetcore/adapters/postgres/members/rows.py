"""The columns of members, links, sessions and passkeys."""

from meetcore.adapters.postgres.columns import Columns
from meetcore.domain.members.members import Invitation, Membership, User
from meetcore.domain.members.operator_tokens import OperatorToken
from meetcore.domain.members.operators import Operator
from meetcore.domain.members.passkeys import Challenge, Passkey
from meetcore.domain.members.sessions import OperatorSession, Session
from meetcore.domain.members.sign_in_links import SignInLink
from meetcore.domain.members.sign_ups import SignUp

USER = Columns(User, "u", "user_")
MEMBERSHIP = Columns(Membership, "b", "membership_")
INVITATION = Columns(Invitation, "i", "invitation_")
OPERATOR = Columns(Operator, "o", "operator_")
OPERATOR_TOKEN = Columns(OperatorToken, "t", "token_")
LINK = Columns(SignInLink, "l", "link_")
SESSION = Columns(Session, "s", "session_")
OPERATOR_SESSION = Columns(OperatorSession, "s", "session_")
PASSKEY = Columns(Passkey, "p", "passkey_")
CHALLENGE = Columns(Challenge, "c", "challenge_")
SIGN_UP = Columns(SignUp, "s", "sign_up_")
