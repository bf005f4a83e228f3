"""Retries: which failures, when, how often, and under which key."""

from __future__ import annotations

from datetime import UTC, datetime
from time import monotonic
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meetcore.client import Meeting, errors
from meetcore.client.calls import Call, encode
from meetcore.client.exchange import HttpResponse, NoResponse, RetryPolicy, run_with_retries
from tests.client.clients import Against, Waits, calls, open_client
from tests.client.samples import ID, WANTED, meeting
from tests.client.scripted_server import REQUEST_ID, Drip, Drop, Hang, Step, answer, refusal
from tests.support.program import free_port

GONE_WELL = answer(200, {"id": ID, "status": "cancelled", "credits_refunded": 10})
BUSY = refusal(503, "service_unavailable", Retry_After=1)
HALF = answer(200, {"id": ID, "status": "cancelled", "credits_refunded": 10})[:-7]
PASSING: dict[str, Step] = {
    "reset": Drop(),
    "cut in the head": Drop(b"HTTP/1.1 200 OK\r\nContent-"),
    "cut in the body": Drop(HALF),
    "no HTTP": b"SSH-2.0-OpenSSH_9.6\r\n",
    "bad gzip": answer(200, b"no gzip", Content_Encoding="gzip"),
    "429": refusal(429, "rate_limited", Retry_After=1),
    "500": refusal(500, "internal_error"),
    "502": refusal(502, "upstream_error"),
    "503": BUSY,
    "502 of a proxy": answer(502, b"<html>Bad Gateway</html>", Content_Type="text/html"),
    "504 of a proxy": answer(504, b""),
}


@pytest.mark.spec("4/idem-replay")
@pytest.mark.parametrize("step", PASSING.values(), ids=PASSING)
async def test_temporary_failure_is_retried_with_the_same_key_and_body(against: Against, step: Step) -> None:
    trial = await against(step, step, answer(201, meeting()))
    assert (await trial.invoke("meetings.create", **WANTED)).id == ID
    first, *others = trial.server.requests
    assert str(UUID(first.key)) == first.key
    assert first.json == WANTED
    assert others == [first, first], "the same request, whole, three times"


@pytest.mark.parametrize("step", PASSING.values(), ids=PASSING)
async def test_a_read_is_tried_again_without_a_key(against: Against, step: Step) -> None:
    trial = await against(step, answer(200, meeting()))
    assert (await trial.invoke("meetings.get", ID)).id == ID
    assert [request.key for request in trial.server.requests] == [None, None]


async def test_a_call_described_by_hand_is_tried_again_with_one_key(against: Against) -> None:
    trial = await against(Drop(), answer(201, meeting()))
    await trial.invoke("send", Call("POST", "/meetings", Meeting, body=encode(WANTED)))
    first, second = trial.server.requests
    assert first.key is not None
    assert second == first


async def test_a_call_has_a_new_key_unless_it_is_given_one(against: Against) -> None:
    trial = await against(*[GONE_WELL] * 4)
    for key in (None, None, "order-4711", "order-4711"):
        await trial.invoke("meetings.cancel", ID, idempotency_key=key)
    first, second, third, fourth = (request.key for request in trial.server.requests)
    assert first != second
    assert third == fourth == "order-4711"


@pytest.mark.parametrize(("status", "code"), [
    (400, "invalid_request"), (401, "invalid_api_key"), (403, "insufficient_scope"), (404, "not_found"),
    (405, "invalid_request"), (409, "conflict"), (410, "gone"), (413, "invalid_request"),
    (422, "insufficient_credits"), (422, "idempotency_key_reused"), (501, "new_code"),
])  # fmt: skip
async def test_a_lasting_failure_is_tried_once(against: Against, status: int, code: str) -> None:
    trial = await against(refusal(status, code), GONE_WELL)
    error = await trial.refused("meetings.cancel", ID)
    assert (error.status, error.code, error.attempts) == (status, code, 1)
    assert (len(trial.server.requests), trial.waits.slept) == (1, [])


@pytest.mark.parametrize("step", [
    *(answer(200, body) for body in (b"<html></html>", b"{}", b'{"id": 7}', b"[" * 10**5, b"\xff")),
    answer(307, None, Location="http://127.0.0.1:9/elsewhere"),
])  # fmt: skip
async def test_no_record_and_no_redirect_is_tried_again_or_followed(against: Against, step: bytes) -> None:
    trial = await against(step, GONE_WELL)
    error = await trial.refused("meetings.cancel", ID)
    assert type(error) is errors.UnexpectedResponse
    assert (error.status, error.request_id) == (int(step[9:12]), REQUEST_ID)
    assert len(trial.server.requests) == 1


