"""Options, settings from the environment, responses beside results, errors, and secrets that stay hidden."""

from __future__ import annotations

import logging
import pickle
import traceback
from datetime import UTC, datetime

import httpx
import pytest

from meetcore.client import AsyncClient, Client, Response, errors
from meetcore.client.errors import error_for
from tests.client.clients import API_KEY, Against, ClientUnderTest, open_client
from tests.client.samples import ID, WANTED, meeting, note, webhook
from tests.client.scripted_server import REQUEST_ID, Drop, Hang, answer, refusal

BROKEN = refusal(500, "internal_error")
RATED = {"X_RateLimit_Limit": 20, "X_RateLimit_Remaining": 19, "X_RateLimit_Reset": 1795260780}


async def test_options_hold_for_the_client_that_was_made_with_them(against: Against) -> None:
    trial = await against(*[BROKEN] * 4, answer(200, meeting()), max_attempts=3)
    with pytest.raises(errors.InternalError) as once:
        await trial.changed(max_attempts=1)("meetings.get", ID)
    assert (once.value.attempts, len(trial.server.requests)) == (1, 1)
    assert ((await trial.refused("meetings.get", ID)).attempts, len(trial.server.requests)) == (3, 4)
    assert (await trial.invoke("meetings.get", ID)).id == ID


async def test_the_chosen_times_limit_attempts_and_waits(against: Against) -> None:
    trial = await against(Hang(), refusal(503, "service_unavailable", Retry_After=30))
    with pytest.raises(errors.TimedOut):
        await trial.changed(timeout_s=0.05, max_attempts=1)("meetings.get", ID)
    with pytest.raises(errors.MeetcoreError):
        await trial.changed(max_total_s=20)("meetings.get", ID)
    assert trial.waits.slept == []


async def test_headers_of_the_caller_are_sent_beside_the_clients_own(against: Against) -> None:
    trial = await against(answer(200, meeting()), answer(201, meeting()), answer(200, meeting()))
    traced = trial.invoke.client.with_options(headers={"traceparent": "00-ab-cd-01"})
    await ClientUnderTest(traced)("meetings.get", ID)
    await ClientUnderTest(traced.with_options(headers={"X-Order": "4711"}))("meetings.create", **WANTED)
    await trial.invoke("meetings.get", ID)
    sent = [request.headers for request in trial.server.requests]
    assert [each.get("traceparent") for each in sent] == ["00-ab-cd-01", "00-ab-cd-01", None]
    assert [each.get("x-order") for each in sent] == [None, "4711", None]
    assert {each["authorization"] for each in sent} == {f"Bearer {API_KEY}"}


