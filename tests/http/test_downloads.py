"""Signed downloads over a real server: whole, in parts, at the reader's pace, and never half for whole."""

import asyncio
import logging
import re
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit
from uuid import UUID, uuid4

import httpx
import pytest
import uvicorn
from attrs import define, evolve
from starlette.applications import Starlette

from meetcore.adapters.api.http_common import download_url
from meetcore.adapters.http.downloads import download_routes
from meetcore.adapters.http.pages import keep_links_out_of_access_logs
from meetcore.adapters.http.protocol import AbortableProtocol
from meetcore.adapters.system import SystemClock
from meetcore.domain.notes.downloads import DownloadLimits, DownloadLink, sign_link
from meetcore.domain.notes.recordings import FileKind, Recording, RecordingStatus
from meetcore.ports.recording_files import ByteRange, OpenFile, RecordingFiles
from meetcore.ports.store import StoreUnavailable
from meetcore.testing.clock import ManualClock, SeededEntropy
from meetcore.testing.contracts.providers import order_for
from meetcore.testing.zoom_server import Fault
from meetcore.usecases.notes.downloads import DownloadRecording, SignedLink
from meetcore.usecases.runtime import Runtime
from tests.support.fakes import FakeRecordingFiles
from tests.support.program import START_S, free_port
from tests.support.recording_fakes import KEY, NOW, FakeRecordings, a_recording
from tests.support.texts import assert_contains
from tests.support.zoom_adapter import zoom_at_hand

PLENTY = DownloadLimits(streams_per_link=10_000, streams_per_account=10_000)
CONTENT = bytes(range(256)) * 8000 + b"the end"


@define
class Place:
    """A server of downloads, and what is behind it."""

    url: str
    fake_recordings: FakeRecordings
    files: FakeRecordingFiles
    download: DownloadRecording
    clock: ManualClock
    http: httpx.AsyncClient

    def put(self, *kinds: FileKind, content: bytes = CONTENT) -> Recording:
        kinds = kinds or (FileKind.AUDIO,)
        recording = self.fake_recordings.put(a_recording(kinds, [len(content)] * len(kinds)))
        for file in recording.files:
            self.files.put(recording.provider_meeting_id, file, content)
        return recording

    async def link_to(self, recording: Recording) -> str:
        signed = await self.download.link(recording.account_id, recording.id, self.clock.now())
        return download_url(self.url, signed)


@asynccontextmanager
async def serving(routes) -> AsyncIterator[None]:
    """The routes on the port that they were made for."""
    sock, made = routes
    config = uvicorn.Config(
        Starlette(routes=made), http=AbortableProtocol, lifespan="off", access_log=False,
        log_level="critical",
    )  # fmt: skip
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve(sockets=[sock]))
    async with asyncio.timeout(10):
        while not server.started:  # noqa: ASYNC110  (uvicorn tells nobody)
            await asyncio.sleep(0.005)
    try:
        yield
    finally:
        server.should_exit = server.force_exit = True
        await task


@asynccontextmanager
async def place_with(
    lies: RecordingFiles | None = None, limits: DownloadLimits = PLENTY
) -> AsyncIterator[Place]:
    fake_recordings, files, clock = FakeRecordings(), FakeRecordingFiles(), ManualClock(NOW)
    download = DownloadRecording(fake_recordings.queries, (KEY,))
    sock = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{sock.getsockname()[1]}"
    where = {files.provider: files, **({lies.provider: lies} if lies else {})}
    routes = download_routes(download, where, Runtime(clock, SeededEntropy(1)), url, limits)
    async with serving((sock, routes)), httpx.AsyncClient(trust_env=False) as http:
        yield Place(url, fake_recordings, files, download, clock, http)


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    async with place_with() as found:
        yield found


async def test_a_link_gives_the_whole_file_without_a_key(place: Place):
    recording = place.put()
    answer = await place.http.get(await place.link_to(recording))
    assert (answer.status_code, answer.content) == (200, CONTENT)
    assert dict(answer.headers) | {"date": "", "server": ""} == {
        "cache-control": "no-store",
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
        "content-length": str(len(CONTENT)),
        "content-type": "audio/mp4",
        "content-disposition": f'attachment; filename="recording-{recording.id}.m4a"',
        "accept-ranges": "bytes",
        "date": "",
        "server": "",
    }


