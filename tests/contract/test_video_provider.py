"""The suite of the video providers on every adapter, and what is the sandbox's own."""

import asyncio
from datetime import UTC, datetime, timedelta, timezone
from types import SimpleNamespace
from uuid import UUID, uuid4

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from meetcore.adapters.postgres.pool import make_pool
from meetcore.adapters.sandbox import (
    SandboxCall,
    SandboxFault,
    SandboxFaults,
    SandboxMeetingState,
    SandboxProvider,
    SandboxState,
)
from meetcore.adapters.sandbox.postgres_state import PostgresSandboxState
from meetcore.adapters.sandbox.provider import meeting_uuid, provider_meeting_id
from meetcore.adapters.sandbox.state import STEPS
from meetcore.domain.meetings.cancellation import ProviderMeetingState
from meetcore.ports.store import StoreUnavailable
from meetcore.ports.video_provider import HostUnavailable, ProviderRefused, ProviderUnknown
from meetcore.testing.contracts.providers import InteractiveProviderContract, VideoProviderContract, order_for
from meetcore.usecases.meetings.bounded_provider import BoundedProvider
from tests.support.sandbox_state import MemorySandboxState, postgres_state

BASE_URL = "http://127.0.0.1:8000"
KEY = bytes(range(32))
STARTED, LEFT, ENDED, REMOVED = SandboxMeetingState


@pytest.fixture(params=["memory", "postgres"])
async def state(request):
    if request.param == "memory":
        yield MemorySandboxState()
    else:
        async with postgres_state(request.getfixturevalue("database_url")) as kept:
            yield kept


# The port


@pytest.mark.spec("1/meetings")
class TestSandboxInMemory(VideoProviderContract):
    knows_the_unmade = False  # it makes its meetings out of nothing

    @pytest.fixture
    def provider(self):
        return SandboxProvider(BASE_URL, MemorySandboxState(), KEY)


@pytest.mark.spec("1/meetings")
class TestSandboxInPostgres(VideoProviderContract):
    knows_the_unmade = False  # it makes its meetings out of nothing

    @pytest.fixture
    async def provider(self, database_url):
        async with postgres_state(database_url) as kept:
            yield SandboxProvider(BASE_URL, kept, KEY)


class SandboxPlay:
    def __init__(self, state: SandboxState) -> None:
        self.state = state

    async def start(self, provider_meeting_id: str) -> None:
        assert await self.state.put(provider_meeting_id, STARTED)

    async def finish(self, provider_meeting_id: str) -> None:
        assert await self.state.put(provider_meeting_id, ENDED)


class TestSandboxInteractive(InteractiveProviderContract):
    @pytest.fixture
    def provider(self, state):
        return SandboxProvider(BASE_URL, state, KEY)

    @pytest.fixture
    def play(self, state):
        return SandboxPlay(state)


# The sandbox


async def test_sandbox_names_and_links_follow_from_the_order():
    provider = SandboxProvider(BASE_URL + "/", MemorySandboxState(), KEY)
    again = SandboxProvider(BASE_URL, MemorySandboxState(), KEY)
    order = order_for(provider)
    made = await provider.create(order)
    assert made == await again.create(order)
    assert made.provider_meeting_id == f"sandbox-{order.meeting_id}"
    link, _, token = made.join_url.partition("?t=")
    assert link == f"{BASE_URL}/sandbox/meetings/{order.meeting_id}"
    assert provider.links.is_token(order.meeting_id, token)
    for wrong in ("", token[:-1], token + "x", token.swapcase(), "é" * 16, "\udc80"):
        assert not provider.links.is_token(order.meeting_id, wrong)
    assert not provider.links.is_token(uuid4(), token)
    other_key = SandboxProvider(BASE_URL, MemorySandboxState(), KEY[::-1])
    assert not other_key.links.is_token(order.meeting_id, token)


