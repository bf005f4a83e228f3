"""The Zoom stand-in in its own process, with its admin interface, and Zoom's events."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import httpx
from attrs import define, field

from tests.support.program import environment

TOKEN = "what-zoom-signs-with"
_REFERENCE = re.compile(r"Ref: ([0-9a-f-]{36})\Z")


@define
class ZoomStack:
    ready: dict[str, str]
    http: httpx.Client = field(repr=False)

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "provider": "zoom", "zoom_account_id": "stand-in-account", "zoom_client_id": "stand-in-client",
            "zoom_client_secret": "stand-in-secret", "zoom_api_url": self.ready["api_url"],
            "zoom_webhook_token": TOKEN, "transcript_wait_s": 0,  # tests do not wait for half an hour
        }  # fmt: skip

    def meetings(self) -> list[dict[str, Any]]:
        """List the meetings that were not deleted, each with the id that its agenda names."""
        meetings = self.http.get("/meetings").raise_for_status().json()
        return [each | {"ours": _meeting_id(each["agenda"])} for each in meetings]

    def counts(self) -> dict[str, Any]:
        """Count the calls by kind, and the most in flight at once."""
        return dict(self.http.get("/counts").raise_for_status().json())

    def plan(self, *faults: dict[str, object]) -> None:
        """Inject faults into the next calls."""
        self.http.post("/faults", json=list(faults)).raise_for_status()

    def clear_faults(self) -> None:
        self.http.delete("/faults").raise_for_status()

    def turn(self, **terms: object) -> None:
        """Change latency or limits."""
        self.http.put("/terms", json=terms).raise_for_status()

    def fill(self, file_id: str, content: bytes) -> str:
        """Store a file at Zoom, and return its download URL."""
        self.http.put(f"/files/{file_id}", content=content).raise_for_status()
        return f"{self.ready['api_url'].removesuffix('/v2')}/rec/download/{file_id}"

    def record(self, number: str, files: list[dict[str, Any]]) -> None:
        """Set the files of a meeting's recording."""
        self.http.put(f"/meetings/{number}/recordings", json=files).raise_for_status()

    def files(self, number: str) -> list[dict[str, Any]]:
        return list(self.http.get(f"/meetings/{number}/recordings").raise_for_status().json())

    def uuid(self, number: str) -> str:
        """Return the uuid of the latest session of a meeting."""
        (uuid,) = [str(each["uuid"]) for each in self.meetings() if each["id"] == number]
        return uuid

    def step(self, number: str, step: str) -> bool:
        """Start or end a meeting; return `False` without one."""
        return self.http.post(f"/meetings/{number}/{step}").is_success


def _meeting_id(agenda: str) -> UUID | None:
    found = _REFERENCE.search(agenda)
    return None if found is None else UUID(found[1])


@contextmanager
def zoom_stack(latency_s: float = 0.0) -> Iterator[ZoomStack]:
    """Run a separate stand-in."""
    command = [sys.executable, "-m", "meetcore.testing.zoom_server", "--latency-s", str(latency_s)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as process:
        try:
            assert process.stdout is not None
            ready = json.loads(process.stdout.readline())
            with admin_client(ready["admin_url"]) as http:
                yield ZoomStack(ready, http)
        finally:
            process.kill()


def admin_client(url: str) -> httpx.Client:
    """Make a thread-safe client: without keep-alive, since httpx may close an expired connection in use."""
    return httpx.Client(
        base_url=url, trust_env=False, timeout=20, limits=httpx.Limits(max_keepalive_connections=0)
    )


def send_event(
    url: str,
    kind: str,
    number: str,
    at_ms: int | None = None,
    files: list[dict[str, Any]] | None = None,
    uuid: str = "x",
) -> None:
    """Send a signed event of a meeting's session or its recording to the program.

    Raises:
        httpx.HTTPError: it was not accepted.
    """
    about: dict[str, Any] = {"id": number, "uuid": uuid}
    if files is not None:  # Zoom sends the number of a recording as a number
        about |= {"id": int(number), "recording_files": files}
    event = {
        "event": kind,
        "event_ts": int(time.time() * 1000) if at_ms is None else at_ms,
        "payload": {"account_id": "stand-in", "object": about},
    }
    body, timestamp = json.dumps(event).encode(), str(int(time.time()))
    signed = hmac.new(TOKEN.encode(), f"v0:{timestamp}:".encode() + body, hashlib.sha256).hexdigest()
    headers = {
        "x-zm-request-timestamp": timestamp, "x-zm-signature": f"v0={signed}",
        "Content-Type": "application/json",
    }  # fmt: skip
    with httpx.Client(trust_env=False, timeout=20) as http:
        http.post(f"{url}/provider-events/zoom", content=body, headers=headers).raise_for_status()
