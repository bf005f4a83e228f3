"""Operators, each with a role, and the tokens by which their programs act in the console.

A token is `<prefix>_operator_` and 43 characters of base64url. It is shown once and stored as its SHA-256; it
expires, and is refused from the request after it was revoked.
"""

from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from attrs import frozen

from meetcore.domain.errors import InvalidApiKey
from meetcore.domain.members import roles, sign_in
from meetcore.domain.members.audit import ActionOrigin, Actor, ActorKind


@frozen
class Operator:
    """An operator, known by an e-mail address. A removed one keeps the record."""

    id: UUID
    email: str
    role: roles.OperatorRole
    created_at: datetime
    removed_at: datetime | None = None


OPERATOR: Final = "operator"
"""The kind of a token's text, for `keys.mint`."""
DEFAULT_TOKEN_DAYS: Final = 365
MAX_TOKEN_DAYS: Final = 730
DEFAULT_TOKEN_NAME: Final = "Operator token"  # noqa: S105 - a name
"""Of a token that was made without a name."""

_REFUSAL = (
    "The operator's token is wrong, revoked or expired. Make one with `meetcore operator token create` and "
    "send it as: Authorization: Bearer <TOKEN>."
)


class InvalidDays(ValueError):
    """A validity that is too short or too long."""


@frozen
class OperatorToken:
    """A token as it is stored: never its text. `last_four` characters identify it."""

    id: UUID
    name: str
    role: roles.OperatorRole
    last_four: str
    created_at: datetime
    expires_at: datetime
    revoked_at: datetime | None = None


def check_days(days: int) -> timedelta:
    """Return the validity of a token; raise `InvalidDays` outside 1 to `MAX_TOKEN_DAYS`."""
    if not 1 <= days <= MAX_TOKEN_DAYS:
        raise InvalidDays(f"a token is valid for 1 to {MAX_TOKEN_DAYS} days")
    return timedelta(days=days)


def read_operator_token(header: str | None, prefix: str) -> bytes:
    """Return the digest of an `Authorization` header's token; raise `InvalidApiKey` where there is none."""
    scheme, _, token = (header or "").partition(" ")
    token = token.strip(" ")
    lead = f"{prefix}_{OPERATOR}_"
    if scheme.lower() != "bearer" or not token:
        raise InvalidApiKey("An operator's token is needed. Send it as: Authorization: Bearer <TOKEN>.")
    if not token.startswith(lead):
        raise InvalidApiKey(f"An operator's token begins with {lead}; an API key is none.")
    if not sign_in.is_token(token[len(lead) :]):
        raise InvalidApiKey(_REFUSAL)
    return sign_in.token_digest(token)


def check_token_usable(token: OperatorToken | None, now: datetime) -> OperatorToken:
    """Return a stored token; raise `InvalidApiKey` if unknown, revoked or expired, without distinction."""
    if token is None or token.revoked_at is not None or now >= token.expires_at:
        raise InvalidApiKey(_REFUSAL)
    return token


def token_origin(token: OperatorToken, client_address: str | None) -> ActionOrigin:
    """Return the origin of a change by a token, for the audit log."""
    return ActionOrigin(Actor(ActorKind.OPERATOR, token.id, f"token {token.name}"), client_address)
