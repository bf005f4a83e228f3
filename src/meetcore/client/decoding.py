"""Decode untrusted bytes to a record, or to None.

Owns that reading never fails in another way. The reason of a failure is withheld: it would quote what may be
secret.
"""

from collections.abc import Mapping
from typing import TypeVar

import msgspec

__all__ = ["converted", "decoded"]

T = TypeVar("T")


def decoded(body: bytes, into: type[T]) -> T | None:
    """The record in a JSON text; None where it holds none."""
    try:
        return msgspec.json.decode(body, type=into)
    except (msgspec.MsgspecError, RecursionError):  # the second: JSON nested too deep
        return None


def converted(data: Mapping[str, object], into: type[T]) -> T | None:
    """The record in a JSON object that was read before; None where it holds none."""
    try:
        return msgspec.convert(data, into)
    except (msgspec.MsgspecError, RecursionError):
        return None
