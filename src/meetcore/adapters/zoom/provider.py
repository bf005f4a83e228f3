"""Zoom as a `VideoProvider`.

Owns what a code of Zoom means for a meeting:

=============================  =====================================================================
refusal                        means here
=============================  =====================================================================
1001, 3161 when making         the host is missing or has no licence: unavailable for an hour
429 of a host's day            unavailable until 00:00 UTC
3001                           there is no such meeting
3002, 3007 when removing       it runs; it has ended
any other                      refused; an operator finds status and code in the log
=============================  =====================================================================

Zoom has no idempotency key, so `create` sends once; a caller that does not know whether the request
arrived uses `find`.
"""

import string
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from meetcore.adapters.zoom.access import Log, ZoomAccess
from meetcore.adapters.zoom.answers import (
    Listed,
    Made,
    MeetingPage,
    decoded,
    found_meeting,
    is_at,
    listed_meetings,
    of_meeting,
    provisioned,
    text_of,
)
from meetcore.adapters.zoom.calls import BUDGET_S, ZoomCalls, segment
from meetcore.adapters.zoom.http import HttpResponse
from meetcore.adapters.zoom.limits import Limit, limit_of, next_utc_midnight
from meetcore.adapters.zoom.orders import meeting_body, reference_of
from meetcore.adapters.zoom.recording_files import ZoomRecordingFiles
from meetcore.domain.meetings.cancellation import ProviderMeetingState
from meetcore.domain.meetings.meetings import ProviderAbilities, Provisioned
from meetcore.domain.meetings.passwords import PasswordRule
from meetcore.ports.tracing import NO_TRACING, Tracing
from meetcore.ports.video_provider import (
    FoundMeeting,
    HostUnavailable,
    HostUnknown,
    ListedMeeting,
    ProviderOrder,
    ProviderRefused,
    ProviderUnknown,
)

_ABILITIES: Final = ProviderAbilities(
    name="zoom",
    password=PasswordRule(alphabet=string.ascii_letters + string.digits + "@-_*"),
    creations_per_host_day=100,
    host_key_digits=10,
    leaves_orphans=True,  # it has no idempotency key, and may work on a request that was given up
    keeps_memos=True,  # in the agenda
)
_NO_USER: Final = 1001
_NO_MEETING: Final = 3001
_IN_PROGRESS: Final = 3002
_ENDED: Final = 3007
_NO_LICENCE: Final = 3161

_PAGE_SIZE: Final = 300
# A host's unexpired meetings: a hundred a day for thirty days past, and as many to come.
_MAX_PAGES: Final = 40
_NOT_RUNNING: Final = ("waiting", "finished")
_HOST_PAUSE: Final = timedelta(hours=1)


