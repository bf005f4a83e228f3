"""Sign-up: who may open an account without an operator, and the request that waits for its link.

A request is stored under the SHA-256 of its link's token, works once and for 15 minutes, and only in the
browser that asked. Nothing of an account is made before the address has answered.
"""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final
from uuid import NAMESPACE_URL, UUID, uuid5

from attrs import field, frozen

from meetcore.domain.errors import InvalidRequest, RateLimited
from meetcore.domain.members.sign_in_links import REQUEST_WINDOW_S, request_window
from meetcore.domain.requests.accounts import email_key

__all__ = [
    "ALL_SIGN_UPS",
    "MAX_FULL_NAME",
    "SIGN_UPS_IN_ALL",
    "SIGN_UPS_PER_ADDRESS",
    "SIGN_UP_FOR",
    "SignUp",
    "SignUpMode",
    "check_full_name",
    "check_sign_ups",
    "sign_up_counter",
    "sign_up_email_counter",
]

SIGN_UP_FOR: Final = timedelta(minutes=15)
MAX_FULL_NAME: Final = 120
SIGN_UPS_PER_ADDRESS: Final = 5
"""Sign-ups that one client address may ask for in a window."""
SIGN_UPS_IN_ALL: Final = 100
"""Sign-ups that may be asked for in a window, from anywhere."""

_COUNTERS: Final = uuid5(NAMESPACE_URL, "meetcore:sign-up")
ALL_SIGN_UPS: Final = uuid5(_COUNTERS, "all")
"""The id under which all sign-ups are counted."""


class SignUpMode(StrEnum):
    """Who may open an account.

    CLOSED: operators alone. INVITED: who is a user already, as a member of another account. OPEN: who has an
    e-mail address.
    """

    CLOSED = "closed"
    INVITED = "invited"
    OPEN = "open"


@frozen
class SignUp:
    """A request for an account. `browser_digest` is the SHA-256 of the cookie of the browser that asked."""

    id: UUID
    email: str
    full_name: str
    created_at: datetime
    expires_at: datetime
    browser_digest: bytes = field(repr=False)


def check_full_name(text: str) -> str:
    """Check the name of a new account; return it without spaces around it.

    Raises:
        InvalidRequest: it is empty, too long, or has characters that are not printed.
    """
    name = text.strip()
    if not 1 <= len(name) <= MAX_FULL_NAME or not name.isprintable():
        raise InvalidRequest({"full_name": [f"Write a name of 1 to {MAX_FULL_NAME} characters."]})
    return name


def sign_up_counter(client_address: str | None) -> UUID:
    """The id under which the sign-ups of a client address are counted."""
    return uuid5(_COUNTERS, f"address {client_address}")


def sign_up_email_counter(email: str) -> UUID:
    """The id under which the sign-ups for an e-mail address are counted, apart from its sign-in links."""
    return uuid5(_COUNTERS, f"email {email_key(email)}")


def check_sign_ups(from_address: int, in_all: int, now: datetime) -> None:
    """Check how many sign-ups were asked for in this window, the present one included.

    Raises:
        RateLimited: too many from this address, or in all.
    """
    if from_address <= SIGN_UPS_PER_ADDRESS and in_all <= SIGN_UPS_IN_ALL:
        return
    limit = SIGN_UPS_PER_ADDRESS if from_address > SIGN_UPS_PER_ADDRESS else SIGN_UPS_IN_ALL
    left_s = request_window(now) + REQUEST_WINDOW_S - int(now.timestamp())
    raise RateLimited(limit, REQUEST_WINDOW_S, left_s, "Too many sign-ups. Wait some minutes.")
