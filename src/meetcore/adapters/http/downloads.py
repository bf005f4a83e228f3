"""Signed downloads: `GET|HEAD /downloads/recordings/{id}`, outside the API and without a key.

A file is streamed from its storage to the client, at the client's pace: one chunk is in memory. A client that
disconnects ends the reading, and a client that reads too slowly is cut off. A failure before the first byte
is answered like any other refusal; a later one drops the connection, so that a partial file is not taken for
a whole one.

The query is never logged: it gives access to the file.
"""

import asyncio
import logging
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
from starlette.types import Receive, Scope, Send

from meetcore.adapters.api.answers import RangeNotSatisfiable
from meetcore.adapters.api.links import DOWNLOADS, download_url
from meetcore.adapters.http.abort import abort_of
from meetcore.adapters.http.ranges import range_of
from meetcore.adapters.http.reader_pace import ReaderPace
from meetcore.adapters.http.refuse import Refuse
from meetcore.domain.errors import (
    DomainError,
    Gone,
    InternalError,
    NotFound,
    ServiceUnavailable,
    UpstreamError,
)
from meetcore.domain.notes.download_limits import DownloadLimits
from meetcore.domain.notes.download_links import DownloadLink
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
from meetcore.usecases.download_recording import Download, DownloadRecording, SignedLink
from meetcore.usecases.download_streams import DownloadStreams
from meetcore.usecases.runtime import Runtime

RETRY_AFTER_S: Final = 5
DEFAULT_LIMITS: Final = DownloadLimits()
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",  # the address holds the signature
    "X-Content-Type-Options": "nosniff",
}
_SIGN_IN_TOKEN: Final = re.compile(r"(/sign-(?:in|up)/)[A-Za-z0-9_-]{43}")
_TYPES: Final = {FileKind.VIDEO: ("video/mp4", "mp4"), FileKind.AUDIO: ("audio/mp4", "m4a")}

log = structlog.get_logger("meetcore.http")


def download_routes(
    download: DownloadRecording,
    files: Mapping[str, RecordingFiles],
    runtime: Runtime,
    base_url: str,
    limits: DownloadLimits = DEFAULT_LIMITS,
) -> list[Route]:
    """Build the routes that serve the files of recordings by their links.

    Args:
        download: finds the file of a link.
        files: the stored files, by the provider's name.
        runtime: the clock that links are checked against.
        base_url: for the address of the next part, and for those in refusals.
        limits: how many streams run at once in this process, and how slow a reader may be.
    """
    refuse = Refuse("download", runtime, base_url, _HEADERS)
    endpoint = _Endpoint(download, files, runtime, base_url, refuse, DownloadStreams(limits))
    return [Route(f"{DOWNLOADS}/{{recording_id}}", endpoint, methods=["GET", "HEAD"])]


def keep_links_out_of_access_logs() -> None:
    """Remove signatures of downloads and tokens of sign-in from the server's access log, if it is enabled."""
    logger = logging.getLogger("uvicorn.access")
    if not any(isinstance(each, _WithoutLinks) for each in logger.filters):
        logger.addFilter(_WithoutLinks())