async def test_the_sandbox_shows_no_key():
    provider = SandboxProvider(BASE_URL, MemorySandboxState(), b"sixteen bytes of key")
    assert "sixteen" not in repr(provider) + repr(provider.links)
    with pytest.raises(ValueError, match="16 bytes"):
        SandboxProvider(BASE_URL, MemorySandboxState(), b"short")


@pytest.mark.parametrize(
    "name", ["", "sandbox-", "zoom-1", f"sandbox-{{{UUID(int=7)}}}", "sandbox-" + "A" * 32]
)
async def test_a_foreign_name_is_gone_and_leaves_no_trace(name: str):
    state = MemorySandboxState()
    provider = SandboxProvider(BASE_URL, state, KEY)
    assert meeting_uuid(name) is None
    assert await provider.remove(name) is ProviderMeetingState.GONE
    await provider.end(name)
    assert await state.get(name) is None


@given(st.uuids())
def test_a_name_identifies_its_meeting(meeting_id: UUID):
    assert meeting_uuid(provider_meeting_id(meeting_id)) == meeting_id


# Its state


async def test_a_host_has_the_key_that_it_was_given_last(state: SandboxState):
    provider = SandboxProvider(BASE_URL, state, KEY)
    one, other = f"host-{uuid4()}", f"host-{uuid4()}"
    assert await state.host_key(one) is None
    for key in ("000000", "123456", "654321", "654321"):
        await provider.set_host_key(one, key)
        assert await state.host_key(one) == key
    assert await state.host_key(other) is None


@pytest.mark.parametrize(
    "key", ["", "12345", "1234567", "12345a", "12345 ", "\uff11\uff12\uff13\uff14\uff15\uff16", "12345²"]
)
async def test_a_key_that_is_none_is_refused_and_the_host_keeps_its_own(key: str):
    state = MemorySandboxState()
    provider = SandboxProvider(BASE_URL, state, KEY)
    await provider.set_host_key("host-1", "123456")
    with pytest.raises(ProviderRefused):
        await provider.set_host_key("host-1", key)
    assert await state.host_key("host-1") == "123456"


@pytest.mark.parametrize("to", SandboxMeetingState)
@pytest.mark.parametrize("start", [None, *SandboxMeetingState])
async def test_every_step_is_in_the_table_or_changes_nothing(state: SandboxState, start, to):
    name = provider_meeting_id(uuid4())
    if start is LEFT:
        await state.put(name, STARTED)
    if start is not None:
        assert await state.put(name, start)
    is_legal = (start, to) in STEPS
    assert await state.put(name, to) is is_legal
    assert await state.get(name) is (to if is_legal else start)


async def test_each_start_begins_a_session_and_each_leaving_ends_it(state: SandboxState):
    name, alone = provider_meeting_id(uuid4()), provider_meeting_id(uuid4())
    assert await state.sessions(name) == ()
    for to in (STARTED, LEFT, STARTED):
        await state.put(name, to)
    first, second = await state.sessions(name)
    assert (first.id, second.id) == (f"{name}-1", f"{name}-2")
    assert first.ended_at is not None
    assert (first.started_at <= first.ended_at <= second.started_at, second.ended_at) == (True, None)
    await state.put(name, ENDED)
    assert [one.ended_at is None for one in await state.sessions(name)] == [False, False]
    await state.put(alone, ENDED)
    (only,) = await state.sessions(alone)
    assert only.started_at == only.ended_at


async def test_a_session_of_the_past_has_its_instants(state: SandboxState):
    name, start = provider_meeting_id(uuid4()), datetime(2026, 10, 1, 2, 0, tzinfo=UTC)
    await state.put(name, STARTED, start)
    await state.put(name, ENDED, start + timedelta(minutes=40))
    (held,) = await state.sessions(name)
    assert (held.started_at, held.ended_at) == (start, start + timedelta(minutes=40))


async def test_of_a_start_and_a_removal_at_once_one_wins(state: SandboxState):
    for _ in range(10):
        name = provider_meeting_id(uuid4())
        took = await asyncio.gather(*(state.put(name, to) for to in (STARTED, REMOVED) * 4))
        assert sum(took) == 1
        assert await state.get(name) is (STARTED, REMOVED)[took.index(True) % 2]


