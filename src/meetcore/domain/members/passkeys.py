"""Passkeys: the WebAuthn credentials of users and of operators, and the challenges that they answer.

A challenge is random, is stored as its SHA-256, works once and for five minutes, and only for the holder of
the cookie that it was given to. What a browser answers is verified elsewhere; the rules of names, numbers,
attempts and sign counters are here.

Sign counters (WebAuthn, 6.1.1): an authenticator that counts raises its number with each use. One that does
not go up means that the private key was copied; one that never counts answers 0 for ever.
"""

from collections.abc import Sized
from datetime import datetime, timedelta
from enum import StrEnum
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit
from uuid import NAMESPACE_URL, UUID, uuid5

from attrs import Attribute, evolve, field, frozen

from meetcore.domain.errors import InvalidRequest, RateLimited, Unprocessable
from meetcore.domain.members.sign_in_links import REQUEST_WINDOW_S, request_window

__all__ = [
    "ATTEMPTS_PER_ADDRESS",
    "CHALLENGE_BYTES",
    "CHALLENGE_FOR",
    "MAX_ANSWER",
    "MAX_NAME",
    "MAX_PASSKEYS",
    "Challenge",
    "ChallengePurpose",
    "Passkey",
    "PasskeyOwner",
    "attempts_counter",
    "check_attempts",
    "check_name",
    "check_room",
    "passkey_refused",
    "record_use",
    "relying_party",
]

MAX_PASSKEYS: Final = 10
"""Passkeys of one user, or of one operator."""
MAX_NAME: Final = 60
MAX_ANSWER: Final = 16_384
"""Characters of a browser's answer, as JSON."""
CHALLENGE_FOR: Final = timedelta(minutes=5)
CHALLENGE_BYTES: Final = 32
ATTEMPTS_PER_ADDRESS: Final = 20
"""Challenges that one client address may ask for in a window, and answers that it may give."""

_COUNTERS: Final = uuid5(NAMESPACE_URL, "meetcore:passkeys")


class ChallengePurpose(StrEnum):
    """What a challenge is for. One of a registration signs nobody in, nor the other way round."""

    REGISTRATION = "registration"
    SIGN_IN = "sign_in"


def _is_of_one(owner: "PasskeyOwner", _: "Attribute[UUID | None]", value: UUID | None) -> None:
    if (owner.user_id is None) == (value is None):
        raise ValueError("a passkey is of a user or of an operator")


@frozen
class PasskeyOwner:
    """Whose a passkey is: a user's or an operator's, never both."""

    user_id: UUID | None = None
    operator_id: UUID | None = field(default=None, validator=_is_of_one)

    @property
    def id(self) -> UUID:
        """The id of the user or of the operator: the user handle of WebAuthn."""
        found = self.user_id or self.operator_id
        assert found is not None
        return found


@frozen
class Passkey:
    """A passkey as it is stored.

    `credential` is the id that the authenticator gave it, `public_key` a COSE key; the private one never
    leaves its device.
    """

    id: UUID
    user_id: UUID | None
    operator_id: UUID | None
    credential: bytes = field(repr=False)
    public_key: bytes = field(repr=False)
    sign_count: int
    name: str
    created_at: datetime
    last_used_at: datetime | None = None

    @property
    def owner(self) -> PasskeyOwner:
        """Whose it is."""
        return PasskeyOwner(self.user_id, self.operator_id)


@frozen
class Challenge:
    """A challenge as it is stored: never its bytes.

    `digest` is the SHA-256 of the challenge, `holder_digest` that of the cookie of the browser that got it.
    """

    digest: bytes = field(repr=False)
    purpose: ChallengePurpose
    is_operators: bool
    holder_digest: bytes = field(repr=False)
    expires_at: datetime


def relying_party(base_url: str) -> str | None:
    """The host of a base URL as the relying party id of its passkeys.

    Returns:
        None where browsers take no passkey: for an IP address, and without TLS except for `localhost`.
    """
    parts = urlsplit(base_url)
    host = parts.hostname or ""
    try:
        ip_address(host)
    except ValueError:
        return host if host and (parts.scheme == "https" or host == "localhost") else None
    return None


def check_name(text: str) -> str:
    """Check the name that an owner gives a passkey; return it without spaces around it.

    Raises:
        InvalidRequest: it is empty, too long, or has characters that are not printed.
    """
    name = text.strip()
    if not 1 <= len(name) <= MAX_NAME or not name.isprintable():
        raise InvalidRequest({"name": [f"Write a name of 1 to {MAX_NAME} characters."]})
    return name


def check_room(own: Sized) -> None:
    """Check that an owner of these passkeys may have one more.

    Raises:
        Unprocessable: there are as many as there may be.
    """
    if len(own) >= MAX_PASSKEYS:
        raise Unprocessable(f"There can be {MAX_PASSKEYS} passkeys. Remove one that you do not use first.")


def passkey_refused() -> Unprocessable:
    """The refusal of an answer, the same for every reason."""
    return Unprocessable("The passkey was not accepted. Try again, or sign in by e-mail.")


def record_use(passkey: Passkey, sign_count: int, at: datetime) -> Passkey:
    """Take note of a sign-in.

    Raises:
        Unprocessable: the authenticator counts, and its counter did not go up.
    """
    if sign_count <= passkey.sign_count and (sign_count, passkey.sign_count) != (0, 0):
        raise passkey_refused()
    return evolve(passkey, sign_count=sign_count, last_used_at=at)


def attempts_counter(step: str, client_address: str | None) -> UUID:
    """The id under which the attempts of a client address at a step of a sign-in are counted."""
    return uuid5(_COUNTERS, f"{step} {client_address}")


def check_attempts(hits: int, now: datetime) -> None:
    """Check how many attempts were made in this window, the present one included.

    Raises:
        RateLimited: too many.
    """
    if hits > ATTEMPTS_PER_ADDRESS:
        left_s = request_window(now) + REQUEST_WINDOW_S - int(now.timestamp())
        raise RateLimited(
            ATTEMPTS_PER_ADDRESS, REQUEST_WINDOW_S, left_s, "Too many attempts. Wait some minutes."
        )
