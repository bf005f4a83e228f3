"""Zoom as a `VideoProvider`.

=============================  =====================================================================
refusal                        meaning
=============================  =====================================================================
1001, 3161 on create           host missing or without licence: unavailable for an hour
429 of a host's day            unavailable until 00:00 UTC
3001, 1001 on a meeting        no such meeting: Zoom deletes a user's meetings with the user
3002, 3007 on remove           running; ended
any other                      refused; status and code are logged
=============================  =====================================================================

Zoom has no idempotency key, so `create` sends once; after an unknown outcome the caller uses `find`.
"""

import string
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from meetcore.adapters.zoom import recording_files, schemas
from meetcore.adapters.zoom.calls import BUDGET_S, ZoomAccess, ZoomCalls, is_number, segment
from meetcore.domain.meetings.cancellation import ProviderMeetingState
from meetcore.domain.meetings.hosts import PasswordRule
from meetcore.domain.meetings.meetings import ProviderAbilities, Provisioned
from meetcore.domain.meetings.views import FoundMeeting, ListedMeeting, ProviderOrder
from meetcore.ports.observability import NO_TRACING, Log, Tracing
from meetcore.ports.video_provider import HostUnavailable, HostUnknown, ProviderRefused, ProviderUnknown

_ABILITIES: Final = ProviderAbilities(
    name="zoom",
    password=PasswordRule(alphabet=string.ascii_letters + string.digits + "@-_*"),
    creations_per_host_day=100,
    host_key_digits=10,
    leaves_orphans=True,  # no idempotency key, and abandoned requests may still be executed
    lists_meetings=True,
)
_NO_USER: Final = 1001
_NO_MEETING: Final = 3001
_IN_PROGRESS: Final = 3002
_ENDED: Final = 3007
_NO_LICENCE: Final = 3161

_GONE: Final = (_NO_MEETING, _NO_USER)

_PAGE_SIZE: Final = 300
# Pages of unexpired meetings: a hundred a day for thirty days past, and as many to come.
_MAX_PAGES: Final = 40
_NOT_RUNNING: Final = ("waiting", "finished")
_HOST_PAUSE: Final = timedelta(hours=1)
_CLOCKS_DIFFER_BY: Final = timedelta(minutes=1)


