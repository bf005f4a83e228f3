"""The fields of every line that is logged of a request: who learns one adds it, who writes lines reads them.

They are kept as one value of the context. Tasks that a request starts see what is added to it later.
"""

from collections.abc import Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Final

__all__ = ["add_log_fields", "log_fields", "logged_with"]

_NONE: Final[Mapping[str, str]] = MappingProxyType({})
_FIELDS: Final[ContextVar[dict[str, str] | None]] = ContextVar("meetcore_log_fields", default=None)


class logged_with:  # noqa: N801  # a statement, as those of contextlib are
    """Puts fields on every line of a request, beside those that it has already, until the block is left."""

    __slots__ = ("_fields", "_token")

    def __init__(self, **fields: str) -> None:
        self._fields = fields

    def __enter__(self) -> None:
        known = _FIELDS.get()
        self._token = _FIELDS.set({**known, **self._fields} if known else self._fields)

    def __exit__(self, *_: object) -> None:
        _FIELDS.reset(self._token)


def add_log_fields(**fields: str) -> None:
    """Put more fields on the lines of the request that is under way; without one, on none."""
    known = _FIELDS.get()
    if known is not None:
        known |= fields


def log_fields() -> Mapping[str, str]:
    """Return the fields of the request that is under way; none without one."""
    return _FIELDS.get() or _NONE
