"""Tokens, limits, repeats and outcomes of a call of Zoom, over real HTTP with every fault of the stand-in."""

import asyncio
import socket
import subprocess
import sys
import traceback
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from attrs import evolve

from meetcore.adapters.settings import Settings, SettingsRefused
from meetcore.adapters.zoom import ZoomProvider
from meetcore.adapters.zoom.calls import Tokens, open_http
from meetcore.adapters.zoom.schemas import Limit, ZoomResponse, limit_of, next_utc_midnight, retry_after_s
from meetcore.composition.providers import zoom_access
from meetcore.domain.meetings.cancellation import ProviderMeetingState
from meetcore.ports.recording_files import FilesUnavailable
from meetcore.ports.video_provider import ProviderRefused, ProviderUnknown
from meetcore.testing.contracts.providers import order_for
from meetcore.testing.stand_in import Reply, Request, serving
from meetcore.testing.zoom_account import REFUSALS, refusal
from meetcore.testing.zoom_server import Fault, Terms
from tests.support.texts import assert_contains
from tests.support.zoom_adapter import NOW, SECRET, Zoom, access_to, zoom_at_hand

SHORT_BUDGET_S = 0.9


@pytest.fixture
async def zoom():
    async with zoom_at_hand() as at_hand:
        yield at_hand


@pytest.fixture
async def short_budget():
    async with zoom_at_hand(budget_s=SHORT_BUDGET_S) as at_hand:
        yield at_hand


@contextmanager
def budget_of(zoom: Zoom, seconds: float) -> Iterator[None]:
    """Set the time limit of each call, repeats included; others may take their time on a busy machine."""
    calls = zoom.provider._calls
    kept, calls._budget_s = calls._budget_s, seconds
    try:
        yield
    finally:
        calls._budget_s = kept


# Tokens


async def test_one_token_serves_all_and_is_requested_once(zoom: Zoom):
    zoom.stand_in.terms.latency_s = 0.05
    await asyncio.gather(*(zoom.provider.create(order_for(zoom.provider)) for _ in range(50)))
    assert zoom.calls("token") == 1
    zoom.stand_in.expire_tokens()
    await asyncio.gather(*(zoom.provider.create(order_for(zoom.provider)) for _ in range(50)))
    assert zoom.calls("token") == 2
    assert len(zoom.made) == 100


@pytest.mark.parametrize(("fault", "times"), [("token_expired", 2), ("rate_daily_account", 1)])
async def test_a_token_that_is_refused_is_renewed_once_and_a_limit_of_a_day_is_not_waited_for(
    zoom: Zoom, fault: str, times: int
):
    zoom.stand_in.faults.plan(Fault(fault, "create", times=None))
    with pytest.raises(ProviderRefused):
        await zoom.provider.create(order_for(zoom.provider))
    assert (zoom.calls("create"), zoom.calls("token"), zoom.made) == (times, times, [])


async def test_a_token_is_renewed_before_it_ends(zoom: Zoom):
    elapsed = 0.0
    line = open_http()
    tokens = Tokens(access_to(zoom.stand_in), line, zoom.log, monotonic=lambda: elapsed)
    try:
        first = await tokens.get()
        elapsed = 3539.0
        assert await tokens.get() == first
        elapsed = 3541.0
        second = await tokens.get()
        assert second != first
        tokens.drop(first)  # it has been replaced already
        assert await tokens.get() == second
        tokens.drop(second)
        assert await tokens.get() not in (first, second)
        assert zoom.calls("token") == 3
    finally:
        await tokens.aclose()
        await line.aclose()


async def test_a_short_token_is_used_at_all(zoom: Zoom):
    zoom.stand_in.terms.token_lifetime_s = 2
    for _ in range(3):
        await zoom.provider.create(order_for(zoom.provider))
    assert zoom.calls("token") == 1


async def test_a_cancelled_call_does_not_cancel_the_others_token(zoom: Zoom):
    zoom.stand_in.terms.latency_s = 0.2
    quitter = asyncio.create_task(zoom.provider.create(order_for(zoom.provider)))
    while zoom.calls("token") == 0:  # noqa: ASYNC110  (a counter has no event)
        await asyncio.sleep(0)
    others = [asyncio.create_task(zoom.provider.create(order_for(zoom.provider))) for _ in range(3)]
    await asyncio.sleep(0)
    quitter.cancel()
    await asyncio.gather(*others)
    assert quitter.cancelled()
    assert (zoom.calls("token"), len(zoom.made)) == (1, 3)


