"""Schemathesis against the running service: generated requests to every operation, over HTTP.

Owns the service under test (a database of its own, quotas that are never reached, no receivers, recordings
without files) and the call of the tool. The tool's configuration is in `schemathesis.toml`.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from ipaddress import ip_address
from pathlib import Path
from uuid import UUID, uuid4

import uvicorn
from attrs import frozen

from meetcore.adapters.postgres.migrate import migrate
from meetcore.app import Service
from meetcore.composition.infrastructure import Network, open_application
from meetcore.domain.webhooks.addresses import Address
from tests.support.api_harness import ALL_SCOPES, settings_for
from tests.support.program import ROOT
from tests.support.sandbox_recordings import keep_recording

MANY = 100_000_000
HOSTS = 40
RECORDINGS = 60
CONFIG = Path(__file__).with_name("schemathesis.toml")


class Everywhere(Mapping[str, tuple[str, int]]):
    """Resolve every host to an unused port of this machine: nothing is ever delivered."""

    def __getitem__(self, host: str) -> tuple[str, int]:
        return ("127.0.0.1", 1)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


class AnyName:
    """Resolves every name at once."""

    async def resolve(self, host: str, account_id: UUID) -> tuple[Address, ...]:
        return (ip_address("93.184.216.34"),)


@frozen
class Target:
    """The address of the API, and a key with every scope."""

    api: str
    key: str


@asynccontextmanager
async def target(database_url: str) -> AsyncIterator[Target]:
    """Run the service on an empty database."""
    migrate(database_url)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        # asyncio sets it on what it has bound itself; without it a body waits 40 ms for its headers' receipt.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        base_url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        settings = settings_for(
            database_url, base_url=base_url, quota_read=MANY, quota_write=MANY, quota_credit=MANY
        )
        network = Network(AnyName(), Everywhere())
        async with open_application(settings, network) as application:
            for number in range(HOSTS):
                await application.administration.hosts.add(f"host-{number}@example.test", 1000)
            account = await application.administration.create_account("fuzz@example.test", "Fuzz", MANY)
            key = await application.administration.keys.create(account.id, ALL_SCOPES)
            # No API request creates a recording.
            for number in range(RECORDINGS):
                await keep_recording(application, account.id, uuid4(), f"fuzz-{number}", 61.0 * number)
        server = uvicorn.Server(uvicorn.Config(Service(settings, network), log_level="error"))
        # It is ended by its flag; signals are the caller's.
        server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
        running = asyncio.create_task(server._serve(sockets=[listener]))
        while not server.started:
            assert not running.done(), running
            await asyncio.sleep(0.02)
        try:
            yield Target(f"{base_url}/api/v1", key.text)
        finally:
            server.should_exit = True
            await running


async def fuzz(at: Target, *options: str, seed: int, place: Path) -> tuple[int, str]:
    """Run the tool with further options of `schemathesis run`, in a directory for its files.

    Returns:
        The exit code and the output.
    """
    command = [
        sys.executable, "-m", "schemathesis.cli", "--no-color", "--config-file", str(CONFIG), "run",
        f"{at.api}/openapi.json", "--header", f"Authorization: Bearer {at.key}", "--seed", str(seed),
        "--generation-database", "none", "--warnings", "off", *options,
    ]  # fmt: skip
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, cwd=place,
        env=os.environ | {"PYTHONPATH": str(ROOT), "SCHEMATHESIS_HOOKS": "tests.fuzz.hooks"},
    )  # fmt: skip
    output, _ = await process.communicate()
    return await process.wait(), output.decode(errors="replace")
