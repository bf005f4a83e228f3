"""The stand-ins of services outside, as processes of their own."""

import asyncio
import json
import signal
import sys

import httpx
import pytest


@pytest.mark.parametrize(("name", "counted", "unknown"), [
    ("ai_server", "repeats", "base_url"), ("zoom_server", "created", "admin_url"),
])  # fmt: skip
async def test_it_runs_as_a_process_and_reports_when_it_is_ready(
    name: str, counted: str, unknown: str
) -> None:
    command = (sys.executable, "-m", f"meetcore.testing.{name}", "--latency-s", "0.01")
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        ready = json.loads(await process.stdout.readline())
        async with httpx.AsyncClient(trust_env=False) as http:
            assert (await http.get(f"{ready['admin_url']}/counts")).json()[counted] == 0
            assert (await http.get(f"{ready[unknown]}/nothing")).status_code == 404
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
