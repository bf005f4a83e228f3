"""Assertions about texts and other containers."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any


def assert_contains(whole: Container[Any], *parts: Any, absent: Iterable[Any] = ()) -> None:
    """Assert that the parts are contained and the absent ones are not."""
    for part in parts:
        assert part in whole, f"{part!r} is missing in {whole!r}"
    for part in absent:
        assert part not in whole, f"{part!r} is in {whole!r}"