async def test_an_application_unknown_to_zoom_is_reported_to_the_operator():
    async with zoom_at_hand(secret="another") as zoom:
        with pytest.raises(ProviderRefused):
            await zoom.provider.create(order_for(zoom.provider))
        assert zoom.log.events == ["zoom_gives_no_token"]
        assert (zoom.calls("token"), zoom.made) == (1, [])


@pytest.mark.parametrize("fault", ["500", "drop", "garbage", "hang", "rate_qps"])
async def test_without_a_token_nothing_was_made(short_budget: Zoom, fault: str):
    short_budget.stand_in.faults.plan(Fault(fault, "token", times=None))
    with pytest.raises(ProviderRefused):
        await short_budget.provider.create(order_for(short_budget.provider))
    assert short_budget.calls("create") == 0


@pytest.mark.parametrize("fault", ["500", "drop"])
async def test_a_token_is_requested_once_more(zoom: Zoom, fault: str):
    zoom.stand_in.faults.plan(Fault(fault, "token"))
    await zoom.provider.create(order_for(zoom.provider))
    assert zoom.calls("token") == 2


# Outcomes of making


@pytest.mark.parametrize("is_done", [True, False])
@pytest.mark.parametrize("fault", ["hang", "drop", "garbage", "huge", "500", "502", "503", "408", "302"])
async def test_a_creation_without_an_answer_is_unknown_and_never_repeated(
    zoom: Zoom, fault: str, is_done: bool
):
    order = order_for(zoom.provider)
    zoom.stand_in.faults.plan(Fault(fault, "create", is_done=is_done))
    with pytest.raises(ProviderUnknown), budget_of(zoom, SHORT_BUDGET_S if fault == "hang" else 8.0):
        await zoom.provider.create(order)
    assert zoom.calls("create") == 1
    assert len(zoom.made) == is_done
    found = await zoom.provider.find(order)
    assert [one.provider_meeting_id for one in found] == zoom.made


@pytest.mark.parametrize("answer", [b"{}", b'{"id": 7}', b'{"id": 7, "join_url": "zoommtg://x"}', b"[]", b""])
async def test_an_answer_that_lacks_what_is_needed_is_unknown(answer: bytes):
    async with answering("t", answer) as provider:
        with pytest.raises(ProviderUnknown):
            await provider.create(order_for(provider))


@asynccontextmanager
async def answering(token: str, answer: bytes = b"") -> AsyncIterator[ZoomProvider]:
    """Zoom on a server that gives out this token, and this answer to all else."""

    async def reply(request: Request) -> Reply:
        if request.segments[0] != "oauth":
            return Reply(201, answer)
        return Reply(200, f'{{"access_token": "{token}", "expires_in": 3600}}'.encode())

    async with zoom_at_hand() as zoom, serving(reply) as port:
        place = f"http://127.0.0.1:{port}"
        access = evolve(access_to(zoom.stand_in), api_url=f"{place}/v2", oauth_url=f"{place}/oauth/token")
        provider = ZoomProvider(access, zoom.log, now=zoom.clock.now)
        try:
            yield provider
        finally:
            await provider.aclose()


async def test_with_a_closed_port_nothing_was_done(zoom: Zoom):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        nowhere = f"http://127.0.0.1:{unused.getsockname()[1]}"
    order = order_for(zoom.provider)
    for access in (
        evolve(access_to(zoom.stand_in), api_url=nowhere),
        evolve(access_to(zoom.stand_in), oauth_url=nowhere),
    ):
        provider = ZoomProvider(access, zoom.log, now=zoom.clock.now)
        calls = (
            provider.create(order), provider.find(order), provider.remove("1"), provider.end("1"),
            provider.set_host_key("host-1", "123456"), provider.files.find("1"),
        )  # fmt: skip
        for call in calls:
            with pytest.raises((ProviderRefused, FilesUnavailable)):
                await call
        await provider.aclose()


# Repeats of what may be repeated