class _WithoutLinks(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(_without_secrets(each) for each in record.args)
        return True


def _without_secrets(value: object) -> object:
    """Cut the query of what is signed by it, and the token of a link that signs in."""
    if not isinstance(value, str):
        return value
    if f"{DOWNLOADS}/" in value or "/sign-in/oidc/" in value:
        value = value.partition("?")[0]
    return _SIGN_IN_TOKEN.sub(r"\1…", value)


@frozen
class _Endpoint:
    download: DownloadRecording
    files: Mapping[str, RecordingFiles]
    runtime: Runtime
    base_url: str
    refuse: Refuse
    streams: DownloadStreams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; stop when the client disconnects or is too slow."""
        pace = ReaderPace(send, self.streams.limits)
        responding = asyncio.create_task(self._respond(Request(scope), pace.send))
        leaving = asyncio.create_task(_disconnected(receive))
        lagging = asyncio.create_task(pace.until_too_slow())
        tasks = (responding, leaving, lagging)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if lagging.done() and not responding.done():
                await _cut(scope, leaving)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        if not responding.cancelled():
            responding.result()

    async def _respond(self, request: Request, send: Send) -> None:
        try:
            found = await self.download(_link_in(request), self.runtime.now())
            if request.method == "HEAD":
                await _FileResponse(found, self.base_url).whole(found.file.size_bytes, send)
            else:
                await self._stream(request, found, send)
        except Exception as error:  # noqa: BLE001  (whatever it is, the client gets an answer)
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
        async with (
            place.open(found.file, wanted) as opened,
            aclosing(_wanted_of(opened, wanted)) as chunks,
        ):
            head = await anext(chunks, b"")
            response = _FileResponse(found, self.base_url)
            if wanted is None:
                await response.begin(opened.size_bytes, send)
            else:
                await response.begin_part(opened, wanted, send)
            try:
                await _send_all(head, chunks, send)
            except FilesUnavailable as error:
                # Without its end the server closes the connection, and the client sees that it is not whole.
                log.warning("download broke off", provider=found.provider, cause=str(error))
            except Exception:  # it is too late for another answer
                log.exception("fault", provider=found.provider)


def _refusal_of(error: Exception) -> DomainError:
    match error:
        case DomainError():
            return error
        case RangeUnsatisfiable():
            return RangeNotSatisfiable(error.size_bytes)
        case FileGone():
            return Gone("The file of this recording is not there any more.")
        case FilesUnavailable():
            return UpstreamError("The recording cannot be fetched where it lies. Try again later.")
        case StoreUnavailable():
            return ServiceUnavailable("The link cannot be checked now. Try again.", RETRY_AFTER_S)
        case _:
            return InternalError("Something went wrong at the service.")


@frozen
class _FileResponse:
    """The status and headers of an answer."""

    found: Download
    base_url: str

    async def whole(self, size_bytes: int, send: Send) -> None:
        """Send the headers of the whole file without a body."""
        await self.begin(size_bytes, send)
        await send({"type": "http.response.body", "body": b""})

    async def begin(self, size_bytes: int, send: Send) -> None:
        """Send the headers of the whole file."""
        await self._head(200, {"Content-Length": str(size_bytes)}, send)

    async def begin_part(self, opened: OpenFile, wanted: ByteRange, send: Send) -> None:
        """Send the headers of a part."""
        last = _last_of(opened, wanted)
        headers = {
            "Content-Length": str(last - wanted.first + 1),
            "Content-Range": f"bytes {wanted.first}-{last}/{opened.size_bytes}",
        }
        await self._head(206, headers, send)

    async def _head(self, status: int, about: Mapping[str, str], send: Send) -> None:
        kind, ending = _TYPES[self.found.file.kind]
        headers = {
            **_HEADERS,
            **about,
            "Content-Type": kind,
            "Content-Disposition": f'attachment; filename="{_name(self.found)}.{ending}"',
            "Accept-Ranges": "bytes",
        }
        if self.found.next_part is not None:
            headers["Link"] = f'<{download_url(self.base_url, self.found.next_part)}>; rel="next"'
        pairs = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": pairs})


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


async def _cut(scope: Scope, leaving: asyncio.Task[None]) -> None:
    """Drop the connection of a slow reader; if the server cannot, it is closed at its end."""
    log.warning("download cut", path=scope["path"], cause="the reader is too slow")
    if (abort := abort_of(scope)) is not None:
        abort()
        await leaving  # the server ends it: an earlier end is a fault to it


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _link_in(request: Request) -> SignedLink:
    """Read the link in an address.

    Raises:
        NotFound: it is not a valid link.
    """
    query: QueryParams = request.query_params
    try:
        link = DownloadLink(
            _uuid(query["account"]), _uuid(request.path_params["recording_id"]),
            _number(query["part"]), _number(query["expires"]),
        )  # fmt: skip
        return SignedLink(link, query["signature"])
    except (KeyError, ValueError):
        raise NotFound("This link leads to no recording. Copy the whole of it, or ask for another.") from None


def _uuid(text: str) -> UUID:
    found = UUID(text)
    if str(found) != text:  # one spelling for each
        raise ValueError("not as we write it")
    return found


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18) or str(int(text)) != text:
        raise ValueError("not as we write it")
    return int(text)
