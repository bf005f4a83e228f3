"""The AI provider stand-in in its own process, with its admin interface."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from attrs import define, field

from meetcore.testing.ai_server import Models
from tests.e2e.zoom_stack import admin_client
from tests.support.program import environment

TRANSCRIPTION, WRITING = "transcriptions", "completions"


@define
class AiStack:
    """The provider's own record of its requests."""

    ready: dict[str, str]
    http: httpx.Client = field(repr=False)

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "ai_base_url": self.ready["base_url"], "ai_api_key": Models().api_key,
            "ai_transcribe_model": self.ready["transcribe_model"],
            "ai_write_model": self.ready["write_model"],
        }  # fmt: skip

    def counts(self) -> dict[str, Any]:
        """Count the calls by kind, the repeated ones, and the most in flight at once."""
        return dict(self.http.get("counts").raise_for_status().json())

    def done(self, call: str) -> int:
        """Count the successful calls of a kind."""
        return int(self.counts()["done"].get(call, 0))

    def plan(self, *faults: dict[str, object]) -> None:
        """Inject faults into the next calls."""
        self.http.post("faults", json=list(faults)).raise_for_status()

    def waiting(self) -> list[dict[str, Any]]:
        """List the faults that have not occurred."""
        return list(self.http.get("faults").raise_for_status().json())

    def clear_faults(self) -> None:
        self.http.delete("faults").raise_for_status()

    def turn(self, latency_s: float) -> None:
        """Change how long every call takes."""
        self.http.put("terms", json={"latency_s": latency_s}).raise_for_status()

    def hold(self, is_held: bool = True) -> None:
        """Let every call wait, or go on."""
        self.http.put("terms", json={"is_held": is_held}).raise_for_status()


@contextmanager
def ai_stack(latency_s: float = 0.0) -> Iterator[AiStack]:
    """Run a separate stand-in."""
    command = [sys.executable, "-m", "meetcore.testing.ai_server", "--latency-s", str(latency_s)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as process:
        try:
            assert process.stdout is not None
            ready = json.loads(process.stdout.readline())
            with admin_client(f"{ready['admin_url']}/") as http:
                yield AiStack(ready, http)
        finally:
            process.kill()