async def test_a_state_that_is_away_is_an_unknown_outcome(database_url: str):
    pool = make_pool(database_url, min_size=0, max_size=1)  # never opened
    state = PostgresSandboxState(pool)
    with pytest.raises(StoreUnavailable):
        await state.get("sandbox-1")
    provider = SandboxProvider(BASE_URL, state, KEY)
    order = order_for(provider)
    name = (await provider.create(order)).provider_meeting_id
    with pytest.raises(StoreUnavailable):
        await state.host_key("host-1")
    key_is_set = provider.set_host_key("host-1", "123456")
    for call in (provider.find(order), provider.remove(name), provider.end(name), key_is_set):
        with pytest.raises(ProviderUnknown):
            await call


# Its faults


@pytest.mark.parametrize(
    ("title", "error", "is_made"),
    [
        ("Rapat [sandbox:refuse]", ProviderRefused, False),
        ("[sandbox:hang] rapat", ProviderUnknown, False),
        ("[sandbox:late] rapat", ProviderUnknown, True),
        ("[sandbox:timeout] rapat", ProviderUnknown, True),
        ("[sandbox:drop]", ProviderUnknown, True),
        ("[sandbox:lost] [sandbox:drop]", ProviderUnknown, False),
    ],
)
async def test_a_title_asks_for_a_fault(title: str, error: type[Exception], is_made: bool):
    state = MemorySandboxState()
    provider = SandboxProvider(BASE_URL, state, KEY, timeout_s=0)
    order = order_for(provider, title)
    with pytest.raises(error):
        await provider.create(order)
    other_process = SandboxProvider(BASE_URL, state, KEY)  # the reconciler may run in another process
    for each in (provider, other_process):
        assert (await each.find(order) != ()) is is_made


@pytest.mark.parametrize(
    "title", ["[sandbox:]", "[sandbox:nonsense]", "sandbox:refuse", "[SANDBOX:REFUSE]", "[sandbox:full]"]
)
async def test_other_titles_are_titles(title: str):
    provider = SandboxProvider(BASE_URL, MemorySandboxState(), KEY)
    order = order_for(provider, title)
    assert (await provider.create(order),) == await provider.find(order)


async def test_planned_faults_are_met_once_each_in_order():
    faults = SandboxFaults()
    provider = SandboxProvider(BASE_URL, MemorySandboxState(), KEY, faults=faults)
    faults.plan(SandboxCall.CREATE, SandboxFault.REFUSE, SandboxFault.DROP)
    refused, dropped = order_for(provider), order_for(provider)
    with pytest.raises(ProviderRefused):
        await provider.create(refused)
    with pytest.raises(ProviderUnknown):
        await provider.create(dropped)
    assert await provider.find(refused) == ()
    assert await provider.find(dropped) != ()
    made = await provider.create(refused)
    assert await provider.find(refused) == (made,)
    assert await provider.find(evolve(refused, title="Rapat lain")) == (made,)


async def test_calls_about_a_meeting_have_planned_faults_too():
    faults = SandboxFaults()
    state = MemorySandboxState()
    provider = SandboxProvider(BASE_URL, state, KEY, faults=faults)
    order = order_for(provider)
    name = (await provider.create(order)).provider_meeting_id
    faults.plan(SandboxCall.FIND, SandboxFault.REFUSE)
    faults.plan(SandboxCall.REMOVE, SandboxFault.REFUSE, SandboxFault.LOST, SandboxFault.DROP)
    with pytest.raises(ProviderRefused):
        await provider.find(order)
    for error, after in ((ProviderRefused, None), (ProviderUnknown, None), (ProviderUnknown, REMOVED)):
        with pytest.raises(error):
            await provider.remove(name)
        assert await state.get(name) is after
    assert await provider.remove(name) is ProviderMeetingState.GONE