class ZoomProvider:
    """Makes meetings on the licensed users of one account.

    Args:
        budget_s: seconds for one call with all its repeats; less than the 10 s that bound every provider.
        tracing: gives the trace that calls continue.
    """

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
        self._files = ZoomRecordingFiles(access, self._calls, log)
        self._log = log
        self._now = now

    def __repr__(self) -> str:
        return f"<ZoomProvider at {self._access.api_url}>"

    @property
    def abilities(self) -> ProviderAbilities:
        """Everything; a hundred meetings a day for each host."""
        return _ABILITIES

    @property
    def files(self) -> ZoomRecordingFiles:
        """The files of this account's recordings, known to Zoom by the same token."""
        return self._files

    async def create(self, order: ProviderOrder) -> Provisioned:
        """Make a meeting. Asked twice, it makes two.

        Raises:
            HostUnavailable: the host has made its hundred today, is missing, or has no licence.
            ProviderRefused: it was not made.
            ProviderUnknown: it may have been made.
        """
        response = await self._calls.ask(
            "POST",
            f"/users/{segment(order.provider_user_id)}/meetings",
            body=meeting_body(order),
            can_repeat=False,
        )
        if not response.is_done:
            raise self._refusal_of_host(response, order.provider_user_id)
        return provisioned(response, order.password)

    async def find(self, order: ProviderOrder) -> tuple[Provisioned, ...]:
        """Every meeting of the order's host whose agenda names this order, the first made first.

        Raises:
            ProviderRefused, ProviderUnknown: the outcome is not known.
        """
        try:
            listed = await self._listed(order.provider_user_id)
        except HostUnknown:
            return ()  # and with the user went its meetings
        return await self._among(listed, order)

    async def list_host(self, provider_user_id: str) -> tuple[ListedMeeting, ...]:
        return listed_meetings(await self._listed(provider_user_id))

    async def read(self, provider_meeting_id: str) -> FoundMeeting | None:
        made = await self._meeting(provider_meeting_id) if _is_number(provider_meeting_id) else None
        return None if made is None else found_meeting(made)

    async def remove(self, provider_meeting_id: str) -> ProviderMeetingState:
        if not _is_number(provider_meeting_id):
            return ProviderMeetingState.GONE
        response = await self._calls.ask(
            "DELETE", f"/meetings/{provider_meeting_id}", params={"schedule_for_reminder": "false"}
        )
        if response.is_done:
            return ProviderMeetingState.REMOVED
        if response.code == _NO_MEETING:
            return ProviderMeetingState.GONE
        if response.code == _IN_PROGRESS:
            return ProviderMeetingState.IN_PROGRESS
        if response.code == _ENDED:
            return ProviderMeetingState.OVER
        raise self._refusal("remove", response)

    async def end(self, provider_meeting_id: str) -> None:
        if not _is_number(provider_meeting_id):
            return
        response = await self._calls.ask(
            "PUT", f"/meetings/{provider_meeting_id}/status", body={"action": "end"}
        )
        if response.is_done or response.code in (_NO_MEETING, _ENDED):
            return
        # What Zoom says of one that does not run is written nowhere, so the meeting itself is asked.
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
        """Close the connections."""
        await self._files.aclose()
        await self._calls.aclose()

    async def _listed(self, provider_user_id: str) -> list[Listed]:
        token, listed = "", list[Listed]()
        for _ in range(_MAX_PAGES):
            page = await self._page(provider_user_id, token)
            listed += page.meetings
            if not page.next_page_token:
                return listed
            token = page.next_page_token
        raise ProviderUnknown(f"zoom: a host with more than {_MAX_PAGES} pages of meetings")

    async def _page(self, provider_user_id: str, token: str) -> MeetingPage:
        params = {"type": "scheduled", "page_size": str(_PAGE_SIZE)}  # the past ones and the running too
        if token:
            params["next_page_token"] = token
        response = await self._calls.ask("GET", f"/users/{segment(provider_user_id)}/meetings", params=params)
        if response.is_done:
            return decoded(response, MeetingPage)
        if response.code == _NO_USER:
            raise HostUnknown(f"zoom: no user {provider_user_id}")
        raise self._refusal("find", response, host=provider_user_id)

    async def _among(self, listed: list[Listed], order: ProviderOrder) -> tuple[Provisioned, ...]:
        """The order's meetings among its host's; a list shortens agendas, so each is read whole."""
        # A page may repeat what moved while the pages were read.
        candidates = {text_of(each.id): each for each in listed if is_at(each, order.start_at)}
        found = []
        for number in sorted(candidates, key=lambda number: (candidates[number].created_at, number)):
            made = await self._meeting(number)
            if made is not None and reference_of(made.agenda) == order.meeting_id:
                found.append(of_meeting(made, order.password))
        return tuple(found)

    async def _meeting(self, provider_meeting_id: str) -> Made | None:
        response = await self._calls.ask("GET", f"/meetings/{segment(provider_meeting_id)}")
        if response.is_done:
            return decoded(response, Made)
        if response.code == _NO_MEETING:
            return None
        raise self._refusal("get", response)

    def _refusal_of_host(self, response: HttpResponse, host: str) -> ProviderRefused:
        refusal = self._refusal("create", response, host=host)
        if response.status == 429 and limit_of(response) is Limit.HOST_DAY:
            return HostUnavailable(str(refusal), next_utc_midnight(self._now()))
        if response.code in (_NO_USER, _NO_LICENCE):
            return HostUnavailable(str(refusal), self._now() + _HOST_PAUSE)
        return refusal

    def _refusal(self, call: str, response: HttpResponse, **about: str) -> ProviderRefused:
        """What a refusal is raised as.

        Raises:
            ProviderUnknown: it followed a try whose outcome is unknown.
        """
        self._log.warning("zoom_refused", call=call, status=response.status, code=response.code, **about)
        text = f"zoom: {call} answered {response.status}, code {response.code}"
        if response.is_after_doubt:
            raise ProviderUnknown(text)
        return ProviderRefused(text, f"status_{response.status}")


def _is_number(provider_meeting_id: str) -> bool:
    """Whether it can be a meeting of Zoom's; another provider's is not there."""
    return provider_meeting_id.isascii() and provider_meeting_id.isdigit()
