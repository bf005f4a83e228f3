"""Zoom on the suites of the port, over real HTTP, and what its codes and shapes mean for a meeting."""

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from meetcore.adapters.zoom.schemas import meeting_body, reference_of
from meetcore.domain.meetings.cancellation import ProviderMeetingState
from meetcore.domain.meetings.meetings import MeetingOptions
from meetcore.domain.meetings.views import ProviderOrder
from meetcore.domain.notes.recordings import FileKind
from meetcore.ports.recording_files import FilesUnavailable
from meetcore.ports.video_provider import HostUnavailable, HostUnknown, ProviderRefused, ProviderUnknown
from meetcore.testing.contracts.providers import InteractiveProviderContract, VideoProviderContract, order_for
from meetcore.testing.zoom_account import REFUSALS
from meetcore.testing.zoom_server import Fault, Terms, ZoomStandIn
from meetcore.testing.zoom_sessions import StandInMeeting
from tests.support.zoom_adapter import NOW, Zoom, zoom_at_hand


@pytest.fixture
async def zoom():
    async with zoom_at_hand() as at_hand:
        yield at_hand


@pytest.fixture
def provider(zoom: Zoom):
    return zoom.provider


@pytest.fixture
def order(zoom: Zoom) -> ProviderOrder:
    return order_for(zoom.provider)


# The port


@pytest.mark.spec("1/meetings")
class TestZoom(VideoProviderContract):
    makes_one_for_one_order = False  # Zoom has no idempotency key


class ZoomPlay:
    """People at Zoom, whose doings the stand-in's switches bring about."""

    def __init__(self, stand_in: ZoomStandIn) -> None:
        self.account = stand_in.account

    async def start(self, provider_meeting_id: str) -> None:
        self.account.meeting(provider_meeting_id).status = "started"

    async def finish(self, provider_meeting_id: str) -> None:
        self.account.meeting(provider_meeting_id).status = "ended"


class TestZoomInteractive(InteractiveProviderContract):
    @pytest.fixture
    def play(self, zoom: Zoom):
        return ZoomPlay(zoom.stand_in)


# Making


def only(zoom: Zoom) -> StandInMeeting:
    (meeting,) = zoom.stand_in.meetings
    return meeting


async def test_a_request_has_zooms_fields_and_no_others(zoom: Zoom, order: ProviderOrder):
    await zoom.provider.create(evolve(order, start_at=datetime(2026, 12, 1, 2, tzinfo=UTC)))
    (request,) = [each for each in zoom.stand_in.requests if each.call == "create"]
    assert request.json.keys() == {
        "topic", "type", "start_time", "timezone", "duration", "password", "agenda", "settings",
    }  # fmt: skip
    assert request.json["settings"].keys() == {
        "host_video", "participant_video", "join_before_host", "jbh_time", "mute_upon_entry", "waiting_room",
        "meeting_authentication", "approval_type", "audio", "auto_recording", "email_notification", "use_pmi",
    }  # fmt: skip
    assert (request.json["topic"], request.json["type"], request.json["duration"]) == (order.title, 2, 60)
    assert (request.json["start_time"], request.json["timezone"]) == ("2026-12-01T02:00:00Z", "Asia/Jakarta")
    settings = request.json["settings"]
    assert (settings["join_before_host"], settings["jbh_time"], settings["waiting_room"]) == (True, 10, False)
    assert (settings["approval_type"], settings["use_pmi"]) == (2, False)


@pytest.mark.parametrize("flag", ["with_recording", "must_login", "mic_off", "email_notification"])
@pytest.mark.parametrize("is_wished", [True, False])
def test_each_flag_sets_its_own_setting(flag: str, is_wished: bool):
    nothing = ProviderOrder(uuid4(), "h", "t", None, NOW, 30, None, MeetingOptions())
    plain = meeting_body(nothing)["settings"]
    wanted = evolve(nothing, options=MeetingOptions(**{flag: is_wished}))
    wished = meeting_body(wanted)["settings"]
    assert isinstance(plain, dict)
    assert isinstance(wished, dict)
    name, value = {
        "with_recording": ("auto_recording", "cloud"),
        "must_login": ("meeting_authentication", True),
        "mic_off": ("mute_upon_entry", True),
        "email_notification": ("email_notification", True),
    }[flag]
    assert wished == ({**plain, name: value} if is_wished else plain)


def test_a_start_in_another_zone_is_sent_in_utc():
    jakarta = datetime.fromisoformat("2026-12-01T00:30:00+07:00")
    wanted = ProviderOrder(uuid4(), "h", "t", None, jakarta, 30, None, MeetingOptions())
    assert meeting_body(wanted)["start_time"] == "2026-11-30T17:30:00Z"
    assert "password" not in meeting_body(wanted)