@pytest.mark.parametrize("is_done", [True, False])
@pytest.mark.parametrize("fault", ["hang", "drop", "500", "503"])
async def test_what_may_be_repeated_is(fault: str, is_done: bool):
    async with zoom_at_hand(budget_s=4.0 if fault == "hang" else 20.0) as zoom:
        order = order_for(zoom.provider)
        made = await zoom.provider.create(order)
        name = made.provider_meeting_id

        def plan(call: str) -> None:
            zoom.stand_in.faults.plan(Fault(fault, call, is_done=is_done))

        plan("list")
        assert await zoom.provider.find(order) == (made,)
        plan("get")
        assert await zoom.provider.find(order) == (made,)
        plan("recordings")
        assert await zoom.provider.files.find(name) == ()
        plan("host_key")
        await zoom.provider.set_host_key("host-1", "1234567890")
        assert zoom.stand_in.account.known("host-1").host_key == "1234567890"
        zoom.stand_in.meetings[0].status = "started"
        plan("status")
        await zoom.provider.end(name)
        assert zoom.stand_in.meetings[0].status == "ended"
        zoom.stand_in.meetings[0].status = "waiting"
        plan("delete")
        state = await zoom.provider.remove(name)
        # The first request may have done it unheard; gone it is.
        assert state is (ProviderMeetingState.GONE if is_done else ProviderMeetingState.REMOVED)
        assert zoom.made == []


@pytest.mark.parametrize("fault", ["hang", "drop", "500"])
async def test_what_fails_again_and_again_is_unknown(short_budget: Zoom, fault: str):
    zoom, order = short_budget, order_for(short_budget.provider)
    made = (await zoom.provider.create(order)).provider_meeting_id
    zoom.stand_in.faults.plan(*(Fault(fault, call, times=None) for call in ("list", "delete", "host_key")))
    for call in (
        zoom.provider.find(order), zoom.provider.remove(made), zoom.provider.set_host_key("h", "123456"),
    ):  # fmt: skip
        with pytest.raises(ProviderUnknown):
            await call
    assert zoom.calls("list") <= 3
    assert zoom.calls("delete") <= 3


@pytest.mark.parametrize(
    "later",
    [
        [Fault("rate_daily_account", "delete", times=None)],
        [Fault("token_expired", "delete"), Fault("500", "token", times=None)],
    ],
    ids=["refusal", "no token"],
)
async def test_what_comes_after_a_break_does_not_unmake_the_doubt(zoom: Zoom, later: list[Fault]):
    made = (await zoom.provider.create(order_for(zoom.provider))).provider_meeting_id
    zoom.stand_in.faults.plan(Fault("drop", "delete", is_done=True), *later)
    with pytest.raises(ProviderUnknown):
        await zoom.provider.remove(made)


# Limits


async def test_a_limit_of_a_second_is_waited_for_even_when_making(zoom: Zoom):
    zoom.clock.advance((datetime.now(UTC) - NOW).total_seconds())  # Zoom returns an instant to wait for
    zoom.stand_in.faults.plan(Fault("rate_qps", "create", times=2))
    await zoom.provider.create(order_for(zoom.provider))
    assert (zoom.calls("create"), len(zoom.made)) == (3, 1)


async def test_many_under_a_limit_of_a_second_all_come_through(zoom: Zoom):
    zoom.clock.advance((datetime.now(UTC) - NOW).total_seconds())
    zoom.stand_in.terms.per_second = 20
    with budget_of(zoom, 60.0):  # a busy machine makes fewer in a second
        await asyncio.gather(*(zoom.provider.create(order_for(zoom.provider)) for _ in range(40)))
    assert len(zoom.made) == 40


def answer_of(name: str, **headers: str) -> ZoomResponse:
    expected = refusal(name)
    return ZoomResponse(
        expected.status,
        {**expected.headers, **{key.replace("_", "-"): headers[key] for key in headers}},
        expected.body,
    )


def test_the_three_limits_are_distinguished():
    assert limit_of(answer_of("rate_qps")) is Limit.SECOND
    assert limit_of(answer_of("rate_daily_account")) is Limit.ACCOUNT_DAY
    assert limit_of(answer_of("rate_daily_user")) is Limit.HOST_DAY
    without_headers = refusal("rate_daily_account")
    assert limit_of(ZoomResponse(429, {}, without_headers.body)) is Limit.ACCOUNT_DAY
    assert limit_of(ZoomResponse(429, {}, b"slow down")) is Limit.SECOND
    assert limit_of(ZoomResponse(429, {}, b"")) is Limit.SECOND


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({"Retry-After": "2026-11-24T02:30:02Z"}, 2.0),
        ({"Retry-After": "2026-11-24T09:30:02+07:00"}, 2.0),
        ({"Retry-After": "2026-11-24T02:30:02"}, 2.0),
        ({"Retry-After": "2026-11-25T00:00:00Z"}, 77400.0),
        ({"Retry-After": "2020-01-01T00:00:00Z"}, 0.0),
        ({"Retry-After": format_datetime(NOW + timedelta(seconds=3), usegmt=True)}, 3.0),
        ({"Retry-After": "7"}, 7.0),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "9" * 400}, None),
        ({}, None),
        ({"X-RateLimit-Reset": str(int(NOW.timestamp()) + 1)}, 1.0),
        ({"X-RateLimit-Reset": "0"}, 0.0),
        ({"X-RateLimit-Reset": str(int(NOW.timestamp()) + 3600)}, None),
        ({"X-RateLimit-Reset": "-1"}, None),
        ({"Retry-After": "1", "X-RateLimit-Reset": "0"}, 1.0),
    ],
)
def test_the_wait_is_read_in_every_form(headers: dict[str, str], wait_s: float | None):
    assert retry_after_s(ZoomResponse(429, headers, b""), NOW) == wait_s


