"""The bytes of a request's body, up to a limit: the declared length is believed where it refuses only."""

from typing import Final

from starlette.requests import Request

from meetcore.adapters.http.answers import PayloadTooLarge

__all__ = ["read_body"]

_KIB: Final = 1024


async def read_body(request: Request, max_bytes: int) -> bytes:
    """Read a body to its end.

    Args:
        request: whose body nobody read before.
        max_bytes: whole KiB; no more than that is kept in memory, but for the chunk that goes beyond.

    Raises:
        PayloadTooLarge: it says that it is larger, or is.
        ClientDisconnect: the caller hung up.
    """
    declared = request.headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > max_bytes:
        raise _too_large(max_bytes)
    chunks, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > max_bytes:
            raise _too_large(max_bytes)
        chunks.append(chunk)
    return b"".join(chunks)


def _too_large(max_bytes: int) -> PayloadTooLarge:
    problem = f"must not be larger than {max_bytes // _KIB} KiB"
    return PayloadTooLarge({"body": [problem]}, f"The body {problem}.")
