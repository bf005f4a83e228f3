"""The sandbox's join page, requested as a browser does, and the events of its buttons."""

import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from urllib.parse import urljoin
from uuid import UUID, uuid4

import httpx
import pytest
from attrs import define, evolve, field
from starlette.applications import Starlette
from starlette.routing import Mount

from meetcore.adapters.sandbox import SandboxMeetingState, SandboxProvider
from meetcore.adapters.sandbox.pages import join_page, sandbox_routes
from meetcore.adapters.sandbox.provider import provider_meeting_id
from meetcore.adapters.sandbox.state import MAX_SESSIONS
from meetcore.domain.meetings.meetings import VISIBLE, Meeting, MeetingOptions, MeetingStatus
from meetcore.domain.meetings.provider_events import ProviderEvent
from tests.support.sandbox_state import MemorySandboxState
from tests.support.texts import assert_contains

KEY = bytes(range(32))
START = datetime(2026, 12, 1, 16, 30, tzinfo=UTC)
BEFORE, DURING, AFTER = (START + timedelta(minutes=minutes) for minutes in (-10, 10, 100))
HOSTILE = """<script>alert(1)</script> "it's" & {0} {title}"""
MEETING = Meeting(
    id=UUID("01890a5d-ac96-774b-bcce-b302099a8057"),
    account_id=UUID(int=1),
    api_key_id=UUID(int=2),
    status=MeetingStatus.SCHEDULED,
    title="Rapat tim",
    description=None,
    start_at=START,
    end_at=START + timedelta(minutes=60),
    duration=60,
    capacity=100,
    pricing_tier_id="standard-100",
    credits=10,
    options=MeetingOptions(with_recording=True),
    host_id=UUID(int=3),
    provider="sandbox",
    created_at=START - timedelta(days=1),
    password="pAss-word1",
)


@define
class Service:
    """Everything behind the page; `events` is what it received."""

    meeting: Meeting | None = MEETING
    now: datetime = BEFORE
    is_failing: bool = False
    has_dashboard: bool = True
    events: list[tuple[str, str, str]] = field(factory=list)
    state: MemorySandboxState = field(factory=MemorySandboxState)

    async def lookup(self, name: str) -> Meeting | None:
        meeting = self.meeting
        return meeting if meeting and name == provider_meeting_id(meeting.id) else None

    async def on_event(self, event: ProviderEvent) -> None:
        if self.is_failing:
            raise ConnectionError("the service is away")
        assert event.session is not None
        self.events.append((event.kind.value, event.provider_meeting_id, event.session.id))

    @property
    def provider(self) -> SandboxProvider:
        return SandboxProvider("http://test", self.state, KEY)

    def browser(self, prefix: str = "") -> httpx.AsyncClient:
        routes = sandbox_routes(
            self.provider, self.lookup, self.on_event, now=lambda: self.now, has_dashboard=self.has_dashboard
        )
        app = Starlette(routes=[Mount(prefix, routes=routes)] if prefix else routes)
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        return httpx.AsyncClient(transport=transport, base_url="http://test")

    @property
    def url(self) -> str:
        return self.provider.links.join_url(MEETING.id)

    def press(self, button: str) -> str:
        return self.url.replace("?", f"/{button}?")

    async def page(self) -> str:
        async with self.browser() as browser:
            answer = await browser.get(self.url)
        assert answer.status_code == 200
        return answer.text


NAME = provider_meeting_id(MEETING.id)
BEGUN = ("meeting_started", NAME, f"{NAME}-1")


async def test_the_page_shows_title_time_status_and_a_hint_at_the_password():
    page = await Service().page()
    assert_contains(
        page,
        "<h1>Rapat tim</h1>",
        "Tuesday, 1 December 2026",
        "23:30 &ndash; Wed 2 Dec, 00:30 WIB",
        "Scheduled",
        "begins with “p”, 10 characters",
        absent=("pAss-word1",),
    )


