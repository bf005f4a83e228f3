"""Accounts: whether one may be used, and the e-mail address it is known by.

An account is active or suspended. A suspended one keeps its credits, its records and its webhooks; its keys
are refused.
"""

import re
from datetime import datetime
from enum import StrEnum
from typing import Final

from meetcore.domain.errors import InvalidApiKey

__all__ = [
    "MAX_EMAIL",
    "AccountStatus",
    "InvalidEmail",
    "check_active",
    "check_email",
    "email_key",
    "status_of",
]

MAX_EMAIL: Final = 254
"""Characters; no longer address can be the path of a message (RFC 5321)."""

# What browsers take for an address (the HTML standard), with a domain of at least two labels.
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_EMAIL = re.compile(rf"[A-Za-z0-9.!#$%&'*+/=?^_`{{|}}~-]{{1,64}}@{_LABEL}(?:\.{_LABEL})+", re.ASCII)


class AccountStatus(StrEnum):
    """Whether an account may be used."""

    ACTIVE = "active"
    SUSPENDED = "suspended"


class InvalidEmail(ValueError):
    """A text that is no e-mail address."""


def status_of(suspended_at: datetime | None) -> AccountStatus:
    """The status of an account that was suspended then, or never."""
    return AccountStatus.ACTIVE if suspended_at is None else AccountStatus.SUSPENDED


def check_active(suspended_at: datetime | None) -> None:
    """Check that an account is active.

    Raises:
        InvalidApiKey: the account is suspended, from its next request on and whatever the clocks say.
    """
    if status_of(suspended_at) is AccountStatus.SUSPENDED:
        raise InvalidApiKey("The account of this API key is suspended. Ask the operator of the service.")


def check_email(text: str) -> str:
    """Check an e-mail address and return it unchanged.

    Raises:
        InvalidEmail: it cannot be one.
    """
    if len(text) > MAX_EMAIL or not _EMAIL.fullmatch(text):
        raise InvalidEmail("an e-mail address looks like name@example.com")
    return text


def email_key(text: str) -> str:
    """The form in which two spellings of one address are the same: without regard to case."""
    return text.lower()
