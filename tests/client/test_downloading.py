"""Downloads of recordings: whole or not there, resumed where they broke off, part by part."""

from __future__ import annotations

import asyncio
import io
import socket
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from attrs import evolve

from meetcore.adapters.settings import Settings
from meetcore.app import Service
from meetcore.client import ConnectionFailed, Gone, InternalError, UnexpectedResponse
from tests.client.clients import open_client
from tests.client.conftest import API_KEY, Trial
from tests.client.samples import ID
from tests.client.scripted_server import Drop, ScriptedServer, answer, refusal
from tests.client.test_retries import Against
from tests.support.api_harness import Customer, started
from tests.support.sandbox_recordings import a_recording

CONTENT = bytes(range(256)) * 500
HALF = len(CONTENT) // 2


def link(server: ScriptedServer, part: int = 1) -> bytes:
    url = f"{server.url}/downloads/recordings/{ID}?part={part}&signature=geheim"
    return answer(200, {"url": url, "expires_at": "2026-12-01T03:10:00Z"})


def behind(server: ScriptedServer, part: int) -> str:
    """The header that leads to a part."""
    return f'<{server.url}/downloads/recordings/{ID}?part={part}&signature=geheim>; rel="next"'


def whole(content: bytes = CONTENT, **headers: object) -> bytes:
    return answer(200, content, Content_Type="video/mp4", **headers)


def ranged(first: int, content: bytes = CONTENT, size: int | None = None) -> bytes:
    content_range = f"bytes {first}-{len(content) - 1}/{len(content) if size is None else size}"
    return answer(206, content[first:], Content_Range=content_range)


def half(content: bytes = CONTENT) -> Drop:
    return Drop(whole(content)[: -(len(content) - HALF)])


@pytest.fixture
async def trial(against: Against) -> Trial:
    opened: Trial = await against()
    return opened


