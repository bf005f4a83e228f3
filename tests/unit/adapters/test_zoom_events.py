"""Webhooks of Zoom: accepted only with a valid signature, and translated into domain events."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meetcore.adapters.zoom.events import TOLERANCE_S, zoom_webhook_parser
from meetcore.domain.meetings.provider_events import ProviderEvent, ProviderEventKind
from meetcore.domain.meetings.sessions import Session
from meetcore.domain.notes.recordings import FileKind, RecordingFile
from meetcore.ports.video_provider import ProviderWebhook, SignatureInvalid, WebhookMalformed
from tests.support.zoom_requests import (
    NAMES,
    SECRET,
    SIGNED_AT,
    ZoomRequest,
    about_meeting,
    about_recording,
    expected_answer,
    fixture,
    signed,
)

NOW = datetime.fromtimestamp(SIGNED_AT, UTC)
ID = "85746065432"
UUID = "aDYlohsHRtCd4ii1uC2+hA=="

read = zoom_webhook_parser(SECRET)


def read_now(request: ZoomRequest) -> ProviderWebhook:
    return read(request.body, request.headers, NOW)


def test_the_fixtures_are_found() -> None:
    assert len(NAMES) == 7


@pytest.mark.parametrize("name", NAMES)
def test_a_request_signed_by_zoom_is_accepted(name: str) -> None:
    read_now(fixture(name))


def test_the_challenge_is_answered_as_zoom_expects() -> None:
    notice = read_now(fixture("endpoint.url_validation"))
    assert notice == ProviderWebhook(response=expected_answer())


def test_a_meeting_that_started() -> None:
    happened_at = datetime(2026, 11, 24, 2, 1, 7, 231_000, UTC)
    session = Session(UUID, started_at=happened_at)
    event = ProviderEvent("zoom", ProviderEventKind.MEETING_STARTED, ID, happened_at, session=session)
    assert read_now(fixture("meeting.started")) == ProviderWebhook(event)


def test_a_meeting_that_ended() -> None:
    happened_at = datetime(2026, 11, 24, 3, 22, 41, 904_000, UTC)
    session = Session(UUID, ended_at=happened_at)
    event = ProviderEvent("zoom", ProviderEventKind.MEETING_ENDED, ID, happened_at, session=session)
    assert read_now(fixture("meeting.ended")) == ProviderWebhook(event)


def a_file(name: str, kind: FileKind, size: int) -> RecordingFile:
    first = name.startswith("a")
    starts_at = datetime(2026, 11, 24, 2, 4 if first else 50, tzinfo=UTC)
    ends_at = (
        datetime(2026, 11, 24, 2, 40, 30, tzinfo=UTC)
        if first
        else datetime(2026, 11, 24, 3, 20, 10, tzinfo=UTC)
    )
    url = f"https://us06web.zoom.us/rec/download/FAKE-{name}"
    return RecordingFile(name, kind, size, starts_at, ends_at, url, session_id="aDYlohsHRtCd4ii1uC2+hA==")


def test_a_recording_in_two_segments() -> None:
    event = read_now(fixture("recording.completed")).event
    assert event is not None
    assert (event.kind, event.provider_meeting_id) == (ProviderEventKind.RECORDING_READY, ID)
    assert event.files == (
        a_file("a1", FileKind.VIDEO, 210_000_000),
        a_file("a2", FileKind.AUDIO, 34_000_000),
        a_file("b1", FileKind.VIDEO, 180_000_000),
        a_file("b2", FileKind.AUDIO, 28_000_000),
    )


def test_a_transcript_is_files_of_the_same_recording() -> None:
    event = read_now(fixture("recording.transcript_completed")).event
    assert event is not None
    assert (event.kind, event.provider_meeting_id) == (ProviderEventKind.RECORDING_READY, ID)
    assert event.files == (
        a_file("a3", FileKind.TRANSCRIPT, 41_234),
        a_file("b3", FileKind.TRANSCRIPT, 33_876),
    )


@pytest.mark.parametrize("name", ["meeting.participant_joined", "recording.stopped"])
def test_irrelevant_events_are_ignored(name: str) -> None:
    assert read_now(fixture(name)) == ProviderWebhook()


def test_an_event_of_an_unknown_kind_is_ignored() -> None:
    assert (
        read_now(signed({"event": "user.signed_in", "payload": {"anything": [1, None]}})) == ProviderWebhook()
    )


@given(data=st.data(), name=st.sampled_from(NAMES))
def test_changing_any_byte_of_the_body_is_refused(data: st.DataObject, name: str) -> None:
    request = fixture(name)
    place = data.draw(st.integers(0, len(request.body) - 1))
    flipped = bytearray(request.body)
    flipped[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(SignatureInvalid):
        read(bytes(flipped), request.headers, NOW)


@given(data=st.data(), header=st.sampled_from(["x-zm-signature", "x-zm-request-timestamp"]))
def test_changing_any_signed_character_is_refused(data: st.DataObject, header: str) -> None:
    request = fixture("meeting.ended")
    value = request.headers[header]
    place = data.draw(st.integers(0, len(value) - 1))
    other = data.draw(st.characters(codec="utf-8", exclude_characters=value[place]))  # no half of a surrogate
    forged = request.headers | {header: value[:place] + other + value[place + 1 :]}
    with pytest.raises(SignatureInvalid):
        read(request.body, forged, NOW)


@given(st.binary(max_size=200), st.text(max_size=100), st.text(max_size=20))
def test_no_headers_authenticate_an_unsigned_request(body: bytes, signature: str, timestamp: str) -> None:
    with pytest.raises(SignatureInvalid):
        read(body, {"x-zm-signature": signature, "x-zm-request-timestamp": timestamp}, NOW)


@pytest.mark.parametrize("missing", ["x-zm-signature", "x-zm-request-timestamp"])
def test_a_missing_header_is_refused(missing: str) -> None:
    request = fixture("meeting.ended")
    headers = {name: value for name, value in request.headers.items() if name != missing}
    with pytest.raises(SignatureInvalid):
        read(request.body, headers, NOW)


def test_a_signature_of_another_secret_is_refused() -> None:
    request = signed({"event": "meeting.ended"}, secret="another")
    with pytest.raises(SignatureInvalid):
        read_now(request)


def test_a_signature_of_another_version_is_refused() -> None:
    request = fixture("meeting.ended")
    signature = request.headers["x-zm-signature"].replace("v0=", "v1=")
    with pytest.raises(SignatureInvalid):
        read(request.body, request.headers | {"x-zm-signature": signature}, NOW)


@pytest.mark.parametrize("sign", [-1, 1])
def test_the_time_may_be_five_minutes_off_and_no_more(sign: int) -> None:
    request = fixture("meeting.ended")
    read(request.body, request.headers, NOW + timedelta(seconds=sign * TOLERANCE_S))
    with pytest.raises(SignatureInvalid):
        read(request.body, request.headers, NOW + timedelta(seconds=sign * (TOLERANCE_S + 1)))


@pytest.mark.parametrize("body", [
    b"",
    b"[]",
    b"{",
    b"null",
    b"\xff\xfe",
    b'{"event": 7}',
    b'{"event": "meeting.ended"}',
    {"event": "meeting.ended", "event_ts": 1795490561904, "payload": {"object": {"id": None}}},
    about_meeting("meeting.ended", ""),
    about_meeting("meeting.ended", "857\u00004606"),
    about_meeting("meeting.ended", "9" * 65),
    about_meeting("meeting.ended", ID, at_ms=10**18),
    about_meeting("meeting.ended", ID, at_ms=10**30),
    about_recording("recording.completed", -1, []),
    {"event": "endpoint.url_validation", "payload": {}},
    {"event": "endpoint.url_validation", "payload": {"plainToken": ""}},
    {"event": "endpoint.url_validation", "payload": {"plainToken": "a" * 257}},
    b"[" * 100_000,
    b'{"x":' * 100_000,
])  # fmt: skip
def test_a_signed_body_without_an_event_is_malformed(body: object) -> None:
    with pytest.raises(WebhookMalformed):
        read_now(signed(body))


@given(st.text(max_size=40), st.text(max_size=40))
def test_the_challenge_never_signs_a_possible_request(before: str, after: str) -> None:
    token = f"{before}:{after}"
    with pytest.raises(WebhookMalformed):
        read_now(signed({"event": "endpoint.url_validation", "payload": {"plainToken": token}}))


WHOLE: dict[str, Any] = {
    "id": "c1",
    "recording_start": "2026-11-24T09:04:00+07:00",
    "recording_end": "2026-11-24T09:40:30+07:00",
    "file_type": "MP4",
    "file_size": 7,
    "download_url": "https://us06web.zoom.us/rec/download/FAKE-c1",
    "status": "completed",
}


def files_of(*files: dict[str, Any]) -> tuple[RecordingFile, ...]:
    event = read_now(signed(about_recording("recording.completed", int(ID), list(files)))).event
    assert event is not None
    return event.files


def test_instants_are_utc() -> None:
    (file,) = files_of(WHOLE)
    assert file.starts_at == datetime(2026, 11, 24, 2, 4, tzinfo=UTC)
    assert file.starts_at.tzinfo is UTC


@pytest.mark.parametrize("change", [
    {"status": "processing"}, {"recording_end": ""}, {"recording_start": ""}, {"id": ""},
    {"download_url": ""}, {"recording_end": None}, {"recording_start": None}, {"file_size": None},
    {"recording_end": None, "file_size": None, "status": None}, {"id": None}, {"download_url": None},
    {"file_type": "CC", "id": None},
])  # fmt: skip
def test_a_file_that_is_not_whole_is_left_out_and_the_event_kept(change: dict[str, Any]) -> None:
    assert files_of(WHOLE | change, WHOLE) == files_of(WHOLE)


@pytest.mark.parametrize("change", [
    {"file_type": "CHAT"}, {"file_type": "SUMMARY"}, {"file_type": None},
    {"file_size": None, "file_type": "CSV"}, {"recording_type": "sign_interpretation"},
    {"file_type": "M4A", "recording_type": "audio_interpretation"},
])  # fmt: skip
def test_what_is_not_offered_is_kept_for_its_removal(change: dict[str, Any]) -> None:
    (other,) = files_of(WHOLE | change)
    assert (other.kind, other.provider_file_id) == (FileKind.OTHER, "c1")


def test_a_file_to_which_zoom_gives_no_id_has_one_of_its_session() -> None:
    timeline = {name: WHOLE[name] for name in ("recording_start", "recording_end", "download_url")}
    ids = [
        file.provider_file_id
        for file in files_of(
            timeline | {"file_type": "TIMELINE", "meeting_id": "cc=="},
            timeline | {"file_type": "CC", "meeting_id": "cc=="},
            timeline | {"file_type": "CC", "meeting_id": "dd=="},
        )
    ]
    assert len(set(ids)) == 3


@pytest.mark.parametrize("start", ["yesterday", "2026-11-24T02:04:00"])
def test_a_file_with_an_unreadable_time_is_malformed(start: str) -> None:
    with pytest.raises(WebhookMalformed):
        files_of(WHOLE | {"recording_start": start})


def test_the_session_of_a_file_is_its_own_else_that_of_the_event() -> None:
    event = about_recording("recording.completed", ID, [WHOLE, WHOLE | {"meeting_id": "/a//b=="}])
    event["payload"]["object"]["uuid"] = "cc=="
    notice = read_now(signed(event)).event
    assert notice is not None
    assert [file.session_id for file in notice.files] == ["cc==", "/a//b=="]
    assert [file.session_id for file in files_of(WHOLE)] == [""]


@pytest.mark.parametrize("kind", ["meeting.started", "recording.completed"])
def test_the_id_of_a_meeting_is_the_same_as_text_and_as_number(kind: str) -> None:
    notices = []
    for id_ in (ID, int(ID)):
        event = about_recording(kind, id_, [])
        notices.append(read_now(signed(event)))
    assert notices[0] == notices[1]


def test_a_secret_is_required() -> None:
    with pytest.raises(ValueError, match="empty"):
        zoom_webhook_parser("")


def test_no_secret_is_shown() -> None:
    notice = read_now(fixture("endpoint.url_validation"))
    assert expected_answer()["encryptedToken"] not in repr(notice)
    event = read_now(fixture("recording.completed")).event
    assert "rec/download" not in repr(event)
    assert "download_token" not in json.dumps(repr(event))