class ZoomProvider:
    """Creates meetings for the licensed users of one account, with `budget_s` seconds for a call."""

    def __init__(
        self,
        access: ZoomAccess,
        log: Log,
        *,
        now: Callable[[], datetime],
        budget_s: float = BUDGET_S,
        tracing: Tracing = NO_TRACING,
    ) -> None:
        self._access = access
        self._calls = ZoomCalls(access, log, now, budget_s, tracing)
        self._files = recording_files.ZoomRecordingFiles(access, self._calls, log)
        self._log = log
        self._now = now

    def __repr__(self) -> str:
        return f"<ZoomProvider at {self._access.api_url}>"

    @property
    def abilities(self) -> ProviderAbilities:
        """Everything; a hundred meetings a day per host."""
        return _ABILITIES

    @property
    def files(self) -> recording_files.ZoomRecordingFiles:
        """The recording files of the account, over the same token."""
        return self._files

    async def create(self, order: ProviderOrder) -> Provisioned:
        """Create a meeting. Not idempotent."""
        response = await self._calls.ask(
            "POST",
            f"/users/{segment(order.provider_user_id)}/meetings",
            body=schemas.meeting_body(order),
            can_repeat=False,
        )
        if not response.is_done:
            raise self._refusal_of_host(response, order.provider_user_id)
        return schemas.provisioned(response, order.password)

    async def find(self, order: ProviderOrder) -> tuple[Provisioned, ...]:
        try:
            listed = await self._listed(order.provider_user_id)
        except HostUnknown:
            return ()  # Zoom deletes a user's meetings with the user
        return await self._among(listed, order)

    async def list_host(self, provider_user_id: str) -> tuple[ListedMeeting, ...]:
        return schemas.listed_meetings(await self._listed(provider_user_id))

    async def read(self, provider_meeting_id: str) -> FoundMeeting | None:
        made = await self._meeting(provider_meeting_id) if is_number(provider_meeting_id) else None
        return None if made is None else schemas.found_meeting(made)

    async def remove(self, provider_meeting_id: str) -> ProviderMeetingState:
        if not is_number(provider_meeting_id):
            return ProviderMeetingState.GONE
        response = await self._calls.ask(
            "DELETE", f"/meetings/{provider_meeting_id}", params={"schedule_for_reminder": "false"}
        )
        if response.is_done:
            return ProviderMeetingState.REMOVED
        if response.code in _GONE:
            return ProviderMeetingState.GONE
        if response.code == _IN_PROGRESS:
            return ProviderMeetingState.IN_PROGRESS
        if response.code == _ENDED:
            return ProviderMeetingState.OVER
        raise self._refusal("remove", response)

    async def end(self, provider_meeting_id: str) -> None:
        if not is_number(provider_meeting_id):
            return
        response = await self._calls.ask(
            "PUT", f"/meetings/{provider_meeting_id}/status", body={"action": "end"}
        )
        if response.is_done or response.code in (*_GONE, _ENDED):
            return
        # Zoom does not document its error for a meeting that is not running, so read the meeting.
        made = await self._meeting(provider_meeting_id)
        if made is not None and made.status not in _NOT_RUNNING:
            raise self._refusal("end", response)

    async def set_host_key(self, provider_user_id: str, host_key: str) -> None:
        response = await self._calls.ask(
            "PATCH", f"/users/{segment(provider_user_id)}", body={"host_key": host_key}
        )
        if not response.is_done:
            raise self._refusal("set_host_key", response, host=provider_user_id)

    async def aclose(self) -> None:
        await self._files.aclose()
        await self._calls.aclose()

    async def _listed(self, provider_user_id: str) -> list[schemas.Listed]:
        token, listed = "", list[schemas.Listed]()
        for _ in range(_MAX_PAGES):
            page = await self._page(provider_user_id, token)
            listed += page.meetings
            if not page.next_page_token:
                return listed
            token = page.next_page_token
        raise ProviderUnknown(f"zoom: more than {_MAX_PAGES} pages of meetings of one host")

    async def _page(self, provider_user_id: str, token: str) -> schemas.MeetingPage:
        params = {"type": "scheduled", "page_size": str(_PAGE_SIZE)}  # past and running ones included
        if token:
            params["next_page_token"] = token
        response = await self._calls.ask("GET", f"/users/{segment(provider_user_id)}/meetings", params=params)
        if response.is_done:
            return schemas.decoded(response, schemas.MeetingPage)
        if response.code == _NO_USER:
            raise HostUnknown(f"zoom: no user {provider_user_id}")
        raise self._refusal("find", response, host=provider_user_id)

    async def _among(self, listed: list[schemas.Listed], order: ProviderOrder) -> tuple[Provisioned, ...]:
        """Return the order's meetings of a host; lists shorten agendas, so each is read whole."""
        # A page may repeat meetings that moved while the pages were read.
        candidates = {
            schemas.text_of(each.id): each for each in listed if schemas.is_at(each, order.start_at)
        }
        found = []
        for number in sorted(candidates, key=lambda number: (candidates[number].created_at, number)):
            made = await self._meeting(number)
            if made is not None and schemas.reference_of(made.agenda) == order.meeting_id:
                found.append(schemas.of_meeting(made, order.password))
        return tuple(found)

    async def _meeting(self, provider_meeting_id: str) -> schemas.Made | None:
        response = await self._calls.ask("GET", f"/meetings/{segment(provider_meeting_id)}")
        if response.is_done:
            return schemas.decoded(response, schemas.Made)
        if response.code in _GONE:
            return None
        raise self._refusal("get", response)

    def _refusal_of_host(self, response: schemas.ZoomResponse, host: str) -> ProviderRefused:
        refusal = self._refusal("create", response, host=host)
        if response.status == 429 and schemas.limit_of(response) is schemas.Limit.HOST_DAY:
            # Just after midnight the full day is the one before: of a slow answer, or by a clock ahead.
            return HostUnavailable(str(refusal), schemas.next_utc_midnight(self._now() - _CLOCKS_DIFFER_BY))
        if response.code in (_NO_USER, _NO_LICENCE):
            return HostUnavailable(str(refusal), self._now() + _HOST_PAUSE)
        return refusal

    def _refusal(self, call: str, response: schemas.ZoomResponse, **about: str) -> ProviderRefused:
        """Return the error for a refusal; raise `ProviderUnknown` where an earlier attempt may have come."""
        self._log.warning("zoom_refused", call=call, status=response.status, code=response.code, **about)
        text = f"zoom: {call} answered {response.status}, code {response.code}"
        if response.is_after_doubt:
            raise ProviderUnknown(text)
        return ProviderRefused(text, f"status_{response.status}")
