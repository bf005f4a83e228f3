"""What a browser says of itself, as people know it."""

from __future__ import annotations

import pytest

from meetcore.adapters.web.formats import name_browser

WEBKIT = "AppleWebKit/537.36 (KHTML, like Gecko)"


@pytest.mark.parametrize(
    ("user_agent", "name"),
    [
        (
            f"Mozilla/5.0 (Windows NT 10.0; Win64; x64) {WEBKIT} Chrome/140.0.0.0 Safari/537.36",
            "Chrome 140, Windows",
        ),
        (
            f"Mozilla/5.0 (Windows NT 10.0) {WEBKIT} Chrome/140.0.0.0 Safari/537.36 Edg/140.0.1",
            "Edge 140, Windows",
        ),
        ("Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0", "Firefox 128, Linux"),
        (
            f"Mozilla/5.0 (Linux; Android 10; K) {WEBKIT} Chrome/140.0.0.0 Mobile Safari/537.36",
            "Chrome 140, Android",
        ),
        (
            "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko)"
            " Version/18.5 Mobile/15E148 Safari/604.1",
            "Safari 18, iPhone",
        ),
        ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) Version/17.0 Safari/605.1", "Safari 17, macOS"),
        ("python-httpx/0.28.1", "python-httpx/0.28.1"),
        ("", ""),
        ("x" * 200, "x" * 79 + "…"),
        ("Firefox/1<b>", "Firefox 1"),
    ],
)
def test_a_browser_has_its_common_name(user_agent: str, name: str) -> None:
    assert name_browser(user_agent) == name
