"""Zoom's requests: recorded ones and new ones with valid signatures.

The fixtures hold no real ids or secrets; their signatures were accepted by Zoom's own client library.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

from attrs import frozen

SECRET = "test-secret-token-0001"
SIGNED_AT = 1795484467
"""The timestamp of every fixture."""

_DIRECTORY = Path(__file__).parents[1] / "fixtures" / "zoom"
NAMES = sorted(
    path.name.removeprefix("webhook.").removesuffix(".json")
    for path in _DIRECTORY.glob("webhook.*.json")
    if "expected" not in path.name
)


@frozen
class ZoomRequest:
    """A request, names of headers in lower case."""

    headers: dict[str, str]
    body: bytes

    @property
    def event(self) -> Any:
        return json.loads(self.body)


def fixture(name: str) -> ZoomRequest:
    event = json.loads((_DIRECTORY / f"webhook.{name}.json").read_text("utf-8"))
    assert event["secret"] == SECRET
    return ZoomRequest(event["headers"], event["raw_body"].encode())


def expected_answer() -> dict[str, str]:
    """Return the expected answer to URL validation."""
    name = "webhook.endpoint.url_validation.expected_response.json"
    return dict(json.loads((_DIRECTORY / name).read_text("utf-8")))


def signed(body: bytes | object, at: float = SIGNED_AT, secret: str = SECRET) -> ZoomRequest:
    """Sign a body, or JSON, at a moment."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    stamp = str(int(at))
    mac = hmac.new(secret.encode(), f"v0:{stamp}:".encode() + raw, hashlib.sha256).hexdigest()
    headers = {
        "content-type": "application/json; charset=utf-8",
        "x-zm-request-timestamp": stamp,
        "x-zm-signature": f"v0={mac}",
    }
    return ZoomRequest(headers, raw)


def about_meeting(kind: str, meeting_id: str, at_ms: int = 1795485667231) -> dict[str, Any]:
    """Return a meeting event as Zoom sends it: the id is a string."""
    return {
        "event": kind,
        "event_ts": at_ms,
        "payload": {
            "account_id": "Hq7Example",
            "object": {"id": meeting_id, "uuid": "aDYlohsHRtCd4ii1uC2+hA=="},
        },
    }


def about_recording(kind: str, meeting_id: str | int, files: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "event": kind,
        "event_ts": 1795493300000,
        "payload": {"object": {"id": meeting_id, "recording_files": files}},
        "download_token": "eyJFAKE24H.FAKE.FAKE",
    }