def left_in(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


async def test_a_recording_is_downloaded_without_the_key(trial: Trial, tmp_path: Path) -> None:
    trial.server.then(link(trial.server), whole())
    done = await trial.invoke("recordings.download", ID, tmp_path / "rapat.mp4")
    assert (done.size_bytes, done.paths, done.has_more) == (len(CONTENT), (tmp_path / "rapat.mp4",), False)
    assert left_in(tmp_path) == {"rapat.mp4": CONTENT}
    link_request, fetched = trial.server.requests
    assert (link_request.target, link_request.headers["authorization"]) == (
        f"/api/v1/recordings/{ID}/download-url", f"Bearer {API_KEY}",
    )  # fmt: skip
    assert fetched.target.startswith(f"/downloads/recordings/{ID}?part=1&")
    assert "authorization" not in fetched.headers
    assert "range" not in fetched.headers
    assert fetched.headers["accept-encoding"] == "identity"


async def test_an_open_file_gets_the_bytes(trial: Trial, tmp_path: Path) -> None:
    trial.server.then(link(trial.server), whole())
    file = io.BytesIO()
    done = await trial.invoke("recordings.download", ID, file)
    assert (done.size_bytes, done.paths, file.getvalue()) == (len(CONTENT), (), CONTENT)
    trial.server.then(link(trial.server), whole())
    with (tmp_path / "raw").open("wb", buffering=0) as raw:
        await trial.invoke("recordings.download", ID, raw)
    assert (tmp_path / "raw").read_bytes() == CONTENT


async def test_what_takes_a_few_bytes_at_a_time_gets_all_of_them(trial: Trial) -> None:
    trial.server.then(link(trial.server), whole())

    class Narrow:
        got = b""

        def write(self, data: bytes, /) -> int:
            self.got += data[:1000]
            return len(data[:1000])

    narrow = Narrow()
    await trial.invoke("recordings.download", ID, narrow)
    assert narrow.got == CONTENT


async def test_a_download_goes_on_where_it_broke_off(trial: Trial, tmp_path: Path) -> None:
    server = trial.server
    server.then(link(server), half(), link(server), Drop(), link(server), ranged(HALF))
    await trial.invoke("recordings.download", ID, str(tmp_path / "a.mp4"))
    assert left_in(tmp_path) == {"a.mp4": CONTENT}
    fetched = [request.headers.get("range") for request in server.requests if "downloads" in request.target]
    assert fetched == [None, f"bytes={HALF}-", f"bytes={HALF}-"]
    assert len(trial.waits.slept) == 2


async def test_a_proxy_that_knows_no_ranges_is_read_again(trial: Trial, tmp_path: Path) -> None:
    trial.server.then(link(trial.server), half(), link(trial.server), whole())
    await trial.invoke("recordings.download", ID, tmp_path / "a.mp4")
    assert left_in(tmp_path) == {"a.mp4": CONTENT}


@pytest.mark.parametrize(
    "second",
    [
        whole(CONTENT + b"x"), ranged(HALF, CONTENT + b"x"), ranged(HALF + 1), ranged(HALF, size=HALF + 1),
        answer(206, CONTENT[HALF:]), answer(206, CONTENT[HALF:], Content_Range="bytes */7"),
    ],
)  # fmt: skip
async def test_two_recordings_are_never_put_together(trial: Trial, tmp_path: Path, second: bytes) -> None:
    trial.server.then(link(trial.server), half(), link(trial.server), second)
    (tmp_path / "a.mp4").write_bytes(b"before")
    error = await trial.refused("recordings.download", ID, tmp_path / "a.mp4")
    assert isinstance(error, UnexpectedResponse)
    assert left_in(tmp_path) == {"a.mp4": b"before"}, "nothing is left behind, and nothing was replaced"


async def test_what_passes_is_waited_out_as_long_as_something_comes(trial: Trial, tmp_path: Path) -> None:
    server, size = trial.server, len(CONTENT)
    busy = refusal(429, "rate_limited", Retry_After=7)
    server.then(link(server), busy, link(server))
    quarters = [size * part // 8 for part in range(9)]
    for first, last in pairwise(quarters):
        head = ranged(first)
        server.then(Drop(head[: len(head) - (size - last)]) if last < size else head, link(server))
    await trial.invoke("recordings.download", ID, tmp_path / "a.mp4")
    assert left_in(tmp_path) == {"a.mp4": CONTENT}
    assert trial.waits.slept[0] >= 7


async def test_what_never_gets_on_is_given_up(against: Against, tmp_path: Path) -> None:
    trial = await against(max_attempts=3)
    server = trial.server
    server.then(*[link(server), half()], *[link(server), Drop()] * 5)
    error = await trial.refused("recordings.download", ID, tmp_path / "a.mp4")
    assert isinstance(error, ConnectionFailed)
    assert len(server.requests) == 6, "one that got on, and two that did not"
    assert left_in(tmp_path) == {}
    for step, kind in (
        (refusal(500, "internal_error"), InternalError),
        (Drop(whole()[:9]), ConnectionFailed),
    ):
        server._script.clear()
        server.then(*[link(server), step] * 3)
        assert isinstance(await trial.refused("recordings.download", ID, tmp_path / "a.mp4"), kind)
    assert "geheim" not in str(error)


async def test_a_missing_file_raises_at_once(trial: Trial, tmp_path: Path) -> None:
    for steps in ([refusal(410, "gone")], [link(trial.server), refusal(410, "gone")]):
        trial.server.then(*steps)
        assert isinstance(await trial.refused("recordings.download", ID, tmp_path / "a.mp4"), Gone)
    trial.server.then(link(trial.server), answer(302, b""))
    assert isinstance(await trial.refused("recordings.download", ID, tmp_path / "a.mp4"), UnexpectedResponse)
    assert left_in(tmp_path) == {}
    assert trial.waits.slept == []


async def test_every_part_has_a_file(trial: Trial, tmp_path: Path) -> None:
    server = trial.server
    head = answer(200, None, Link=behind(server, 2))
    server.then(link(server), whole(Link=behind(server, 2)), link(server), head, whole(b"the second"))
    done = await trial.invoke("recordings.download", ID, tmp_path / "a.mp4")
    assert done.paths == (tmp_path / "a.mp4", tmp_path / "a-2.mp4")
    assert (done.size_bytes, done.has_more) == (len(CONTENT) + 10, False)
    assert left_in(tmp_path) == {"a.mp4": CONTENT, "a-2.mp4": b"the second"}
    assert [request.method for request in server.requests] == ["GET", "GET", "GET", "HEAD", "GET"]
    assert "part=2" in server.requests[-1].target


async def test_an_open_file_takes_one_part(trial: Trial, tmp_path: Path) -> None:
    server, file = trial.server, io.BytesIO()
    more = whole(Link=behind(server, 2))
    server.then(link(server), more)
    with pytest.raises(ValueError, match="several parts"):
        await trial.invoke("recordings.download", ID, file)
    assert file.getvalue() == b""
    server.then(link(server), more)
    assert (await trial.invoke("recordings.download", ID, file, part=1)).has_more
    head = answer(200, None, Link=behind(server, 2))
    server.then(link(server), head, whole(b"the second"))
    done = await trial.invoke("recordings.download", ID, tmp_path / "b.mp4", part=2)
    assert (done.paths, done.has_more) == ((tmp_path / "b.mp4",), False)
    server.then(link(server), answer(200, None))
    with pytest.raises(ValueError, match="no part 2"):
        await trial.invoke("recordings.download", ID, file, part=2)
    server.then(link(server), refusal(429, "rate_limited", Retry_After=3), link(server), answer(404))
    error = await trial.refused("recordings.download", ID, file, part=2)
    assert (error.status, file.getvalue()) == (404, CONTENT)


async def test_places_that_cannot_be_meant(trial: Trial, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="directory"):
        await trial.invoke("recordings.download", ID, tmp_path)
    with pytest.raises(ValueError, match="first part"):
        await trial.invoke("recordings.download", ID, tmp_path / "a.mp4", part=0)
    with pytest.raises(FileNotFoundError):
        await trial.invoke("recordings.download", ID, tmp_path / "nowhere" / "a.mp4")
    assert trial.server.requests == []


class FullDisk:
    def write(self, _: bytes, /) -> int:
        raise OSError("no space left")


async def test_a_file_that_cannot_be_written_ends_it(trial: Trial) -> None:
    trial.server.then(link(trial.server), whole())
    with pytest.raises(OSError, match="no space"):
        await trial.invoke("recordings.download", ID, FullDisk())


@pytest.fixture
async def reachable(service_settings: Settings) -> AsyncIterator[str]:
    """A service whose links lead to where it listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        service = Service(evolve(service_settings, base_url=url))
        config = uvicorn.Config(service, log_level="critical", lifespan="off", ws="none", access_log=False)
        server = uvicorn.Server(config)
        async with started(service):
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            try:
                yield url
            finally:
                server.should_exit = True
                await serving


async def test_a_recording_of_the_service(
    customer: Customer, kind: str, reachable: str, tmp_path: Path
) -> None:
    recording: dict[str, Any] = await a_recording(customer)
    async with open_client(kind, reachable, customer.key.text) as invoke:
        done = await invoke("recordings.download", recording["id"], tmp_path / "a.mp4")
        found = await invoke("recordings.download_url", recording["id"])
    async with httpx.AsyncClient(transport=httpx.AsyncHTTPTransport()) as http:
        expected = (await http.get(found.url)).content
    assert (tmp_path / "a.mp4").read_bytes() == expected
    assert done.size_bytes == len(expected) > 10_000
