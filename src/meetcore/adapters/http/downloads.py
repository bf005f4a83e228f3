"""Signed downloads: `GET|HEAD /downloads/recordings/{id}`, outside the API and without a key.

A file is streamed from its storage to the client, at the client's pace: one chunk is in memory. A client that
disconnects ends the reading, and a client that reads too slowly is cut off. A failure before the first byte
is answered like any other refusal; a later one drops the connection, so that a partial file is not taken for
a whole one. The query is never logged: it gives access to the file.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import Final
from uuid import UUID

import structlog
from attrs import frozen
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from meetcore.adapters.api import answers, http_common
from meetcore.adapters.api.streams import send_at_pace
from meetcore.adapters.http import pages
from meetcore.domain import errors
from meetcore.domain.notes.downloads import DownloadLimits, DownloadLink
from meetcore.domain.notes.recordings import FileKind
from meetcore.ports.recording_files import (
    ByteRange,
    FileGone,
    FilesUnavailable,
    OpenFile,
    RangeUnsatisfiable,
    RecordingFiles,
)
from meetcore.ports.store import StoreUnavailable
from meetcore.usecases.notes.downloads import Download, DownloadRecording, DownloadStreams, SignedLink
from meetcore.usecases.runtime import Runtime

# A field that is malformed, names several parts or is bound to a version is ignored (RFC 9110, 14.2):
# the whole file is a valid answer.
_ONE: Final = re.compile(r"\s*bytes\s*=\s*(\d{0,18})\s*-\s*(\d{0,18})\s*", re.ASCII | re.IGNORECASE)


def range_of(headers: Mapping[str, str], size_bytes: int) -> ByteRange | None:
    """Read `Range`: the wanted part of a file of this size, `None` for the whole; or `RangeUnsatisfiable`."""
    # We give a file no version: none that a client may name can be that of what we have.
    if "if-range" in headers:
        return None
    found = _ONE.fullmatch(headers.get("range", ""))
    if found is None or not (found[1] or found[2]):
        return None
    if not found[1]:
        return _the_last(int(found[2]), size_bytes)
    first, last = int(found[1]), int(found[2]) if found[2] else None
    if last is not None and last < first:
        return None
    if first >= size_bytes:
        raise RangeUnsatisfiable(size_bytes)
    return ByteRange(first, last)


def _the_last(count: int, size_bytes: int) -> ByteRange:
    if count == 0 or size_bytes == 0:
        raise RangeUnsatisfiable(size_bytes)
    return ByteRange(max(0, size_bytes - count))


RETRY_AFTER_S: Final = 5
DEFAULT_LIMITS: Final = DownloadLimits()
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",  # the address holds the signature
    "X-Content-Type-Options": "nosniff",
}
_TYPES: Final = {FileKind.VIDEO: ("video/mp4", "mp4"), FileKind.AUDIO: ("audio/mp4", "m4a")}

log = structlog.get_logger("meetcore.http")


def download_routes(
    download: DownloadRecording,
    files: Mapping[str, RecordingFiles],
    runtime: Runtime,
    base_url: str,
    limits: DownloadLimits = DEFAULT_LIMITS,
) -> list[Route]:
    """Build the routes that serve the files of recordings by their links, so many at once and so fast."""
    refuse = pages.Refuse("download", runtime, base_url, _HEADERS)
    endpoint = _Endpoint(download, files, runtime, base_url, refuse, DownloadStreams(limits))
    return [Route(f"{http_common.DOWNLOADS}/{{recording_id}}", endpoint, methods=["GET", "HEAD"])]


@frozen
class _Endpoint:
    download: DownloadRecording
    files: Mapping[str, RecordingFiles]
    runtime: Runtime
    base_url: str
    refuse: pages.Refuse
    streams: DownloadStreams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; stop when the client disconnects or is too slow."""
        request = Request(scope)
        await send_at_pace(
            lambda send: self._respond(request, send), scope, receive, send, self.streams.limits
        )

    async def _respond(self, request: Request, send: Send) -> None:
        try:
            found = await self.download(_link_in(request), self.runtime.now())
            if request.method == "HEAD":
                await send(_head(found, self.base_url, found.file.size_bytes))
                await send({"type": "http.response.body", "body": b""})
            else:
                await self._stream(request, found, send)
        except Exception as error:  # noqa: BLE001  (any fault becomes an answer)
            refused = self.refuse(_refusal_of(error), error)
            await refused(request.scope, request.receive, send)

    async def _stream(self, request: Request, found: Download, send: Send) -> None:
        wanted = range_of(request.headers, found.file.size_bytes)
        place = self.files.get(found.provider)
        if place is None:
            raise FilesUnavailable(f"the files of {found.provider} cannot be reached")
        with self.streams.one(found.link):
            await self._send_file(place, found, wanted, send)

    async def _send_file(
        self, place: RecordingFiles, found: Download, wanted: ByteRange | None, send: Send
    ) -> None:
        async with place.open(found.file, wanted) as opened, aclosing(_wanted_of(opened, wanted)) as chunks:
            head = await anext(chunks, b"")
            part = None if wanted is None else (wanted.first, _last_of(opened, wanted))
            await send(_head(found, self.base_url, opened.size_bytes, part))
            try:
                await _send_all(head, chunks, send)
            except FilesUnavailable as error:
                # Without its end the server closes the connection, and the client sees that it is not whole.
                log.warning("download broke off", provider=found.provider, cause=str(error))
            except Exception:  # it is too late for another answer
                log.exception("fault", provider=found.provider)


