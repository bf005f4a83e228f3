"""The join page: what stands in for the provider's own site while the sandbox is the provider.

Owns three routes, their token and what a click means: the state changes, then the service gets the event that
a provider would send. A repeated click sends it again, as providers do. A request without the token gets the
same 404 as an unknown meeting. The token in the form's address is what keeps a foreign site from pressing the
buttons.
"""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Final, Literal

from attrs import frozen
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from meetcore.adapters.sandbox.join_page import join_page, unknown_page
from meetcore.adapters.sandbox.links import meeting_uuid, provider_meeting_id
from meetcore.adapters.sandbox.provider import SandboxProvider
from meetcore.adapters.sandbox.state import SandboxMeetingState
from meetcore.domain.meetings.meetings import VISIBLE, Meeting, MeetingStatus, shown_status

EventKind = Literal["started", "ended"]
Lookup = Callable[[str], Awaitable[Meeting | None]]
"""Our meeting by its provider meeting id."""
OnEvent = Callable[[EventKind, str], Awaitable[None]]
"""The provider's event into the service: what happened, and the provider meeting id."""

_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    # The address holds the token.
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_OPEN: Final = frozenset({MeetingStatus.SCHEDULED, MeetingStatus.STARTED})


def _utc_now() -> datetime:
    return datetime.now(UTC)


def sandbox_routes(
    provider: SandboxProvider,
    lookup: Lookup,
    on_event: OnEvent,
    *,
    now: Callable[[], datetime] = _utc_now,
) -> list[Route]:
    """Serve the join pages of a sandbox: `GET /sandbox/meetings/{id}?t=`, `POST …/start` and `…/end`.

    Args:
        provider: whose links and state these are.
        lookup: our meeting by its provider meeting id, `None` when there is none.
        on_event: called with `started` or `ended` after the state has changed, again when the button is
            pressed again, and never for a meeting that is over or was cancelled.
    """
    pages = _Pages(provider, lookup, on_event, now)
    path = "/sandbox/meetings/{meeting_id}"
    return [
        Route(path, pages.show, methods=["GET"]),
        Route(f"{path}/start", pages.start, methods=["POST"]),
        Route(f"{path}/end", pages.end, methods=["POST"]),
    ]


@frozen
class _Pages:
    provider: SandboxProvider
    lookup: Lookup
    on_event: OnEvent
    now: Callable[[], datetime]

    async def show(self, request: Request) -> Response:
        meeting = await self._admitted(request)
        if meeting is None:
            return _unknown()
        token = self.provider.links.token(meeting.id)
        page = join_page(meeting, shown_status(meeting, self.now()), token)
        return HTMLResponse(page, headers=_HEADERS)

    async def start(self, request: Request) -> Response:
        return await self._press(request, SandboxMeetingState.STARTED, "started")

    async def end(self, request: Request) -> Response:
        return await self._press(request, SandboxMeetingState.ENDED, "ended")

    async def _press(self, request: Request, to: SandboxMeetingState, kind: EventKind) -> Response:
        meeting = await self._admitted(request)
        if meeting is None:
            return _unknown()
        name = provider_meeting_id(meeting.id)
        if shown_status(meeting, self.now()) in _OPEN:
            await self.provider.state.put(name, to)
            if await self.provider.state.get(name) is to:
                await self.on_event(kind, name)
        # Relative, so that it holds behind a proxy that serves us below a path.
        back = f"../{meeting.id}?t={self.provider.links.token(meeting.id)}"
        return RedirectResponse(back, status_code=303, headers=_HEADERS)

    async def _admitted(self, request: Request) -> Meeting | None:
        """Return the visible meeting of this address, if the token is valid."""
        meeting_id = meeting_uuid(f"sandbox-{request.path_params['meeting_id']}")
        if meeting_id is None:
            return None
        if not self.provider.links.is_token(meeting_id, request.query_params.get("t", "")):
            return None
        meeting = await self.lookup(provider_meeting_id(meeting_id))
        if meeting is None or meeting.id != meeting_id or meeting.status not in VISIBLE:
            return None
        return meeting


def _unknown() -> Response:
    return HTMLResponse(unknown_page(), status_code=404, headers=_HEADERS)