async def test_the_page_is_in_the_language_of_the_browser():
    service = Service()
    async with service.browser() as browser:
        browser.headers["Accept-Language"] = "id-ID,id;q=0.9,en;q=0.8"
        page = (await browser.get(service.url)).text
        lost = (await browser.get("/sandbox/meetings/x")).text
    assert_contains(
        page, '<html lang="id">', "Rapat sandbox", "Terjadwal", "Selasa, 1 Desember 2026",
        "23.30 &ndash; Rab 2 Des, 00.30 WIB", "Mulai rapat", "diawali “p”, 10 karakter",
        "Rapat ini di dasbor",
        absent=("Start meeting", "meeting can", "Recording"),
    )  # fmt: skip
    assert_contains(lost, '<html lang="id">', "Tautan ini tidak membuka rapat apa pun")


async def test_a_meeting_without_password_seats_or_recording_is_shown():
    page = await Service(
        meeting=evolve(MEETING, password=None, capacity=None, options=MeetingOptions())
    ).page()  # fmt: skip
    assert_contains(page, "none needed", "not limited", "<dd>off</dd>")


async def test_everything_from_outside_is_escaped():
    meeting = evolve(MEETING, title=HOSTILE, description=HOSTILE + "\nsecond", password="<b>&amp;<i>")
    page = await Service(meeting=meeting).page()
    assert_contains(page, absent=("<script", "<b>"))
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt; &quot;it&#x27;s&quot; &amp; {0} {title}") == 3


async def test_the_page_is_closed_to_scripts_frames_and_caches():
    async with Service().browser() as browser:
        answers = [await browser.get(Service().url), await browser.get("/sandbox/meetings/x")]
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; form-action 'self'")
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        for outside in ("src=", "url(", "@import", "<script"):
            assert outside not in answer.text
    links = [re.findall('href="([^"]*)"', answer.text) for answer in answers]
    assert links == [[f"../../dashboard/meetings/{MEETING.id}"], []], "nothing that its own address has not"


def disabled(page: str) -> list[bool]:
    return [f"{word}</button>" in page and f" disabled>{word}" in page for word in BUTTONS]


BUTTONS = ("Start meeting", "Leave", "End meeting")


@pytest.mark.parametrize(
    ("status", "now", "word", "are_disabled"),
    [
        (MeetingStatus.SCHEDULED, BEFORE, "Scheduled", [False, True, True]),
        (MeetingStatus.CANCELLING, BEFORE, "Scheduled", [False, True, True]),
        (MeetingStatus.SCHEDULED, DURING, "In its time, room empty", [False, True, False]),
        (MeetingStatus.STARTED, BEFORE, "In progress, room in use", [True, False, False]),
        (MeetingStatus.STARTED, AFTER, "Ended", [True, True, True]),
        (MeetingStatus.ENDED, DURING, "Ended", [True, True, True]),
        (MeetingStatus.CANCELLED, BEFORE, "Cancelled", [True, True, True]),
    ],
)
async def test_status_and_buttons_go_together(status, now, word, are_disabled):
    page = await Service(meeting=evolve(MEETING, status=status), now=now).page()
    assert f">{word}</span>" in page
    assert disabled(page) == are_disabled


@pytest.mark.parametrize(
    ("empty_for_s", "text"), [(600, "10 minutes"), (60, "60 seconds"), (90, "90 seconds")]
)
async def test_the_page_says_after_how_long_an_empty_meeting_is_closed(empty_for_s: int, text: str):
    for status in (MeetingStatus.SCHEDULED, MeetingStatus.STARTED):
        page = join_page(MEETING, status, "t", timedelta(seconds=empty_for_s))
        assert f"empty for {text} (MEETCORE_MEETING_EMPTY_FOR_S)" in page


async def test_the_buttons_notify_the_service_and_redirect_to_the_page():
    service = Service()
    async with service.browser() as browser:
        assert (await browser.get(service.press("start"))).status_code == 405
        for button in ("start", "leave", "start", "end"):
            answer = await browser.post(service.press(button))
            assert answer.status_code == 303
            assert urljoin(service.press(button), answer.headers["location"]) == service.url
    assert service.events == [
        ("meeting_started", NAME, f"{NAME}-1"),
        ("meeting_ended", NAME, f"{NAME}-1"),
        ("meeting_started", NAME, f"{NAME}-2"),
        ("meeting_closed", NAME, f"{NAME}-2"),
    ]
    assert await service.state.get(NAME) is SandboxMeetingState.ENDED