async def test_the_parts_of_a_recording_follow_each_other(place: Place):
    recording = place.put(FileKind.VIDEO, FileKind.AUDIO, FileKind.VIDEO)
    url, names = await place.link_to(recording), []
    while url:
        assert url.startswith(f"{place.url}/downloads/recordings/{recording.id}?")
        head = await place.http.head(url)
        answer = await place.http.get(url)
        assert answer.content == CONTENT
        assert head.headers.get("link") == answer.headers.get("link")
        names += re.findall('filename="(.*)"', answer.headers["content-disposition"])
        url = str(answer.links.get("next", {}).get("url", ""))
    assert names == [
        f"recording-{recording.id}-1-of-3.mp4",
        f"recording-{recording.id}-2-of-3.m4a",
        f"recording-{recording.id}-3-of-3.mp4",
    ]


async def test_a_head_request_returns_the_size_and_opens_no_file(place: Place):
    recording = place.put()
    url = await place.link_to(recording)
    for headers in ({}, {"Range": "bytes=5-9"}):
        answer = await place.http.head(url, headers=headers)
        assert (answer.status_code, answer.content) == (200, b"")
        assert answer.headers["content-length"] == str(len(CONTENT))
        assert answer.headers["accept-ranges"] == "bytes"
    assert place.files.opened == []


@pytest.mark.parametrize(
    ("field", "first", "last"),
    [
        ("bytes=0-0", 0, 0),
        ("bytes=100-199999", 100, 199_999),
        ("bytes=2048000-", 2_048_000, len(CONTENT) - 1),
        ("bytes=-7", len(CONTENT) - 7, len(CONTENT) - 1),
        ("bytes=0-99999999", 0, len(CONTENT) - 1),
    ],
)
async def test_one_part_is_206(place: Place, field: str, first: int, last: int):
    url = await place.link_to(place.put())
    answer = await place.http.get(url, headers={"Range": field})
    assert (answer.status_code, answer.content) == (206, CONTENT[first : last + 1])
    assert answer.headers["content-range"] == f"bytes {first}-{last}/{len(CONTENT)}"
    assert answer.headers["content-length"] == str(last - first + 1)


@pytest.mark.parametrize(
    "headers",
    [
        {"Range": "bytes=0-1,5-6"},
        {"Range": "lines=0-1"},
        {"Range": "bytes=9-3"},
        {"Range": "bytes=0-1", "If-Range": '"abc"'},
    ],
)
async def test_what_is_no_part_is_the_whole(place: Place, headers: dict[str, str]):
    answer = await place.http.get(await place.link_to(place.put()), headers=headers)
    assert (answer.status_code, answer.content) == (200, CONTENT)
    assert "content-range" not in answer.headers


async def test_behind_the_end_is_416(place: Place):
    url = await place.link_to(place.put())
    for field in (f"bytes={len(CONTENT)}-", "bytes=-0"):
        answer = await place.http.get(url, headers={"Range": field})
        assert (answer.status_code, answer.headers["content-range"]) == (416, f"bytes */{len(CONTENT)}")
        check_refusal(place, answer, "invalid_request")


async def test_where_a_provider_has_no_ranges_a_part_is_still_a_part(place: Place):
    recording = place.put()
    files = NoRanges()
    files.put(recording.provider_meeting_id, recording.files[0], CONTENT)
    async with place_with(files) as other:
        other.fake_recordings.put(evolve(recording, provider="whole"))
        url = await other.link_to(recording)
        for first, last in ((0, 0), (70_000, 200_000), (len(CONTENT) - 3, len(CONTENT) - 1)):
            answer = await other.http.get(url, headers={"Range": f"bytes={first}-{last}"})
            assert (answer.status_code, answer.content) == (206, CONTENT[first : last + 1])
            assert answer.headers["content-range"] == f"bytes {first}-{last}/{len(CONTENT)}"


