"""Sign-in by one-time links, sign-up of new accounts, and the tokens of links and sessions.

Links are sent by e-mail, made by the operator's product (portal), by invitation, or for operators. The token
stands in the address and is stored as its SHA-256. A link works once and until it expires; one that was
requested in a browser works in that browser alone, so that a mail read by another person signs no one in.

A sign-up is stored under the SHA-256 of its link's token, works once and for 15 minutes, and only in the
browser that asked. No account exists before the address has answered.
"""

import base64
import hashlib
import re
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final
from unicodedata import normalize
from uuid import NAMESPACE_URL, UUID, uuid5

from attrs import field, frozen

from meetcore.domain.errors import Gone, InvalidRequest, RateLimited
from meetcore.domain.members.roles import Role
from meetcore.domain.requests.accounts import email_key
from meetcore.domain.requests.clients import one_client

TOKEN_BYTES: Final = 32

_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)


def mint_token(random: bytes) -> str:
    """Compose a token of 43 characters of base64url from 32 random bytes."""
    if len(random) != TOKEN_BYTES:
        raise ValueError(f"a token needs {TOKEN_BYTES} random bytes")
    return base64.urlsafe_b64encode(random).rstrip(b"=").decode()


def is_token(text: str) -> bool:
    """Return whether a text has the form of a token; another one need not be looked up."""
    return _TOKEN.fullmatch(text) is not None


def token_digest(token: str) -> bytes:
    """Return the SHA-256 under which a token is stored. 256 random bits need no slow hash."""
    return hashlib.sha256(token.encode()).digest()


EMAIL_FOR: Final = timedelta(minutes=15)
INVITATION_FOR: Final = timedelta(days=7)
DEFAULT_PORTAL_MINUTES: Final = 10
MAX_PORTAL_MINUTES: Final = 60

REQUEST_WINDOW_S: Final = 300
REQUESTS_PER_ADDRESS: Final = 20
"""Links by e-mail that one client address may ask for in a window."""
REQUESTS_PER_PAIR: Final = 5
"""Links that one client address may ask for one e-mail address in a window."""
REQUESTS_PER_EMAIL: Final = 25
"""Links that may be asked for one e-mail address in a window: its owner gets one while strangers ask for it
from a few client addresses."""

_COUNTERS: Final = uuid5(NAMESPACE_URL, "meetcore:sign-in")


class LinkPurpose(StrEnum):
    """The purpose of a link. An operator's never signs a customer in, nor the other way round."""

    EMAIL = "email"
    PORTAL = "portal"
    INVITATION = "invitation"
    OPERATOR = "operator"


class SignInMethod(StrEnum):
    """The way in which a session began."""

    EMAIL_LINK = "email_link"
    PORTAL_LINK = "portal_link"
    INVITATION = "invitation"
    PASSKEY = "passkey"
    SINGLE_SIGN_ON = "single_sign_on"
    SIGN_UP = "sign_up"
    OTHER_ACCOUNT = "other_account"


class InvalidMinutes(ValueError):
    """A validity of a portal link that is too short or too long."""


@frozen
class SignInLink:
    """A link as it is stored: never the token itself.

    E-mail: `user_id`. Portal: `account_id`, and `user_id` for a member or `guest_role`. Invitation:
    `invitation_id`. Operator: `operator_id`. `browser_digest` is the SHA-256 of the cookie of the requesting
    browser. `is_pinned`: the session stays in the account, and a member's is not fresh.
    """

    id: UUID
    purpose: LinkPurpose
    created_at: datetime
    expires_at: datetime
    account_id: UUID | None = None
    user_id: UUID | None = None
    guest_role: Role | None = None
    invitation_id: UUID | None = None
    operator_id: UUID | None = None
    browser_digest: bytes | None = field(default=None, repr=False)
    used_at: datetime | None = None
    is_pinned: bool = False


def method_of(link: SignInLink) -> SignInMethod:
    """Return how a link signs in; one of an operator without a browser was made by another operator."""
    if link.purpose is LinkPurpose.INVITATION:
        return SignInMethod.INVITATION
    return SignInMethod.PORTAL_LINK if link.browser_digest is None else SignInMethod.EMAIL_LINK


def check_minutes(minutes: int) -> timedelta:
    """Return the validity of a portal link; raise `InvalidMinutes` outside 1 to 60."""
    if not 1 <= minutes <= MAX_PORTAL_MINUTES:
        raise InvalidMinutes(f"a portal link is valid for 1 to {MAX_PORTAL_MINUTES} minutes")
    return timedelta(minutes=minutes)


def link_unusable() -> Gone:
    """Return the refusal of a link, the same for every reason."""
    return Gone(
        "This link was used, has expired, or was asked for in another browser. Ask for a new one in the "
        "browser in which you want to sign in."
    )