async def test_a_hosts_name_is_one_segment_of_the_path_whatever_it_is(zoom: Zoom, order: ProviderOrder):
    for name in ("host 1@example.test", "a/../b?c=d#e", "%2e%2e", "hôte", "a+b@example.test"):
        wanted = evolve(order, meeting_id=uuid4(), provider_user_id=name)
        made = await zoom.provider.create(wanted)
        assert zoom.stand_in.meetings[-1].user.name == name
        assert await zoom.provider.find(wanted) == (made,)
        await zoom.provider.set_host_key(name, "1234567890")
    for no_name in ("", ".", ".."):
        with pytest.raises(ProviderRefused):
            await zoom.provider.create(evolve(order, provider_user_id=no_name))


async def test_a_host_with_a_hundred_today_is_unavailable_until_midnight_in_utc():
    async with zoom_at_hand(Terms(creations_per_user_day=2)) as zoom:
        orders = [order_for(zoom.provider) for _ in range(3)]
        for order in orders[:2]:
            await zoom.provider.create(order)
        with pytest.raises(HostUnavailable) as caught:
            await zoom.provider.create(orders[2])
        assert caught.value.until == datetime(2026, 11, 25, tzinfo=UTC)
        assert zoom.calls("create") == 3  # asking again would not help
        await zoom.provider.create(evolve(orders[2], provider_user_id="host-2"))
        assert len(zoom.made) == 3


async def test_a_day_that_is_full_just_after_midnight_is_the_one_before(zoom: Zoom, order: ProviderOrder):
    zoom.clock.set(datetime(2026, 11, 25, 0, 0, 30, tzinfo=UTC))
    zoom.stand_in.faults.plan(Fault("rate_daily_user", "create"))
    with pytest.raises(HostUnavailable) as caught:
        await zoom.provider.create(order)
    assert caught.value.until == datetime(2026, 11, 25, tzinfo=UTC)


@pytest.mark.parametrize(("turn", "code"), [({"exists": False}, 1001), ({"type": 1}, 3161)])
async def test_a_host_that_zoom_refuses_is_unavailable_for_an_hour(zoom: Zoom, order, turn, code: int):
    user = zoom.stand_in.account.known("host-1")
    for name, value in turn.items():
        setattr(user, name, value)
    with pytest.raises(HostUnavailable) as caught:
        await zoom.provider.create(order)
    assert caught.value.until == NOW + timedelta(hours=1)
    (logged,) = zoom.log.lines
    assert (logged[1]["code"], logged[1]["host"]) == (code, "host-1")
    assert zoom.made == []


# Finding


async def test_a_text_longer_than_a_list_shows_hides_nothing(zoom: Zoom, order: ProviderOrder):
    for length in (249, 250, 1000):
        wanted = evolve(order, meeting_id=uuid4(), description="ラ" * length)
        made = await zoom.provider.create(wanted)
        assert await zoom.provider.find(wanted) == (made,)


@given(st.uuids(), st.none() | st.text(max_size=3000), st.uuids())
def test_the_reference_is_read_from_any_agenda(meeting_id: UUID, description: str | None, other: UUID):
    for text in (description, f"{description}\nRef: {other}", f"Ref: {other}"):
        order = ProviderOrder(meeting_id, "h", "t", text, NOW, 30, None, MeetingOptions())
        agenda = str(meeting_body(order)["agenda"])
        assert len(agenda) <= 2000
        for kept in (agenda, agenda + "\n", agenda.replace("\n", "\r\n"), " ".join(agenda.split("\n"))):
            assert reference_of(kept) == meeting_id


@pytest.mark.parametrize("agenda", ["", "Rapat", "Ref: ", f"Ref: {UUID(int=7)} lain", f"XRef: {UUID(int=7)}"])
def test_other_agendas_name_nothing(agenda: str):
    assert reference_of(agenda) is None


async def test_one_whose_title_was_changed_at_zoom_and_that_runs_is_found(zoom: Zoom, order: ProviderOrder):
    made = await zoom.provider.create(order)
    only(zoom).fields["topic"] = "Rapat  tim (baru)"
    for status in ("waiting", "started", "ended"):
        only(zoom).status = status
        assert await zoom.provider.find(order) == (made,)


async def test_it_is_found_on_a_later_page_and_among_many_at_the_same_time():
    async with zoom_at_hand(Terms(max_page_size=2)) as zoom:
        wanted = order_for(zoom.provider)
        made = await zoom.provider.create(wanted)
        for _ in range(6):
            await zoom.provider.create(order_for(zoom.provider))
        assert await zoom.provider.find(wanted) == (made,)
        assert zoom.calls("list") == 4
        assert await zoom.provider.find(evolve(wanted, meeting_id=uuid4())) == ()
        at_another_time = evolve(wanted, meeting_id=uuid4(), start_at=wanted.start_at + timedelta(hours=1))
        looked_at = zoom.calls("get")
        assert await zoom.provider.find(at_another_time) == ()
        assert zoom.calls("get") == looked_at