# How long


@pytest.mark.spec("7/429", "7/503")
@pytest.mark.parametrize(("status", "code"), [(429, "rate_limited"), (503, "service_unavailable")])
async def test_retry_after_is_waited_out_and_jitter_comes_on_top(
    against: Against, status: int, code: str
) -> None:
    steps = [refusal(status, code, Retry_After=seconds) for seconds in (1, 7, 0)]
    trial = await against(*steps, GONE_WELL)
    await trial.invoke("meetings.cancel", ID)
    assert trial.waits.slept == [1 + 0.25, 7 + 0.5, 0 + 1.0]


async def test_without_retry_after_the_wait_doubles_up_to_its_longest(against: Against) -> None:
    trial = await against(*[Drop()] * 7, GONE_WELL, max_attempts=8)
    await trial.invoke("meetings.cancel", ID)
    assert trial.waits.slept == [0.25, 0.5, 1.0, 2.0, 4.0, 4.0, 4.0]


NOON, LATER = "Sat, 21 Nov 2026 12:00:00 GMT", "Sat, 21 Nov 2026 12:00:09 GMT"


@pytest.mark.parametrize(("retry_after", "date", "waited"), [
    (LATER, NOON, 9), (NOON, LATER, 0), (LATER, "", 0), (LATER, NOON.removesuffix(" GMT"), 0),
    ("soon", "", 0), ("-5", "", 0), ("\xb2", "", 0), ("1.5", "", 0),
])  # fmt: skip
async def test_retry_after_in_other_forms(against: Against, retry_after: str, date: str, waited: int) -> None:
    trial = await against(
        refusal(503, "service_unavailable", Retry_After=retry_after, Date=date), GONE_WELL, jitter=lambda: 0.0
    )
    await trial.invoke("meetings.cancel", ID)
    assert trial.waits.slept == ([waited] if waited else [])


async def test_the_last_error_is_raised_when_the_attempts_are_used_up(against: Against) -> None:
    trial = await against(Drop(), BUSY, refusal(502, "upstream_error"), GONE_WELL, max_attempts=3)
    error = await trial.refused("meetings.cancel", ID)
    assert type(error) is errors.UpstreamError
    assert (error.attempts, error.request_id) == (3, REQUEST_ID)
    assert [request.key for request in trial.server.requests] == [error.idempotency_key] * 3
    assert len(trial.waits.slept) == 2, "no wait after the last attempt"


@pytest.mark.parametrize(("retry_after_s", "attempts"), [(45, 3), (365 * 86400, 1)])
async def test_a_wait_that_would_pass_the_total_is_not_begun(
    against: Against, retry_after_s: int, attempts: int
) -> None:
    limited = refusal(429, "rate_limited", {"limit": 60, "window_seconds": 60}, Retry_After=retry_after_s)
    trial = await against(limited, limited, limited, GONE_WELL, max_total_s=100)
    error = await trial.refused("meetings.cancel", ID)
    assert type(error) is errors.RateLimited
    assert (error.attempts, error.retry_after_s) == (attempts, retry_after_s)
    assert len(trial.waits.slept) == attempts - 1
    assert sum(trial.waits.slept) < 100


def full(next_available_at: str, **headers: object) -> bytes:
    details = {"next_available_at": next_available_at}
    return refusal(503, "service_unavailable", details, Retry_After=60, **headers)


@pytest.mark.spec("4.1/3")
@pytest.mark.parametrize("max_total_s", [120, 1800])
async def test_a_host_that_is_free_too_late_is_not_waited_for(against: Against, max_total_s: float) -> None:
    busy = full("2026-11-21T12:31:00Z", Date=NOON)
    trial = await against(busy, answer(201, meeting()), max_total_s=max_total_s)
    error = await trial.refused("meetings.create", **WANTED)
    assert type(error) is errors.ServiceUnavailable
    assert error.next_available_at == datetime(2026, 11, 21, 12, 31, tzinfo=UTC)
    assert (error.attempts, trial.waits.slept) == (1, [])