class NoRanges(FakeRecordingFiles):
    """A provider that sends the whole, whatever part is wanted."""

    def __init__(self) -> None:
        super().__init__("whole")

    @asynccontextmanager
    async def open(self, file, wanted: ByteRange | None = None) -> AsyncIterator[OpenFile]:
        async with super().open(file) as opened:
            yield opened


def check_refusal(place: Place, answer: httpx.Response, code: str) -> None:
    error = answer.json()["error"]
    assert (error["code"], error["docs_url"]) == (code, f"{place.url}/docs/errors/{code}")
    assert set(error) == {"code", "message", "docs_url", "request_id", "details"}
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["content-type"] == "application/json"
    for secret in ("secret:address", "signature=", "f1-"):
        assert secret not in answer.text


async def test_an_address_that_was_changed_leads_nowhere(place: Place):
    recording, other = place.put(), place.put()
    url = await place.link_to(recording)
    query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
    path = url.partition("?")[0]
    changed = [
        {**query, "part": "2"}, {**query, "part": "0"}, {**query, "part": "-1"}, {**query, "part": "01"},
        {**query, "part": "1e0"}, {**query, "part": "9" * 30}, {**query, "expires": "1"},
        {**query, "expires": str(int(query["expires"]) + 60)},
        {**query, "expires": "9" * 30}, {**query, "account": str(uuid4())}, {**query, "account": "x"},
        {**query, "account": "{" + query["account"] + "}"}, {**query, "signature": ""},
        {**query, "signature": query["signature"][:-1] + "é"}, {},
    ]  # fmt: skip
    changed += [{each: query[each] for each in query if each != name} for name in query]
    for each in changed:
        check_refusal(place, await place.http.get(path, params=each), "not_found")
    for wrong in (str(other.id), "x", str(recording.id).upper(), f"{{{recording.id}}}"):
        answer = await place.http.get(f"{place.url}/downloads/recordings/{wrong}", params=query)
        check_refusal(place, answer, "not_found")
        assert answer.status_code == 404
    assert place.files.opened == []


async def test_a_link_that_is_over_and_a_recording_that_is_gone_are_410(place: Place):
    recording = place.put()
    url = await place.link_to(recording)
    place.clock.advance(15 * 60)
    over = await place.http.get(url)
    check_refusal(place, over, "gone")
    place.fake_recordings.change(recording, status=RecordingStatus.EXPIRED)
    gone = await place.http.get(url)
    check_refusal(place, gone, "gone")
    assert (over.status_code, gone.status_code) == (410, 410)
    assert over.json()["error"]["message"] != gone.json()["error"]["message"]
    assert (await place.http.head(url)).status_code == 410


async def test_a_file_that_the_provider_lost_is_410(place: Place):
    recording = place.put()
    url = await place.link_to(recording)
    await place.files.remove(recording.provider_meeting_id, recording.files[0])
    answer = await place.http.get(url)
    check_refusal(place, answer, "gone")


async def test_an_unavailable_provider_is_502_before_the_first_byte(place: Place):
    url = await place.link_to(place.put())
    place.files.is_unavailable = True
    for _ in range(2):
        answer = await place.http.get(url)
        assert answer.status_code == 502
        check_refusal(place, answer, "upstream_error")
        place.files.is_unavailable, place.files.breaks_after = False, 0


async def test_files_of_a_provider_that_is_no_longer_configured_are_502(place: Place):
    recording = place.put()
    place.fake_recordings.put(evolve(recording, provider="yesterdays"))
    check_refusal(place, await place.http.get(await place.link_to(recording)), "upstream_error")


async def test_an_unavailable_database_is_503(place: Place, monkeypatch: pytest.MonkeyPatch):
    url = await place.link_to(place.put())

    async def unavailable(*_: object) -> None:
        raise StoreUnavailable("not here")

    monkeypatch.setattr(FakeRecordings, "find_recording", unavailable)
    answer = await place.http.get(url)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    check_refusal(place, answer, "service_unavailable")


