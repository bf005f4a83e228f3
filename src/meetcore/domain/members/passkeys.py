"""Passkeys: the WebAuthn credentials of users and of operators, and their challenges.

A challenge is random, is stored as its SHA-256, works once and for five minutes, and only for the holder of
the cookie that it was given to. The response of a browser is verified elsewhere; names, numbers, attempts and
sign counters are decided here.

Sign counters (WebAuthn, 6.1.1): an authenticator that counts raises its number with each use. One that does
not go up means that the private key was copied; one that never counts sends 0 for ever.
"""

from collections.abc import Sized
from datetime import datetime, timedelta
from enum import StrEnum
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit
from uuid import NAMESPACE_URL, UUID, uuid5

from attrs import Attribute, evolve, field, frozen

from meetcore.domain.errors import InvalidRequest, Unprocessable
from meetcore.domain.members.sign_in import check_hits
from meetcore.domain.requests.clients import one_client

MAX_PASSKEYS: Final = 10
"""Passkeys of one user, or of one operator."""
MAX_NAME: Final = 60
MAX_ANSWER: Final = 16_384
"""Characters of a browser's answer, as JSON."""
MAX_CREDENTIAL: Final = 1023
"""Bytes of a credential's id (WebAuthn, 7.1, step 25)."""
CHALLENGE_FOR: Final = timedelta(minutes=5)
CHALLENGE_BYTES: Final = 32
ATTEMPTS_PER_ADDRESS: Final = 20
"""Challenges that one client address may ask for in a window, and answers that it may give."""

_COUNTERS: Final = uuid5(NAMESPACE_URL, "meetcore:passkeys")


class ChallengePurpose(StrEnum):
    """The purpose of a challenge. One of a registration never signs in, nor the other way round."""

    REGISTRATION = "registration"
    SIGN_IN = "sign_in"


def _is_of_one(owner: "PasskeyOwner", _: "Attribute[UUID | None]", value: UUID | None) -> None:
    if (owner.user_id is None) == (value is None):
        raise ValueError("a passkey is of a user or of an operator")


@frozen
class PasskeyOwner:
    """The owner of a passkey: a user or an operator, never both."""

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
    """A passkey as it is stored. `credential` is the authenticator's id for it, `public_key` a COSE key."""

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
        """Its owner."""
        return PasskeyOwner(self.user_id, self.operator_id)


@frozen
class Challenge:
    """A challenge as it is stored: the SHA-256 of its bytes, and that of the cookie of its browser."""

    digest: bytes = field(repr=False)
    purpose: ChallengePurpose
    is_operators: bool
    holder_digest: bytes = field(repr=False)
    expires_at: datetime


def relying_party(base_url: str) -> str | None:
    """Return a base URL's host as relying party id; `None` for an IP address and for remote plain HTTP."""
    parts = urlsplit(base_url)
    host = parts.hostname or ""
    try:
        ip_address(host)
    except ValueError:
        return host if host and (parts.scheme == "https" or host == "localhost") else None
    return None


def check_name(text: str) -> str:
    """Return a stripped name; raise `InvalidRequest` if it is empty, too long, or not printable."""
    name = text.strip()
    if not 1 <= len(name) <= MAX_NAME or not name.isprintable():
        raise InvalidRequest({"name": [f"Write a name of 1 to {MAX_NAME} characters."]})
    return name


def check_room(own: Sized) -> None:
    """Raise `Unprocessable` where an owner has `MAX_PASSKEYS` already."""
    if len(own) >= MAX_PASSKEYS:
        raise Unprocessable(f"There can be {MAX_PASSKEYS} passkeys. Remove one that you do not use first.")


def passkey_refused() -> Unprocessable:
    """Return the refusal of a response, the same for every reason."""
    return Unprocessable("The passkey was not accepted. Try again, or sign in by e-mail.")


def record_use(passkey: Passkey, sign_count: int, at: datetime) -> Passkey:
    """Record a sign-in; raise `Unprocessable` where the authenticator counts and did not go up."""
    if sign_count <= passkey.sign_count and (sign_count, passkey.sign_count) != (0, 0):
        raise passkey_refused()
    return evolve(passkey, sign_count=sign_count, last_used_at=at)


def attempts_counter(step: str, client_address: str | None) -> UUID:
    """Return the id under which the attempts of a client address at a step of a sign-in are counted."""
    return uuid5(_COUNTERS, f"{step} {one_client(client_address)}")


def check_attempts(hits: int, now: datetime) -> None:
    """Raise `RateLimited` after too many attempts in this window, the present one included."""
    check_hits(hits, ATTEMPTS_PER_ADDRESS, now, "Too many attempts. Wait some minutes.")
