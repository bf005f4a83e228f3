"""The headers of a failed attempt that are kept for the customer, without secrets."""

import re
from collections.abc import Mapping
from typing import Final

from meetcore.domain.texts import printable

MAX_HEADERS: Final = 30
"""Headers of a request or a response that are kept."""
MAX_HEADER: Final = 300
"""Characters of a kept header, its name included."""
NOT_KEPT: Final = "(not kept)"
"""Stands for the value of a header whose name says that it may be a secret."""

_SECRET: Final = re.compile(r"cookie|authori[sz]ation|token|secret|session|passw|credential|auth\b|key\b")
_QUERY: Final = re.compile(r"\?\S+")
_LONG: Final = re.compile(r"([\w+/=-]{8})[\w+/=-]{8,}")


def kept_headers(headers: Mapping[str, str]) -> str:
    """Return the headers that are kept, one on each line.

    Values of cookies, tokens and the like are left out, and so are queries, which may hold tokens; signatures
    are shortened, so that a kept one cannot be used.
    """
    kept = list(headers.items())[:MAX_HEADERS]
    lines = (f"{name}: {_kept_value(name.lower(), value)}" for name, value in kept)
    return "\n".join(printable(line, MAX_HEADER) for line in lines)


def _kept_value(name: str, value: str) -> str:
    if _SECRET.search(name):
        return NOT_KEPT
    shown = _QUERY.sub("?…", value)
    return _LONG.sub(r"\1…", shown) if "signature" in name else shown
