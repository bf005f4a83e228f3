"""Accounts: their status, and the e-mail addresses that they are known by.

A suspended account keeps its credits, its records and its webhooks; its keys are refused.
"""

import re
from datetime import datetime
from enum import StrEnum
from typing import Final

from meetcore.domain.errors import InvalidApiKey

MAX_EMAIL: Final = 254
"""Characters; no longer address can be the path of a message (RFC 5321)."""

# What browsers take for an address (the HTML standard), with a domain of at least two labels.
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_EMAIL = re.compile(rf"[A-Za-z0-9.!#$%&'*+/=?^_`{{|}}~-]{{1,64}}@{_LABEL}(?:\.{_LABEL})+", re.ASCII)


class AccountStatus(StrEnum):
    """The status of an account."""

    ACTIVE = "active"
    SUSPENDED = "suspended"


class InvalidEmail(ValueError):
    """A text that is no e-mail address."""


def status_of(suspended_at: datetime | None) -> AccountStatus:
    """Return the status of an account that was suspended then, or never."""
    return AccountStatus.ACTIVE if suspended_at is None else AccountStatus.SUSPENDED


def check_active(suspended_at: datetime | None) -> None:
    """Check that an account is active; InvalidApiKey for a suspended one, from its next request on."""
    if status_of(suspended_at) is AccountStatus.SUSPENDED:
        raise InvalidApiKey("The account of this API key is suspended. Ask the operator of the service.")


def check_email(text: str) -> str:
    """Return an e-mail address unchanged; InvalidEmail for another text."""
    if len(text) > MAX_EMAIL or not _EMAIL.fullmatch(text):
        raise InvalidEmail("an e-mail address looks like name@example.com")
    return text


def email_key(text: str) -> str:
    """Return the form that is the same for two spellings of one address: without regard to case."""
    return text.lower()