async def test_of_a_host_that_is_gone_nothing_is_found(zoom: Zoom, order: ProviderOrder):
    await zoom.provider.create(order)
    zoom.stand_in.account.known("host-1").exists = False
    assert await zoom.provider.find(order) == ()


async def test_a_host_that_is_gone_has_no_list_which_is_not_an_empty_one(zoom: Zoom):
    assert await zoom.provider.list_host("host-1") == ()
    zoom.stand_in.account.known("host-1").exists = False
    with pytest.raises(HostUnknown, match="host-1") as refused:
        await zoom.provider.list_host("host-1")
    assert refused.value.code == "host_unknown"


async def test_a_candidate_that_is_removed_meanwhile_is_none(zoom: Zoom, order: ProviderOrder):
    await zoom.provider.create(order)
    zoom.stand_in.faults.plan(Fault("meeting_not_found", "get"))
    assert await zoom.provider.find(order) == ()


# Removing and ending


async def test_a_foreign_name_is_gone_without_a_request(zoom: Zoom):
    for name in ("", "sandbox-1", "../users", "85746065432/status", "٣"):
        assert await zoom.provider.remove(name) is ProviderMeetingState.GONE
        await zoom.provider.end(name)
        assert await zoom.provider.files.find(name) == ()
    assert zoom.stand_in.counts.total() == 0


async def test_removing_sends_no_reminder(zoom: Zoom, order: ProviderOrder):
    await zoom.provider.remove((await zoom.provider.create(order)).provider_meeting_id)
    assert zoom.stand_in.requests[-1].query == {"schedule_for_reminder": "false"}


async def test_a_meeting_whose_host_zoom_no_longer_has_is_gone(zoom: Zoom, order: ProviderOrder):
    name = (await zoom.provider.create(order)).provider_meeting_id
    zoom.stand_in.faults.plan(*(Fault("user_not_found", call) for call in ("delete", "get", "status")))
    assert await zoom.provider.remove(name) is ProviderMeetingState.GONE
    assert await zoom.provider.read(name) is None
    await zoom.provider.end(name)


async def test_a_meeting_without_participants_is_already_ended(zoom: Zoom, order: ProviderOrder):
    made = await zoom.provider.create(order)
    await zoom.provider.end(made.provider_meeting_id)
    assert only(zoom).status == "waiting"


async def test_one_that_zoom_does_not_end_may_still_run(zoom: Zoom, order: ProviderOrder):
    made = await zoom.provider.create(order)
    only(zoom).status = "started"
    zoom.stand_in.faults.plan(Fault("validation", "status"))
    with pytest.raises(ProviderRefused):
        await zoom.provider.end(made.provider_meeting_id)
    await zoom.provider.end(made.provider_meeting_id)
    assert only(zoom).status == "ended"


# Host keys


async def test_a_host_key_is_the_hosts(zoom: Zoom):
    await zoom.provider.set_host_key("host-1", "0012345678")
    await zoom.provider.set_host_key("host-2", "9999999999")
    assert zoom.stand_in.account.known("host-1").host_key == "0012345678"
    with pytest.raises(ProviderRefused):
        await zoom.provider.set_host_key("host-1", "12345")
    assert zoom.stand_in.account.known("host-1").host_key == "0012345678"


# Recordings


FIRST = (datetime(2026, 11, 24, 2, 4, tzinfo=UTC), datetime(2026, 11, 24, 2, 40, 30, tzinfo=UTC))
SECOND = (datetime(2026, 11, 24, 2, 50, tzinfo=UTC), datetime(2026, 11, 24, 3, 20, 10, tzinfo=UTC))