async def test_only_so_many_sessions_of_a_meeting_can_be_started():
    service = Service()
    async with service.browser() as browser:
        for _ in range(MAX_SESSIONS + 2):
            await browser.post(service.press("start"))
            await browser.post(service.press("leave"))
    assert [kind for kind, *_ in service.events].count("meeting_started") == MAX_SESSIONS


async def test_forms_redirects_and_the_link_to_the_dashboard_hold_below_a_path():
    service = Service()
    url = service.url.replace("http://test/", "http://test/below/")
    async with service.browser("/below") as browser:
        page = (await browser.get(url)).text
        link = page.partition('href="')[2].partition('"')[0]
        assert urljoin(url, link) == f"http://test/below/dashboard/meetings/{MEETING.id}"
        action = page.partition('action="')[2].partition('"')[0]
        answer = await browser.post(urljoin(url, action), follow_redirects=True)
    assert answer.status_code == 200
    assert str(answer.url) == url
    assert service.events == [BEGUN]
    assert "href=" not in await Service(has_dashboard=False).page()


async def test_pressing_again_notifies_again_so_that_a_lost_event_is_replaced():
    service = Service(is_failing=True)
    async with service.browser() as browser:
        assert (await browser.post(service.press("start"))).status_code == 500
        service.is_failing = False
        assert (await browser.post(service.press("start"))).status_code == 303
        assert (await browser.post(service.press("start"))).status_code == 303
    assert service.events == [BEGUN] * 2


@pytest.mark.parametrize("moved", [SandboxMeetingState.ENDED, SandboxMeetingState.REMOVED])
async def test_a_meeting_that_is_over_at_the_provider_does_not_start(moved):
    service = Service()
    await service.state.put(NAME, moved)
    async with service.browser() as browser:
        assert (await browser.post(service.press("start"))).status_code == 303
    assert service.events == []


@pytest.mark.parametrize("status", [MeetingStatus.ENDED, MeetingStatus.CANCELLED])
@pytest.mark.parametrize("button", ["start", "leave", "end"])
async def test_a_meeting_that_is_over_for_us_takes_no_event(status, button):
    service = Service(meeting=evolve(MEETING, status=status))
    async with service.browser() as browser:
        assert (await browser.post(service.press(button))).status_code == 303
    assert service.events == []
    assert await service.state.get(NAME) is None


def other_token(url: str) -> str:
    return url.partition("?")[0] + "?t=" + Service().provider.links.token(uuid4())


BAD_URLS: list[Callable[[str], str]] = [
    lambda url: url.partition("?")[0],
    lambda url: url + "x",
    lambda url: url[:-1],
    other_token,
    lambda url: url.replace(str(MEETING.id), str(MEETING.id).upper()),
    lambda url: url.replace(str(MEETING.id), MEETING.id.hex),
    lambda url: url.replace(str(MEETING.id), "no-id"),
]


@pytest.mark.parametrize("alter", BAD_URLS)
@pytest.mark.parametrize("button", ["", "start", "leave", "end"])
async def test_without_the_token_there_is_no_meeting(alter: Callable[[str], str], button: str):
    service = Service()
    url = alter(service.url)
    if button:
        path, mark, query = url.partition("?")
        url = f"{path}/{button}{mark}{query}"
    async with service.browser() as browser:
        send: Callable[[str], Awaitable[httpx.Response]] = browser.post if button else browser.get
        answer = await send(url)
    assert answer.status_code == 404
    assert "opens no meeting" in answer.text
    assert service.events == []
    assert await service.state.get(NAME) is None


@pytest.mark.parametrize(
    "meeting", [None, *(evolve(MEETING, status=s) for s in MeetingStatus if s not in VISIBLE)]
)
async def test_an_unknown_or_invisible_meeting_looks_like_a_bad_token(meeting: Meeting | None):
    service = Service(meeting=meeting)
    async with service.browser() as browser:
        unknown = await browser.get(service.url)
        bad_token = await browser.get(service.url + "x")
        pressed = await browser.post(service.press("start"))
    assert (unknown.status_code, pressed.status_code) == (404, 404)
    assert unknown.content == bad_token.content == pressed.content
    assert service.events == []