class SignInFirst(Exception):
    """An invitation to an address that signs in already: it opens no session of that user by itself."""


def request_window(now: datetime) -> int:
    """Return the unix second at which the present window of requests for links began."""
    return int(now.timestamp()) // REQUEST_WINDOW_S * REQUEST_WINDOW_S


def check_hits(hits: int, limit: int, now: datetime, message: str) -> None:
    """Raise `RateLimited`, until the end of this window, for more hits than the limit, this one included."""
    if hits > limit:
        left_s = request_window(now) + REQUEST_WINDOW_S - int(now.timestamp())
        raise RateLimited(limit, REQUEST_WINDOW_S, left_s, message)


def address_counter(client_address: str | None) -> UUID:
    """Return the id under which the requests of a client address are counted."""
    return uuid5(_COUNTERS, f"address {one_client(client_address)}")


def email_counter(email: str) -> UUID:
    """Return the id under which the requests for an e-mail address are counted."""
    return uuid5(_COUNTERS, f"email {email_key(email)}")


def pair_counter(client_address: str | None, email: str) -> UUID:
    """Return the id under which the requests of a client address for an e-mail address are counted."""
    return uuid5(_COUNTERS, f"address {one_client(client_address)} email {email_key(email)}")


def check_requests(hits: int, limit: int, now: datetime) -> None:
    """Check the requests for links; the refusal is the same whether the e-mail address is known or not."""
    check_hits(hits, limit, now, "Too many sign-in links were asked for. Wait some minutes.")


SIGN_UP_FOR: Final = timedelta(minutes=15)
MAX_FULL_NAME: Final = 120
SIGN_UPS_PER_ADDRESS: Final = 5
"""Sign-ups that one client address may ask for in a window."""
SIGN_UPS_IN_ALL: Final = 100
"""Sign-ups that may be asked for in a window, from anywhere."""

_SIGN_UP_COUNTERS: Final = uuid5(NAMESPACE_URL, "meetcore:sign-up")
ALL_SIGN_UPS: Final = uuid5(_SIGN_UP_COUNTERS, "all")
"""The id under which all sign-ups are counted."""


class SignUpMode(StrEnum):
    """Who may open an account: operators, members of other accounts too, or every e-mail address."""

    CLOSED = "closed"
    INVITED = "invited"
    OPEN = "open"


@frozen
class SignUp:
    """A request for an account. `browser_digest` is the SHA-256 of the cookie of the requesting browser."""

    id: UUID
    email: str
    full_name: str
    created_at: datetime
    expires_at: datetime
    browser_digest: bytes = field(repr=False)


# What programs for mail make a link of: a scheme, an address, or words with a full stop and no space between.
_ADDRESS = re.compile(r"://|@|[^\W_][.\u3002][^\W\d_]{2,}")


def _has_address(name: str) -> bool:
    # As browsers read a host: other forms of a full stop or an @ are the same there (UTS #46).
    return _ADDRESS.search(normalize("NFKC", name)) is not None


def check_full_name(text: str) -> str:
    """Return a stripped name; raise `InvalidRequest` for one that is empty, too long or not printable.

    A name stands in mails to strangers, so that one with a web or e-mail address is refused, too.
    """
    name = text.strip()
    if not 1 <= len(name) <= MAX_FULL_NAME or not name.isprintable():
        raise InvalidRequest({"full_name": [f"Write a name of 1 to {MAX_FULL_NAME} characters."]})
    if _has_address(name):
        problem = "Write the name without a web or e-mail address, and a space after each full stop."
        raise InvalidRequest({"full_name": [problem]})
    return name


def name_of(email: str, full_name: str = "") -> str:
    """Return a name that others gave, as far as it can be one, else one made of an e-mail address."""
    name = "".join(each for each in full_name if each.isprintable()).strip()[:MAX_FULL_NAME]
    return name if name and not _has_address(name) else email.partition("@")[0].replace(".", " ")


def sign_up_counter(client_address: str | None) -> UUID:
    """Return the id under which the sign-ups of a client address are counted."""
    return uuid5(_SIGN_UP_COUNTERS, f"address {one_client(client_address)}")


def sign_up_email_counter(email: str) -> UUID:
    """Return the id under which the sign-ups for an e-mail address are counted, apart from its links."""
    return uuid5(_SIGN_UP_COUNTERS, f"email {email_key(email)}")


def check_sign_ups(from_address: int, in_all: int, now: datetime) -> None:
    """Raise `RateLimited` after too many sign-ups in this window from this address, or in all."""
    for hits, limit in ((from_address, SIGN_UPS_PER_ADDRESS), (in_all, SIGN_UPS_IN_ALL)):
        check_hits(hits, limit, now, "Too many sign-ups. Wait some minutes.")
