"""The stand-in for Zoom answers as Zoom's documents specify, and its switches work.

What an adapter meets there is tested where the adapter is.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from meetcore.adapters.zoom.events import zoom_webhook_parser
from meetcore.domain.meetings.provider_events import ProviderEvent, ProviderEventKind
from meetcore.testing import zoom_api
from meetcore.testing.clock import ManualClock
from meetcore.testing.zoom_account import REFUSALS
from meetcore.testing.zoom_server import Fault, ZoomStandIn, zoom_stand_in

START = datetime(2026, 12, 1, 2, tzinfo=UTC)
MEETING = {
    "topic": "Rapat",
    "type": 2,
    "start_time": "2026-12-01T02:00:00Z",
    "duration": 60,
    "agenda": "x" * 400,
}


@pytest.fixture
async def zoom() -> AsyncIterator[ZoomStandIn]:
    async with zoom_stand_in() as stand_in:
        yield stand_in


async def token_of(zoom: ZoomStandIn, **fields: str) -> httpx.Response:
    known = zoom.credentials
    form = {"grant_type": "account_credentials", "account_id": known.account_id, **fields}
    async with httpx.AsyncClient(trust_env=False) as http:
        return await http.post(zoom.oauth_url, data=form, auth=(known.client_id, known.client_secret))


@pytest.fixture
async def http(zoom: ZoomStandIn) -> AsyncIterator[httpx.AsyncClient]:
    token = (await token_of(zoom)).json()["access_token"]
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=zoom.url, headers=headers, trust_env=False) as client:
        yield client


async def made(http: httpx.AsyncClient, **changes: Any) -> dict[str, Any]:
    answer = await http.post("/v2/users/host-1/meetings", json={**MEETING, **changes})
    assert answer.status_code == 201
    body: dict[str, Any] = answer.json()
    return body


async def test_a_token_is_for_the_application_only(zoom: ZoomStandIn):
    assert (await token_of(zoom)).json()["expires_in"] == 3600
    wrong = await token_of(zoom, account_id="another")
    assert (wrong.status_code, wrong.json()["error"]) == (400, "invalid_client")
    grant = await token_of(zoom, grant_type="password")
    assert (grant.status_code, grant.json()["error"]) == (400, "unsupported_grant_type")


async def test_a_meeting_has_a_number_and_a_lifecycle(http: httpx.AsyncClient):
    meeting = await made(http)
    path, switch = f"/v2/meetings/{meeting['id']}", f"/stand-in/meetings/{meeting['id']}"
    assert type(meeting["id"]) is int
    assert (await http.get(path)).json()["status"] == "waiting"
    await http.post(f"{switch}/start")
    assert (await http.get(path)).json()["status"] == "started"
    assert (await http.delete(path)).json()["code"] == 3002
    assert (await http.put(f"{path}/status", json={"action": "end"})).status_code == 204
    assert (await http.delete(path)).json()["code"] == 3007
    another = f"/v2/meetings/{(await made(http))['id']}"
    assert (await http.delete(another)).status_code == 204
    assert (await http.get(another)).json()["code"] == 3001
    existing = (await http.get("/stand-in/meetings")).json()
    assert [(each["id"], each["status"], each["host"]) for each in existing] == [
        (str(meeting["id"]), "ended", "host-1")
    ]
    assert len((await http.get("/stand-in/meetings?all=1")).json()) == 2
    assert (await http.get("/stand-in/counts")).json()["created"] == 2


async def test_a_list_shortens_agendas_and_goes_on_from_page_to_page(http: httpx.AsyncClient):
    numbers = [(await made(http))["id"] for _ in range(5)]
    found, token = [], ""
    while True:
        query = {"type": "scheduled", "page_size": "2", "next_page_token": token}
        page = (await http.get("/v2/users/host-1/meetings", params=query)).json()
        assert all(len(each["agenda"]) == 250 for each in page["meetings"])
        found += [each["id"] for each in page["meetings"]]
        token = page["next_page_token"]
        if not token:
            break
    assert sorted(found) == numbers


async def test_a_page_token_of_another_is_refused(http: httpx.AsyncClient):
    answer = await http.get("/v2/users/host-1/meetings", params={"next_page_token": "of another"})
    assert (answer.status_code, answer.json()["code"]) == (400, 300)


@pytest.mark.parametrize("wrong", [
    {"topic": ""}, {"topic": "x" * 201}, {"type": 1}, {"start_time": "2026-12-01 02:00"}, {"duration": 0},
    {"agenda": "x" * 2001}, {"password": "spaces in"}, {"password": "x" * 11},
])  # fmt: skip
async def test_what_zoom_does_not_take_is_refused_by_field(zoom: ZoomStandIn, http: httpx.AsyncClient, wrong):
    answer = await http.post("/v2/users/host-1/meetings", json={**MEETING, **wrong})
    assert (answer.status_code, answer.json()["code"]) == (400, 300)
    assert answer.json()["errors"][0]["field"] == next(iter(wrong))
    assert zoom.meetings == []


@pytest.mark.parametrize("name", REFUSALS)
async def test_every_refusal_can_be_had_on_demand(zoom: ZoomStandIn, http: httpx.AsyncClient, name: str):
    zoom.faults.plan(Fault(name, "create"))
    answer = await http.post("/v2/users/host-1/meetings", json=MEETING)
    assert (answer.status_code, answer.json()["code"]) == (REFUSALS[name].status, REFUSALS[name].code)
    assert zoom.meetings == []
    await made(http)


async def test_a_fault_waits_for_its_marker(zoom: ZoomStandIn, http: httpx.AsyncClient):
    planned = {"fault": "500", "call": "create", "marker": "[bad]", "times": None, "is_done": True}
    assert (await http.post("/stand-in/faults", json=planned)).json() == 1
    await made(http)
    for _ in range(2):
        answer = await http.post("/v2/users/host-1/meetings", json={**MEETING, "topic": "Rapat [bad]"})
        assert answer.status_code == 500
    assert len(zoom.meetings) == 3
    await http.delete("/stand-in/faults")
    await made(http, topic="Rapat [bad]")
    assert (await http.post("/stand-in/faults", json={"fault": "nonsense"})).status_code == 400


async def test_calls_of_a_second_are_counted(http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch):
    await http.put("/stand-in/terms", json={"per_second": 3})
    # The second that had begun is over, and the next one does not end.
    next_second = float(int(time.monotonic()) + 1)
    monkeypatch.setattr(zoom_api, "time", SimpleNamespace(monotonic=lambda: next_second))
    answers = await asyncio.gather(*(http.get("/v2/users/host-1") for _ in range(10)))
    statuses = [answer.status_code for answer in answers]
    assert (statuses.count(200), statuses.count(429)) == (3, 7)


async def test_a_token_ends(zoom: ZoomStandIn, http: httpx.AsyncClient):
    await http.post("/stand-in/tokens/expire")
    answer = await http.get("/v2/users/host-1")
    assert (answer.status_code, answer.json()["code"]) == (401, 124)


async def test_uuids_of_a_number_have_the_slashes_of_the_trap(zoom: ZoomStandIn, http: httpx.AsyncClient):
    number, uuids = (await made(http))["id"], []
    for _ in range(4):
        uuids.append(zoom.open_session(number))
        zoom.close_session(uuids[-1])
    assert [uuid.startswith("/") and "//" in uuid for uuid in uuids].count(True) == 1
    assert sum(uuid.startswith("/") and "//" not in uuid for uuid in uuids) == 1
    assert sum("/" in uuid[1:] and not uuid.startswith("/") for uuid in uuids) == 1


async def test_a_number_is_held_in_sessions(zoom: ZoomStandIn, http: httpx.AsyncClient):
    number = (await made(http))["id"]
    first = zoom.open_session(number)
    assert zoom.open_session(number) == first  # it runs: nobody begins another
    assert (await http.get(f"/v2/past_meetings/{number}/instances")).json() == {"meetings": []}
    zoom.close_session(first)
    second = zoom.open_session(number)
    assert (await http.get(f"/v2/meetings/{number}")).json()["uuid"] == second != first
    assert (await http.delete(f"/v2/meetings/{number}")).json()["code"] == 3002
    zoom.close_session(first)  # again: the other one runs on
    assert (await http.get(f"/v2/meetings/{number}")).json()["status"] == "started"
    await http.put(f"/v2/meetings/{number}/status", json={"action": "end"})
    past = (await http.get(f"/v2/past_meetings/{number}/instances")).json()["meetings"]
    assert [each["uuid"] for each in past] == [first, second]
    assert (await http.get("/v2/past_meetings/1/instances")).json()["code"] == 3001


async def test_a_number_means_the_latest_session(zoom: ZoomStandIn, http: httpx.AsyncClient):
    number = (await made(http))["id"]
    (meeting,) = zoom.meetings
    uuids = []
    for k in range(4):
        uuids.append(zoom.open_session(number))
        zoom.record(meeting, f"f{k}", "M4A", b"sound", START, START)
        zoom.close_session(uuids[-1])

    async def files_of(name: str) -> list[str]:
        body = (await http.get(f"/v2/meetings/{name}/recordings")).json()
        return [each["id"] for each in body["recording_files"]]

    assert await files_of(str(number)) == ["f3"]
    for k, uuid in enumerate(uuids):
        twice = quote(quote(uuid, safe=""), safe="")
        assert await files_of(twice) == [f"f{k}"]
        once = await http.get(f"/v2/meetings/{quote(uuid, safe='')}/recordings")
        assert once.is_success is not (uuid.startswith("/") or "//" in uuid)
    of_the_first = quote(quote(uuids[0], safe=""), safe="")
    refused = await http.delete(f"/v2/meetings/{number}/recordings/f0?action=delete")
    assert (refused.status_code, refused.json()["code"]) == (404, 3301)
    await http.delete(f"/v2/meetings/{of_the_first}/recordings/f0?action=delete")
    assert "f0" not in zoom.account.contents
    assert (await http.get(f"/v2/meetings/{of_the_first}/recordings")).json()["code"] == 3301


async def test_the_webhooks_of_a_session_are_signed(zoom: ZoomStandIn, http: httpx.AsyncClient):
    number = (await made(http))["id"]
    (meeting,) = zoom.meetings
    uuid = zoom.open_session(number)
    read = zoom_webhook_parser("secret")

    def event_of(name: str) -> ProviderEvent:
        webhook = zoom.webhook(name, uuid, "secret", START)
        event = read(webhook.body, webhook.headers, START).event
        assert event is not None
        return event

    started = event_of("meeting.started")
    assert (started.kind, started.happened_at) == (ProviderEventKind.MEETING_STARTED, START)
    assert started.provider_meeting_id == str(number)
    zoom.record(meeting, "a1", "M4A", b"sound", START, START)
    zoom.record(meeting, "a2", "TRANSCRIPT", b"WEBVTT", START, START)
    zoom.close_session(uuid)
    assert event_of("meeting.ended").kind is ProviderEventKind.MEETING_ENDED
    names = ("recording.completed", "recording.transcript_completed")
    assert [[file.provider_file_id for file in event_of(name).files] for name in names] == [["a1"], ["a2"]]
    with pytest.raises(ValueError, match="is none of"):
        zoom.webhook("recording.paused", uuid, "secret")


FILE = {
    "id", "meeting_id", "recording_start", "recording_end", "file_type", "file_extension", "file_size",
    "play_url", "download_url", "status", "recording_type",
}  # fmt: skip
RECORDING = {
    "uuid", "id", "account_id", "host_id", "topic", "type", "start_time", "timezone", "duration",
    "total_size", "recording_count", "share_url", "recording_files",
}  # fmt: skip


async def test_a_recording_is_shown_with_the_documented_fields_and_its_own_times():
    clock = ManualClock(START + timedelta(seconds=67))
    async with zoom_stand_in(now=clock.now) as zoom:
        meeting = zoom.account.create("host-1", MEETING)
        uuid = zoom.open_session(meeting.number)
        for name, kind in (("a1", "MP4"), ("a2", "M4A"), ("a3", "TRANSCRIPT")):
            zoom.record(meeting, name, kind, b"12345", START, START + timedelta(minutes=9))
        clock.advance(600)
        zoom.close_session(uuid)
        async with httpx.AsyncClient(base_url=zoom.url, trust_env=False) as client:
            client.headers["Authorization"] = f"Bearer {(await token_of(zoom)).json()['access_token']}"
            listed = (await client.get(f"/v2/meetings/{meeting.number}/recordings")).json()
        event = json.loads(zoom.webhook("recording.completed", uuid, "secret").body)["payload"]["object"]
    assert RECORDING | {"download_access_token"} <= listed.keys()
    assert RECORDING | {"host_email"} <= event.keys()
    assert (listed["type"], event["type"], event["host_email"]) == ("2", 2, "host-1")
    assert (listed["total_size"], event["total_size"], event["recording_count"]) == (15, 10, 2)
    for each in (listed, event):
        assert (each["start_time"], each["duration"]) == ("2026-12-01T02:01:07Z", 10)
        assert all(file.keys() == FILE for file in each["recording_files"])
    assert [each["file_extension"] for each in listed["recording_files"]] == ["MP4", "M4A", "VTT"]


async def test_a_missing_scope_is_named(zoom: ZoomStandIn, http: httpx.AsyncClient):
    zoom.terms.scopes = "meeting:write:meeting:admin"
    refused = (await http.delete("/v2/meetings/1")).json()
    assert refused["code"] == 4711
    assert refused["message"].endswith("does not contain scopes:[meeting:delete:meeting:admin].")