def _refusal_of(error: Exception) -> errors.DomainError:
    match error:
        case errors.DomainError():
            return error
        case RangeUnsatisfiable():
            return answers.RangeNotSatisfiable(error.size_bytes)
        case FileGone():
            return errors.Gone("The file of this recording is not there any more.")
        case FilesUnavailable():
            return errors.UpstreamError("The recording cannot be fetched where it lies. Try again later.")
        case StoreUnavailable():
            return errors.ServiceUnavailable("The link cannot be checked now. Try again.", RETRY_AFTER_S)
        case _:
            return errors.InternalError("Something went wrong at the service.")


def _head(found: Download, base_url: str, size_bytes: int, part: tuple[int, int] | None = None) -> Message:
    """Build the status and headers of the whole file, or of a part from its first to its last byte."""
    first, last = part or (0, size_bytes - 1)
    kind, ending = _TYPES[found.file.kind]
    headers = {**_HEADERS, "Content-Length": str(last - first + 1)}
    if part is not None:
        headers["Content-Range"] = f"bytes {first}-{last}/{size_bytes}"
    headers |= {
        "Content-Type": kind,
        "Content-Disposition": f'attachment; filename="{_name(found)}.{ending}"',
        "Accept-Ranges": "bytes",
    }
    if found.next_part is not None:
        headers["Link"] = f'<{http_common.download_url(base_url, found.next_part)}>; rel="next"'
    pairs = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    return {"type": "http.response.start", "status": 200 if part is None else 206, "headers": pairs}


def _name(found: Download) -> str:
    name = f"recording-{found.link.recording_id}"
    return name if found.parts == 1 else f"{name}-{found.link.part}-of-{found.parts}"


def _last_of(opened: OpenFile, wanted: ByteRange) -> int:
    end = opened.size_bytes - 1
    return end if wanted.last is None else min(wanted.last, end)


async def _wanted_of(opened: OpenFile, wanted: ByteRange | None) -> AsyncGenerator[bytes, None]:
    """Yield the requested part of the chunks: a provider without ranges sends more."""
    at, first = opened.first, 0 if wanted is None else wanted.first
    end = opened.size_bytes if wanted is None else _last_of(opened, wanted) + 1
    async for chunk in opened.chunks:
        piece = chunk[max(0, first - at) : max(0, end - at)]
        at += len(chunk)
        if piece:
            yield piece
        if at >= end:
            return


async def _send_all(head: bytes, chunks: AsyncIterator[bytes], send: Send) -> None:
    await send({"type": "http.response.body", "body": head, "more_body": True})
    async for chunk in chunks:
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def _link_in(request: Request) -> SignedLink:
    """Read the link in an address, or raise `NotFound`."""
    query: QueryParams = request.query_params
    try:
        link = DownloadLink(
            _uuid(query["account"]), _uuid(request.path_params["recording_id"]),
            _number(query["part"]), _number(query["expires"]),
        )  # fmt: skip
        return SignedLink(link, query["signature"])
    except (KeyError, ValueError):
        raise errors.NotFound(
            "This link leads to no recording. Copy the whole of it, or ask for another."
        ) from None


def _uuid(text: str) -> UUID:
    found = UUID(text)
    if str(found) != text:  # one spelling for each
        raise ValueError("not as we write it")
    return found


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18) or str(int(text)) != text:
        raise ValueError("not as we write it")
    return int(text)
