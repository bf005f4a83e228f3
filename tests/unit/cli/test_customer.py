"""What the commands of customers do with addresses, keys and lists of events."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest

from meetcore.cli.customer import EventFeed, api, read_access, tail
from meetcore.cli.listen import direct_client, forward, hold_meeting, listen, secret_of
from meetcore.client import Client, InvalidApiKey
from meetcore.domain.webhooks.signature import new_secret
from tests.client.clients import API_KEY
from tests.client.samples import meeting
from tests.client.scripted_server import Drop, ReceivedRequest, ScriptedServer, answer, refusal
from tests.support.webhook_receiver import receiving

OF_THE_SERVER = (
    "aiohappyeyeballs", "cattrs", "cryptography", "dramatiq", "httptools", "markdown_it", "msgspec",
    "psycopg", "starlette", "structlog", "uvicorn", "uvloop",
)  # fmt: skip
TIER = {
    "id": "standard-100", "name": "Standard 100", "capacity": 100, "max_duration": 60,
    "duration_unit": "minutes", "credits": 10, "recording_credits": 5,
}  # fmt: skip
WITHOUT = f"""
import sys
for name in {OF_THE_SERVER!r}:
    sys.modules[name] = None
from meetcore.cli.main import main
main(sys.argv[1:])
"""


@pytest.fixture(autouse=True)
def nothing_is_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable in ("MEETCORE_API_KEY", "MEETCORE_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def keep(tmp_path: Path, text: str, mode: int = 0o600) -> Path:
    file = tmp_path / "meetcore" / "config.toml"
    file.parent.mkdir()
    file.write_text(text)
    file.chmod(mode)
    return file


def test_the_environment_comes_before_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(tmp_path, 'base_url = "https://kept.example"\napi_key = "mk_live_kept"\n')
    assert read_access().base_url == "https://kept.example"
    assert read_access().api_key == "mk_live_kept"
    assert "mk_live_kept" not in repr(read_access())
    monkeypatch.setenv("MEETCORE_BASE_URL", "https://set.example")
    assert read_access().base_url == "https://set.example"


def test_what_is_missing_is_named_with_the_place_for_it(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"MEETCORE_API_KEY and MEETCORE_BASE_URL.*config\.toml"):
        read_access()


def test_a_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    file = keep(tmp_path, 'base_url = "https://m.example"\napi_key = "mk_live_kept"\n', 0o640)
    with pytest.raises(ValueError, match=f"chmod 600 {file}"):
        read_access()


def test_a_file_that_is_no_toml_is_named(tmp_path: Path) -> None:
    file = keep(tmp_path, "base_url: https\n")
    with pytest.raises(ValueError, match=str(file)):
        read_access()


def test_the_secret_follows_from_the_key_and_does_not_show_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEETCORE_BASE_URL", "https://m.example")
    secrets = []
    for key in (API_KEY, API_KEY, API_KEY[:-1] + "A"):
        monkeypatch.setenv("MEETCORE_API_KEY", key)
        secrets.append(secret_of(read_access()))
    assert secrets[0] == secrets[1] != secrets[2]
    assert API_KEY[-20:] not in secrets[0]


def listed(*events: tuple[str, str], more: str | None = None) -> bytes:
    data = [{"id": id_, "type": kind, "created_at": f"2026-12-01T10:{id_}:00Z"} for id_, kind in events]
    return answer(200, {"data": data, "next_cursor": more})


def test_a_feed_gives_each_event_once_and_none_from_before() -> None:
    ended = "meeting.ended"
    script = [
        listed(("02", ended), ("01", ended)),
        listed(("02", ended)),
        # A newer event on two pages, and one whose transaction ended late.
        listed(("05", ended), more="page-2"), listed(("04", "credit.low"), ("02", ended)),
        listed(("05", ended), ("04", "credit.low"), ("03", ended)),
        listed(("05", ended)),
    ]  # fmt: skip
    with ScriptedServer(*script) as server, Client(server.url, API_KEY) as client:
        feed = EventFeed(client)
        assert [ids(feed.poll()) for _ in range(4)] == [[], ["04", "05"], ["03"], []]
        queries = [query_of(each) for each in server.requests]
    assert "from" not in queries[0]
    assert queries[1]["from"] == "2026-12-01T10:01:00+00:00"
    assert queries[3]["cursor"] == "page-2"
    assert queries[4]["from"] == "2026-12-01T10:04:00+00:00"


def test_a_feed_gives_nothing_from_before_however_much_happened_in_that_minute() -> None:
    ended = "meeting.ended"
    both = listed(("02", ended), ("01", ended))
    with (
        ScriptedServer(listed(("02", ended), more="page-2"), both, both) as server,
        Client(server.url, API_KEY) as client,
    ):
        assert EventFeed(client).poll() == []
        assert query_of(server.requests[1])["from"] == "2026-12-01T10:01:00+00:00"


def test_an_event_waits_for_one_pause_of_half_a_second_at_most() -> None:
    """One that happens right after an answer is in the next; docs/performance.md has what was measured."""
    pauses: list[float] = []
    script = [listed(), listed(), listed(("01", "meeting.ended"))]
    with ScriptedServer(*script) as server, Client(server.url, API_KEY) as client:
        assert ids([next(EventFeed(client, sleep=pauses.append).follow())]) == ["01"]
    assert pauses == [0.5]


@pytest.mark.parametrize("away", [
    refusal(503, "service_unavailable"), refusal(500, "internal_error"), refusal(429, "rate_limited"),
    answer(502, b"<html>"), answer(504, b"<html>"), Drop(),
])  # fmt: skip
def test_a_feed_goes_on_after_a_time_without_an_answer(
    away: bytes | Drop, capsys: pytest.CaptureFixture[str]
) -> None:
    script = [listed(), away, away, listed(("01", "meeting.ended")), away, listed(("02", "meeting.ended"))]
    with ScriptedServer(*script) as server, Client(server.url, API_KEY, max_attempts=1) as client:
        events = EventFeed(client, sleep=lambda _: None).follow()
        assert ids([next(events), next(events)]) == ["01", "02"]
    assert capsys.readouterr().err.count("asking on until Ctrl-C") == 2, "once for each time"


def test_a_feed_ends_where_the_key_is_refused() -> None:
    script = [listed(), refusal(401, "invalid_api_key")]
    with (
        ScriptedServer(*script) as server,
        Client(server.url, API_KEY, max_attempts=1) as client,
        pytest.raises(InvalidApiKey),
    ):
        next(EventFeed(client, sleep=lambda _: None).follow())


def test_a_feed_may_be_of_some_types() -> None:
    script = [listed(), listed(), listed(("02", "credit.low"), ("01", "meeting.ended"))]
    with ScriptedServer(*script) as server, Client(server.url, API_KEY) as client:
        assert ids(EventFeed(client, ["credit.low"]).poll()) == ["02"]
        assert query_of(server.requests[0])["type"] == "credit.low", "an unknown one is refused at the start"


def query_of(request: ReceivedRequest) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(request.target).query))


def ids(events: list[dict[str, Any]]) -> list[str]:
    return [event["id"] for event in events]


def run(
    *arguments: str, key: str = API_KEY, url: str, stdin: str | None = None
) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "MEETCORE_API_KEY": key, "MEETCORE_BASE_URL": url}
    command = [sys.executable, "-c", WITHOUT, *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, env=variables, check=False, timeout=60, input=stdin
    )


def test_a_call_needs_nothing_of_the_server_and_prints_its_answer() -> None:
    pages = [answer(200, {"data": [{"n": n}], "next_cursor": at}) for n, at in ((1, "x"), (2, None))]
    with ScriptedServer(answer(200, {"id": "é"}), *pages) as server:
        done = run("api", "get", "/api/v1/me", url=server.url)
        assert server.requests[0].target == "/api/v1/me"
        assert (done.stdout, done.stderr) == ('{\n  "id": "é"\n}\n', "")
        every = run("api", "GET", "/meetings?status=ended", "--all", url=server.url)
        assert every.stdout == '{"n": 1}\n{"n": 2}\n', every.stderr
        assert [query_of(each).get("status") for each in server.requests] == [None, "ended", "ended"]


def test_a_body_is_sent_under_the_key_that_names_the_intent(tmp_path: Path) -> None:
    body = tmp_path / "body.json"
    body.write_text('{"title": "Rapat"}')
    with ScriptedServer(answer(201, {"id": "m"})) as server:
        done = run(
            "api", "POST", "/meetings", "--data", f"@{body}", "--idempotency-key", "order-1", url=server.url
        )
        assert done.returncode == 0, done.stderr
        [request] = server.requests
    assert (request.key, request.json) == ("order-1", {"title": "Rapat"})


def test_a_body_is_read_from_standard_input() -> None:
    with ScriptedServer(answer(201, {"id": "m"})) as server:
        done = run("api", "POST", "/meetings", "--data", "-", url=server.url, stdin='{"title": "Rapat"}')
        assert done.returncode == 0, done.stderr
        [request] = server.requests
    assert request.json == {"title": "Rapat"}


@pytest.mark.parametrize(("arguments", "text"), [
    (["PUT", "/me"], "GET, POST, PATCH, DELETE"),
    (["POST", "/meetings", "--data", "{"], "--data is not JSON"),
    (["POST", "/meetings", "--data", "[]"], "JSON object"),
    (["POST", "/meetings", "--data", '{"mic_off": true, "mic_off": false}'], "a name more than once"),
    (["POST", "/meetings", "--data", "@/nowhere"], "/nowhere"),
    (["POST", "/meetings", "--data", "{}", "--all"], "--all is for lists"),
    (["GET", "/events?type=webhook.test&type=note.failed"], "a name more than once"),
    (["GET", "/meetings", "--data", "{}"], "--data and --idempotency-key"),
    (["GET", "/meetings", "--idempotency-key", "a"], "--data and --idempotency-key"),
])  # fmt: skip
def test_a_call_that_cannot_be_made_is_refused(arguments: list[str], text: str) -> None:
    done = run("api", *arguments, url="https://m.example")
    assert done.returncode == 2
    assert text in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("arguments", [
    ("api", "GET", "/me"), ("events", "tail"), ("listen", "--forward-to", "http://localhost:9"),
    ("trigger", "meeting.created"),
])  # fmt: skip
def test_a_key_that_is_missing_is_a_setting(
    arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    done = run(*arguments, key="", url="https://m.example")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("meetcore: set MEETCORE_API_KEY and MEETCORE_BASE_URL")


def test_an_address_that_is_impossible_is_a_setting() -> None:
    done = run("api", "GET", "/me", url="http://m.example")
    assert (done.returncode, done.stdout) == (3, "")
    assert "https" in done.stderr


@pytest.mark.parametrize("address", [
    "localhost:3000", "ftp://localhost/hook", "http:///hook", "http://localhost:abc/hook",
    "http://localhost:99999/hook", "http://local host/hook", "http://localhost/\x7f", "http://[::1/hook",
])  # fmt: skip
def test_an_address_that_nothing_could_be_posted_to_is_refused_before_the_first_event(address: str) -> None:
    done = run("listen", "--forward-to", address, url="https://m.example")
    assert done.returncode == 2
    assert done.stderr.startswith(
        "meetcore: --forward-to is an http or https address, such as http://localhost:3000"
    )
    assert len(done.stderr.splitlines()) == 1


def test_a_reader_that_stops_early_ends_a_call_without_a_word(tmp_path: Path) -> None:
    (program := tmp_path / "program.py").write_text(WITHOUT)
    pages = [answer(200, {"data": [{"n": "x" * 100_000}] * 9, "next_cursor": None})]
    with ScriptedServer(*pages) as server:
        command = f"{sys.executable} {program} api GET /meetings --all | head -c 1"
        variables = {**os.environ, "MEETCORE_API_KEY": API_KEY, "MEETCORE_BASE_URL": server.url}
        done = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, env=variables,
            check=False, timeout=60,
        )  # fmt: skip
    assert (done.stdout, done.stderr, done.returncode) == ("{", "", 0)


def test_help_and_completion_are_of_the_commands_that_can_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = run("--help", url="").stdout
    assert "listen" in shown
    assert "pip install 'meetcore[server]'" in shown
    assert "doctor" not in shown
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", "/bin/bash")
    done = run("--install-completion", url="")
    assert done.returncode == 0, done.stderr
    assert "--forward-to" in "".join(
        each.read_text() for each in tmp_path.rglob("*meetcore*") if each.is_file()
    )


def test_a_service_that_cannot_be_reached_is_named_with_the_place_for_another() -> None:
    done = run("api", "GET", "/me", url="http://127.0.0.1:1")
    assert (done.returncode, done.stdout) == (1, "")
    assert "http://127.0.0.1:1 does not answer: " in done.stderr
    assert re.search(r"; MEETCORE_BASE_URL, or base_url in .*config\.toml, names another", done.stderr)


@pytest.mark.parametrize("page", [b"<html>", {}, [], {"data": {}, "next_cursor": None}])
@pytest.mark.parametrize("read", [
    tail, partial(listen, forward_to="http://localhost:9"), partial(api, "GET", "/meetings", all_=True),
])  # fmt: skip
def test_an_address_of_something_else_is_named_with_the_place_for_another(
    read: Callable[[], object], page: object, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv("MEETCORE_API_KEY", API_KEY)
    with ScriptedServer(answer(200, page)) as server:
        monkeypatch.setenv("MEETCORE_BASE_URL", server.url)
        with pytest.raises(SystemExit) as ended:
            read()
    assert ended.value.code == 1
    assert re.search(
        r"answers no list: .*MEETCORE_BASE_URL, or base_url in .*config\.toml, names", capsys.readouterr().err
    )


@pytest.mark.parametrize(("command", "extras"), [("dev", "all"), ("mcp", "server,mcp"), ("doctor", "server")])
def test_a_command_whose_packages_are_missing_names_what_it_needs(command: str, extras: str) -> None:
    start = WITHOUT.replace("cli.main import main", "cli import start as main").replace(
        "main(sys.argv[1:])", "main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", start, command, "--help"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    assert done.stderr.endswith(f"pip install 'meetcore[{extras}]'\n"), done.stderr


async def test_events_are_posted_by_the_certificates_that_the_environment_names_and_by_no_proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("httpx._transports.default.create_ssl_context", httpx.create_ssl_context)
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    event = {"id": "01", "type": "webhook.test"}
    async with receiving(tmp_path, "localhost") as receiver:
        monkeypatch.setenv("SSL_CERT_FILE", receiver.ca_file)
        url = f"https://localhost:{receiver.port}/hook"
        with direct_client() as http:
            outcome = await asyncio.to_thread(forward, http, url, new_secret(bytes(32)), event)
    assert outcome.startswith("204 "), outcome


def test_nothing_is_triggered_at_the_page_of_another_machine() -> None:
    elsewhere = meeting(join_url="https://provider.example/j/1")
    cancelled = {"id": elsewhere["id"], "status": "cancelled", "credits_refunded": 10}
    script = [
        answer(200, {"data": [TIER], "next_cursor": None}),
        answer(201, elsewhere),
        answer(200, cancelled),
    ]
    with (
        ScriptedServer(*script) as server,
        Client(server.url, API_KEY) as client,
        httpx.Client(trust_env=False) as http,
        pytest.raises(ValueError, match=r"at provider\.example, not on this machine"),
    ):
        hold_meeting(client, http)
    assert server.requests[-1].method == "DELETE", "its credits come back"
