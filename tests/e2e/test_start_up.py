"""The imports at the program's start: commands are short, and importing the whole service takes seconds."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from meetcore.adapters.postgres.migrate import migrate
from meetcore.cli.main import COMMANDS
from tests.support.program import START_S, environment

RUN = """
import sys
from meetcore.cli.main import main
try:
    main(sys.argv[1:])
finally:
    sys.stderr.write(" ".join(sys.modules))
"""
# In an interpreter of its own: where a command was looked up, its help is already the table's.
HELPS = """
import inspect, json
from importlib import import_module
from meetcore.cli.main import COMMANDS
helps = []
for name, place, _ in COMMANDS:
    module, _, attribute = place.partition(":")
    command = getattr(import_module(f"meetcore.cli.{module}"), attribute)
    text = inspect.getdoc(command) if inspect.isfunction(command) else command.help
    helps.append((name, text.partition("\\n\\nParameters\\n")[0]))
print(json.dumps(helps))
"""
# The entry point of the installed program, in an interpreter that cannot import psycopg.
WITHOUT_PSYCOPG = """
import sys
sys.modules["psycopg"] = None
from meetcore.cli import start as main
main()
"""
# Servers, senders and the use cases of customers: a command that writes a row needs none of them, and to
# import them takes longer than the row.
OF_THE_SERVICE = {
    "aiohappyeyeballs", "av", "dramatiq", "httpx", "markdown_it", "mcp", "pydantic", "starlette", "uvicorn",
    "meetcore.app", "meetcore.cli.dev", "meetcore.composition.use_cases",
    "meetcore.composition.worker", "meetcore.adapters.postgres.queries",
    "meetcore.usecases.meetings.create_meeting",
}  # fmt: skip
OF_THE_STORE = {
    "cattrs", "cryptography", "dramatiq", "msgspec", "psycopg", "structlog",
    "meetcore.cli.accounts", "meetcore.cli.processes", "meetcore.adapters.settings",
    "meetcore.composition.infrastructure",
}  # fmt: skip


def run(code: str, *arguments: str, **settings: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True, text=True, env=environment(**settings), check=False, timeout=START_S,
    )  # fmt: skip


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_help_imports_nothing_of_the_service(arguments: list[str]) -> None:
    done = run(RUN, *arguments)
    imported = set(done.stderr.split())
    assert "meetcore.cli.main" in imported, done.stderr
    assert imported.isdisjoint(OF_THE_SERVICE | OF_THE_STORE)


def test_a_command_that_writes_a_row_imports_no_server_and_no_sender(empty_database_url: str) -> None:
    migrate(empty_database_url)
    opened = ("account", "create", "--email", "start-up@example.test", "--full-name", "Sari Dewi", "--json")
    done = run(RUN, *opened, database_url=empty_database_url)
    assert done.returncode == 0, done.stderr
    imported = set(done.stderr.split())
    assert imported >= {"psycopg", "meetcore.composition.infrastructure"}
    assert imported.isdisjoint(OF_THE_SERVICE | {"rich"})


def test_serve_imports_no_client_and_no_formatter_of_tracebacks() -> None:
    checks = "meetcore.composition.doctor"  # imported by the application of `serve`
    done = run(RUN.replace("finally:", f"finally:\n    import {checks}"), "serve", "--port", "0")
    imported = set(done.stderr.split())
    assert imported >= {"structlog", "meetcore.cli.processes", checks}, done.stderr
    assert imported.isdisjoint({"httpx", "rich"})


def test_a_package_that_only_a_command_needs_is_named_where_it_is_missing() -> None:
    assert run(WITHOUT_PSYCOPG, "--help").returncode == 0
    done = run(WITHOUT_PSYCOPG, "host", "list")
    assert done.returncode == 2
    assert done.stderr == "meetcore: psycopg is not installed; this needs: pip install 'meetcore[server]'\n"


def test_the_table_of_commands_has_the_help_of_each_command() -> None:
    done = run(HELPS)
    assert done.returncode == 0, done.stderr
    assert dict(json.loads(done.stdout)) == {name: text for name, _, text in COMMANDS}
