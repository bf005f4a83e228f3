"""Recording files at Zoom.

A file is requested at the listed address with the token in a header; Zoom redirects to a signed address on
another host. The token is sent to Zoom's own hosts only: never along with a redirect elsewhere, never in a
URL. Lists and deletions use the API, with its repeats and limits. A broken read is not repeated: the reader
knows its position.

A meeting's number is held in any number of sessions, each with a uuid. In calls about recordings the number
means the latest one, so every session is asked for by its uuid.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import SplitResult, urljoin, urlsplit

import httpx
from attrs import frozen

from meetcore.adapters.bounded_http import tls_context
from meetcore.adapters.zoom import schemas
from meetcore.adapters.zoom.calls import ZoomAccess, ZoomCalls, is_number, segment
from meetcore.domain.notes.recordings import RecordingFile
from meetcore.ports.observability import Log
from meetcore.ports.recording_files import ByteRange, FileGone, FilesUnavailable, OpenFile, RangeUnsatisfiable
from meetcore.ports.video_provider import ProviderRefused, ProviderUnknown

CONNECT_S: Final = 5.0
READ_S: Final = 20.0
"""Seconds to wait for the next bytes of a file."""

MAX_STREAMS: Final = 500
"""Concurrent reads of one process."""

_DOMAINS: Final = (".zoom.us", ".zoomgov.com")
_REDIRECTS: Final = 5
_MAX_CHUNK_BYTES: Final = 1024 * 1024
# Each is a request, of those of a second that all the work shares. A meeting has one or two; a host who
# leaves and returns makes more, and files of those beyond are known from their events.
_MAX_SESSIONS: Final = 50
# One by one, those of a meeting with many sessions would outlast the lease of the search.
_SESSIONS_AT_ONCE: Final = 8
_NO_USER: Final = 1001
_NO_MEETING: Final = 3001
_NO_RECORDING: Final = 3301
# With a user Zoom deletes its meetings and recordings.
_GONE: Final = (_NO_RECORDING, _NO_MEETING, _NO_USER)
_REDIRECT_STATUSES: Final = frozenset({301, 302, 303, 307, 308})
_CONTENT_RANGE: Final = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})")
_UNSATISFIED: Final = re.compile(r"bytes \*/(\d{1,18})")


class ZoomRecordingFiles:
    """Finds, reads and removes the recording files of one account; waits `read_s` for more bytes."""

    def __init__(self, access: ZoomAccess, calls: ZoomCalls, log: Log, read_s: float = READ_S) -> None:
        self._api = urlsplit(access.api_url)
        self._calls = calls
        self._log = log
        self._http = httpx.AsyncClient(
            verify=tls_context(),
            timeout=httpx.Timeout(read_s, connect=CONNECT_S, pool=CONNECT_S),
            trust_env=False,
            follow_redirects=False,
            # A download lasts as long as its reader takes, so many run at once.
            limits=httpx.Limits(max_connections=MAX_STREAMS, max_keepalive_connections=20),
        )

    def __repr__(self) -> str:
        return f"<ZoomRecordingFiles at {self._api.hostname}>"

    @property
    def provider(self) -> str:
        return "zoom"

    async def find(
        self, provider_meeting_id: str, session_ids: Iterable[str] = ()
    ) -> tuple[RecordingFile, ...]:
        """Return the finished files of the latest session, the known ones and those that Zoom lists."""
        if not is_number(provider_meeting_id):
            return ()
        try:
            latest = await self._recording(provider_meeting_id)
            uuids = dict.fromkeys((*session_ids, *await self._sessions(provider_meeting_id)))
            others = await self._recordings([uuid for uuid in uuids if uuid != latest.uuid])
            found = [file for each in (latest, *others) for file in schemas.recorded_files(each)]
        except (ProviderRefused, ProviderUnknown) as error:
            raise FilesUnavailable(str(error)) from None
        except ValueError:
            raise FilesUnavailable("zoom: malformed time of a recording") from None
        return tuple({file.provider_file_id: file for file in found}.values())

    async def _recordings(self, uuids: Sequence[str]) -> list[schemas.ListedRecording]:
        found: list[schemas.ListedRecording] = []
        for first in range(0, len(uuids), _SESSIONS_AT_ONCE):
            part = uuids[first : first + _SESSIONS_AT_ONCE]
            found += await asyncio.gather(*(self._recording(uuid) for uuid in part))
        return found

    async def _recording(self, name: str) -> schemas.ListedRecording:
        """Return the recording of a session, by its uuid or the meeting's number; an empty one if none."""
        response = await self._calls.ask("GET", f"/meetings/{_uuid_segment(name)}/recordings")
        if response.is_done:
            return schemas.decoded(response, schemas.ListedRecording)
        if response.code in _GONE:
            return schemas.ListedRecording([])
        raise self._refusal("find", response)

    async def _sessions(self, provider_meeting_id: str) -> list[str]:
        """Return the uuids of the sessions that are over, the latest `_MAX_SESSIONS` of them."""
        response = await self._calls.ask("GET", f"/past_meetings/{provider_meeting_id}/instances")
        if response.code in _GONE:
            return []
        if not response.is_done:
            raise self._refusal("sessions", response)
        uuids = schemas.session_uuids(response)
        if len(uuids) > _MAX_SESSIONS:
            self._log.warning("zoom_lists_too_many_sessions", sessions=len(uuids), limit=_MAX_SESSIONS)
        return uuids[:_MAX_SESSIONS]

    @asynccontextmanager
    async def open(self, file: RecordingFile, wanted: ByteRange | None = None) -> AsyncIterator[OpenFile]:
        response = await self._reached(file, wanted)
        try:
            part = _part_of(response, wanted)
            chunks = _chunks(response, part.last - part.first + 1)
            try:
                yield OpenFile(part.size_bytes, part.first, part.last, chunks)
            finally:
                await chunks.aclose()
        finally:
            await response.aclose()

    async def remove(self, provider_meeting_id: str, file: RecordingFile) -> None:
        """Delete a file for good, bypassing Zoom's trash.

        One without an id of its own goes with its session's whole recording, as Zoom has no other way.
        """
        if not is_number(provider_meeting_id):
            return
        try:
            session = _uuid_segment(file.session_id) if file.session_id else provider_meeting_id
            path = f"/meetings/{session}/recordings"
            if not file.provider_file_id.startswith(schemas.NAMELESS):
                path += f"/{segment(file.provider_file_id)}"
            response = await self._calls.ask("DELETE", path, params={"action": "delete"})
        except (ProviderRefused, ProviderUnknown) as error:
            raise FilesUnavailable(str(error)) from None
        if not response.is_done and response.code not in _GONE:
            raise self._refusal("remove", response)

    async def aclose(self) -> None:
        """Close the connections to files; those to the API belong to their creator."""
        await self._http.aclose()

    async def _reached(self, file: RecordingFile, wanted: ByteRange | None) -> httpx.Response:
        """Request a file, once more with a new token if the first was refused."""
        has_renewed = False
        while True:
            token = await self._token()
            try:
                response = await self._followed(file.url, wanted, token)
            except (httpx.RequestError, httpx.StreamError, httpx.InvalidURL, ValueError) as error:
                raise FilesUnavailable(f"zoom: no file: {type(error).__name__}") from None
            if response.status_code in (200, 206) and not _is_page(response):
                return response
            await response.aclose()
            if not has_renewed and (response.status_code == 401 or _is_page(response)):
                has_renewed = True
                self._calls.drop_token(token)
                continue
            raise self._failure(response, file)

    async def _token(self) -> str:
        try:
            return await self._calls.token()
        except ProviderRefused as error:
            raise FilesUnavailable(str(error)) from None

    async def _followed(self, url: str, wanted: ByteRange | None, token: str) -> httpx.Response:
        """Follow redirects; raise `FilesUnavailable` for too many, or a host that is not allowed."""
        target = urlsplit(url)
        if not self._is_of_zoom(target):
            raise FilesUnavailable("zoom: file address is not Zoom's")
        origin = _origin(target)
        headers = {"Accept-Encoding": "identity", **_range_header(wanted)}
        for _ in range(_REDIRECTS + 1):
            if not self._can_go_to(target):
                raise FilesUnavailable("zoom: redirect without TLS")
            # A redirect to another host carries no token: its address is signed.
            bearer = {"Authorization": f"Bearer {token}"} if _origin(target) == origin else {}
            request = self._http.build_request("GET", target.geturl(), headers={**headers, **bearer})
            response = await self._http.send(request, stream=True)
            if response.status_code not in _REDIRECT_STATUSES:
                return response
            await response.aclose()
            target = urlsplit(urljoin(target.geturl(), response.headers.get("Location", "")))
        raise FilesUnavailable("zoom: too many redirects")

    def _is_of_zoom(self, target: SplitResult) -> bool:
        """Return whether the token may be sent there: the API's origin, or a Zoom host if the API is one."""
        if _origin(target) == _origin(self._api):
            return True
        if target.scheme != "https" or target.port not in (None, 443):
            return False
        host, api = f".{target.hostname}", f".{self._api.hostname}"
        return any(host.endswith(domain) and api.endswith(domain) for domain in _DOMAINS)

    def _can_go_to(self, target: SplitResult) -> bool:
        """Return whether a target uses HTTPS, or plain HTTP on loopback beside an API that does."""
        if target.scheme == "https" and target.hostname:
            return True
        is_here = target.hostname in ("127.0.0.1", "::1", "localhost")
        return is_here and target.scheme == "http" == self._api.scheme

    def _failure(self, response: httpx.Response, file: RecordingFile) -> Exception:
        if response.status_code in (404, 410):
            return FileGone("zoom: file was deleted")
        if response.status_code == 416:
            content_range = _UNSATISFIED.fullmatch(response.headers.get("Content-Range", ""))
            return RangeUnsatisfiable(int(content_range[1]) if content_range else file.size_bytes)
        self._log.warning("zoom_gives_no_file", status=response.status_code)
        return FilesUnavailable(f"zoom: no file: status {response.status_code}")

    def _refusal(self, call: str, response: schemas.ZoomResponse) -> FilesUnavailable:
        self._log.warning(
            "zoom_refused", call=f"recordings.{call}", status=response.status, code=response.code
        )
        return FilesUnavailable(f"zoom: recordings.{call} answered {response.status}, code {response.code}")


