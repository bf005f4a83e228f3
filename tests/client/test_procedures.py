"""Downloads of recordings, complete or absent and resumed part by part; waiting for notes."""

from __future__ import annotations

import io
import socket
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest
from attrs import evolve

from meetcore.adapters.settings import Settings
from meetcore.app import Service
from meetcore.client import errors
from tests.client.clients import API_KEY, Against, Trial, open_client, served
from tests.client.samples import ID, note
from tests.client.scripted_server import Drop, ScriptedServer, Step, answer, refusal
from tests.support.api_harness import Customer, started
from tests.support.sandbox_recordings import a_recording

CONTENT = bytes(range(256)) * 500
HALF = len(CONTENT) // 2


def address(server: ScriptedServer, part: int) -> str:
    return f"{server.url}/downloads/recordings/{ID}?part={part}&signature=geheim"


def link(server: ScriptedServer, part: int = 1) -> bytes:
    return answer(200, {"url": address(server, part), "expires_at": "2026-12-01T03:10:00Z"})


def leading_on(server: ScriptedServer, part: int, content: bytes | None) -> bytes:
    """A part with the header that links to the next one."""
    return answer(200, content, Content_Type="video/mp4", Link=f'<{address(server, part)}>; rel="next"')


def whole(content: bytes = CONTENT) -> bytes:
    return answer(200, content, Content_Type="video/mp4")


def ranged(first: int, content: bytes = CONTENT, size: int | None = None) -> bytes:
    content_range = f"bytes {first}-{len(content) - 1}/{len(content) if size is None else size}"
    return answer(206, content[first:], Content_Range=content_range)


def half() -> Drop:
    return Drop(whole()[: -(len(CONTENT) - HALF)])


@pytest.fixture
async def trial(against: Against) -> Trial:
    opened: Trial = await against()
    return opened


