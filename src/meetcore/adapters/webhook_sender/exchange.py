"""One request and its answer: the bytes that go out in one write, and what is known of what comes back."""

from collections.abc import Mapping
from functools import lru_cache

from attrs import define, field

from meetcore.adapters.webhook_sender.dialling import ConnectionAttempt
from meetcore.ports.webhook_sender import OutgoingPost

_DEFAULT_HEADERS = {
    "user-agent": "User-Agent: meetcore\r\n",
    "content-type": "Content-Type: application/json\r\n",
    "accept": "Accept: */*\r\n",
    "accept-encoding": "Accept-Encoding: identity\r\n",
}
_OWN_HEADERS = frozenset({"host", "content-length", "transfer-encoding", "connection"})


@define
class Exchange:
    """What is known of an attempt so far: kept outside the clock, so that a time-out loses nothing."""

    dial: ConnectionAttempt | None = None
    status: int | None = None
    headers: Mapping[str, str] = field(factory=dict)
    body: bytearray = field(factory=bytearray)


def request_bytes(post: OutgoingPost) -> bytes:
    """Write the whole request down.

    Raises:
        ValueError: a header of the delivery is not one line of ASCII.
    """
    url, (kept, defaults) = post.url, _plan(tuple(post.headers))
    host = f"[{url.host}]" if ":" in url.host else url.host
    head = "".join([
        f"POST {url.request_target} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(post.body)}\r\n",
        *[f"{name}: {text}\r\n" for name, text in post.headers.items() if name in kept],
        defaults,
        "\r\n",
    ])  # fmt: skip
    # Whatever was given, a line ends where it was ended here.
    if not head.count("\r") == head.count("\n") == 4 + len(kept) + defaults.count("\n") or "\0" in head:
        raise ValueError("a header of the delivery is not one line")
    return head.encode("ascii") + post.body


@lru_cache(64)
def _plan(names: tuple[str, ...]) -> tuple[frozenset[str], str]:
    """Which of the given headers go out, and the lines that are added; deliveries all give the same names."""
    given = {name.lower(): name for name in names}
    defaults = "".join(line for name, line in _DEFAULT_HEADERS.items() if name not in given)
    return frozenset(name for lowered, name in given.items() if lowered not in _OWN_HEADERS), defaults
