"""The operations on meetings (spec 4.1)."""

from datetime import datetime

from meetcore.adapters.api import answers, bodies, examples
from meetcore.adapters.api.operation import ITS_ID, Operation, OperationRequest, UseCases, path_id
from meetcore.adapters.api.paging import Listing, MeetingList, instant, one_of, render_list
from meetcore.domain.errors import NotFound
from meetcore.domain.fields import record_of
from meetcore.domain.ids import parse_id
from meetcore.domain.meetings import schedule, views
from meetcore.domain.meetings.meetings import VISIBLE, MeetingRequest, MeetingStatus
from meetcore.domain.records import meetings as records
from meetcore.domain.records.meetings import meeting_record
from meetcore.domain.requests import keys, rate_window
from meetcore.ports.queries import NO_INCLUDES, CallerIncludes
from meetcore.usecases.requests.idempotency import Outcome
from meetcore.usecases.requests.missing_records import missing

_READERS = (keys.Scope.MEETINGS_READ, keys.Scope.MEETINGS_WRITE)
_SHOWN = (MeetingStatus.SCHEDULED, MeetingStatus.STARTED, MeetingStatus.ENDED, MeetingStatus.CANCELLED)


def _todays_state(_: dict[str, str], now: datetime) -> CallerIncludes:
    return CallerIncludes(state_on=schedule.cap_day(now))


@Operation(
    method="POST",
    path="/meetings",
    scopes=(keys.Scope.MEETINGS_WRITE,),
    rate_class=rate_window.OperationClass.CREDIT,
    includes=_todays_state,
    body=bodies.CreateMeetingBody,
    record=records.Meeting,
    success=201,
    refusals=(
        "not_found",
        "unprocessable_entity",
        "insufficient_credits",
        "credit_cap_exceeded",
        "upstream_error",
    ),
    links={"get_meeting": ITS_ID, "cancel_meeting": ITS_ID},
    reaches_out=True,
    summary="Create a meeting and deduct its credits",
    about="The price is the tier's `credits`, plus its `recording_credits` when the meeting is recorded; "
    "it is deducted at once, and only when the meeting exists. `auto_notulen` forces recording on; its notes "
    "are charged later, by the begun minute of the recording, and fail where the credits or the key's cap do not allow them "
    "then. Date and time are read in WIB (UTC+7). When no host is free in the time range the answer is 503 with "
    "`Retry-After`: choose another time or try again.",
    for_agents="Use it to book an online meeting, after list_pricing_tiers and estimate_credits. Share "
    "join_url with the participants. auto_notulen forces recording on; its notes are charged later, "
    "by the begun minute of the recording, and fail where the credits are short then. When no host is free at that time it "
    "refuses with service_unavailable: choose another time or wait.",
    requests={
        "plain": {
            "title": "Rapat mingguan",
            "date": "2026-12-01",
            "start_time": "09:00",
            "pricing_tier_id": "standard-100",
        },
        "with_notes": {
            "title": "Rapat mingguan",
            "date": "2026-12-01",
            "start_time": "09:00",
            "pricing_tier_id": "standard-100",
            "description": "Agenda:\n1. Anggaran\n2. Jadwal",
            "auto_notulen": True,
            "mic_off": True,
        },
    },
    example=examples.MEETING,
)
async def create_meeting(use: UseCases, request: OperationRequest) -> Outcome:
    """Rules 4.1/scope and 4.1/4."""
    wanted = record_of(MeetingRequest, request.body)
    return await use.create_meeting(request.caller, wanted, request.required_key, request.now)


@Operation(
    method="GET",
    path="/meetings",
    scopes=_READERS,
    listing=Listing(
        {
            "status": one_of({status.value: status for status in _SHOWN}, "Only meetings that stand so now."),
            "from": instant("Only meetings that start then or later."),
            "to": instant("Only meetings that start before."),
        },
        ranges=[("from", "to")],
    ),
    record=MeetingList,
    summary="List the meetings, the newest first",
    about="What is in creation is not listed.",
    for_agents="Use it to find meetings by status or time, and to check whether a booking is already there.",
    example=examples.page_of(examples.MEETING),
)
async def list_meetings(use: UseCases, request: OperationRequest) -> answers.ApiResponse:
    page, given = request.page, request.page.filters
    wanted = views.MeetingFilter(request.now, given.get("status"), given.get("from"), given.get("to"))
    found = await use.lists.since(request.caller.version).list_meetings(
        request.account_id, wanted, page.limit + 1, page.before
    )
    return render_list(found, page, lambda one: one.id, lambda one: meeting_record(one, request.now))


def _meeting_of_path(path: dict[str, str], _: datetime) -> CallerIncludes:
    try:
        return CallerIncludes(meeting_id=parse_id(path["id"], "meeting"))
    except NotFound:  # reported later: the key is checked first
        return NO_INCLUDES


@Operation(
    method="GET",
    path="/meetings/{id}",
    scopes=_READERS,
    includes=_meeting_of_path,
    record=records.Meeting,
    refusals=("gone",),
    summary="Read a meeting",
    about="A meeting is there once it is `scheduled`.",
    for_agents="Use it to read one meeting: its status, join link and password.",
    example=examples.MEETING,
)
async def get_meeting(use: UseCases, request: OperationRequest) -> answers.ApiResponse:
    meeting = request.caller.load_meeting()
    if meeting is None or meeting.status not in VISIBLE:
        meeting_id = parse_id(request.path["id"], "meeting")
        raise await missing(use.queries, request.account_id, meeting_id, "meeting")
    return answers.render_record(200, meeting_record(meeting, request.now))


@Operation(
    method="DELETE",
    path="/meetings/{id}",
    scopes=(keys.Scope.MEETINGS_WRITE,),
    record=records.Cancellation,
    refusals=("conflict", "gone", "upstream_error"),
    reaches_out=True,
    summary="Cancel a meeting, or end one that runs",
    about="Before its start it is cancelled and its credits are returned, once. While it runs it is ended, "
    "and nothing is returned. Cancelling again gives the same answer; one that has ended is 409.",
    for_agents="Use it to call a meeting off. Before its start the credits come back; while it runs it is "
    "ended for all participants and nothing is refunded. Cannot be undone.",
    example={"id": examples.MEETING["id"], "status": "cancelled", "credits_refunded": 15},
)
async def cancel_meeting(use: UseCases, request: OperationRequest) -> Outcome:
    """Rule 1/op/meeting-delete."""
    return await use.cancel_meeting(request.caller, path_id(request), request.required_key, request.now)
