"""Verifying and reading a delivery."""

from __future__ import annotations

import hmac
import json
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meetcore.client import (
    BalanceChange,
    EventKind,
    InvalidEvent,
    Meeting,
    Note,
    Recording,
    SignatureRejected,
    Webhook,
    verify_webhook,
)
from meetcore.domain.webhooks.signature import SIGNATURE_HEADER, new_secret, sign, signing_headers
from tests.client.samples import ID, meeting, note, recording, transaction, webhook
from tests.client.test_decoding import values

SECRET, OTHER = new_secret(bytes(range(32))), new_secret(bytes(32))
NOW = 1_795_260_783
CHANGE = {"balance": 90, "held": 0, "available": 90, "transaction": transaction()}


def event(type_: str = "meeting.created", data: object = None, **fields: object) -> bytes:
    payload = {
        "id": ID, "type": type_, "created_at": "2026-11-21T11:33:03Z", "api_version": "v1",
        "data": meeting() if data is None else data,
    }  # fmt: skip
    return json.dumps(payload | fields).encode()


def verified(body: bytes, secrets: Any = SECRET, now: float = NOW) -> Any:
    return verify_webhook(secrets, {SIGNATURE_HEADER: sign(SECRET, body, NOW)}, body, now)


@pytest.mark.spec("6/2", "6/3")
def test_an_event_is_read_and_typed() -> None:
    body = event()
    found = verify_webhook(SECRET, signing_headers(SECRET, ID, body, NOW), body, NOW + 299.9)
    assert (found.id, found.type, found.api_version) == (ID, EventKind.MEETING_CREATED, "v1")
    assert (found.created_at, found.data) == (datetime(2026, 11, 21, 11, 33, 3, tzinfo=UTC), meeting())
    assert isinstance(found.record, Meeting)
    assert found.record.start_at == datetime(2026, 12, 1, 2, tzinfo=UTC)
    assert "rahasia1" not in repr(found)


@pytest.mark.parametrize(("kind", "data", "into"), [
    ("recording.ready", recording(), Recording), ("note.completed", note(), Note),
    ("note.failed", note(status="failed"), Note), ("meeting.ended", meeting(status="ended"), Meeting),
    ("credit.low", CHANGE, BalanceChange), ("credit.topup.succeeded", CHANGE, BalanceChange),
    ("webhook.test", webhook(), Webhook),
])  # fmt: skip
def test_each_kind_has_its_record(kind: str, data: object, into: type) -> None:
    assert type(verified(event(kind, data)).record) is into


def test_an_unknown_kind_or_record_is_data() -> None:
    for kind in ("tea.ready", "note.completed", "meeting.created"):
        found = verified(event(kind, {"cups": 2}))
        assert (found.record, found.data) == (None, {"cups": 2})
    assert verified(event(more="fields")).id == ID


@pytest.mark.spec("6/3")
def test_unverifiable_deliveries_are_rejected() -> None:
    body = event()
    good = sign(SECRET, body, NOW)
    for headers, raw, now in [
        ({SIGNATURE_HEADER: good}, body + b" ", NOW), ({SIGNATURE_HEADER: good}, body, NOW + 301),
        ({SIGNATURE_HEADER: good}, body, NOW - 301), ({SIGNATURE_HEADER: "t=1"}, body, NOW), ({}, body, NOW),
        ({SIGNATURE_HEADER: sign(OTHER, body, NOW)}, body, NOW),
        ({SIGNATURE_HEADER: good, SIGNATURE_HEADER.lower(): good}, body, NOW),
    ]:  # fmt: skip
        with pytest.raises(SignatureRejected):
            verify_webhook(SECRET, headers, raw, now)


def test_headers_in_any_case_and_two_secrets_during_a_rotation() -> None:
    body = event()
    of_wsgi = f"HTTP_{SIGNATURE_HEADER.upper().replace('-', '_')}"
    for name in (SIGNATURE_HEADER, SIGNATURE_HEADER.lower(), SIGNATURE_HEADER.upper(), of_wsgi):
        assert verify_webhook(SECRET, {"Host": "x", name: sign(SECRET, body, NOW)}, body, NOW).id == ID
    assert verified(event(), [OTHER, SECRET]).id == verified(event(), (SECRET, OTHER)).id == ID
    with pytest.raises(SignatureRejected):
        verified(event(), [OTHER])


@pytest.mark.parametrize("secrets", ["", [], [""], [SECRET, ""], "geheim", None, [None], [SECRET, None], [5]])
def test_an_invalid_secret_is_refused(secrets: Any) -> None:
    body = event()
    digest = hmac.new(b"", b"%d.%b" % (NOW, body), "sha256").hexdigest()
    header = {SIGNATURE_HEADER: f"t={NOW},v1={digest}"}
    with pytest.raises(ValueError, match="whsec_") as caught:
        verify_webhook(secrets, header, body, NOW)
    assert not isinstance(caught.value, SignatureRejected)
    assert "geheim" not in str(caught.value)


def test_the_clock_is_the_machines_unless_given() -> None:
    body, now = event(), int(time.time())
    assert verify_webhook(SECRET, {SIGNATURE_HEADER: sign(SECRET, body, now)}, body).id == ID
    with pytest.raises(SignatureRejected):
        verify_webhook(SECRET, {SIGNATURE_HEADER: sign(SECRET, body, now - 400)}, body)


@given(
    body=values.map(lambda payload: json.dumps(payload).encode())
    | st.binary()
    | values.map(lambda payload: event(data=payload))
)
def test_a_signed_body_is_an_event_or_an_error_of_the_tree(body: bytes) -> None:
    try:
        assert verified(body).id == ID
    except InvalidEvent:
        pass
