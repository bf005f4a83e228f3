"""API keys: their form, their digest, their scopes, and when one is valid (spec 5).

Only a key's SHA-256 is stored: 256 random bits need no slow hash.
"""

import base64
import hashlib
import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final
from uuid import UUID

from attrs import evolve, frozen

from meetcore.domain.errors import Conflict, InsufficientScope, InvalidApiKey, Unprocessable

SECRET_BYTES: Final = 32
SECRET_LENGTH: Final = 43
MAX_NAME: Final = 60
"""Characters."""
DEFAULT_NAME: Final = "API key"
"""Of a key that was made without one."""
MAX_OVERLAP_H: Final = 168
"""Hours for which a key that was rolled may go on."""
KEY: Final = "live"
ACCESS_TOKEN: Final = "oauth"  # noqa: S105  (a part of its text)
REFRESH_TOKEN: Final = "refresh"  # noqa: S105
KEYS_PER_ACCOUNT: Final = 200
"""Keys and grants of an account that work at one time."""
PLAYGROUND_NAME: Final = "Playground"
PLAYGROUND_LASTS: Final = timedelta(hours=1)

_SECRET = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)
_PREFIX = re.compile(r"[a-z][a-z0-9]{0,15}", re.ASCII)
_ENDED = "The access was revoked or has ended. Connect the program again."
_REFUSAL = "The API key is wrong, revoked or expired. Send it as: Authorization: Bearer <API_KEY>."


class InvalidExpiry(ValueError):
    """An expiry in the past."""


class InvalidName(ValueError):
    """A text that cannot be the name of a key."""


class InvalidOverlap(ValueError):
    """An overlap that is no whole number of hours from 0 to `MAX_OVERLAP_H`."""


class Scope(StrEnum):
    """What a key may do. Fixed when the key is made (rule 5/4)."""

    MEETINGS_READ = "meetings:read"
    MEETINGS_WRITE = "meetings:write"
    NOTULEN_READ = "notulen:read"
    NOTULEN_WRITE = "notulen:write"
    RECORDINGS_READ = "recordings:read"
    RECORDINGS_WRITE = "recordings:write"
    CREDITS_READ = "credits:read"
    CREDITS_WRITE = "credits:write"
    WEBHOOKS_READ = "webhooks:read"
    WEBHOOKS_WRITE = "webhooks:write"


@frozen
class ApiKey:
    """A key as it is stored: never its text, of which `last_four` characters identify it.

    `daily_cap` is credits per WIB day, or `None`. `created_by` is a member, `None` for the operator.
    `last_used_at` is a whole minute. `first_key_id` is the first of the keys that it was rolled from: they
    share one cap. With a `client_id` it is the grant of that OAuth client, whose access token ends at
    `token_expires_at`.
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
    client_id: str | None = None
    token_expires_at: datetime | None = None

    @property
    def cap_key_id(self) -> UUID:
        """The key under whose id the usage of its cap is counted."""
        return self.id if self.first_key_id is None else self.first_key_id


@frozen
class RolledKey:
    """A new key, and the old one with its end."""

    new: ApiKey
    old: ApiKey


def dashboard_key(account_id: UUID, at: datetime) -> ApiKey:
    """Return the key that pays for what the members of an account do by hand.

    It has the id of the account, every scope, no cap and no text, and is not stored: it cannot be presented,
    listed, rolled or revoked.
    """
    return ApiKey(account_id, account_id, tuple(Scope), None, at)


def is_prefix(text: str) -> bool:
    """Return whether a configured key prefix is short, lower case and alphanumeric."""
    return _PREFIX.fullmatch(text) is not None


def mint(prefix: str, random: bytes, kind: str = KEY) -> str:
    """Compose a key: `<prefix>_live_` and 43 characters of base64url from 32 random bytes (rule 5/2).

    A token of a grant or of an operator has another `kind` in the place of `live`. Raises `ValueError` for a
    prefix that is none, see `is_prefix`, or another number of bytes.
    """
    if not is_prefix(prefix) or len(random) != SECRET_BYTES:
        raise ValueError(f"a key needs a short lower-case prefix and {SECRET_BYTES} random bytes")
    return f"{prefix}_{kind}_{base64.urlsafe_b64encode(random).rstrip(b'=').decode()}"


def digest(key: str) -> bytes:
    """Return the SHA-256 under which a key is stored and looked up."""
    return hashlib.sha256(key.encode()).digest()


def last_four(text: str) -> str:
    """Return the end of a key's text, which is stored in the clear: 22 of 256 random bits."""
    return text[-4:]


def masked(prefix: str, key: ApiKey) -> str:
    """Return a key's text as it is shown after it was made: `mk_live_…abcd`; a grant has none."""
    return f"{prefix}_live_…{key.last_four or ''}" if key.client_id is None else f"{prefix}_{ACCESS_TOKEN}_…"


def minute_of_use(at: datetime) -> datetime:
    """Return the minute by which the last use of a key is recorded."""
    return at.replace(second=0, microsecond=0)


def check_name(name: str) -> str:
    """Return a key's name; raise `InvalidName` if blank, above `MAX_NAME`, or not one printable line."""
    if not name.strip() or len(name) > MAX_NAME or not name.isprintable():
        raise InvalidName(f"a name is 1 to {MAX_NAME} characters of one line, not blank")
    return name


