"""One-time links that sign in: by e-mail, from the operator's product (portal), by invitation, for operators.

The token stands in the address and is stored as its SHA-256. A link works once and until it expires; one
that was asked for in a browser works in that browser alone, so that a mail that is read by somebody else
signs nobody in.
"""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final
from uuid import NAMESPACE_URL, UUID, uuid5

from attrs import field, frozen

from meetcore.domain.errors import Gone, RateLimited
from meetcore.domain.members.roles import Role
from meetcore.domain.requests.accounts import email_key

__all__ = [
    "DEFAULT_PORTAL_MINUTES",
    "EMAIL_FOR",
    "INVITATION_FOR",
    "MAX_PORTAL_MINUTES",
    "REQUESTS_PER_ADDRESS",
    "REQUESTS_PER_EMAIL",
    "REQUESTS_PER_PAIR",
    "REQUEST_WINDOW_S",
    "InvalidMinutes",
    "LinkPurpose",
    "SignInLink",
    "address_counter",
    "check_minutes",
    "check_requests",
    "email_counter",
    "link_unusable",
    "pair_counter",
    "request_window",
]

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
    """What a link is for. An operator's never signs a customer in, nor the other way round."""

    EMAIL = "email"
    PORTAL = "portal"
    INVITATION = "invitation"
    OPERATOR = "operator"


class InvalidMinutes(ValueError):
    """A portal link that would be valid for too short or too long."""


@frozen
class SignInLink:
    """A link as it is stored: never the token itself.

    E-mail: `user_id`. Portal: `account_id`, and `user_id` for a member or `guest_role`. Invitation:
    `invitation_id`. Operator: `operator_id`. `browser_digest` is the SHA-256 of the cookie of the browser
    that asked for it. `is_pinned` is whether the session stays in the account, and a member's is not fresh.
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


def check_minutes(minutes: int) -> timedelta:
    """Check for how long a portal link is to be valid.

    Raises:
        InvalidMinutes: not from 1 to 60.
    """
    if not 1 <= minutes <= MAX_PORTAL_MINUTES:
        raise InvalidMinutes(f"a portal link is valid for 1 to {MAX_PORTAL_MINUTES} minutes")
    return timedelta(minutes=minutes)


def link_unusable() -> Gone:
    """The refusal of a link, the same for every reason."""
    return Gone(
        "This link was used, has expired, or was asked for in another browser. Ask for a new one in the "
        "browser in which you want to sign in."
    )


def request_window(now: datetime) -> int:
    """The unix second at which the present window of requests for links began."""
    return int(now.timestamp()) // REQUEST_WINDOW_S * REQUEST_WINDOW_S


def address_counter(client_address: str | None) -> UUID:
    """The id under which the requests of a client address are counted."""
    return uuid5(_COUNTERS, f"address {client_address}")


def email_counter(email: str) -> UUID:
    """The id under which the requests for an e-mail address are counted."""
    return uuid5(_COUNTERS, f"email {email_key(email)}")


def pair_counter(client_address: str | None, email: str) -> UUID:
    """The id under which the requests of a client address for an e-mail address are counted."""
    return uuid5(_COUNTERS, f"address {client_address} email {email_key(email)}")


def check_requests(hits: int, limit: int, now: datetime) -> None:
    """Check how many links were asked for in this window, the present request included.

    Raises:
        RateLimited: more than the limit; the same whether the e-mail address is known or not.
    """
    if hits <= limit:
        return
    left_s = request_window(now) + REQUEST_WINDOW_S - int(now.timestamp())
    raise RateLimited(
        limit, REQUEST_WINDOW_S, left_s, "Too many sign-in links were asked for. Wait some minutes."
    )