async def test_invalid_options(against: Against) -> None:
    trial = await against()
    for name, value in (
        ("Authorization", "Bearer x"), ("host", "x"), ("Idempotency-Key", "x"), ("Content-Type", "x"),
        ("Content-Length", "1"), ("two words", "x"), ("X-A", "a\r\nX-B: b"), ("X-A", "é"), ("", "x"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="header"):
            trial.changed(headers={name: value})
    for wrong in ({"max_attempts": 0}, {"timeout_s": 0}, {"max_total_s": -1}):
        with pytest.raises(ValueError, match=r"is at least 1|are above 0"):
            trial.changed(**wrong)


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize("base_url", [
    " http://127.0.0.1:18321", "http://127.0.0.1:18321 ", "http://meet example.com", "http://127.0.0.1:99999",
    "http://127.0.0.1:x", "http://[::1", "http://\tmeet.example.com", "meet.example.com", "http://",
])  # fmt: skip
def test_an_address_that_cannot_work_is_refused(kind: type[Client | AsyncClient], base_url: str) -> None:
    with pytest.raises(ValueError, match="base_url is the service's address"):
        kind(base_url, API_KEY)


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize(("variables", "error"), [
    ({"NO_PROXY": "10.0.0.0/8,[::1],fe80::/10,[::1]:80,*.x,:,/"}, ""),
    ({"ALL_PROXY": "socks5://127.0.0.1:1080", "NO_PROXY": "meet.example.com"}, ""),
    ({"ALL_PROXY": "socks5://127.0.0.1:1080", "NO_PROXY": "[::1],192.168.0.0/16"}, "SOCKS"),
    ({"HTTPS_PROXY": "ftp://127.0.0.1:1080"}, "no address of one"),
    ({"HTTPS_PROXY": "http://127.0.0.1:x"}, "no address of one"),
    ({"HTTPS_PROXY": "http://proxy.example:99999"}, "no address of one"),
    ({"HTTPS_PROXY": "http://proxy .example"}, "no address of one"),
    ({"HTTPS_PROXY": "proxy.example:0"}, "no address of one"),
    ({"HTTPS_PROXY": "127.0.0.1:3128"}, ""),
    ({"HTTP_PROXY": "socks5://127.0.0.1:1080"}, ""),
])  # fmt: skip
def test_what_the_environment_says_of_proxies_never_raises_what_is_undocumented(
    kind: type[Client | AsyncClient], variables: dict[str, str], error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    if error:
        with pytest.raises(ValueError, match=error):
            kind("https://meet.example.com", API_KEY)
    else:
        kind("https://meet.example.com", API_KEY)


@pytest.fixture
def reads_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each client read its own: the tests keep those of the first one."""
    monkeypatch.setattr("httpx._transports.default.create_ssl_context", httpx.create_ssl_context)


@pytest.mark.usefixtures("reads_certificates")
@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "SSLKEYLOGFILE"])
@pytest.mark.parametrize("base_url", ["https://meet.example.com", "http://127.0.0.1:8000"])
def test_a_file_of_tls_that_cannot_be_used_is_refused_with_a_sentence(
    kind: type[Client | AsyncClient], variable: str, base_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "/nowhere/file.pem")
    with pytest.raises(ValueError, match=variable):
        kind(base_url, API_KEY)


@pytest.mark.usefixtures("reads_certificates")
@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_a_file_without_certificates_is_refused_with_a_sentence(
    kind: type[Client | AsyncClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", __file__)
    with pytest.raises(ValueError, match="SSL_CERT_FILE"):
        kind("https://meet.example.com", API_KEY)


async def test_connections_and_the_rate_are_shared(against: Against) -> None:
    trial = await against(answer(200, meeting(), **RATED))
    other = trial.invoke.client.with_options(timeout_s=5)
    await ClientUnderTest(other)("meetings.get", ID)
    assert trial.invoke.client.rate_limit is not None
    assert trial.invoke.client.rate_limit == other.rate_limit
    await trial.invoke.close()
    with pytest.raises(RuntimeError, match="closed"):
        await ClientUnderTest(other)("meetings.get", ID)


# The environment


async def test_settings_come_from_the_environment(
    against: Against, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = await against(answer(200, meeting()))
    monkeypatch.setenv("MEETCORE_BASE_URL", trial.server.url)
    monkeypatch.setenv("MEETCORE_API_KEY", API_KEY)
    async with open_client(kind, None, None) as invoke:
        assert (await invoke("meetings.get", ID)).id == ID
    assert trial.server.requests[0].headers["authorization"] == f"Bearer {API_KEY}"


def test_arguments_go_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEETCORE_BASE_URL", "https://elsewhere.example.com")
    monkeypatch.setenv("MEETCORE_API_KEY", "another")
    for kind in (Client, AsyncClient):
        client = kind("https://meet.example.com", API_KEY)
        assert repr(client) == f"{kind.__name__}('https://meet.example.com')"
        assert client._transport.address.api_key == API_KEY


@pytest.mark.parametrize("empty", [None, ""])
def test_a_missing_setting_is_named(monkeypatch: pytest.MonkeyPatch, empty: str | None) -> None:
    for name in ("MEETCORE_BASE_URL", "MEETCORE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
        if empty is not None:
            monkeypatch.setenv(name, empty)
    for kind in (Client, AsyncClient):
        with pytest.raises(ValueError, match="MEETCORE_BASE_URL is not set"):
            kind()
        with pytest.raises(ValueError, match="MEETCORE_API_KEY is not set"):
            kind("https://meet.example.com")
        with pytest.raises(ValueError, match="as it was shown once"):
            kind("https://meet.example.com", "")


# Responses beside results


async def test_a_result_comes_with_its_response(against: Against) -> None:
    trial = await against(BROKEN, answer(201, meeting(), Idempotent_Replayed="true", **RATED))
    response = await trial.invoke("with_response.meetings.create", **WANTED, idempotency_key="order-4711")
    assert isinstance(response, Response)
    assert response.result.id == ID
    assert (response.status, response.request_id, response.attempts) == (201, REQUEST_ID, 2)
    assert (response.is_replayed, response.idempotency_key) == (True, "order-4711")
    assert response.headers["content-type"] == "application/json"
    assert b'"rahasia1"' in response.body
    assert response.rate_limit is not None
    assert response.rate_limit.remaining == 19
    assert "rahasia1" not in repr(response)
    assert ID not in repr(response)


async def test_no_body_and_a_refusal_have_a_response(against: Against) -> None:
    markdown = answer(200, b"# Notulen", Content_Type="text/markdown")
    trial = await against(answer(204), markdown, refusal(404, "not_found"))
    gone = await trial.invoke("with_response.webhooks.delete", ID)
    assert (gone.result, gone.status, gone.body, gone.is_replayed) == (None, 204, b"", False)
    text = await trial.invoke("with_response.notes.markdown", ID)
    assert (text.result, text.idempotency_key, text.rate_limit) == ("# Notulen", None, None)
    assert "Notulen" not in repr(text)
    error = await trial.refused("with_response.meetings.get", ID)
    assert (error.code, error.request_id) == ("not_found", REQUEST_ID)


async def test_the_pages_of_a_list_come_with_their_responses(against: Against) -> None:
    pages = [answer(200, {"data": [note()], "next_cursor": at}) for at in ("a", None, None)]
    trial = await against(*pages)
    responses = await trial.invoke.items("with_response.notes.list", meeting_id=ID)
    assert [len(each.result.data) for each in responses] == [1, 1]
    assert {each.request_id for each in responses} == {REQUEST_ID}
    [last] = await trial.invoke.pages("with_response.notes.list", cursor="a")
    assert last.result.next_cursor is None
    assert "cursor=a" in trial.server.requests[-1].target


# Secrets and errors

SECRETS = (API_KEY, "k" * 43, "rahasia1", "whsec_abc", "982451", "pwd=")


async def test_nothing_secret_is_written_anywhere(
    against: Against, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    trial = await against(Drop(), BROKEN, answer(200, b"no"), Drop(b"x"), refusal(404, "not_found"))
    written = []
    for _ in range(2):
        error = await trial.refused("meetings.create", **WANTED, password="rahasia1")
        written += [str(error), repr(error), *traceback.format_exception(error), repr(vars(error))]
        # An exception of httpx refers to the request, and so to the key.
        assert (error.__cause__, error.__context__) == (None, None)
    assert "attempt 1 failed" in caplog.text
    client = trial.invoke.client
    written += [repr(client), repr(client._transport), repr(vars(client)), *capsys.readouterr()]
    own = ("meetcore", "httpx", "httpcore")
    written += [each.getMessage() for each in caplog.records if each.name.partition(".")[0] in own]
    assert len(trial.server.requests) == 5
    assert not [secret for secret in SECRETS if any(secret in text for text in written)]


async def test_a_record_does_not_show_secrets(against: Against) -> None:
    join_url = "https://zoom.example/j/1?pwd=rahasia1"
    trial = await against(
        answer(200, meeting(host_key="982451", join_url=join_url)), answer(200, webhook(secret="whsec_abc"))
    )
    found = await trial.invoke("meetings.get", ID)
    assert found.join_url == join_url
    assert (found.password, found.host_key) == ("rahasia1", "982451")
    hook = await trial.invoke("webhooks.get", ID)
    assert hook.secret == "whsec_abc"
    assert not [secret for secret in SECRETS if secret in repr(found) + repr(hook)]


@pytest.mark.parametrize("key", ["", "two words", "geheim\n", "gehe\u00edm", "geheim\x00"])
def test_an_invalid_key_is_refused_and_not_repeated(key: str) -> None:
    for kind in (Client, AsyncClient):
        with pytest.raises(ValueError, match="as it was shown once") as caught:
            kind("https://meet.test", key)
        assert "geh" not in str(caught.value)


@pytest.mark.parametrize("name", errors.__all__)
def test_an_error_is_pickled(name: str) -> None:
    error: errors.MeetcoreError = getattr(errors, name)("Words.", request_id="r-1", status=422)
    error.attempts, error.idempotency_key = 3, "order-4711"
    twin = pickle.loads(pickle.dumps(error))
    assert type(twin) is type(error)
    assert vars(twin) == vars(error)
    assert str(twin) == str(error)


def test_details_are_read_only_and_pickled() -> None:
    error = error_for("insufficient_credits")("Words.", details={"required": 10, "available": 3})
    assert isinstance(error, errors.InsufficientCredits)
    with pytest.raises(TypeError):
        error.details["required"] = 0  # type: ignore[index]
    twin = pickle.loads(pickle.dumps(error))
    assert (twin.required, twin.available) == (10, 3)


def test_details_are_typed() -> None:
    at = "2026-11-21T17:00:00Z"
    details = {"id": ID, "fields": {"title": ["too long"]}, "resets_at": at, "limit": True}
    assert errors.Conflict("", details=details).existing_id == ID
    assert errors.IdempotencyKeyReused("", details=details).existing_id == ID
    assert errors.InvalidRequest("", details=details).fields == {"title": ("too long",)}
    assert errors.CreditCapExceeded("", details=details).resets_at == datetime(2026, 11, 21, 17, tzinfo=UTC)
    assert errors.RateLimited("", details=details).limit is None
    for wrong in ({}, {"id": 7, "fields": [], "resets_at": "soon"}, {"resets_at": "2026-11-21T17:00:00"}):
        assert errors.Conflict("", details=wrong).existing_id is None
        assert errors.InvalidRequest("", details=wrong).fields == {}
        assert errors.CreditCapExceeded("", details=wrong).resets_at is None
