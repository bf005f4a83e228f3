"""Options of a call or of some, settings from the environment, and the answer beside a result."""

from __future__ import annotations

from typing import Any

import pytest

from meetcore.client import AsyncClient, Client, InternalError, MeetcoreError, Response, TimedOut
from tests.client.clients import ClientUnderTest, open_client
from tests.client.conftest import API_KEY, Trial
from tests.client.samples import ID, WANTED, meeting, note
from tests.client.scripted_server import REQUEST_ID, Hang, answer, refusal
from tests.client.test_retries import Against

BROKEN = refusal(500, "internal_error")


def changed(trial: Trial, **options: Any) -> ClientUnderTest:
    """The same client with other options."""
    return ClientUnderTest(trial.invoke.client.with_options(**options))


async def test_options_hold_for_the_client_that_was_made_with_them(against: Against) -> None:
    trial = await against(*[BROKEN] * 4, answer(200, meeting()), max_attempts=3)
    with pytest.raises(InternalError) as once:
        await changed(trial, max_attempts=1)("meetings.get", ID)
    assert (once.value.attempts, len(trial.server.requests)) == (1, 1)
    error = await trial.refused("meetings.get", ID)
    assert (error.attempts, len(trial.server.requests)) == (3, 4)
    assert (await trial.invoke("meetings.get", ID)).id == ID


async def test_an_attempt_ends_at_the_time_that_was_chosen_for_it(against: Against) -> None:
    trial = await against(Hang())
    with pytest.raises(TimedOut):
        await changed(trial, timeout_s=0.05, max_attempts=1)("meetings.get", ID)


async def test_no_wait_is_begun_that_would_pass_the_time_that_was_chosen(against: Against) -> None:
    trial = await against(refusal(503, "service_unavailable", Retry_After=30))
    with pytest.raises(MeetcoreError):
        await changed(trial, max_total_s=20)("meetings.get", ID)
    assert trial.waits.slept == []


async def test_headers_of_the_caller_are_sent_beside_the_clients_own(against: Against) -> None:
    trial = await against(answer(200, meeting()), answer(201, meeting()), answer(200, meeting()))
    traced = trial.invoke.client.with_options(headers={"traceparent": "00-ab-cd-01"})
    await ClientUnderTest(traced)("meetings.get", ID)
    await ClientUnderTest(traced.with_options(headers={"X-Order": "4711"}))("meetings.create", **WANTED)
    await trial.invoke("meetings.get", ID)
    first, second, third = (request.headers for request in trial.server.requests)
    assert (first["traceparent"], second["traceparent"], second["x-order"]) == (
        "00-ab-cd-01", "00-ab-cd-01", "4711",
    )  # fmt: skip
    assert "x-order" not in first
    assert "traceparent" not in third
    for headers in (first, second, third):
        assert headers["authorization"] == f"Bearer {API_KEY}"


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer x"}, {"host": "x"}, {"Idempotency-Key": "x"}, {"Content-Type": "x"},
        {"Content-Length": "1"}, {"two words": "x"}, {"X-A": "a\r\nX-B: b"}, {"X-A": "é"}, {"": "x"},
    ],
)  # fmt: skip
async def test_headers_that_cannot_be_meant(against: Against, headers: dict[str, str]) -> None:
    trial = await against()
    with pytest.raises(ValueError, match="header"):
        trial.invoke.client.with_options(headers=headers)


@pytest.mark.parametrize("wrong", [{"max_attempts": 0}, {"timeout_s": 0}, {"max_total_s": -1}])
async def test_options_that_cannot_be_meant(against: Against, wrong: dict[str, float]) -> None:
    trial = await against()
    with pytest.raises(ValueError, match=r"is at least 1|are above 0"):
        trial.invoke.client.with_options(**wrong)


async def test_connections_and_the_rate_are_shared(against: Against) -> None:
    rated = answer(
        200, meeting(), X_RateLimit_Limit=300, X_RateLimit_Remaining=7, X_RateLimit_Reset=1795260780
    )
    trial = await against(rated)
    other = trial.invoke.client.with_options(timeout_s=5)
    await ClientUnderTest(other)("meetings.get", ID)
    assert trial.invoke.client.rate_limit is not None
    assert trial.invoke.client.rate_limit == other.rate_limit
    if isinstance(trial.invoke.client, AsyncClient):
        await trial.invoke.client.aclose()
    else:
        trial.invoke.client.close()
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


def test_what_is_given_goes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEETCORE_BASE_URL", "https://elsewhere.example.com")
    monkeypatch.setenv("MEETCORE_API_KEY", "another")
    for kind in (Client, AsyncClient):
        client = kind("https://meet.example.com", API_KEY)
        assert repr(client) == f"{kind.__name__}('https://meet.example.com')"
        assert client._transport.place.api_key == API_KEY


@pytest.mark.parametrize("empty", [None, ""])
def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, empty: str | None) -> None:
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


# The answer beside the result


async def test_a_result_comes_with_its_answer(against: Against) -> None:
    made = answer(201, meeting(), Idempotent_Replayed="true", X_RateLimit_Limit=20, X_RateLimit_Remaining=19,
                  X_RateLimit_Reset=1795260780)  # fmt: skip
    trial = await against(BROKEN, made)
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


async def test_what_has_no_body_has_an_answer(against: Against) -> None:
    trial = await against(answer(204), answer(200, b"# Notulen", Content_Type="text/markdown"))
    gone = await trial.invoke("with_response.webhooks.delete", ID)
    assert (gone.result, gone.status, gone.body, gone.is_replayed) == (None, 204, b"", False)
    text = await trial.invoke("with_response.notes.markdown", ID)
    assert (text.result, text.idempotency_key, text.rate_limit) == ("# Notulen", None, None)
    assert "Notulen" not in repr(text)


async def test_a_refusal_is_raised_as_without(against: Against) -> None:
    trial = await against(refusal(404, "not_found"))
    error = await trial.refused("with_response.meetings.get", ID)
    assert (error.code, error.request_id) == ("not_found", REQUEST_ID)


async def test_the_pages_of_a_list_come_with_their_answers(against: Against) -> None:
    pages = [answer(200, {"data": [note()], "next_cursor": at}) for at in ("a", None, None)]
    trial = await against(*pages)
    responses = await trial.invoke.items("with_response.notes.list", meeting_id=ID)
    assert [len(each.result.data) for each in responses] == [1, 1]
    assert {each.request_id for each in responses} == {REQUEST_ID}
    [last] = await trial.invoke.pages("with_response.notes.list", cursor="a")
    assert last.result.next_cursor is None
    assert "cursor=a" in trial.server.requests[-1].target