def test_the_day_of_a_host_turns_in_utc():
    jakarta = datetime.fromisoformat("2026-11-25T06:59:59+07:00")
    assert next_utc_midnight(jakarta) == datetime(2026, 11, 25, tzinfo=UTC)
    assert next_utc_midnight(datetime(2026, 11, 25, tzinfo=UTC)) == datetime(2026, 11, 26, tzinfo=UTC)


# Secrets


async def test_no_secret_is_in_what_can_be_read(zoom: Zoom):
    order = order_for(zoom.provider)
    access = access_to(zoom.stand_in)
    await zoom.provider.create(order)
    shown = [repr(zoom.provider), repr(access), str(zoom.log.lines)]
    for fault in ("500", "drop", "garbage", *REFUSALS):
        zoom.stand_in.faults.plan(Fault(fault, "create", times=None))
        with pytest.raises((ProviderRefused, ProviderUnknown)) as caught:
            await zoom.provider.create(order)
        zoom.stand_in.faults.clear()
        shown += traceback.format_exception(caught.value)
    everything = "\n".join([*shown, str(zoom.log.lines)])
    assert_contains(everything, absent=(SECRET, "Bearer", "eyJ"))
    assert order.password is not None
    assert order.password not in everything
    for refusal_text in REFUSALS.values():
        assert refusal_text.message[:25] not in everything


@pytest.mark.parametrize("token", ["zürich", "two\\r\\nlines"])
async def test_a_token_that_is_no_header_is_not_shown(token: str):
    async with answering(token) as provider:
        with pytest.raises((ProviderRefused, ProviderUnknown)) as caught:
            await provider.create(order_for(provider))
    assert token[:3] not in "".join(traceback.format_exception(caught.value))


# Settings


def test_what_zoom_needs_is_demanded_by_name():
    Settings().require_provider()
    with pytest.raises(SettingsRefused) as caught:
        Settings(provider="zoom", zoom_client_id="x").require_provider()
    for name in ("MEETCORE_ZOOM_ACCOUNT_ID", "MEETCORE_ZOOM_CLIENT_SECRET"):
        assert name in str(caught.value)
    assert "MEETCORE_ZOOM_CLIENT_ID" not in str(caught.value)


@pytest.mark.parametrize("name", ["zoom_account_id", "zoom_client_id", "zoom_api_url"])
def test_an_impossible_setting_of_zooms_is_refused(name: str):
    values: dict[str, Any] = {name: "two words"}
    with pytest.raises(ValueError, match=f"MEETCORE_{name.upper()} must be"):
        Settings(**values)


@pytest.mark.parametrize(
    ("api_url", "oauth_url"),
    [
        ("https://api.zoom.us/v2", "https://zoom.us/oauth/token"),
        ("https://api.zoomgov.com/v2", "https://zoomgov.com/oauth/token"),
        ("http://127.0.0.1:9/v2", "http://127.0.0.1:9/oauth/token"),
    ],
)
def test_tokens_come_from_the_cloud_of_the_api(api_url: str, oauth_url: str):
    assert zoom_access(Settings(zoom_api_url=api_url)).oauth_url == oauth_url


def test_without_zoom_its_client_is_not_loaded():
    code = "import meetcore.app, sys; sys.exit('meetcore.adapters.zoom' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


async def test_the_log_is_silent_when_all_goes_well(zoom: Zoom):
    order = order_for(zoom.provider)
    made = (await zoom.provider.create(order)).provider_meeting_id
    await zoom.provider.find(order)
    await zoom.provider.files.find(made)
    await zoom.provider.remove(made)
    await zoom.provider.remove(made)
    await zoom.provider.end(made)
    assert zoom.log.lines == []


async def test_a_call_that_is_cut_short_by_its_caller_ends_at_once():
    async with zoom_at_hand(Terms(latency_s=0.2)) as zoom:
        order = order_for(zoom.provider)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await zoom.provider.create(order)
        await zoom.provider.create(order)
