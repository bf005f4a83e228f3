"""Jitsi on the video providers' suite, and its own: unguessable rooms, addresses Jitsi can read."""

import json
import re
import socket
from typing import Any
from urllib.parse import unquote, urlsplit
from uuid import UUID

import pytest
from attrs import evolve
from hypothesis import example, given
from hypothesis import strategies as st

from meetcore.adapters.jitsi import JitsiProvider, JitsiRooms
from meetcore.domain.errors import Unprocessable
from meetcore.domain.meetings.cancellation import ProviderMeetingState
from meetcore.domain.meetings.meetings import MeetingOptions, MeetingRequest, plan_meeting
from meetcore.domain.money.pricing import DEFAULT_TIERS
from meetcore.testing.contracts.providers import VideoProviderContract, order_for

URL = "https://meet.example.com"
KEY = bytes(range(32))
MEETING = UUID("01890a5d-ac96-774b-bcce-b302099a8057")
ROOM = re.compile("[a-z2-7]{4}(-[a-z2-7]{4}){5}")


@pytest.mark.spec("1/meetings")
class TestJitsi(VideoProviderContract):
    knows_the_unmade = False  # a room follows from its order alone
    knows_the_removed = False  # and nothing is kept of it

    @pytest.fixture
    def provider(self) -> JitsiProvider:
        return JitsiProvider(URL, KEY)


def options_of(url: str) -> dict[str, Any]:
    """What Jitsi reads behind the `#`: each value decoded, its quotes made plain, then parsed as JSON."""
    options = {}
    for part in urlsplit(url).fragment.split("&"):
        name, value = part.split("=")
        text = unquote(value, errors="strict").replace("\\&", "&", 1)
        text = re.sub("[\u2018\u2019]", "'", re.sub("[\u201c\u201d]", '"', text))
        options[name] = json.loads(text)
    return options


# Rooms


def test_a_room_is_the_same_in_every_process_and_release():
    assert JitsiRooms(URL, KEY).name(MEETING) == "etfa-utec-6n3u-kuqk-ttcc-pub5"


@given(st.uuids(), st.uuids(), st.binary(min_size=16, max_size=64), st.binary(min_size=16, max_size=64))
def test_a_room_is_a_meetings_own_and_its_keys(one: UUID, other: UUID, key: bytes, another: bytes):
    name = JitsiRooms(URL, key).name(one)
    assert ROOM.fullmatch(name)
    assert name == JitsiRooms("http://elsewhere.example", key).name(one)
    assert (name == JitsiRooms(URL, key).name(other)) is (one == other)
    assert (name == JitsiRooms(URL, another).name(one)) is _are_one_key(key, another)


def _are_one_key(one: bytes, other: bytes) -> bool:
    return one.ljust(64, b"\0") == other.ljust(64, b"\0")  # HMAC fills short keys up with zeros


def test_the_rooms_of_successive_meetings_reveal_nothing_of_each_other():
    rooms = JitsiRooms(URL, KEY)
    names = [rooms.name(UUID(int=MEETING.int + n)).replace("-", "") for n in range(2000)]
    assert len(set(names)) == len(names)
    for place in range(24):
        drawn = {name[place] for name in names}
        assert len(drawn) == 32, "every letter and digit, in every place"


def test_the_key_is_not_shown_and_not_short():
    provider = JitsiProvider(URL, b"sixteen bytes of key")
    assert "sixteen" not in repr(provider)
    with pytest.raises(ValueError, match="16 bytes"):
        JitsiProvider(URL, b"short")


# Addresses


@pytest.mark.parametrize(
    "url",
    [
        "https://meet.jit.si",
        "http://127.0.0.1:8443",
        "https://example.com/meet",
        "https://example.com:444/a/b",
    ],
)
@pytest.mark.parametrize("slash", ["", "/"])
async def test_port_and_path_of_the_server_are_kept(url: str, slash: str):
    provider = JitsiProvider(url + slash, KEY)
    made = await provider.create(order_for(provider))
    address, _, _ = made.join_url.partition("#")
    assert address == f"{url}/{made.provider_meeting_id}"


@given(st.text(min_size=1, max_size=200))
@example("\u201cRapat\u201d \u2018tim\u2019")
@example('a "b" \\& c & d \\u0026')
@example("<b>#&=?%41+ /会議 🎉")
@example('"__proto__":')
def test_whatever_the_title_it_is_read_as_it_was_written(title: str):
    url = JitsiRooms(URL, KEY).join_url(MEETING, title, mic_off=False)
    assert options_of(url) == {"config.subject": title}
    assert re.fullmatch(r"[A-Za-z0-9:/._#=%~-]+", url), "nothing that a mail or a chat would cut the link at"


async def test_microphones_are_off_at_first_where_requested():
    provider = JitsiProvider(URL, KEY)
    order = order_for(provider)
    muted = await provider.create(evolve(order, options=MeetingOptions(mic_off=True)))
    open_ = await provider.create(evolve(order, options=MeetingOptions()))
    assert options_of(muted.join_url)["config.startWithAudioMuted"] is True
    assert "config.startWithAudioMuted" not in options_of(open_.join_url)
    assert muted.provider_meeting_id == open_.provider_meeting_id


# What it does not do


async def test_the_network_is_never_used(monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the network was asked")

    provider = JitsiProvider(URL, KEY)
    order = order_for(provider)
    for name in ("socket", "create_connection", "getaddrinfo"):
        monkeypatch.setattr(socket, name, refuse)
    made = await provider.create(order)
    assert await provider.find(order) == (made,)
    await provider.end(made.provider_meeting_id)
    assert await provider.remove(made.provider_meeting_id) is ProviderMeetingState.REMOVED


@pytest.mark.spec("7/422")
@pytest.mark.parametrize(
    ("wanted", "word"),
    [
        ({"options": MeetingOptions(with_recording=True)}, "records no meetings"),
        ({"options": MeetingOptions(auto_notulen=True)}, "records no meetings"),
        ({"password": "rahasia1"}, "takes no password"),
        ({"options": MeetingOptions(must_login=True)}, "has no logins"),
        ({"options": MeetingOptions(email_notification=True)}, "sends no mail"),
    ],
)
def test_what_it_cannot_do_is_refused_before_anything_is_made(wanted: dict[str, Any], word: str):
    now = order_for(JitsiProvider(URL, KEY)).start_at
    request = MeetingRequest(
        "Rapat", "2026-12-02", "09:00", "standard-100", None, None, MeetingOptions(mic_off=True)
    )
    abilities = JitsiProvider(URL, KEY).abilities
    assert plan_meeting(request, DEFAULT_TIERS, abilities, now).request == request
    with pytest.raises(Unprocessable, match=f"jitsi {word}"):
        plan_meeting(evolve(request, **wanted), DEFAULT_TIERS, abilities, now)