def read_bearer(header: str | None, prefix: str, *, takes_tokens: bool = False) -> str:
    """Read the key of an `Authorization` header (RFC 6750, 2.1; rules 4/bearer and 5/1).

    `takes_tokens`: an access token of a grant stands for a key, too. Raises `InvalidApiKey`, whose message
    distinguishes no header, another scheme, prefix or length: a key of another length is a copying mistake
    (rule 5/2).
    """
    if not header:
        raise InvalidApiKey("No API key. Send it as: Authorization: Bearer <API_KEY>.")
    scheme, _, key = header.partition(" ")
    key = key.strip(" ")
    if scheme.lower() != "bearer" or not key:
        raise InvalidApiKey("The Authorization header must read: Bearer <API_KEY>.")
    lead, token = f"{prefix}_{KEY}_", f"{prefix}_{ACCESS_TOKEN}_"
    if takes_tokens and key.startswith(token):
        lead = token
    if not key.startswith(lead):
        raise InvalidApiKey(f"An API key begins with {lead}.")
    secret = key[len(lead) :]
    if len(secret) != SECRET_LENGTH:
        raise InvalidApiKey(
            f"An API key has {SECRET_LENGTH} characters after {lead}; this one has {len(secret)}. "
            "Was it copied whole?"
        )
    if not _SECRET.fullmatch(secret):
        raise InvalidApiKey(_refusal(key))
    return key


def check_usable(key: ApiKey | None, text: str, now: datetime) -> ApiKey:
    """Return the stored key of a text; raise `InvalidApiKey` if unknown, revoked, or expired (rule 5/3)."""
    if key is None or not is_usable(key, now) or (key.token_expires_at and now >= key.token_expires_at):
        raise InvalidApiKey(_refusal(text))
    return key


def _refusal(text: str) -> str:
    return _ENDED if text.split("_")[1] == ACCESS_TOKEN else _REFUSAL


def is_usable(key: ApiKey, now: datetime) -> bool:
    """Return whether a key is neither revoked nor expired, whatever token of a grant."""
    # A revocation is not compared with now: the clock of the host that revoked it may be ahead of ours.
    return key.revoked_at is None and (key.expires_at is None or now < key.expires_at)


def check_room(working: int) -> None:
    """Raise `Unprocessable` for an account that has as many working keys and grants as it may."""
    if working >= KEYS_PER_ACCOUNT:
        raise Unprocessable(
            f"The account has {KEYS_PER_ACCOUNT} working API keys and connected programs. Revoke one first."
        )


def is_playground_key(key: ApiKey, member_id: UUID | None, now: datetime) -> bool:
    """Return whether a key was made for a member's playground and still works.

    A guest's member id is `None`, like that of a key of the operator; those of the playground are known by
    their short life.
    """
    is_short = key.expires_at is not None and key.expires_at <= key.created_at + PLAYGROUND_LASTS
    return is_short and (key.name, key.created_by) == (PLAYGROUND_NAME, member_id) and is_usable(key, now)


def roll(
    key: ApiKey, overlap_h: int, new_id: UUID, text: str, now: datetime, created_by: UUID | None = None
) -> RolledKey:
    """Replace a key by a new one with its name, scopes, cap and expiry. Both count under one cap.

    The old key expires after `overlap_h` hours, if not before; 0 revokes it at once. The end of the new one's
    `text` is kept; `created_by` is a member, `None` for the operator.

    Raises:
        InvalidOverlap: see `check_overlap`.
        Conflict: the key is revoked or expired, or a grant.
    """
    check_overlap(overlap_h)
    if key.client_id is not None:
        raise Conflict("A grant has no text to replace. Revoke it, and connect the program again.", key.id)
    if not is_usable(key, now):
        raise Conflict("The key is revoked or expired. Make a new one.", key.id)
    end = now + timedelta(hours=overlap_h)
    expires_at = end if key.expires_at is None else min(key.expires_at, end)
    new = evolve(
        key, id=new_id, created_at=now, last_four=last_four(text), created_by=created_by, last_used_at=None,
        first_key_id=key.cap_key_id,
    )  # fmt: skip
    return RolledKey(new, evolve(key, expires_at=expires_at) if overlap_h else evolve(key, revoked_at=now))


def check_overlap(hours: int) -> int:
    """Return the hours that a rolled key still works; raise `InvalidOverlap` outside 0 to `MAX_OVERLAP_H`."""
    if type(hours) is not int or not 0 <= hours <= MAX_OVERLAP_H:
        raise InvalidOverlap(f"an overlap is 0 to {MAX_OVERLAP_H} whole hours")
    return hours


def check_expiry(expires_at: datetime | None, now: datetime) -> datetime | None:
    """Return the expiry of a new key; raise `InvalidExpiry` where the key would never work."""
    if expires_at is not None and expires_at <= now:
        raise InvalidExpiry("a key must expire in the future; leave the time out for one that never does")
    return expires_at


def require_scope(key: ApiKey, any_of: Iterable[Scope]) -> None:
    """Raise `InsufficientScope` for a key with none of these scopes (rule 5/5), if any (rule 1/keys)."""
    wanted = tuple(any_of)
    if wanted and not any(scope in key.scopes for scope in wanted):
        raise InsufficientScope(wanted)