@pytest.mark.parametrize("field", [None, "bytes=10-"])
async def test_what_breaks_off_breaks_the_connection(place: Place, field: str | None):
    url = await place.link_to(place.put())
    place.files.breaks_after = 300_000
    headers = {} if field is None else {"Range": field}
    came = bytearray()

    async def take() -> None:
        async with place.http.stream("GET", url, headers=headers) as answer:
            assert answer.status_code == (200 if field is None else 206)
            async for piece in answer.aiter_raw():
                came.extend(piece)

    with pytest.raises(httpx.RemoteProtocolError):
        await take()
    assert 0 < len(came) <= 300_000
    place.files.breaks_after = None
    second = await place.http.get(url, headers={"Range": f"bytes={len(came)}-"})  # and can be taken up again
    assert second.status_code == 206


async def test_another_method_is_405(place: Place):
    url = await place.link_to(place.put())
    for method in ("POST", "DELETE", "PUT"):
        assert (await place.http.request(method, url)).status_code == 405


# Who reads, and who does not


class Endless(FakeRecordingFiles):
    """A file of 4 GB that is made as it is read, and says how far it was, and whether it is open."""

    def __init__(self) -> None:
        super().__init__("endless")
        self.given = 0
        self.open_now = 0

    @asynccontextmanager
    async def open(self, file, wanted: ByteRange | None = None) -> AsyncIterator[OpenFile]:
        self.open_now += 1
        try:
            yield OpenFile(file.size_bytes, 0, file.size_bytes - 1, self._endless())
        finally:
            self.open_now -= 1

    @property
    def is_open(self) -> bool:
        return self.open_now > 0

    async def _endless(self) -> AsyncIterator[bytes]:
        while True:
            self.given += 1024 * 1024
            yield bytes(1024 * 1024)


@asynccontextmanager
async def endless(limits: DownloadLimits = PLENTY) -> AsyncIterator[tuple[Endless, Place, str]]:
    files = Endless()
    async with place_with(files, limits) as place:
        recording = place.fake_recordings.put(evolve(a_recording(sizes=(4 * 2**30,)), provider="endless"))
        yield files, place, await place.link_to(recording)


async def closed(files: Endless) -> None:
    async with asyncio.timeout(10):
        while files.is_open:  # noqa: ASYNC110  (the other side of a connection tells nobody)
            await asyncio.sleep(0.01)


async def test_nothing_is_read_ahead_of_the_client():
    async with endless() as (files, place, url), place.http.stream("GET", url) as answer:
        reading = answer.aiter_raw()
        await anext(reading)
        given = -1
        async with asyncio.timeout(10):
            while given != files.given:  # until the buffers between us are full
                given = files.given
                await asyncio.sleep(0.3)
        assert files.given < 32 * 2**20
        assert files.is_open


async def test_a_client_that_goes_away_ends_the_reading():
    async with endless() as (files, _, url):
        async with httpx.AsyncClient(trust_env=False) as http, http.stream("GET", url) as answer:
            await anext(answer.aiter_raw())
            assert files.is_open
        await closed(files)


async def test_a_client_that_goes_away_while_zoom_is_silent_ends_it_at_zoom():
    async with zoom_at_hand() as zoom, place_with(zoom.provider.files) as place:
        made = (await zoom.provider.create(order_for(zoom.provider))).provider_meeting_id
        meeting = zoom.stand_in.account.meeting(made)
        zoom.stand_in.record(meeting, "a1", "M4A", CONTENT, NOW, NOW + timedelta(minutes=30))
        recording = evolve(a_recording(), provider="zoom", files=await zoom.provider.files.find(made))
        url = await place.link_to(place.fake_recordings.put(recording))
        assert (await place.http.get(url)).content == CONTENT
        part = await place.http.get(url, headers={"Range": "bytes=-9"})
        assert (part.status_code, part.content) == (206, CONTENT[-9:])
        zoom.stand_in.faults.plan(Fault("stall", "content"))
        async with httpx.AsyncClient(trust_env=False) as http, http.stream("GET", url) as answer:
            assert "eyJ" not in str(answer.headers)
            await anext(answer.aiter_raw())
        async with asyncio.timeout(10):
            while zoom.stand_in.given_up == 0:  # noqa: ASYNC110  (as above)
                await asyncio.sleep(0.01)


# What is written down

