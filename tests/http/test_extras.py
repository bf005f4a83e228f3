"""The extras `notes`, `web` and `mcp`: imported on demand, and the service runs without each."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from meetcore.adapters.postgres.pool import make_pool
from meetcore.adapters.secrets import AesGcmCipher, keys_from_text
from meetcore.domain.notes.notes import Note
from tests.support import servers
from tests.support.interpreter import output_of, without
from tests.support.note_transactions import queued
from tests.support.postgres_rig import PostgresRig
from tests.support.program import SECRETS_KEY, environment, until
from tests.support.transactions import open_customer

INSTALL = "pip install 'meetcore[server,notes]'"
EXTRAS = {"notes": ("av",), "web": ("babel", "jinja2", "markupsafe"), "mcp": ("mcp", "mcp_types")}
SERVE = f"""
sys.modules["rfc3987_syntax"] = None  # as tests/conftest.py, of which this is no part
import asyncio, httpx
from meetcore.app import Service, has_agent_interface
from meetcore.composition.providers import has_dashboard
from tests.support.api_harness import settings_for, started

PATHS = ("api/v1/openapi.json", "api/v1/me", "readyz", "docs", "dashboard", "dashboard/sign-in")

async def main():
    service = Service(settings_for(sys.argv[1]))
    async with started(service), httpx.AsyncClient(
        transport=httpx.ASGITransport(service), base_url="https://meetcore.test/"
    ) as http:
        async with asyncio.timeout(60):  # the first takes longer than a second on a busy machine
            while (await http.get("readyz")).status_code != 200:
                await asyncio.sleep(0.1)
        answers = [(await http.get(path)).status_code for path in PATHS]
        return [*answers, "mcp" in sys.modules, (await http.post("mcp")).status_code]

print(has_dashboard(), has_agent_interface(), *asyncio.run(main()))
print(*(name for names in {EXTRAS}.values() for name in names if name in sys.modules))
"""
PROGRAM = "from meetcore.cli.main import main; main(sys.argv[1:])"


@pytest.mark.parametrize(
    ("module", "extras"),
    [
        ("meetcore.app", EXTRAS), ("meetcore.cli.main", EXTRAS), ("meetcore.composition.worker", ["notes"]),
        ("meetcore.usecases.members.dashboard", ["web"]), ("meetcore.adapters.mcp", ["mcp"]),
    ],
)  # fmt: skip
def test_importing_the_service_does_not_import_the_extra(module: str, extras: Iterable[str]) -> None:
    names = [name for extra in extras for name in EXTRAS[extra]]
    assert output_of(f"import {module}; print([name for name in {names} if name in sys.modules])") == "[]\n"


@pytest.mark.parametrize(
    ("lacks", "printed"),
    [
        ("notes", "True True 200 401 200 200 303 200 False 401\nbabel jinja2 markupsafe mcp mcp_types\n"),
        ("web", "False True 200 401 200 200 404 404 False 401\nmcp mcp_types\n"),
        ("mcp", "True False 200 401 200 200 303 200 False 404\nbabel jinja2 markupsafe\n"),
    ],
)
def test_the_service_serves_everything_but_the_lacking_extra(
    migrated_url: str, lacks: str, printed: str
) -> None:
    assert output_of(SERVE, migrated_url, lacks=EXTRAS[lacks]) == printed


@pytest.mark.parametrize("lacks", ["structlog", "starlette"])
def test_the_application_without_its_packages_names_what_to_install(lacks: str) -> None:
    code = "try:\n    import meetcore.app\nexcept ImportError as error:\n    print(error, error.name)"
    printed = f"meetcore.app needs {lacks}: pip install 'meetcore[server]' {lacks}\n"
    assert output_of(code, lacks=(lacks,)) == printed


def test_a_worker_for_notes_alone_names_what_to_install(migrated_url: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", without("av") + PROGRAM, "worker", "--only", "notes"],
        capture_output=True, text=True, env=environment(database_url=migrated_url), check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (3, "")
    assert INSTALL in done.stderr


async def test_a_worker_leaves_notes_alone_and_names_what_to_install_when_they_are_due(
    postgres_server_url: str, tmp_path: Path
) -> None:
    with servers.migrated_database(postgres_server_url) as url:
        note = await overdue_note(url)
        with worker(url, tmp_path) as log:
            until(lambda: "notes are due and are not made here" in log.read_text(), "the warning", 60)
            lines = [line for line in log.read_text().splitlines() if " not made here" in line]
        assert len(lines) == 2, "at the start, and as a note is due"
        assert all(INSTALL in line for line in lines)
        with psycopg.connect(url) as connection:
            found = connection.execute(
                "SELECT status, step, tries, lease_token FROM notes WHERE id = %s", [note.id]
            )
            assert found.fetchone() == ("queued", "fetch", 0, None)


async def overdue_note(url: str) -> Note:
    """A note that has been due for an hour."""
    pool = make_pool(url, max_size=2)
    await pool.open()
    try:
        rig = PostgresRig(pool, AesGcmCipher(keys_from_text(SECRETS_KEY)))
        note = await queued(rig, await open_customer(rig, 50))
    finally:
        await pool.close()
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE notes SET due_at = clock_timestamp() - interval '1 hour'")
    return note


@contextmanager
def worker(url: str, directory: Path) -> Iterator[Path]:
    """Run a worker that does not find `av`; the file that it logs into."""
    log = directory / "worker.log"
    with log.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-c", without("av") + PROGRAM, "worker"],
            stdout=out, stderr=out, env=environment(database_url=url), cwd=directory,
        )  # fmt: skip
        try:
            yield log
        finally:
            process.terminate()
            assert process.wait(60) == 0, log.read_text()