def _uuid_segment(uuid: str) -> str:
    """Encode a uuid as a path segment: twice, as Zoom asks, where it begins with a slash or holds two."""
    is_twice = uuid.startswith("/") or "//" in uuid
    return segment(segment(uuid)) if is_twice else segment(uuid)


@frozen
class _Part:
    size_bytes: int
    first: int
    last: int


def _part_of(response: httpx.Response, wanted: ByteRange | None) -> _Part:
    """Return the range of bytes in a response.

    Raises `FilesUnavailable` for an undeclared or another one, `RangeUnsatisfiable` behind the file's end.
    """
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise FilesUnavailable("zoom: unexpected Content-Encoding")
    length = response.headers.get("Content-Length", "")
    if not (length.isascii() and length.isdigit() and len(length) <= 18):
        raise FilesUnavailable("zoom: no Content-Length")
    first = 0 if wanted is None else wanted.first
    if response.status_code == 200:
        if wanted is not None and first >= int(length):
            raise RangeUnsatisfiable(int(length))
        return _Part(int(length), 0, int(length) - 1)
    content_range = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
    if content_range is None:
        raise FilesUnavailable("zoom: no Content-Range")
    part = _Part(int(content_range[3]), int(content_range[1]), int(content_range[2]))
    last = part.size_bytes - 1 if wanted is None or wanted.last is None else wanted.last
    is_wanted = part.first <= first <= min(last, part.size_bytes - 1) <= part.last < part.size_bytes
    if not is_wanted or int(length) != part.last - part.first + 1:
        raise FilesUnavailable("zoom: wrong Content-Range")
    return part


async def _chunks(response: httpx.Response, expected: int) -> AsyncGenerator[bytes, None]:
    read = 0
    try:
        async for piece in response.aiter_raw():
            read += len(piece)
            for at in range(0, len(piece), _MAX_CHUNK_BYTES):
                yield piece[at : at + _MAX_CHUNK_BYTES]
    except (httpx.RequestError, httpx.StreamError) as error:
        raise FilesUnavailable(f"zoom: read interrupted: {type(error).__name__}") from None
    if read != expected:
        raise FilesUnavailable("zoom: body differs from Content-Length")


def _range_header(wanted: ByteRange | None) -> dict[str, str]:
    if wanted is None:
        return {}
    return {"Range": f"bytes={wanted.first}-{'' if wanted.last is None else wanted.last}"}


def _is_page(response: httpx.Response) -> bool:
    """Return whether it is HTML: without access Zoom sends a sign-in page with status 200."""
    return str(response.headers.get("Content-Type", "")).lower().startswith("text/html")


def _origin(target: SplitResult) -> tuple[str, str | None, int | None]:
    port = target.port or {"https": 443, "http": 80}.get(target.scheme)
    return target.scheme, target.hostname, port
