"""`examples/own_provider`: built, installed beside the service, proved by the kit, and sold through."""

from __future__ import annotations

import hmac
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.e2e.customers import Customer, client, enrol, meetcore_client
from tests.support.program import ROOT, START_S, Site, answers, free_port, until
from tests.support.wheels import built, quiet

EXAMPLE = ROOT / "examples" / "own_provider"
SECRET = "a-secret"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory that the package is installed into, by `pip install --target`."""
    place = tmp_path_factory.mktemp("roomy")
    wheel = built(EXAMPLE, place / "dist")
    install = ("install", "--no-deps", "--no-index", "--no-compile", "--target", place / "site", wheel)
    quiet(sys.executable, "-m", "pip", "--disable-pip-version-check", *install)
    return place / "site"


@pytest.fixture
def roomy(installed: Path) -> Iterator[str]:
    """The address of a stand-in for Roomy, run from the installed package."""
    command, env = [sys.executable, "-m", "roomy.stand_in"], {"PYTHONPATH": str(installed)}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.terminate()


def beside(installed: Path, env: dict[str, str]) -> dict[str, str]:
    """An environment in which the package is installed, too."""
    return env | {"PYTHONPATH": f"{installed}{os.pathsep}{env.get('PYTHONPATH', '')}"}


def settings_of(roomy: str) -> dict[str, str]:
    return {
        "provider": "roomy", "roomy_url": roomy, "roomy_token": "a-token", "roomy_webhook_secret": SECRET,
    }  # fmt: skip


def test_the_installed_package_passes_the_kit(installed: Path, tmp_path: Path) -> None:
    for name in ("test_roomy.py", "pytest.ini"):
        (tmp_path / name).write_text((EXAMPLE / name).read_text("utf-8"), "utf-8")
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{installed}{os.pathsep}{ROOT / 'src'}"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:schemathesis"],
        cwd=tmp_path, env=env, capture_output=True, text=True, timeout=5 * START_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "22 passed" in done.stdout


def test_a_meeting_is_sold_through_it(site: Site, installed: Path, roomy: str) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    env = beside(installed, site.env(base_url=url, **settings_of(roomy)))
    account_id, key_id, key = enrol(site)
    service = site.launcher.start("serve", "--port", port, env=env)
    try:
        until(lambda: answers(f"{url}/readyz", service), "the API is up", START_S)
        with meetcore_client(url, key) as api, client(url, key) as http:
            customer = Customer(account_id, key_id, api, http, 10_000)
            meeting = customer.create_meeting(title="Rapat")
            assert meeting.join_url == f"https://roomy.example/r/{meeting.id}"
            assert status_of(roomy, meeting.id) == 200
            assert api.me().credits.balance == 9_990
            assert api.meetings.cancel(meeting.id).credits_refunded == 10
            assert status_of(roomy, meeting.id) == 404
        body = json.dumps({"type": "room.closed", "room": meeting.id, "at": "2026-12-01T02:00:00+00:00"})
        signature = hmac.digest(SECRET.encode(), body.encode(), "sha256").hex()
        for sent, status in ((signature, 204), ("0" * 64, 401)):
            answer = httpx.post(
                f"{url}/provider-events/roomy", content=body, headers={"x-roomy-signature": sent}
            )
            assert answer.status_code == status, answer.text
        done = service.stop()
        assert "a-token" not in done.err + done.out
    finally:
        service.kill()


def status_of(roomy: str, room_id: str) -> int:
    """The status with which the stand-in answers for a room."""
    headers = {"Authorization": "Bearer a-token"}
    return httpx.get(f"{roomy}/rooms/{room_id}", headers=headers, trust_env=False).status_code


def test_the_doctor_names_it_and_checks_it(site: Site, installed: Path, roomy: str) -> None:
    env = beside(installed, site.env(**settings_of(roomy)))
    checks = checks_of(site, env)
    assert checks["provider"] == {"status": "ok", "message": "roomy lets us in as Sari"}
    adapters = checks["settings"]["message"]
    assert f"provider roomy (meetcore-roomy 1.2.0) MEETCORE_ROOMY_URL='{roomy}'" in adapters
    assert "MEETCORE_ROOMY_TOKEN='*******'" in adapters
    assert "sender http (meetcore " in adapters
    wrong = checks_of(site, env | {"MEETCORE_ROOMY_TOKEN": "another"})["provider"]
    assert wrong["message"] == "roomy answers with status 401: check MEETCORE_ROOMY_TOKEN"


def checks_of(site: Site, env: dict[str, str]) -> dict[str, dict[str, str]]:
    found = site.launcher.run("doctor", "--json", env=env).json["checks"]
    return {each["check"]: {"status": each["status"], "message": each["message"]} for each in found}


def test_without_the_package_a_start_says_what_to_do(site: Site) -> None:
    done = site.launcher.run("serve", "--port", free_port(), env=site.env(provider="roomy"))
    assert done.code == 3
    assert "MEETCORE_PROVIDER must be the name of an installed adapter, or package.module:name" in done.err
    assert "known here are jitsi, sandbox, zoom; see docs/adapters.md" in done.err
