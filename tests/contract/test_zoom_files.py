"""The way to a file at Zoom over real HTTP: tokens, redirects, and everything that can break."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from urllib.parse import urlsplit

import pytest
from attrs import evolve

from meetcore.adapters.zoom import ZoomAccess, ZoomRecordingFiles
from meetcore.adapters.zoom.calls import ZoomCalls
from meetcore.domain.notes.recordings import FileKind, RecordingFile
from meetcore.ports.recording_files import ByteRange, FileGone, FilesUnavailable, RangeUnsatisfiable
from meetcore.testing.contracts.providers import order_for
from meetcore.testing.stand_in import Reply, Request, serving
from meetcore.testing.zoom_server import Fault
from tests.support.zoom_adapter import Zoom, access_to, zoom_at_hand

START, END = datetime(2026, 11, 24, 2, 4, tzinfo=UTC), datetime(2026, 11, 24, 2, 40, tzinfo=UTC)
CONTENT = bytes(range(256)) * 8192


@pytest.fixture
async def zoom() -> AsyncIterator[Zoom]:
    async with zoom_at_hand() as zoom:
        yield zoom


@pytest.fixture
async def file(zoom: Zoom) -> RecordingFile:
    made = (await zoom.provider.create(order_for(zoom.provider))).provider_meeting_id
    zoom.stand_in.record(zoom.stand_in.account.meeting(made), "a1", "M4A", CONTENT, START, END)
    (found,) = await zoom.provider.files.find(made)
    return found


async def read(zoom: Zoom, file: RecordingFile, wanted: ByteRange | None = None) -> bytes:
    async with zoom.provider.files.open(file, wanted) as opened:
        return b"".join([chunk async for chunk in opened.chunks])


@asynccontextmanager
async def other_server(
    status: int = 200, body: bytes = CONTENT, **headers: str
) -> AsyncIterator[tuple[str, list[Request]]]:
    """Another place on this machine: its address, and what came there."""
    came: list[Request] = []
    reply_headers = {name.replace("_", "-"): value for name, value in headers.items()}

    async def answer(request: Request) -> Reply:
        came.append(request)
        return Reply(status, body, reply_headers)

    async with serving(answer) as port:
        yield f"http://127.0.0.1:{port}", came


async def test_the_token_goes_to_zoom_and_does_not_go_along_with_a_redirect(zoom: Zoom, file: RecordingFile):
    # The stand-in's store of files refuses a request with a token, as the real ones do.
    assert await read(zoom, file) == CONTENT
    assert (zoom.calls("download"), zoom.calls("content")) == (1, 1)
    for request in zoom.stand_in.requests:
        assert not {"access_token", "token"} & request.query.keys()


async def test_a_redirect_to_another_host_carries_no_token(zoom: Zoom, file: RecordingFile):
    async with other_server() as (url, came):
        zoom.stand_in.files_url = url
        assert await read(zoom, file, ByteRange(0)) == CONTENT
        assert "authorization" not in came[0].headers
        assert came[0].headers["range"] == "bytes=0-"
        assert "cookie" not in came[0].headers


async def test_a_file_at_an_address_that_is_not_zooms_is_not_requested(zoom: Zoom, file: RecordingFile):
    async with other_server() as (url, came):
        for address in (
            url,
            "https://zoom.us.example/x",
            "https://example.com/x",
            "file:///etc/passwd",
            "",
            "//x",
        ):
            with pytest.raises(FilesUnavailable):
                await read(zoom, evolve(file, url=address))
        assert came == []


@pytest.mark.parametrize(
    ("address", "is_zooms"),
    [
        ("https://us06web.zoom.us/rec/download/x", True), ("https://zoom.us/rec/download/x", True),
        ("https://us06web.zoom.us:8443/x", False), ("http://us06web.zoom.us/x", False),
        ("https://evilzoom.us/x", False), ("https://zoom.us.evil.example/x", False),
        ("https://zoom.us@evil.example/x", False), ("https://evil.example/zoom.us", False),
        ("https://files.zoomgov.com/x", False),
    ],
)  # fmt: skip
async def test_addresses_of_zoom(zoom: Zoom, file: RecordingFile, address: str, is_zooms: bool):
    access = ZoomAccess("a", "b", "c")
    calls = ZoomCalls(evolve(access, oauth_url=zoom.stand_in.oauth_url), zoom.log, zoom.clock.now)
    files = ZoomRecordingFiles(access, calls, zoom.log)
    assert files._is_of_zoom(urlsplit(address)) is is_zooms
    await files.aclose()
    await calls.aclose()


@pytest.mark.parametrize(
    ("address", "why", "times"),
    [
        ("http://example.com/x", "without TLS", 1), ("ftp://127.0.0.1/x", "without TLS", 1),
        ("https:///x", "without TLS", 1), ("http://[::ffff:1.2.3.4]/x", "without TLS", 1),
        ("https://[x/y", ".", 1), ("https://127.0.0.1:port/y", ".", 1), ("/again", "redirects", 5),
    ],
)  # fmt: skip
async def test_no_redirect_leads_out_of_encryption_to_what_is_no_address_or_on_and_on(
    zoom: Zoom, file: RecordingFile, address: str, why: str, times: int
):
    async with other_server(302, b"", Location=address) as (url, came):
        zoom.stand_in.files_url = url
        with pytest.raises(FilesUnavailable, match=why):
            await read(zoom, file)
        assert len(came) == times


async def test_an_old_token_is_fetched_anew_once(zoom: Zoom, file: RecordingFile):
    zoom.stand_in.expire_tokens()
    assert await read(zoom, file) == CONTENT
    assert zoom.calls("token") == 2
    zoom.stand_in.faults.plan(Fault("token_expired", "download", times=None))
    with pytest.raises(FilesUnavailable, match="401"):
        await read(zoom, file)
    assert zoom.calls("token") == 3


async def test_a_page_that_asks_to_sign_in_is_no_file(zoom: Zoom, file: RecordingFile):
    zoom.stand_in.faults.plan(Fault("page", "download"))
    assert await read(zoom, file) == CONTENT
    zoom.stand_in.faults.plan(Fault("page", "download", times=None))
    with pytest.raises(FilesUnavailable):
        await read(zoom, file)


@pytest.mark.parametrize("call", ["download", "content"])
@pytest.mark.parametrize("fault", ["500", "503", "429", "403", "drop"])
async def test_no_answer_is_away(zoom: Zoom, file: RecordingFile, fault: str, call: str):
    zoom.stand_in.faults.plan(Fault(fault, call, times=None))
    with pytest.raises(FilesUnavailable):
        await read(zoom, file)
    zoom.stand_in.faults.clear()
    assert await read(zoom, file) == CONTENT


@pytest.mark.parametrize("call", ["download", "content"])
@pytest.mark.parametrize("fault", ["404", "410", "no_recording"])
async def test_what_zoom_has_not_any_more_is_gone(zoom: Zoom, file: RecordingFile, fault: str, call: str):
    zoom.stand_in.faults.plan(Fault(fault, call))
    with pytest.raises(FileGone):
        await read(zoom, file)


async def test_a_file_that_breaks_off_is_no_whole_one(zoom: Zoom, file: RecordingFile):
    zoom.stand_in.faults.plan(Fault("cut", "content"))
    came = bytearray()

    async def take() -> None:
        async with zoom.provider.files.open(file) as opened:
            assert opened.size_bytes == len(CONTENT)
            async for chunk in opened.chunks:
                came.extend(chunk)

    with pytest.raises(FilesUnavailable):
        await take()
    assert CONTENT.startswith(came)
    assert 0 < len(came) < len(CONTENT)


@pytest.mark.parametrize("fault", ["hang", "stall"])
async def test_a_silence_has_its_limit(zoom: Zoom, file: RecordingFile, fault: str):
    access = access_to(zoom.stand_in)
    calls = ZoomCalls(access, zoom.log, zoom.clock.now)
    files = ZoomRecordingFiles(access, calls, zoom.log, read_s=0.2)
    zoom.stand_in.faults.plan(Fault(fault, "content"))

    async def take() -> None:
        async with asyncio.timeout(10), files.open(file) as opened:
            async for _ in opened.chunks:
                pass

    with pytest.raises(FilesUnavailable, match="Timeout"):
        await take()
    await files.aclose()
    await calls.aclose()


async def test_a_reader_that_stops_ends_the_transfer_at_zoom(zoom: Zoom, file: RecordingFile):
    zoom.stand_in.faults.plan(Fault("stall", "content"))
    async with zoom.provider.files.open(file) as opened:
        await anext(opened.chunks)
        assert zoom.stand_in.given_up == 0
    async with asyncio.timeout(5):
        while zoom.stand_in.given_up == 0:  # noqa: ASYNC110  (the other side of a connection sends no event)
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (206, {}), (206, {"Content_Range": "bytes 5-9/100"}), (206, {"Content_Range": "bytes 10-14/100"}),
        (206, {"Content_Range": "bytes 10-19/*"}), (206, {"Content_Range": "bytes 10-19/15"}),
        (206, {"Content_Range": "items 10-19/100"}),
        (206, {"Content_Range": "bytes 10-19/100", "Content_Encoding": "gzip"}),
    ],
)  # fmt: skip
async def test_another_part_than_was_wanted_is_not_taken(
    zoom: Zoom, file: RecordingFile, status: int, headers: dict[str, str]
):
    async with other_server(status, b"0123456789", **headers) as (url, _):
        zoom.stand_in.files_url = url
        with pytest.raises(FilesUnavailable):
            await read(zoom, file, ByteRange(10, 19))


async def test_a_range_past_the_end_reports_the_size_in_every_form_zoom_has(zoom: Zoom, file: RecordingFile):
    for status, headers in ((416, {"Content_Range": "bytes */100"}), (416, {}), (200, {})):
        async with other_server(status, b"x" * 100, **headers) as (url, _):
            zoom.stand_in.files_url = url
            with pytest.raises(RangeUnsatisfiable) as caught:
                await read(zoom, file, ByteRange(100))
            assert caught.value.size_bytes in (100, file.size_bytes)


async def test_removing_is_for_good(zoom: Zoom, file: RecordingFile):
    (made,) = zoom.made
    await zoom.provider.files.remove(made, file)
    assert (zoom.stand_in.requests[-1].query, zoom.stand_in.account.contents) == ({"action": "delete"}, {})
    await zoom.provider.files.remove(made, file)


async def test_every_kind_of_file_of_every_session_is_removed(zoom: Zoom, file: RecordingFile):
    (made,), (meeting,) = zoom.made, zoom.stand_in.meetings
    for number in range(4):
        uuid = zoom.stand_in.open_session(made)
        for kind in ("M4A", "CHAT", "SUMMARY", "TIMELINE", "CC"):
            zoom.stand_in.record(meeting, f"{kind}-{number}", kind, b"x", START, END)
        for listed in meeting.recording_files[-2:]:  # Zoom gives these no id, size and status
            for name in ("id", "file_size", "status", "recording_type"):
                del listed[name]
        zoom.stand_in.close_session(uuid)
    found = await zoom.provider.files.find(made)
    assert len(found) == 21
    for one in found:
        await zoom.provider.files.remove(made, one)
    assert [session.recording_files for session in meeting.sessions] == [[]] * 4
    assert await zoom.provider.files.find(made) == ()


async def test_a_file_of_each_participants_voice_is_not_the_meetings_sound(zoom: Zoom, file: RecordingFile):
    voice = {
        "id": "p1", "recording_start": "2026-11-24T02:04:00Z", "recording_end": "2026-11-24T02:40:00Z",
        "file_type": "M4A", "file_size": 5, "download_url": f"{zoom.stand_in.url}/rec/download/p1",
        "status": "completed", "file_name": "Budi",
    }  # fmt: skip
    zoom.stand_in.meetings[0].latest.participant_audio_files.append(voice)
    assert [(each.provider_file_id, each.kind) for each in await zoom.provider.files.find(zoom.made[0])] == [
        ("a1", FileKind.AUDIO),
        ("p1", FileKind.OTHER),
    ]


async def test_a_file_of_a_session_of_a_deleted_meeting_is_found_by_its_session(
    zoom: Zoom, file: RecordingFile
):
    (made,) = zoom.made
    zoom.stand_in.meetings[0].is_deleted = True
    assert await zoom.provider.files.find(made) == ()
    assert await zoom.provider.files.find(made, [file.session_id]) == (file,)
    await zoom.provider.files.remove(made, file)
    assert zoom.stand_in.account.contents == {}


async def test_a_recording_of_a_host_that_was_deleted_at_zoom_is_gone(zoom: Zoom, file: RecordingFile):
    (made,) = zoom.made
    for call in ("recordings", "instances", "delete_file"):
        zoom.stand_in.faults.plan(Fault("user_not_found", call, times=None))
    assert await zoom.provider.files.find(made, [file.session_id]) == ()
    await zoom.provider.files.remove(made, file)


async def test_no_more_than_a_bounded_number_of_sessions_is_asked_for(zoom: Zoom, file: RecordingFile):
    (made,) = zoom.made
    for _ in range(60):
        zoom.stand_in.close_session(zoom.stand_in.open_session(made))
    before = zoom.calls("recordings")
    assert await zoom.provider.files.find(made, [file.session_id]) == (file,)
    assert zoom.calls("recordings") - before <= 52
    assert ("zoom_lists_too_many_sessions", {"sessions": 60, "limit": 50}) in zoom.log.lines


async def test_many_sessions_are_asked_for_within_a_lease(zoom: Zoom, file: RecordingFile):
    (made,) = zoom.made
    for _ in range(40):
        zoom.stand_in.close_session(zoom.stand_in.open_session(made))
    zoom.stand_in.terms.latency_s = 0.05
    zoom.stand_in.most_in_flight = 0
    assert await zoom.provider.files.find(made) == (file,)
    assert 4 <= zoom.stand_in.most_in_flight <= 8, "one after the other outlasts the lease of a search"


@pytest.mark.parametrize("call", ["recordings", "instances"])
@pytest.mark.parametrize("fault", ["validation", "missing_scope", "500", "garbage"])
async def test_sessions_that_cannot_be_asked_for_are_not_taken_as_empty(zoom: Zoom, fault: str, call: str):
    (made,) = zoom.made or [(await zoom.provider.create(order_for(zoom.provider))).provider_meeting_id]
    zoom.stand_in.faults.plan(Fault(fault, call, times=None))
    with pytest.raises(FilesUnavailable):
        await zoom.provider.files.find(made)


@pytest.mark.parametrize("fault", ["validation", "missing_scope", "500", "drop", "rate_daily_account"])
async def test_what_may_still_be_there_is_not_removed(zoom: Zoom, file: RecordingFile, fault: str):
    zoom.stand_in.faults.plan(Fault(fault, "delete_file", times=None))
    with pytest.raises(FilesUnavailable):
        await zoom.provider.files.remove(zoom.made[0], file)
    assert "a1" in zoom.stand_in.account.contents


async def test_nothing_of_what_is_secret_is_in_what_is_raised_or_logged(zoom: Zoom, file: RecordingFile):
    shown = [repr(file)]
    faults = [(fault, "download") for fault in ("500", "404", "token_expired", "drop", "page")]
    for fault, call in (*faults, ("500", "content"), ("drop", "content"), ("cut", "content")):
        zoom.stand_in.faults.plan(Fault(fault, call, times=2))
        with pytest.raises((FilesUnavailable, FileGone)) as caught:
            await read(zoom, file)
        shown += [str(caught.value), repr(caught.value.__cause__)]
        zoom.stand_in.faults.clear()
    text = " ".join([*shown, repr(zoom.log.lines)])
    for secret in ("eyJ", "Signature", "/rec/download", "127.0.0.1", "Bearer"):
        assert secret not in text
