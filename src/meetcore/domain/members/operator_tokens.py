"""Tokens by which programs of the operator's act in the console, each with an operator's role.

A token is `<prefix>_operator_` and 43 characters of base64url. It is shown once and stored as its SHA-256;
it ends by itself, and works no more from the request after it was revoked.
"""

import base64
import re
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from attrs import frozen

from meetcore.domain.errors import InvalidApiKey
from meetcore.domain.members.audit import ActionOrigin, Actor, ActorKind
from meetcore.domain.members.roles import OperatorRole
from meetcore.domain.members.tokens import TOKEN_BYTES, token_digest
from meetcore.domain.requests.keys import is_prefix

__all__ = [
    "DEFAULT_TOKEN_DAYS",
    "DEFAULT_TOKEN_NAME",
    "MAX_TOKEN_DAYS",
    "InvalidDays",
    "OperatorToken",
    "check_days",
    "check_token_usable",
    "is_token_usable",
    "mint_operator_token",
    "read_operator_token",
    "token_origin",
]

DEFAULT_TOKEN_DAYS: Final = 365
MAX_TOKEN_DAYS: Final = 730
DEFAULT_TOKEN_NAME: Final = "Operator token"  # noqa: S105 - a name
"""Of a token that was made without a name."""

_SECRET = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)
_REFUSAL = (
    "The operator's token is wrong, revoked or expired. Make one with `meetcore operator token create` and "
    "send it as: Authorization: Bearer <TOKEN>."
)


class InvalidDays(ValueError):
    """A token that would be valid for too short or too long."""


@frozen
class OperatorToken:
    """A token as it is stored: never its text. `last_four` characters tell tokens apart."""

    id: UUID
    name: str
    role: OperatorRole
    last_four: str
    created_at: datetime
    expires_at: datetime
    revoked_at: datetime | None = None


def check_days(days: int) -> timedelta:
    """Check for how long a token is to be valid.

    Raises:
        InvalidDays: not from 1 to `MAX_TOKEN_DAYS`.
    """
    if not 1 <= days <= MAX_TOKEN_DAYS:
        raise InvalidDays(f"a token is valid for 1 to {MAX_TOKEN_DAYS} days")
    return timedelta(days=days)


def mint_operator_token(prefix: str, random: bytes) -> str:
    """Compose a token.

    Raises:
        ValueError: the prefix or the number of bytes is off.
    """
    if not is_prefix(prefix) or len(random) != TOKEN_BYTES:
        raise ValueError(f"a token needs a short lower-case prefix and {TOKEN_BYTES} random bytes")
    return f"{prefix}_operator_{base64.urlsafe_b64encode(random).rstrip(b'=').decode()}"


def read_operator_token(header: str | None, prefix: str) -> bytes:
    """Take the token out of an `Authorization` header, and return the digest under which it is stored.

    Raises:
        InvalidApiKey: no header, another scheme, or a text that is no token.
    """
    scheme, _, token = (header or "").partition(" ")
    token = token.strip(" ")
    lead = f"{prefix}_operator_"
    if scheme.lower() != "bearer" or not token:
        raise InvalidApiKey("An operator's token is needed. Send it as: Authorization: Bearer <TOKEN>.")
    if not token.startswith(lead):
        raise InvalidApiKey(f"An operator's token begins with {lead}; an API key is none.")
    if not _SECRET.fullmatch(token[len(lead) :]):
        raise InvalidApiKey(_REFUSAL)
    return token_digest(token)


def is_token_usable(token: OperatorToken, now: datetime) -> bool:
    """Whether a token was not revoked and has not expired."""
    return token.revoked_at is None and now < token.expires_at


def check_token_usable(token: OperatorToken | None, now: datetime) -> OperatorToken:
    """Return a stored token that is usable.

    Raises:
        InvalidApiKey: unknown, revoked or expired, the same for all three.
    """
    if token is None or not is_token_usable(token, now):
        raise InvalidApiKey(_REFUSAL)
    return token


def token_origin(token: OperatorToken, client_address: str | None) -> ActionOrigin:
    """Who asks for a change by a token, for the audit log."""
    return ActionOrigin(Actor(ActorKind.OPERATOR, token.id, f"token {token.name}"), client_address)
