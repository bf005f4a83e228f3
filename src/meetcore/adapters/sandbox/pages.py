"""The join page of the sandbox, in place of a provider's site.

A click changes the state, then sends the event that a provider would send; a repeated click sends it again.
"Start" begins a session and "Leave" ends it, any number of times, also before the meeting's time. "End" ends
the meeting for good, whenever its time is. A request without the token gets the 404 of an unknown meeting;
the token in the form's address also prevents CSRF.
"""

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from html import escape
from typing import Final

from attrs import frozen
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from meetcore.adapters.sandbox.page_shell import HEADERS, page_language, render_page, template
from meetcore.adapters.sandbox.provider import SandboxProvider, meeting_uuid, provider_meeting_id
from meetcore.adapters.sandbox.state import MAX_SESSIONS, SandboxMeetingState
from meetcore.domain.meetings.meetings import VISIBLE, Meeting, MeetingStatus, shown_status
from meetcore.domain.meetings.provider_events import ProviderEvent, ProviderEventKind
from meetcore.domain.meetings.schedule import WIB
from meetcore.domain.meetings.sessions import DEFAULT_EMPTY_FOR, Session
from meetcore.domain.notes.notes import Language

Lookup = Callable[[str], Awaitable[Meeting | None]]
"""Returns our meeting by its provider meeting id."""
OnEvent = Callable[[ProviderEvent], Awaitable[None]]
"""Passes an event to the service."""

_OPEN: Final = frozenset({MeetingStatus.SCHEDULED, MeetingStatus.STARTED})


def sandbox_routes(
    provider: SandboxProvider,
    lookup: Lookup,
    on_event: OnEvent,
    *,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    empty_for: timedelta = DEFAULT_EMPTY_FOR,
    has_dashboard: bool = False,
) -> list[Route]:
    """Serve the join pages: `GET /sandbox/meetings/{id}?t=`, `POST …/start`, `…/leave` and `…/end`.

    `on_event` is called after the state changed and at each repeated click, but not for ended or cancelled
    meetings. The page says after how long the service ends an empty meeting: `empty_for`. Where the service
    `has_dashboard`, the page leads to the meeting's page there, by the id that its own address has.
    """
    pages = _Pages(provider, lookup, on_event, now, empty_for, has_dashboard)
    path = "/sandbox/meetings/{meeting_id}"
    return [
        Route(path, pages.show, methods=["GET"]),
        Route(f"{path}/start", pages.start, methods=["POST"]),
        Route(f"{path}/leave", pages.leave, methods=["POST"]),
        Route(f"{path}/end", pages.end, methods=["POST"]),
    ]


@frozen
class _Pages:
    provider: SandboxProvider
    lookup: Lookup
    on_event: OnEvent
    now: Callable[[], datetime]
    empty_for: timedelta
    has_dashboard: bool

    async def show(self, request: Request) -> Response:
        meeting = await self._admitted(request)
        if meeting is None:
            return _unknown(request)
        token = self.provider.links.token(meeting.id)
        status = shown_status(meeting, self.now())
        page = join_page(
            meeting, status, token, self.empty_for, page_language(request), has_dashboard=self.has_dashboard
        )
        return HTMLResponse(page, headers=HEADERS)

    async def start(self, request: Request) -> Response:
        return await self._press(request, SandboxMeetingState.STARTED, ProviderEventKind.MEETING_STARTED)

    async def leave(self, request: Request) -> Response:
        return await self._press(request, SandboxMeetingState.LEFT, ProviderEventKind.MEETING_ENDED)

    async def end(self, request: Request) -> Response:
        return await self._press(request, SandboxMeetingState.ENDED, ProviderEventKind.MEETING_CLOSED)

    async def _press(self, request: Request, to: SandboxMeetingState, kind: ProviderEventKind) -> Response:
        meeting = await self._admitted(request)
        if meeting is None:
            return _unknown(request)
        name = provider_meeting_id(meeting.id)
        if shown_status(meeting, self.now()) in _OPEN:
            await self._change(name, to, kind)
        # Relative, for a proxy that serves the application below a path.
        back = f"../{meeting.id}?t={self.provider.links.token(meeting.id)}"
        return RedirectResponse(back, status_code=303, headers=HEADERS)

    async def _change(self, name: str, to: SandboxMeetingState, kind: ProviderEventKind) -> None:
        state = self.provider.state
        if to is not SandboxMeetingState.STARTED or len(await state.sessions(name)) < MAX_SESSIONS:
            await state.put(name, to)
        if await state.get(name) is not to:
            return
        latest = (await state.sessions(name))[-1]
        session = Session(latest.id, latest.started_at, latest.ended_at)
        await self.on_event(
            ProviderEvent(self.provider.abilities.name, kind, name, self.now(), session=session)
        )

    async def _admitted(self, request: Request) -> Meeting | None:
        """Return the visible meeting of a valid link."""
        meeting_id = meeting_uuid(f"sandbox-{request.path_params['meeting_id']}")
        if meeting_id is None:
            return None
        if not self.provider.links.is_token(meeting_id, request.query_params.get("t", "")):
            return None
        meeting = await self.lookup(provider_meeting_id(meeting_id))
        if meeting is None or meeting.id != meeting_id or meeting.status not in VISIBLE:
            return None
        return meeting