SERVER = """
import asyncio, socket, sys
import uvicorn
from starlette.applications import Starlette
from meetcore.adapters.http.downloads import download_routes
from meetcore.adapters.http.pages import keep_links_out_of_access_logs
from meetcore.testing.clock import SeededEntropy
from tests.support.fakes import FakeRecordingFiles
from meetcore.adapters.system import SystemClock, configure_logs
from meetcore.usecases.notes.downloads import DownloadRecording
from meetcore.usecases.runtime import Runtime
from tests.support.recording_fakes import FakeRecordings, KEY

configure_logs("debug")
files, fake_recordings = FakeRecordingFiles(), FakeRecordings()
{fake_recordings}
routes = download_routes(
    DownloadRecording(fake_recordings.queries, (KEY,)), {{"memory": files}},
    Runtime(SystemClock(), SeededEntropy(1)), "https://meet.example.com",
)
config = uvicorn.Config(Starlette(routes=routes), log_level="debug", access_log=True, port={port})
keep_links_out_of_access_logs()
uvicorn.Server(config).run()
"""
A_RECORDING = """
from uuid import UUID
from datetime import timedelta
from attrs import evolve
from tests.support.recording_fakes import a_recording
recording = evolve(
    a_recording(), id=UUID(int=1), account_id=UUID(int=2), expires_at=SystemClock().now() + timedelta(days=9)
)
fake_recordings.put(recording)
files.put("meeting-1", recording.files[0], bytes(1000))
files.breaks_after = {breaks_after}
"""


@pytest.mark.parametrize("breaks_after", [None, 0, 500])
async def test_no_server_writes_a_link_down_even_with_its_access_log_on(breaks_after: int | None):
    port = free_port()
    code = SERVER.format(fake_recordings=A_RECORDING.format(breaks_after=breaks_after), port=port)
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        env={"PYTHONPATH": ":".join(["src", ".", *sys.path])},
    )  # fmt: skip
    try:
        expires = int(SystemClock().now().timestamp()) + 600
        link = DownloadLink(UUID(int=2), UUID(int=1), 1, expires)
        signed = SignedLink(link, sign_link(KEY, link))
        url = download_url(f"http://127.0.0.1:{port}", signed)
        async with httpx.AsyncClient(trust_env=False) as http:
            await answering(http, f"http://127.0.0.1:{port}/")
            for address in (url, f"{url}x"):
                try:
                    await http.get(address)
                except httpx.RemoteProtocolError:
                    assert breaks_after == 500
    finally:
        server.terminate()
        output = (await server.communicate())[0].decode()
    assert f"GET /downloads/recordings/{link.recording_id} HTTP" in output  # the log is on
    assert_contains(output, absent=(signed.signature, "signature="))


async def answering(http: httpx.AsyncClient, url: str) -> None:
    async with asyncio.timeout(START_S):
        while True:
            try:
                await http.get(url)
                return
            except httpx.ConnectError:
                await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        (f"/dashboard/sign-in/{'a-_' * 14}x", "/dashboard/sign-in/…"),
        (f"/console/sign-in/{'A' * 43}?a=b", "/console/sign-in/…?a=b"),
        (f"/dashboard/sign-up/{'A' * 43}", "/dashboard/sign-up/…"),
        ("/dashboard/sign-in/oidc/callback?code=secret&state=b", "/dashboard/sign-in/oidc/callback"),
        ("/dashboard/sign-in?next=/dashboard/keys", "/dashboard/sign-in?next=/dashboard/keys"),
    ],
)
def test_what_signs_in_is_not_in_the_access_log(path: str, shown: str):
    keep_links_out_of_access_logs()
    arguments = ("127.0.0.1:1", "GET", path, "1.1", 200)
    record = logging.LogRecord("uvicorn.access", logging.INFO, "x", 1, "%s %s %s %s %s", arguments, None)
    assert logging.getLogger("uvicorn.access").filter(record)
    assert record.args == ("127.0.0.1:1", "GET", shown, "1.1", 200)


def test_the_filter_is_added_once():
    keep_links_out_of_access_logs()
    keep_links_out_of_access_logs()
    filters = logging.getLogger("uvicorn.access").filters
    assert sum(type(each).__name__ == "_WithoutLinks" for each in filters) == 1