@pytest.mark.parametrize("fault", [SandboxFault.HANG, SandboxFault.LATE])
async def test_a_call_without_an_answer_lasts_until_it_is_cancelled(fault: SandboxFault):
    faults, state = SandboxFaults(), MemorySandboxState()
    provider = SandboxProvider(BASE_URL, state, KEY, faults=faults)
    bounded = BoundedProvider(provider, timeout_s=0.05)
    order = order_for(provider)
    faults.plan(SandboxCall.CREATE, fault)
    with pytest.raises(ProviderUnknown, match="no answer within"):
        await bounded.create(order)
    assert (await provider.find(order) != ()) is fault.does_the_work
    name = provider_meeting_id(order.meeting_id)
    faults.plan(SandboxCall.FIND, fault)
    faults.plan(SandboxCall.SET_HOST_KEY, fault)
    faults.plan(SandboxCall.REMOVE, fault)
    for call in (bounded.find(order), bounded.set_host_key("host-1", "123456"), bounded.remove(name)):
        with pytest.raises(ProviderUnknown, match="no answer within"):
            await call
    assert (await state.host_key("host-1") is not None) is fault.does_the_work
    assert (await state.get(name) is REMOVED) is fault.does_the_work


@pytest.mark.parametrize("fault", SandboxFault)
async def test_a_fault_takes_the_time_that_it_would_take(fault: SandboxFault, slept: list[float]):
    faults = SandboxFaults()
    provider = SandboxProvider(BASE_URL, MemorySandboxState(), KEY, faults=faults, timeout_s=7)
    faults.plan(SandboxCall.CREATE, fault)
    with pytest.raises((ProviderRefused, ProviderUnknown)):
        await provider.create(order_for(provider))
    assert slept == ([7] if fault in (SandboxFault.HANG, SandboxFault.LATE) else [])


JAKARTA = timezone(timedelta(hours=7))


@pytest.mark.parametrize(
    ("now", "until"),
    [
        (datetime(2026, 12, 31, 23, 59, 59, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)),
        (datetime(2027, 1, 1, tzinfo=UTC), datetime(2027, 1, 2, tzinfo=UTC)),
        (datetime(2026, 12, 1, 6, 59, tzinfo=JAKARTA), datetime(2026, 12, 1, tzinfo=UTC)),
    ],
)
async def test_a_full_host_can_take_more_on_the_next_day(now: datetime, until: datetime):
    faults = SandboxFaults()
    provider = SandboxProvider(BASE_URL, MemorySandboxState(), KEY, faults=faults, now=lambda: now)
    faults.plan(SandboxCall.CREATE, SandboxFault.FULL)
    order = order_for(provider)
    with pytest.raises(HostUnavailable) as refused:
        await provider.create(order)
    assert refused.value.until == until
    assert await provider.find(order) == ()
    other_host = evolve(order, provider_user_id="host-2")
    assert (await provider.create(other_host),) == await provider.find(other_host)


@pytest.mark.parametrize("call", [call for call in SandboxCall if call is not SandboxCall.CREATE])
def test_only_the_making_of_a_meeting_meets_a_full_host(call: SandboxCall):
    with pytest.raises(ValueError, match="not of"):
        SandboxFaults().plan(call, SandboxFault.DROP, SandboxFault.FULL)


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What the sandbox would have slept, in seconds, one after another."""
    seconds_slept: list[float] = []

    async def sleep(seconds: float) -> None:
        seconds_slept.append(seconds)

    # Its own name for asyncio: what runs beside this test in its loop would spin without its sleeps.
    monkeypatch.setattr("meetcore.adapters.sandbox.provider.asyncio", SimpleNamespace(sleep=sleep))
    return seconds_slept


async def test_latency_is_spent_on_every_call(slept: list[float]):
    provider = SandboxProvider(BASE_URL, MemorySandboxState(), KEY, 0.25)
    order = order_for(provider)
    name = (await provider.create(order)).provider_meeting_id
    await provider.find(order)
    await provider.remove(name)
    await provider.end(name)
    await provider.set_host_key("host-1", "123456")
    assert slept == [0.25] * 5