def _unknown(request: Request) -> Response:
    return HTMLResponse(unknown_page(page_language(request)), status_code=404, headers=HEADERS)


_TEXTS: Final[Mapping[Language, Mapping[str, str]]] = {
    Language.ENGLISH: {
        "kind": "Sandbox meeting", "when_label": "When", "password_label": "Password",
        "seats_label": "Seats", "recording_label": "Recording",
        "start_label": "Start meeting", "leave_label": "Leave", "end_label": "End meeting",
        "unlimited": "not limited", "on": "on", "off": "off", "no_password": "none needed",
        "password_hint": "begins with “{first}”, {length} characters",
        "seconds": "{} seconds", "minutes": "{} minutes",
        "in_dashboard": "This meeting in the dashboard", "for_members": ", for members of its account.",
        "scheduled": "Scheduled", "started": "In progress, room in use", "ended": "Ended",
        "cancelled": "Cancelled", "empty": "In its time, room empty",
        "note": "No one meets here: the buttons report to the service what a video provider would. After "
        "“Leave” the meeting can be entered again; “End meeting” ends it for good. A meeting that was "
        "entered in its time is closed when the room has been empty for {empty_for} "
        "(MEETCORE_MEETING_EMPTY_FOR_S), any other at its end.",
        "note_ended": "This meeting is over. Its buttons have no effect any more.",
        "note_cancelled": "This meeting was cancelled. It cannot be started any more.",
        "unknown_title": "No such meeting", "unknown": "This link opens no meeting",
        "use_whole_link": "It may be cut short or belong to another installation. Use the whole join link, "
        "with everything after the question mark.",
    },
    Language.INDONESIAN: {
        "kind": "Rapat sandbox", "when_label": "Waktu", "password_label": "Kata sandi",
        "seats_label": "Kursi", "recording_label": "Rekaman",
        "start_label": "Mulai rapat", "leave_label": "Keluar", "end_label": "Akhiri rapat",
        "unlimited": "tidak dibatasi", "on": "ya", "off": "tidak", "no_password": "tidak perlu",
        "password_hint": "diawali “{first}”, {length} karakter",
        "seconds": "{} detik", "minutes": "{} menit",
        "in_dashboard": "Rapat ini di dasbor", "for_members": ", untuk anggota akunnya.",
        "scheduled": "Terjadwal", "started": "Berlangsung, ruang terisi", "ended": "Selesai",
        "cancelled": "Dibatalkan", "empty": "Sudah waktunya, ruang kosong",
        "note": "Tidak ada yang benar-benar rapat di sini: tombol-tombol ini melaporkan kepada layanan apa "
        "yang akan dilaporkan penyedia video. Setelah “Keluar”, rapat dapat dimasuki lagi; “Akhiri rapat” "
        "mengakhirinya untuk seterusnya. Rapat yang dimasuki pada waktunya ditutup setelah ruang kosong "
        "selama {empty_for} (MEETCORE_MEETING_EMPTY_FOR_S), yang lain pada waktu selesainya.",
        "note_ended": "Rapat ini sudah selesai. Tombol-tombolnya tidak berpengaruh lagi.",
        "note_cancelled": "Rapat ini dibatalkan dan tidak dapat dimulai lagi.",
        "unknown_title": "Rapat tidak ditemukan", "unknown": "Tautan ini tidak membuka rapat apa pun",
        "use_whole_link": "Tautan mungkin terpotong atau milik instalasi lain. Gunakan seluruh tautan, "
        "dengan semua yang ada setelah tanda tanya.",
    },
}  # fmt: skip
"""The texts of the page; the states have the names of `MeetingStatus`."""
_DAYS: Final = ("Senin", "Selasa", "Rabu", "Kamis", "Jumat", "Sabtu", "Minggu")
_MONTHS: Final = (
    "Januari", "Februari", "Maret", "April", "Mei", "Juni", "Juli", "Agustus", "September", "Oktober",
    "November", "Desember",
)  # fmt: skip


