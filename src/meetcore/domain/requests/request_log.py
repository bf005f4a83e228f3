"""What is kept of the requests of an account, so that what became of one is known without support.

Owns which requests are kept, for how long, and what of them. Neither bodies nor query strings are: the path
is that of the operation, without ids.
"""

from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from attrs import frozen

__all__ = [
    "ALL_OF_MINUTE",
    "FIRST_ERROR_STATUS",
    "MOST_ERRORS_OF_MINUTE",
    "MOST_OF_MINUTE",
    "ONE_OF",
    "REQUESTS_KEPT",
    "LoggedRequest",
    "MinuteSample",
    "is_error",
    "requests_kept_since",
    "sample",
]

REQUESTS_KEPT: Final = timedelta(days=7)
"""How long a request is kept."""
ALL_OF_MINUTE: Final = 120
"""Successes of an account that are all kept in one minute."""
ONE_OF: Final = 10
"""Beyond those, one of so many is kept."""
MOST_OF_MINUTE: Final = 300
"""Successes of an account that are kept in one minute at most."""
MOST_ERRORS_OF_MINUTE: Final = 300
"""Refusals and faults of an account that are kept in one minute at most, beside the successes."""
FIRST_ERROR_STATUS: Final = 400
"""From this one on a request was refused or failed."""


@frozen
class LoggedRequest:
    """A request of an account's key and what became of it.

    `method` is that of HTTP, or the name of the tool that an agent called; `path` is the operation's, with
    the names of its ids, and empty for one that does not exist. `code` is that of the refusal, if it was
    one. `subject_id` is the record that the request made or named in its path.
    """

    id: UUID
    account_id: UUID
    api_key_id: UUID
    at: datetime
    method: str
    path: str
    status: int
    duration_ms: int
    code: str | None = None
    subject_id: UUID | None = None


def is_error(status: int) -> bool:
    """Whether a request with this answer was refused or failed."""
    return status >= FIRST_ERROR_STATUS


@frozen
class MinuteSample:
    """How many requests of an account were counted in a minute, and how many of them are kept."""

    successes: int = 0
    kept_successes: int = 0
    kept_errors: int = 0


def sample(so_far: MinuteSample, *, is_error: bool) -> tuple[MinuteSample, bool]:
    """Count a request, and decide whether it is kept.

    Errors are kept first: successes never take their room.
    """
    if is_error:
        is_kept = so_far.kept_errors < MOST_ERRORS_OF_MINUTE
        kept = so_far.kept_errors + is_kept
        return MinuteSample(so_far.successes, so_far.kept_successes, kept), is_kept
    is_chosen = so_far.successes < ALL_OF_MINUTE or so_far.successes % ONE_OF == 0
    is_kept = is_chosen and so_far.kept_successes < MOST_OF_MINUTE
    kept = so_far.kept_successes + is_kept
    return MinuteSample(so_far.successes + 1, kept, so_far.kept_errors), is_kept


def requests_kept_since(now: datetime) -> datetime:
    """The instant from which on requests are kept."""
    return now - REQUESTS_KEPT
