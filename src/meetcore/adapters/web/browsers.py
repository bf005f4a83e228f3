"""Names of browsers, as people know them, from what they say of themselves (RFC 9110, 10.1.5)."""

import re
from collections.abc import Sequence
from typing import Final

_BROWSERS: Final[Sequence[tuple[str, str]]] = (
    ("Edg", "Edge"), ("OPR", "Opera"), ("SamsungBrowser", "Samsung Internet"), ("Firefox", "Firefox"),
    ("FxiOS", "Firefox"), ("CriOS", "Chrome"), ("HeadlessChrome", "Chrome"), ("Chrome", "Chrome"),
    ("Version", "Safari"),
)  # fmt: skip
"""The product that tells a browser from those whose names it also gives: the first that is there."""

_SYSTEMS: Final[Sequence[tuple[str, str]]] = (
    ("Android", "Android"), ("iPhone", "iPhone"), ("iPad", "iPad"), ("Windows", "Windows"),
    ("Mac OS X", "macOS"), ("CrOS", "ChromeOS"), ("Linux", "Linux"),
)  # fmt: skip


def name_browser(user_agent: str) -> str:
    """Name a browser with its version, and its system: `Firefox 140, Windows`.

    A program that is none of the known browsers gets its own text, at most 80 characters of it.
    """
    for product, name in _BROWSERS:
        if found := re.search(rf"\b{product}/(\d{{1,5}})", user_agent):
            system = next((text for mark, text in _SYSTEMS if mark in user_agent), "")
            return f"{name} {found[1]}, {system}" if system else f"{name} {found[1]}"
    return user_agent if len(user_agent) <= 80 else user_agent[:79] + "\N{HORIZONTAL ELLIPSIS}"