def left_in(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


async def download(trial: Trial, to: object, *steps: Step, **options: Any) -> Any:
    """Download in as many attempts as there are steps, each after a link."""
    for step in steps:
        trial.server.then(link(trial.server), step)
    return await trial.invoke("recordings.download", ID, to, **options)


async def refused(trial: Trial, to: object, *steps: Step, **options: Any) -> errors.MeetcoreError:
    with pytest.raises(errors.MeetcoreError) as caught:
        await download(trial, to, *steps, **options)
    return caught.value


async def test_a_recording_is_downloaded_without_the_key(trial: Trial, tmp_path: Path) -> None:
    done = await download(trial, tmp_path / "rapat.mp4", whole())
    assert (done.size_bytes, done.paths, done.has_more) == (len(CONTENT), (tmp_path / "rapat.mp4",), False)
    assert left_in(tmp_path) == {"rapat.mp4": CONTENT}
    link_request, fetched = trial.server.requests
    assert link_request.target == f"/api/v1/recordings/{ID}/download-url"
    assert link_request.headers["authorization"] == f"Bearer {API_KEY}"
    assert fetched.target.startswith(f"/downloads/recordings/{ID}?part=1&")
    assert not {"authorization", "range"} & fetched.headers.keys()
    assert fetched.headers["accept-encoding"] == "identity"


class Narrow:
    """Takes a thousand bytes at a time."""

    got = b""

    def write(self, data: bytes, /) -> int:
        self.got += data[:1000]
        return len(data[:1000])


async def test_an_open_file_gets_the_bytes(trial: Trial, tmp_path: Path) -> None:
    file, narrow = io.BytesIO(), Narrow()
    done = await download(trial, file, whole())
    assert (done.size_bytes, done.paths, file.getvalue()) == (len(CONTENT), (), CONTENT)
    with (tmp_path / "raw").open("wb", buffering=0) as raw:
        await download(trial, raw, whole())
    await download(trial, narrow, whole())
    assert (tmp_path / "raw").read_bytes() == narrow.got == CONTENT


async def test_a_download_goes_on_where_it_broke_off(trial: Trial, tmp_path: Path) -> None:
    await download(trial, str(tmp_path / "a.mp4"), half(), Drop(), ranged(HALF))
    assert left_in(tmp_path) == {"a.mp4": CONTENT}
    fetched = [each.headers.get("range") for each in trial.server.requests if "downloads" in each.target]
    assert fetched == [None, f"bytes={HALF}-", f"bytes={HALF}-"]
    assert len(trial.waits.slept) == 2


async def test_a_proxy_that_knows_no_ranges_is_read_again(trial: Trial, tmp_path: Path) -> None:
    await download(trial, tmp_path / "a.mp4", half(), whole())
    assert left_in(tmp_path) == {"a.mp4": CONTENT}


@pytest.mark.parametrize("second", [
    whole(CONTENT + b"x"), ranged(HALF, CONTENT + b"x"), ranged(HALF + 1), ranged(HALF, size=HALF + 1),
    answer(206, CONTENT[HALF:]), answer(206, CONTENT[HALF:], Content_Range="bytes */7"),
])  # fmt: skip
async def test_two_recordings_are_never_joined(trial: Trial, tmp_path: Path, second: bytes) -> None:
    (tmp_path / "a.mp4").write_bytes(b"before")
    assert isinstance(await refused(trial, tmp_path / "a.mp4", half(), second), errors.UnexpectedResponse)
    assert left_in(tmp_path) == {"a.mp4": b"before"}, "no partial file is left, and the file is not replaced"


async def test_failures_are_retried_as_long_as_bytes_come(trial: Trial, tmp_path: Path) -> None:
    size, steps = len(CONTENT), []
    for first, last in pairwise(size * part // 8 for part in range(9)):
        head = ranged(first)
        steps.append(Drop(head[: len(head) - (size - last)]) if last < size else head)
    await download(trial, tmp_path / "a.mp4", refusal(429, "rate_limited", Retry_After=7), *steps)
    assert left_in(tmp_path) == {"a.mp4": CONTENT}
    assert trial.waits.slept[0] >= 7


async def test_a_download_without_progress_is_given_up(against: Against, tmp_path: Path) -> None:
    trial = await against(max_attempts=3)
    error = await refused(trial, tmp_path / "a.mp4", half(), *[Drop()] * 5)
    assert isinstance(error, errors.ConnectionFailed)
    assert len(trial.server.requests) == 6, "one attempt with progress, and two without"
    for step, kind in (
        (refusal(500, "internal_error"), errors.InternalError),
        (Drop(whole()[:9]), errors.ConnectionFailed),
    ):
        trial.server.again()
        assert isinstance(await refused(trial, tmp_path / "a.mp4", *[step] * 3), kind)
    assert "geheim" not in str(error)
    assert left_in(tmp_path) == {}


async def test_a_missing_file_raises_at_once(trial: Trial, tmp_path: Path) -> None:
    trial.server.then(refusal(410, "gone"))
    assert isinstance(await refused(trial, tmp_path / "a.mp4"), errors.Gone)
    assert isinstance(await refused(trial, tmp_path / "a.mp4", refusal(410, "gone")), errors.Gone)
    assert isinstance(await refused(trial, tmp_path / "a.mp4", answer(302, b"")), errors.UnexpectedResponse)
    assert (left_in(tmp_path), trial.waits.slept) == ({}, [])


@pytest.mark.parametrize("url", ["https://[::1/geheim", "https://host:99999/geheim", "/geheim"])
async def test_a_link_that_is_no_address_is_an_error_of_the_client(
    against: Against, tmp_path: Path, url: str
) -> None:
    trial = await against(max_attempts=1)
    trial.server.then(answer(200, {"url": url, "expires_at": "2026-12-01T03:10:00Z"}))
    error = await refused(trial, tmp_path / "a.mp4")
    assert isinstance(error, errors.ConnectionFailed)
    assert "geheim" not in str(error)
    assert left_in(tmp_path) == {}


async def test_every_part_has_a_file(trial: Trial, tmp_path: Path) -> None:
    server = trial.server
    server.then(link(server), leading_on(server, 2, CONTENT))
    server.then(link(server), leading_on(server, 2, None), whole(b"the second"))
    done = await download(trial, tmp_path / "a.mp4")
    assert done.paths == (tmp_path / "a.mp4", tmp_path / "a-2.mp4")
    assert (done.size_bytes, done.has_more) == (len(CONTENT) + 10, False)
    assert left_in(tmp_path) == {"a.mp4": CONTENT, "a-2.mp4": b"the second"}
    assert [request.method for request in server.requests] == ["GET", "GET", "GET", "HEAD", "GET"]
    assert "part=2" in server.requests[-1].target


async def test_an_open_file_takes_one_part(trial: Trial, tmp_path: Path) -> None:
    server, file = trial.server, io.BytesIO()
    more, head = leading_on(server, 2, CONTENT), leading_on(server, 2, None)
    with pytest.raises(ValueError, match="several parts"):
        await download(trial, file, more)
    assert file.getvalue() == b""
    assert (await download(trial, file, more, part=1)).has_more
    server.then(link(server), head, whole(b"the second"))
    done = await download(trial, tmp_path / "b.mp4", part=2)
    assert (done.paths, done.has_more) == ((tmp_path / "b.mp4",), False)
    with pytest.raises(ValueError, match="no part 2"):
        await download(trial, file, answer(200, None), part=2)
    busy = refusal(429, "rate_limited", Retry_After=3)
    assert (await refused(trial, file, busy, answer(404), part=2)).status == 404
    assert file.getvalue() == CONTENT


class FullDisk:
    def write(self, _: bytes, /) -> int:
        raise OSError("no space left")


async def test_invalid_targets(trial: Trial, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="directory"):
        await download(trial, tmp_path)
    with pytest.raises(ValueError, match="start at 1"):
        await download(trial, tmp_path / "a.mp4", part=0)
    with pytest.raises(FileNotFoundError):
        await download(trial, tmp_path / "nowhere" / "a.mp4")
    assert trial.server.requests == []
    with pytest.raises(OSError, match="no space"):
        await download(trial, FullDisk(), whole())


@pytest.fixture
async def reachable(service_settings: Settings) -> AsyncIterator[str]:
    """A service whose links lead to its own address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        service = Service(evolve(service_settings, base_url=url))
        async with started(service), served(service, listener):
            yield url


async def test_recording_of_service(customer: Customer, kind: str, reachable: str, tmp_path: Path) -> None:
    recording: dict[str, Any] = await a_recording(customer)
    async with open_client(kind, reachable, customer.key.text) as invoke:
        done = await invoke("recordings.download", recording["id"], tmp_path / "a.mp4")
        found = await invoke("recordings.download_url", recording["id"])
    async with httpx.AsyncClient(transport=httpx.AsyncHTTPTransport()) as http:
        expected = (await http.get(found.url)).content
    assert (tmp_path / "a.mp4").read_bytes() == expected
    assert done.size_bytes == len(expected) > 10_000


# Waiting for notes

QUEUED, PROCESSING = answer(200, note(status="queued")), answer(200, note(status="processing"))
DONE, LOST = answer(200, note()), answer(200, note(status="failed", error="Too few credits."))


def listed(*notes: dict[str, object]) -> bytes:
    return answer(200, {"data": list(notes), "next_cursor": "more" if notes else None})


async def test_a_note_is_polled_until_it_is_completed(against: Against) -> None:
    trial = await against(QUEUED, PROCESSING, Drop(), PROCESSING, DONE)
    found = await trial.invoke("notes.wait", ID)
    assert (found.status, found.summary) == ("completed", "Anggaran disetujui.")
    assert trial.waits.slept == [1.0, 1.5, 0.25, 2.25], "a poll is retried like any read"
    assert {request.target for request in trial.server.requests} == {f"/api/v1/notes/{ID}"}


async def test_a_note_that_is_completed_is_not_waited_for(against: Against) -> None:
    trial = await against(DONE)
    assert (await trial.invoke("notes.wait", ID, timeout_s=0.001)).id == ID
    assert trial.waits.slept == []


async def test_the_pauses_grow_to_a_quarter_of_a_minute(against: Against) -> None:
    trial = await against(*[QUEUED] * 12, DONE)
    await trial.invoke("notes.wait", ID)
    assert (trial.waits.slept, trial.waits.slept[-1]) == (sorted(trial.waits.slept), 15.0)


async def test_a_note_that_failed_or_is_missing_is_raised(against: Against) -> None:
    trial = await against(QUEUED, LOST, refusal(404, "not_found"))
    error = await trial.refused("notes.wait", ID)
    assert isinstance(error, errors.NoteFailed)
    assert error.note is not None
    assert (str(error), error.note.status) == ("Too few credits.", "failed")
    assert isinstance(await trial.refused("notes.wait", ID), errors.NotFound)


async def test_waiting_ends_at_its_deadline_with_a_last_poll(against: Against) -> None:
    trial = await against(*[PROCESSING] * 9)
    error = await trial.refused("notes.wait", ID, timeout_s=6)
    assert isinstance(error, errors.WaitTimedOut)
    assert error.note is not None
    assert error.note.status == "processing"
    assert (trial.waits.slept, len(trial.server.requests)) == ([1.0, 1.5, 2.25, 1.25], 5)


async def test_the_newest_note_of_a_meeting_may_not_exist_yet(against: Against) -> None:
    trial = await against(listed(), listed(note(status="queued")), listed(note()), *[listed()] * 4)
    assert (await trial.invoke("notes.wait", meeting_id=ID)).status == "completed"
    assert {request.target for request in trial.server.requests} == {f"/api/v1/notes?limit=1&meeting_id={ID}"}
    error = await trial.refused("notes.wait", meeting_id=ID, timeout_s=3)
    assert (type(error), error.note) == (errors.WaitTimedOut, None)


async def test_invalid_waits_send_nothing(against: Against) -> None:
    trial = await against()
    for wrong in ({}, {"note_id": ID, "meeting_id": ID}):
        with pytest.raises(ValueError, match="note_id or meeting_id"):
            await trial.invoke("notes.wait", **wrong)
    for seconds in (0, -1, float("nan")):
        with pytest.raises(ValueError, match="above 0"):
            await trial.invoke("notes.wait", ID, timeout_s=seconds)
    assert trial.server.requests == []
