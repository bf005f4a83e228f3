"""Adapters that cannot be opened: a start says why in one line, and `doctor` finds it before."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support.program import Done, Site, free_port

MODULE = """
from attrs import field, frozen, validators
from meetcore.adapters.jitsi import JitsiProvider
from meetcore.ports.plugins import ProviderPlugin, SecretStr

@frozen
class AcmeSettings:
    acme_url: str = field(validator=validators.matches_re("https://.*"))
    acme_token: SecretStr = SecretStr("")

def open_it(context):
    return JitsiProvider(context.settings.acme_url, context.settings.acme_token.encode())

ACME = ProviderPlugin(open_it, AcmeSettings)
"""
UNSET = "MEETCORE_ACME_URL is not set"
REFUSED = "MEETCORE_ACME_URL must match regex 'https://.*'"


def run(site: Site, place: Path, *command: object, **settings: object) -> Done:
    """Run the program with a module of an adapter on its path."""
    (place / "acme.py").write_text(MODULE)
    env = site.env(provider="acme:ACME", **settings)
    env["PYTHONPATH"] = f"{place}{os.pathsep}{env.get('PYTHONPATH', '')}"
    return site.launcher.run(*command, env=env, cwd=place)


@pytest.mark.parametrize(
    ("command", "settings", "message"),
    [
        (["serve"], {}, UNSET),
        (["serve", "--workers", 2], {"acme_url": "ftp://a"}, REFUSED),
        (["worker", "--processes", 2], {}, UNSET),
    ],
)
def test_a_start_says_why_in_one_line(
    site: Site, tmp_path: Path, command: list[object], settings: dict[str, object], message: str
) -> None:
    port = ("--port", free_port()) if "serve" in command else ()
    done = run(site, tmp_path, *command, *port, **settings)
    assert done.code == 3, done.err
    (line,) = done.err.splitlines()
    assert json.loads(line)["event"] == message


def test_a_laptop_starts_no_database_for_it(site: Site, tmp_path: Path) -> None:
    done = run(site, tmp_path, "dev", "--port", free_port(), acme_url="https://a", acme_token="hunter2")
    assert done.code == 3, done.err
    place = f"{tmp_path}/acme.py, line 12"
    assert done.err == (
        f"meetcore: MEETCORE_PROVIDER is acme:ACME, and it cannot be opened: ValueError at {place}\n"
    )


def test_the_doctor_finds_it(site: Site, tmp_path: Path) -> None:
    done = run(site, tmp_path, "doctor", acme_url="https://a", acme_token="hunter2")
    assert done.code == 1
    assert "failed   provider    MEETCORE_PROVIDER is acme:ACME, and it cannot be opened: Val" in done.out
    assert "hunter2" not in done.out + done.err
