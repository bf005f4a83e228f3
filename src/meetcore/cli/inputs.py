"""Readers of arguments: ids, scopes, caps, times, amounts.

Each raises `InputRefused`, which names the argument and describes a valid value.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Annotated, TypeVar
from uuid import UUID

from cyclopts import Parameter, Token

from meetcore.domain.members.roles import OperatorRole, Role
from meetcore.domain.money.amounts import read_amount
from meetcore.domain.money.transfers import InvalidAmount
from meetcore.domain.requests.keys import Scope

R = TypeVar("R", Role, OperatorRole)

MAX_TEXT = 200


def _read_whole(_: object, tokens: Sequence[Token]) -> int:
    text = tokens[0].value.strip()
    if re.fullmatch("[+-]?[0-9]{1,4000}", text) is None:  # Python reads 4300 digits
        raise ValueError("it must be a whole number")
    return int(text)


Whole = Annotated[int, Parameter(converter=_read_whole)]
"""A whole number in digits: 10.7 credits are a slip, not 11."""

Json = Annotated[bool, Parameter(name="--json", negative="", help="Print one JSON document.")]
"""Whether a command prints for programs."""


class InputRefused(Exception):
    """An argument cannot be read."""


def read_id(text: str, what: str) -> UUID:
    """Read the id of such as `the key` or `--account`; a refusal names the command that lists them."""
    try:
        return UUID(text)
    except ValueError:
        group = what.removeprefix("the ").removeprefix("--")
        raise InputRefused(
            f"{what} must be an id such as 0190a1b2-…, not {text!r}: meetcore {group} list shows them"
        ) from None


def read_scopes(texts: Iterable[str]) -> tuple[Scope, ...]:
    """Read scopes, one each or several with commas."""
    names = [name for text in texts for name in text.replace(",", " ").split()]
    known = {scope.value for scope in Scope}
    if unknown := [name for name in names if name not in known]:
        raise InputRefused(f"unknown scope {', '.join(unknown)}; there are: {', '.join(sorted(known))}")
    if not names:
        raise InputRefused("a key needs at least one --scope")
    return tuple(Scope(name) for name in dict.fromkeys(names))


def read_role(text: str, kind: type[R]) -> R:
    """Read a role of members or of operators."""
    try:
        return kind(text)
    except ValueError:
        raise InputRefused(f"--role must be one of {', '.join(kind)}, not {text!r}") from None


def read_cap(text: str) -> int | None:
    """Read a daily cap in credits, or `none`."""
    if text.lower() == "none":
        return None
    try:
        return read_amount(text, least=0)
    except InvalidAmount:
        raise InputRefused(f"--daily-cap must be a whole number of credits or none, not {text!r}") from None


def read_time(text: str | None, what: str = "--expires-at") -> datetime | None:
    """Read an RFC 3339 time with its offset."""
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
        # In UTC, for a time near the ends of the calendar may have none.
        utc = at.astimezone(UTC) if at.tzinfo is not None else None
    except (ValueError, OverflowError):
        utc = None
    if utc is None:
        raise InputRefused(f"{what} must be a time such as 2026-12-31T17:00:00Z, not {text!r}")
    return utc


def check_counts(at_least: int, at_most: int, **counts: int) -> None:
    """Check that whole numbers lie between two others."""
    for name, count in counts.items():
        if not at_least <= count <= at_most:
            raise InputRefused(
                f"{_option(name)} must be a whole number from {at_least} to {at_most}, not {count}"
            )


def check_hours(at_least: float, at_most: float, **hours: float | None) -> None:
    """Check that durations lie between two others."""
    for name, value in hours.items():
        if value is not None and not at_least <= value <= at_most:  # false for "nan", too
            raise InputRefused(
                f"{_option(name)} must be hours from {at_least:g} to {at_most:g}, not {value:g}"
            )


def check_texts(**texts: str | None) -> None:
    """Check that texts can be stored and shown."""
    for name, text in texts.items():
        if text is not None and not (1 <= len(text) <= MAX_TEXT and text.isprintable()):
            raise InputRefused(
                f"{_option(name)} must be 1 to {MAX_TEXT} characters without control characters"
            )


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