async def test_the_files_of_every_segment_that_are_ready(zoom: Zoom, order: ProviderOrder):
    made = await zoom.provider.create(order)
    assert await zoom.provider.files.find(made.provider_meeting_id) == ()
    for name, kind, times in (
        ("a1", "MP4", FIRST), ("a2", "M4A", FIRST), ("b1", "MP4", SECOND), ("a3", "TRANSCRIPT", FIRST),
        ("a4", "CHAT", FIRST), ("a5", "TIMELINE", FIRST), ("c1", "MP4", SECOND),
    ):  # fmt: skip
        zoom.stand_in.record(only(zoom), name, kind, b"content", *times)
    unfinished = only(zoom).recording_files[-1]
    unfinished["status"] = "processing"
    del unfinished["recording_end"]
    files = await zoom.provider.files.find(made.provider_meeting_id)
    assert [(each.provider_file_id, each.kind) for each in files] == [
        ("a1", FileKind.VIDEO), ("a2", FileKind.AUDIO), ("b1", FileKind.VIDEO),
        ("a3", FileKind.TRANSCRIPT), ("a4", FileKind.OTHER), ("a5", FileKind.OTHER),
    ]  # fmt: skip
    assert {(each.starts_at, each.ends_at) for each in files} == {FIRST, SECOND}
    assert (files[0].starts_at, files[0].ends_at) == FIRST
    assert files[0].size_bytes == len(b"content")
    assert files[0].url == f"{zoom.stand_in.url}/rec/download/a1"
    assert files[0].url not in repr(files)


async def test_times_that_cannot_be_read_are_not_guessed(zoom: Zoom, order: ProviderOrder):
    made = await zoom.provider.create(order)
    zoom.stand_in.record(only(zoom), "a1", "MP4", b"content", *FIRST)
    only(zoom).recording_files[0]["recording_end"] = "soon"
    with pytest.raises(FilesUnavailable):
        await zoom.provider.files.find(made.provider_meeting_id)


# Refusals

CALLS = ("create", "list", "get", "delete", "status", "host_key", "recordings")
# What is no refusal of the call that meets it, and is covered above.
HAS_A_MEANING = {
    "create": {"user_not_found", "not_licensed_to_schedule", "rate_daily_user"},
    "list": {"user_not_found"},
    "get": {"meeting_not_found", "user_not_found"},
    "delete": {"meeting_not_found", "user_not_found", "delete_in_progress", "delete_ended"},
    "status": {"meeting_not_found", "user_not_found", "delete_ended"},
    "host_key": set(),
    "recordings": {"meeting_not_found", "user_not_found", "no_recording"},
}


async def ask(zoom: Zoom, call: str, order: ProviderOrder, made: str) -> None:
    match call:
        case "create":
            await zoom.provider.create(order)
        case "list" | "get":
            await zoom.provider.find(order)
        case "delete":
            await zoom.provider.remove(made)
        case "status":
            await zoom.provider.end(made)
        case "host_key":
            await zoom.provider.set_host_key("host-1", "1234567890")
        case _:
            await zoom.provider.files.find(made)


@pytest.mark.parametrize("call", CALLS)
async def test_every_refusal_is_one_and_changes_nothing(call: str):
    async with zoom_at_hand(budget_s=0.9) as zoom:
        order = order_for(zoom.provider)
        made = (await zoom.provider.create(order)).provider_meeting_id
        only(zoom).status = "waiting" if call == "delete" else "started"
        before = [(each.number, each.status) for each in zoom.stand_in.meetings]
        for name in REFUSALS.keys() - HAS_A_MEANING[call]:
            zoom.stand_in.faults.plan(Fault(name, call, times=None))
            with pytest.raises((ProviderRefused, FilesUnavailable)) as caught:
                await ask(zoom, call, order, made)
            zoom.stand_in.faults.clear()
            assert not isinstance(caught.value, HostUnavailable), name
            text = REFUSALS[name]
            assert f"{text.status}" in str(caught.value)
            assert text.message.partition("{")[0] not in str(caught.value)
            assert zoom.log.lines[-1][1]["code"] == text.code, name
            assert [(each.number, each.status) for each in zoom.stand_in.meetings] == before, name


async def test_a_page_that_goes_on_for_ever_is_given_up(zoom: Zoom, order: ProviderOrder):
    for _ in range(50):
        zoom.stand_in.account.create("host-1", meeting_body(evolve(order, meeting_id=uuid4())))
    zoom.stand_in.terms.max_page_size = 1
    with pytest.raises(ProviderUnknown):
        await zoom.provider.find(evolve(order, meeting_id=uuid4(), start_at=NOW))
    assert zoom.calls("list") == 40


# Many at once


async def test_two_hundred_creations_are_in_flight_at_the_same_time():
    # The budget of a call is not what is tested: on a busy machine two hundred take longer.
    async with zoom_at_hand(Terms(latency_s=2.0, creations_per_user_day=400), budget_s=60.0) as zoom:
        for times in (1, 2):  # the second time most connections are there already
            orders = [order_for(zoom.provider) for _ in range(200)]
            made = await asyncio.gather(*(zoom.provider.create(order) for order in orders))
            assert {each.provider_meeting_id for each in made} <= set(zoom.made)
            assert len(zoom.made) == 200 * times
        assert zoom.stand_in.most_in_flight == 200
        assert zoom.calls("token") == 1