def join_page(
    meeting: Meeting, status: MeetingStatus, token: str, empty_for: timedelta = DEFAULT_EMPTY_FOR,
    language: Language = Language.ENGLISH, *, has_dashboard: bool = False,
) -> str:  # fmt: skip
    """Render the page of a visible meeting. `status` is the one shown to customers."""
    # The stored status: a meeting that started only by the clock is empty, and still needs its event.
    is_entered = status in _OPEN and meeting.status is MeetingStatus.STARTED
    style = "empty" if status is MeetingStatus.STARTED and not is_entered else status.value
    texts = _TEXTS[language]
    note = texts["note" if status in _OPEN else f"note_{status.value}"]
    content = template("meeting.html").format(
        **texts,
        id=meeting.id,
        token=escape(token),
        title=escape(meeting.title),
        status=style,
        word=texts[style],
        description=f'<p class="about">{escape(meeting.description)}</p>' if meeting.description else "",
        when=_when(meeting, language),
        password=_password_hint(meeting.password, texts),
        seats=meeting.capacity or texts["unlimited"],
        recording=texts["on" if meeting.options.with_recording else "off"],
        start=_button(status in _OPEN and not is_entered, is_next=True),
        leave=_button(is_entered, is_next=False),
        end=_button(status is MeetingStatus.STARTED, is_next=is_entered),
        note_text=note.format(empty_for=_length(empty_for, texts)),
        dashboard=template("dashboard_link.html").format(id=meeting.id, **texts) if has_dashboard else "",
    )
    return render_page(f"{escape(meeting.title)} · {texts[style]}", content, language.value)


def unknown_page(language: Language) -> str:
    """Render the page for an invalid link."""
    texts = _TEXTS[language]
    content = template("unknown.html").format(
        kind=texts["kind"], title=texts["unknown"], text=texts["use_whole_link"]
    )
    return render_page(texts["unknown_title"], content, language.value)


def _button(is_enabled: bool, *, is_next: bool) -> str:
    if not is_enabled:
        return " disabled"
    return ' class="first"' if is_next else ""


def _length(time: timedelta, texts: Mapping[str, str]) -> str:
    minutes, seconds = divmod(int(time.total_seconds()), 60)
    if seconds or minutes == 1:
        return texts["seconds"].format(minutes * 60 + seconds)
    return texts["minutes"].format(minutes)


def _when(meeting: Meeting, language: Language) -> str:
    start, end = meeting.start_at.astimezone(WIB), meeting.end_at.astimezone(WIB)
    is_one_day = start.date() == end.date()
    if language is Language.ENGLISH:
        end_day = "" if is_one_day else f"{end:%a} {end.day} {end:%b}, "
        return f"{start:%A}, {start.day} {start:%B %Y}<br>{start:%H:%M} &ndash; {end_day}{end:%H:%M} WIB"
    end_day = "" if is_one_day else f"{_DAYS[end.weekday()][:3]} {end.day} {_MONTHS[end.month - 1][:3]}, "
    day = f"{_DAYS[start.weekday()]}, {start.day} {_MONTHS[start.month - 1]} {start.year}"
    return f"{day}<br>{start:%H.%M} &ndash; {end_day}{end:%H.%M} WIB"


def _password_hint(password: str | None, texts: Mapping[str, str]) -> str:
    """Return enough of a password to recognise it, too little to learn it."""
    if not password:
        return texts["no_password"]
    dots = "•" * (len(password) - 1)
    hint = texts["password_hint"].format(first=escape(password[0]), length=len(password))
    return f'<span class="hint" aria-hidden="true">{escape(password[0])}{dots}</span> <small>{hint}</small>'
