"""HTTP shared by all edges: the limits of a request, its body, query and client."""

import asyncio
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final
from urllib.parse import parse_qsl, urlencode
from uuid import UUID

from attrs import frozen
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Scope

from meetcore.adapters.api import answers
from meetcore.domain.errors import InvalidApiKey, InvalidRequest
from meetcore.domain.requests.clients import parse_address
from meetcore.domain.webhooks.addresses import Address, Network
from meetcore.usecases.notes.downloads import SignedLink


def authorization_of(headers: Headers) -> str | None:
    """Return the value of `Authorization`; raise `InvalidApiKey` where it was sent twice."""
    values = headers.getlist("authorization")
    if len(values) > 1:
        raise InvalidApiKey("Send one Authorization header: Authorization: Bearer <API_KEY>.")
    return values[0] if values else None


@frozen
class RequestLimits:
    """The limits of one request.

    A query has at most `query_parameters` parameters and `query_bytes` bytes: several times what an operation
    takes. A body is whole within `body_timeout_s` seconds; from half of that time on, `body_bytes_per_s` have
    come on average, which the slowest mobile network does, and a client that holds a place on purpose does
    not. Where reading the body took more than `recheck_after_s` seconds, the key is checked again.
    """

    query_parameters: int = 32
    query_bytes: int = 4096
    body_timeout_s: float = 10.0
    body_bytes_per_s: int = 1024
    recheck_after_s: float = 1.0


MAX_BODY_BYTES = 64 * 1024
DEFAULT_LIMITS = RequestLimits()


def check_media(request: Request) -> None:
    """Make sure that a body is declared as JSON (rule 1/base), uncompressed; else `UnsupportedMediaType`."""
    coding = request.headers.get("content-encoding", "").strip().lower()
    if coding not in ("", "identity"):
        raise answers.ContentEncoded
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != "application/json":
        raise answers.UnsupportedMediaType(
            {"Content-Type": ["must be application/json"]}, "Send the body as Content-Type: application/json."
        )


async def read_body(
    request: Request,
    max_bytes: int = MAX_BODY_BYTES,
    limits: RequestLimits = DEFAULT_LIMITS,
    *,
    claim: Callable[[int], None] = lambda _: None,
) -> bytes:
    """Read a body, of which nothing was read yet, to its end.

    No more than `max_bytes`, whole KiB, is kept in memory, but for the chunk that goes beyond. `claim` is
    called with the size so far before that much is kept, and may raise.

    Raises:
        PayloadTooLarge: its declared or actual size is larger.
        BodyTooSlow: it is not whole within its time, or comes too slowly.
        ClientDisconnect: the client disconnected.
    """
    # Leading zeros are allowed, more of them than Python reads as a number.
    declared = request.headers.get("content-length", "").lstrip("0")
    if declared.isdecimal() and (len(declared) > len(str(max_bytes)) or int(declared) > max_bytes):
        raise _too_large(max_bytes)
    chunks, size = [], 0
    start = asyncio.get_running_loop().time()
    try:
        async with asyncio.timeout_at(start + _time_for(size, limits)) as timeout:
            async for chunk in request.stream():
                size += len(chunk)
                if size > max_bytes:
                    raise _too_large(max_bytes)
                claim(size)
                chunks.append(chunk)
                timeout.reschedule(start + _time_for(size, limits))
    except TimeoutError:
        raise _too_slow(limits) from None
    return b"".join(chunks)


def _time_for(size: int, limits: RequestLimits) -> float:
    """Return the seconds allowed for a body of which `size` bytes were received."""
    at_the_rate = size / limits.body_bytes_per_s
    return min(limits.body_timeout_s, max(limits.body_timeout_s / 2, at_the_rate))


def _too_slow(limits: RequestLimits) -> answers.BodyTooSlow:
    problem = (
        f"must be sent within {limits.body_timeout_s:g} s and at {limits.body_bytes_per_s} bytes/s or more"
    )
    return answers.BodyTooSlow({"body": [problem]}, f"The body {problem}.")


def _too_large(max_bytes: int) -> answers.PayloadTooLarge:
    problem = f"must not be larger than {max_bytes // 1024} KiB"
    return answers.PayloadTooLarge({"body": [problem]}, f"The body {problem}.")


def check_query(raw: bytes, limits: RequestLimits) -> None:
    """Raise `InvalidRequest` for a query of more parameters or bytes than are allowed."""
    if len(raw) > limits.query_bytes:
        raise InvalidRequest({"query": [f"must not be longer than {limits.query_bytes} bytes"]})
    if raw.count(b"&") >= limits.query_parameters:
        raise InvalidRequest({"query": [f"must not have more than {limits.query_parameters} parameters"]})


def read_query(raw: bytes, limits: RequestLimits) -> dict[str, list[str]]:
    """Read a query in one pass: the values of each parameter, by its name; raise as `check_query`."""
    check_query(raw, limits)
    values: dict[str, list[str]] = {}
    for name, value in parse_qsl(raw.decode("latin-1"), keep_blank_values=True):
        values.setdefault(name, []).append(value)
    return values


def client_address(scope: Scope, proxies: Sequence[Network]) -> str:
    """Find the canonical address of a request's client; empty if the connection has none (a Unix socket)."""
    peer = scope.get("client")
    if not proxies:
        return _canonical(peer[0]) if peer else ""
    address = parse_address(peer[0]) if peer else None
    if address is None:
        return ""
    if is_trusted_proxy(address, proxies):
        address = _forwarded_for(address, scope, proxies)
    return str(address)


@lru_cache(1024)  # connections serve many requests
def _canonical(peer: str) -> str:
    address = parse_address(peer)
    return "" if address is None else str(address)


def _forwarded_for(proxy: Address, scope: Scope, proxies: Sequence[Network]) -> Address:
    """Return the last address in `X-Forwarded-For` that is no trusted proxy, else the first valid one."""
    client = proxy
    fields = Headers(scope=scope).getlist("x-forwarded-for")
    for text in reversed(",".join(fields).split(",")):
        address = parse_address(text.strip())
        if address is None:  # the fields before it have the same untrusted author
            break
        client = address
        if not is_trusted_proxy(address, proxies):
            break
    return client


def is_trusted_proxy(address: Address, proxies: Sequence[Network]) -> bool:
    """Return whether an address belongs to a trusted proxy."""
    return any(address in network for network in proxies)


MAX_PATH_CHARS: Final = 200
"""Characters of a path in a log line; a client may send one of some kilobytes."""


def loggable_path(path: str) -> str:
    """Return the path of a request, cut at `MAX_PATH_CHARS`."""
    return path if len(path) <= MAX_PATH_CHARS else f"{path[:MAX_PATH_CHARS]}…"


def subject_of(subject_id: UUID | None) -> dict[str, str]:
    """Return the field of a request's log line that names the record which it made or named in its path."""
    return {} if subject_id is None else {"subject_id": str(subject_id)}


DOWNLOADS: Final = "/downloads/recordings"
"""The path under which downloads lie, outside the API."""


def download_url(base_url: str, signed: SignedLink) -> str:
    """Build the URL of a download link under the address of the service, without a final slash."""
    link = signed.link
    query = {
        "account": str(link.account_id), "part": link.part, "expires": link.expires,
        "signature": signed.signature,
    }  # fmt: skip
    return f"{base_url}{DOWNLOADS}/{link.recording_id}?{urlencode(query)}"
