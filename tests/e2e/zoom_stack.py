"""The stand-in for Zoom as a process of its own, seen from its admin side, and what Zoom would tell of it."""

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

from tests.e2e.program import environment

TOKEN = "what-zoom-signs-with"
_REFERENCE = re.compile(r"Ref: ([0-9a-f-]{36})\Z")


@define
class ZoomStack:
    """What exists at the provider, whatever anybody else believes."""

    ready: dict[str, str]
    http: httpx.Client = field(repr=False)

    @property
    def settings(self) -> dict[str, Any]:
        """What a process of the program needs to use it."""
        return {
            "provider": "zoom", "zoom_account_id": "stand-in-account", "zoom_client_id": "stand-in-client",
            "zoom_client_secret": "stand-in-secret", "zoom_api_url": self.ready["api_url"],
            "zoom_oauth_url": self.ready["oauth_url"], "zoom_webhook_token": TOKEN,
        }  # fmt: skip

    def meetings(self) -> list[dict[str, Any]]:
        """Every meeting that was not deleted, with the id of ours that it names."""
        told = self.http.get("/meetings").raise_for_status().json()
        return [each | {"ours": _ours(each["agenda"])} for each in told]

    def counts(self) -> dict[str, Any]:
        """How often it was asked for what, and how many calls were under way at most."""
        return dict(self.http.get("/counts").raise_for_status().json())

    def plan(self, *faults: dict[str, object]) -> None:
        """Let the next calls meet these."""
        self.http.post("/faults", json=list(faults)).raise_for_status()

    def forgive(self) -> None:
        """Plan no fault any more."""
        self.http.delete("/faults").raise_for_status()

    def turn(self, **terms: object) -> None:
        """Change its latency or its limits."""
        self.http.put("/terms", json=terms).raise_for_status()

    def fill(self, file_id: str, content: bytes) -> str:
        """Let a file lie there; the address that Zoom tells of it."""
        self.http.put(f"/files/{file_id}", content=content).raise_for_status()
        return f"{self.ready['api_url'].removesuffix('/v2')}/rec/download/{file_id}"

    def record(self, number: str, files: list[dict[str, Any]]) -> None:
        """Let a meeting have these files, as whoever asks is told."""
        self.http.put(f"/meetings/{number}/recordings", json=files).raise_for_status()

    def files(self, number: str) -> list[dict[str, Any]]:
        """The files that a meeting has there."""
        return list(self.http.get(f"/meetings/{number}/recordings").raise_for_status().json())

    def step(self, number: str, step: str) -> bool:
        """Somebody starts or ends a meeting there; false when there is none."""
        return self.http.post(f"/meetings/{number}/{step}").is_success


def _ours(agenda: str) -> UUID | None:
    found = _REFERENCE.search(agenda)
    return None if found is None else UUID(found[1])


@contextmanager
def zoom_stack(latency_s: float = 0.0) -> Iterator[ZoomStack]:
    """Run a stand-in of its own."""
    command = [sys.executable, "-m", "meetcore.testing.zoom_server", "--latency-s", str(latency_s)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as process:
        try:
            assert process.stdout is not None
            ready = json.loads(process.stdout.readline())
            with httpx.Client(base_url=ready["admin_url"], trust_env=False, timeout=20) as http:
                yield ZoomStack(ready, http)
        finally:
            process.kill()


def tell(
    url: str,
    kind: str,
    number: str,
    at_ms: int | None = None,
    files: list[dict[str, Any]] | None = None,
) -> None:
    """Tell the program what Zoom tells of a meeting, or of its recording, as Zoom signs it.

    Raises:
        httpx.HTTPError: it was not taken in.
    """
    about: dict[str, Any] = {"id": number, "uuid": "x"}
    if files is not None:  # of a recording Zoom tells the number as a number
        about |= {"id": int(number), "recording_files": files}
    told = {
        "event": kind,
        "event_ts": int(time.time() * 1000) if at_ms is None else at_ms,
        "payload": {"account_id": "stand-in", "object": about},
    }
    body, timestamp = json.dumps(told).encode(), str(int(time.time()))
    signed = hmac.new(TOKEN.encode(), f"v0:{timestamp}:".encode() + body, hashlib.sha256).hexdigest()
    headers = {
        "x-zm-request-timestamp": timestamp, "x-zm-signature": f"v0={signed}",
        "Content-Type": "application/json",
    }  # fmt: skip
    with httpx.Client(trust_env=False, timeout=20) as http:
        http.post(f"{url}/provider-events/zoom", content=body, headers=headers).raise_for_status()
