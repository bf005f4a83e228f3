"""HTTP shared by the API and MCP: reading a body up to its limit, and the headers of an answer.

Owns nothing of a request's meaning.
"""

import asyncio
from collections.abc import Callable

from starlette.requests import Request

from meetcore.adapters.api.answers import (
    BodyTooSlow,
    MethodNotAllowed,
    PayloadTooLarge,
    RangeNotSatisfiable,
    UnsupportedMediaType,
)
from meetcore.adapters.api.limits import RequestLimits
from meetcore.adapters.api.request_pipeline import RequestContext
from meetcore.domain.errors import DomainError, InvalidApiKey, RateLimited, ServiceUnavailable
from meetcore.domain.requests.rate_window import WINDOW_SECONDS

MAX_BODY_BYTES = 64 * 1024
DEFAULT_LIMITS = RequestLimits()


def check_media(request: Request) -> None:
    """Make sure that a body is declared as JSON (rule 1/base).

    Raises:
        UnsupportedMediaType: it is declared as something else, or not at all.
    """
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != "application/json":
        raise UnsupportedMediaType(
            {"Content-Type": ["must be application/json"]}, "Send the body as Content-Type: application/json."
        )


async def read_body(
    request: Request,
    max_bytes: int = MAX_BODY_BYTES,
    limits: RequestLimits = DEFAULT_LIMITS,
    *,
    claim: Callable[[int], None] = lambda _: None,
) -> bytes:
    """Read a body to its end.

    Args:
        request: its body must not have been read yet.
        max_bytes: whole KiB; no more than that is kept in memory, but for the chunk that goes beyond.
        limits: how long the body may take.
        claim: called with the size so far before that much is kept; may raise.

    Raises:
        PayloadTooLarge: its declared or actual size is larger.
        BodyTooSlow: it is not whole within its time, or comes too slowly.
        ClientDisconnect: the client disconnected.
    """
    declared = request.headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > max_bytes:
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


def _too_slow(limits: RequestLimits) -> BodyTooSlow:
    problem = (
        f"must be sent within {limits.body_timeout_s:g} s and at {limits.body_bytes_per_s} bytes/s or more"
    )
    return BodyTooSlow({"body": [problem]}, f"The body {problem}.")


def _too_large(max_bytes: int) -> PayloadTooLarge:
    problem = f"must not be larger than {max_bytes // 1024} KiB"
    return PayloadTooLarge({"body": [problem]}, f"The body {problem}.")


def common_headers(context: RequestContext) -> dict[str, str]:
    """Build the headers of every answer (rules 4/request-id, 4/rate-headers and 8/3)."""
    verdict = context.verdict
    left_s = verdict.reset - verdict.window_start - int(context.now.timestamp()) % WINDOW_SECONDS
    name = context.rate_class.value
    return {
        "X-Request-Id": context.request_id,
        "X-RateLimit-Limit": str(verdict.limit),
        "X-RateLimit-Remaining": str(verdict.remaining),
        "X-RateLimit-Reset": str(verdict.reset),
        "RateLimit-Policy": f'"{name}";q={verdict.limit};w={WINDOW_SECONDS}',
        "RateLimit": f'"{name}";r={verdict.remaining};t={left_s}',
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
    }


def headers_of(refusal: DomainError) -> dict[str, str]:
    """Build the additional headers of a refusal."""
    match refusal:
        case RateLimited() | ServiceUnavailable():
            return {"Retry-After": str(refusal.retry_after_s)}
        case BodyTooSlow():
            return {"Connection": "close"}
        case MethodNotAllowed():
            return {"Allow": refusal.allow}
        case RangeNotSatisfiable():
            return {"Content-Range": f"bytes */{refusal.size_bytes}"}
        case InvalidApiKey():
            return {"WWW-Authenticate": 'Bearer realm="meetcore"'}
        case _:
            return {}
