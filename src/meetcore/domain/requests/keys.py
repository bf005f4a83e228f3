"""API keys: their form, their digest, their scopes, and when one is valid (spec 5).

Owns the form of a key and its permissions. Keeps no key: only its SHA-256 is stored,
and 256 random bits need no slow hash.
"""

import base64
import hashlib
import re
from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

from attrs import frozen

from meetcore.domain.errors import InsufficientScope, InvalidApiKey

__all__ = [
    "DEFAULT_NAME",
    "MAX_NAME",
    "SECRET_BYTES",
    "SECRET_LENGTH",
    "ApiKey",
    "InvalidExpiry",
    "InvalidName",
    "Scope",
    "check_expiry",
    "check_name",
    "check_usable",
    "dashboard_key",
    "digest",
    "is_prefix",
    "last_four",
    "masked",
    "mint",
    "read_bearer",
    "require_scope",
]

SECRET_BYTES: Final = 32
SECRET_LENGTH: Final = 43
MAX_NAME: Final = 60
"""Characters."""
DEFAULT_NAME: Final = "API key"
"""Of a key that was made without one."""

_SECRET = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)
_PREFIX = re.compile(r"[a-z][a-z0-9]{0,15}", re.ASCII)
_REFUSAL = "The API key is wrong, revoked or expired. Send it as: Authorization: Bearer <API_KEY>."


class InvalidExpiry(ValueError):
    """A key that would expire before it is made."""


class InvalidName(ValueError):
    """A text that cannot be the name of a key."""


class Scope(StrEnum):
    """What a key may do. Fixed when the key is made (rule 5/4)."""

    MEETINGS_READ = "meetings:read"
    MEETINGS_WRITE = "meetings:write"
    NOTULEN_READ = "notulen:read"
    NOTULEN_WRITE = "notulen:write"
    RECORDINGS_READ = "recordings:read"
    RECORDINGS_WRITE = "recordings:write"
    CREDITS_READ = "credits:read"
    WEBHOOKS_READ = "webhooks:read"
    WEBHOOKS_WRITE = "webhooks:write"


@frozen
class ApiKey:
    """A key as it is stored: never the key itself.

    `daily_cap` is credits per WIB day, or `None`. `last_four` characters of its text tell keys apart; `None`
    for a key of a release that did not keep them. `created_by` is the member who made it, `None` for the
    operator. `last_used_at` is a whole minute. `first_key_id` is the first of the keys that it was rolled
    from: they share one cap.
    """

    id: UUID
    account_id: UUID
    scopes: tuple[Scope, ...]
    daily_cap: int | None
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    name: str = DEFAULT_NAME
    last_four: str | None = None
    created_by: UUID | None = None
    last_used_at: datetime | None = None
    first_key_id: UUID | None = None


def dashboard_key(account_id: UUID, at: datetime) -> ApiKey:
    """The key that pays for what the members of an account do by hand.

    It has the id of the account, every scope and no cap. No text belongs to it and no store keeps it, so that
    nobody can present, list, roll or revoke it.
    """
    return ApiKey(account_id, account_id, tuple(Scope), None, at)


def is_prefix(text: str) -> bool:
    """Whether a configured key prefix is short, lower case and alphanumeric."""
    return _PREFIX.fullmatch(text) is not None


def mint(prefix: str, random: bytes) -> str:
    """Compose a key: `<prefix>_live_` and 43 characters of base64url (rule 5/2).

    Args:
        prefix: the service's own, see `is_prefix`.
        random: 32 random bytes.

    Raises:
        ValueError: the prefix or the number of bytes is off.
    """
    if not is_prefix(prefix) or len(random) != SECRET_BYTES:
        raise ValueError(f"a key needs a short lower-case prefix and {SECRET_BYTES} random bytes")
    return f"{prefix}_live_{base64.urlsafe_b64encode(random).rstrip(b'=').decode()}"


def digest(key: str) -> bytes:
    """The SHA-256 under which a key is stored and looked up."""
    return hashlib.sha256(key.encode()).digest()


def last_four(text: str) -> str:
    """The end of a key's text, which is stored in the clear.

    It holds 22 of 256 random bits: the other 234 cannot be guessed, with the digest at hand or without.
    """
    return text[-4:]


def masked(prefix: str, key: ApiKey) -> str:
    """A key's text as it is shown after it was made: `mk_live_…abcd`."""
    return f"{prefix}_live_…{key.last_four or ''}"


def check_name(name: str) -> str:
    """Check the name of a key and return it unchanged.

    Raises:
        InvalidName: it is blank, longer than `MAX_NAME`, of several lines, or holds control characters.
    """
    if not name.strip() or len(name) > MAX_NAME or not name.isprintable():
        raise InvalidName(f"a name is 1 to {MAX_NAME} characters of one line, not blank")
    return name


def read_bearer(header: str | None, prefix: str) -> str:
    """Take the key out of an `Authorization` header (RFC 6750, 2.1).

    Raises:
        InvalidApiKey: no header, another scheme, another prefix or another length; distinguished in
            the message, because a key of another length is a copying mistake (rule 5/2).
    """
    if not header:
        raise InvalidApiKey("No API key. Send it as: Authorization: Bearer <API_KEY>.")
    scheme, _, key = header.partition(" ")
    key = key.strip(" ")
    if scheme.lower() != "bearer" or not key:
        raise InvalidApiKey("The Authorization header must read: Bearer <API_KEY>.")
    lead = f"{prefix}_live_"
    if not key.startswith(lead):
        raise InvalidApiKey(f"An API key begins with {lead}.")
    secret = key[len(lead) :]
    if len(secret) != SECRET_LENGTH:
        raise InvalidApiKey(
            f"An API key has {SECRET_LENGTH} characters after {lead}; this one has {len(secret)}. "
            "Was it copied whole?"
        )
    if not _SECRET.fullmatch(secret):
        raise InvalidApiKey(_REFUSAL)
    return key


def check_usable(key: ApiKey | None, now: datetime) -> ApiKey:
    """Return a stored key that is usable, or refuse it (rule 5/3).

    Raises:
        InvalidApiKey: unknown, revoked at any time, or expired at `now`.
    """
    # No comparison of times here: the clock of the host that revoked it may be ahead of ours.
    if key is None or key.revoked_at is not None:
        raise InvalidApiKey(_REFUSAL)
    if key.expires_at is not None and key.expires_at <= now:
        raise InvalidApiKey(_REFUSAL)
    return key


def check_expiry(expires_at: datetime | None, now: datetime) -> datetime | None:
    """Check the expiry of a new key.

    Raises:
        InvalidExpiry: it lies in the past, so that the key would never work.
    """
    if expires_at is not None and expires_at <= now:
        raise InvalidExpiry("a key must expire in the future; leave the time out for one that never does")
    return expires_at


def require_scope(key: ApiKey, any_of: Iterable[Scope]) -> None:
    """Check that a key has one of the scopes; an empty set requires none.

    Raises:
        InsufficientScope: it has none of them (rule 5/5).
    """
    wanted = tuple(any_of)
    if wanted and not any(scope in key.scopes for scope in wanted):
        raise InsufficientScope(wanted)