@pytest.mark.parametrize(("busy", "max_total_s"), [
    (full("2026-11-21T12:01:30Z", Date=NOON), 120),
    (full("2026-11-21T12:31:00Z", Date=NOON), 1861),
    (full("2026-11-21T12:31:00Z"), 120),
    (full("2026-11-21T12:31:00Z", Date="noon"), 120),
    (full("soon", Date=NOON), 120),
    (full("2026-11-21T12:31:00", Date=NOON), 120),
], ids=["soon enough", "patient", "no date", "no HTTP date", "no time", "no offset"])  # fmt: skip
async def test_a_host_that_may_be_free_in_time_is_waited_for(
    against: Against, busy: bytes, max_total_s: float
) -> None:
    trial = await against(busy, answer(201, meeting()), max_total_s=max_total_s)
    assert (await trial.invoke("meetings.create", **WANTED)).id == ID
    assert trial.waits.slept == [60.25]


async def test_silence_is_retried(against: Against) -> None:
    # More than one good answer: on a busy machine one may come too late as well.
    trial = await against(Hang(), *[GONE_WELL] * 5, timeout_s=0.5)
    assert (await trial.invoke("meetings.cancel", ID)).credits_refunded == 10


@pytest.mark.parametrize("step", [Hang(), Drip()])
async def test_silence_and_a_dripping_body_time_out(against: Against, step: Step) -> None:
    trial = await against(step, timeout_s=0.3, max_attempts=1, clock=monotonic)
    assert type(await trial.refused("meetings.cancel", ID)) is errors.TimedOut


async def test_a_refused_connection(kind: str) -> None:
    waits = Waits()
    settings: dict[str, Any] = {"clock": waits.clock, "sleep": waits.sleep_of(kind)}
    async with open_client(kind, f"http://127.0.0.1:{free_port()}", "key", **settings) as invoke:
        with pytest.raises(errors.ConnectionFailed) as caught:
            await invoke("me")
    assert caught.value.attempts == 6
    assert len(waits.slept) == 5


async def test_huge_answer_is_not_read_to_its_end(against: Against, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("meetcore.client.transport.MAX_RESPONSE_BYTES", 1000)
    trial = await against(answer(200, b" " * 1001), answer(200, b" " * 1001), max_attempts=2)
    error = await trial.refused("me")
    assert type(error) is errors.ConnectionFailed
    assert "1000 bytes" in str(error)


# The arithmetic


@given(
    attempts=st.integers(1, 10**6),
    retry_after_s=st.none() | st.integers(0, 10**9),
    jitter=st.floats(0, 1, exclude_max=True),
)
def test_a_wait_is_at_least_retry_after_and_bounded_above(
    attempts: int, retry_after_s: int | None, jitter: float
) -> None:
    policy = RetryPolicy()
    least_s = retry_after_s or 0
    wait_s = policy.wait_s(attempts, retry_after_s, jitter)
    assert least_s <= wait_s <= least_s + policy.max_delay_s
    assert policy.wait_s(attempts, retry_after_s, 0.0) == least_s


replies = st.one_of(
    st.builds(NoResponse, st.just("x"), st.booleans()),
    st.builds(
        HttpResponse,
        st.sampled_from([400, 404, 429, 500, 502, 503]),
        st.sampled_from([{}, {"retry-after": "1"}, {"retry-after": "45"}]),
        st.just(b"{}"),
    ),
)


@given(
    policy=st.builds(RetryPolicy, st.floats(0.1, 50), st.integers(1, 9), st.floats(0.1, 200)),
    outcomes=st.lists(st.tuples(replies, st.floats(0, 1)), min_size=9, max_size=9),
    jitter=st.floats(0, 1, exclude_max=True),
)
def test_a_call_ends_in_time_after_any_replies(
    policy: RetryPolicy, outcomes: list[tuple[HttpResponse | NoResponse, float]], jitter: float
) -> None:
    call, now, ended = calls()["meeting.cancel"], Waits(), []
    steps = run_with_retries(call, policy, now.clock, lambda: jitter)
    send = next(steps)
    for attempt, (reply, share) in enumerate(outcomes, 1):
        assert send.call is call
        assert 0 < send.timeout_s <= policy.timeout_s
        # However long it takes within its limit.
        now.slept += [send.wait_s, send.timeout_s * share]
        assert now.clock() <= policy.max_total_s + 1e-6
        try:
            send = steps.send(reply)
        except errors.MeetcoreError as error:
            ended.append((error.attempts, attempt))
            break
    ((attempts, made),) = ended
    assert attempts == made <= policy.max_attempts


@pytest.mark.parametrize("wrong", [{"max_attempts": 0}, {"timeout_s": 0}, {"max_total_s": -1}])
def test_invalid_limits(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"is at least 1|are above 0"):
        RetryPolicy(**wrong)
