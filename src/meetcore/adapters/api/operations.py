"""The operations of the API as one table, for routing and for OpenAPI.

Owns how a request becomes a use case's command and how its outcome becomes a record. Authenticating, counting
and decoding happen before a handler runs.
"""

from collections.abc import Sequence
from datetime import datetime

from attrs import frozen
from msgspec import UNSET

from meetcore.adapters.api.answers import ApiResponse, render_record
from meetcore.adapters.api.bodies import CreateMeetingBody
from meetcore.adapters.api.credit_operations import credit_operations
from meetcore.adapters.api.filters import instant, one_of
from meetcore.adapters.api.note_operations import note_operations
from meetcore.adapters.api.operation import API_ROOT, Call, Operation, UseCases, path_id
from meetcore.adapters.api.paging import Listing, Named, page_of, slice_page
from meetcore.adapters.api.webhook_operations import webhook_operations
from meetcore.domain.errors import NotFound
from meetcore.domain.ids import parse_id
from meetcore.domain.meetings.meetings import VISIBLE, Meeting, MeetingRequest, MeetingStatus
from meetcore.domain.money.pricing import TierCatalogue
from meetcore.domain.records import cancellation_record, meeting_record, tier_record
from meetcore.domain.requests.keys import Scope
from meetcore.domain.requests.rate_window import OperationClass
from meetcore.ports.queries import NO_INCLUDES, CallerIncludes, MeetingFilter
from meetcore.usecases.idempotency import Answer

__all__ = ["operations"]

_SHOWN = (MeetingStatus.SCHEDULED, MeetingStatus.STARTED, MeetingStatus.ENDED, MeetingStatus.CANCELLED)
_MEETING_FILTERS = {
    "status": one_of({status.value: status for status in _SHOWN}, "Only meetings that stand so now."),
    "from": instant("Only meetings that start then or later."),
    "to": instant("Only meetings that start before."),
}

_CREATION_REFUSALS = (
    "not_found", "unprocessable_entity", "insufficient_credits", "credit_cap_exceeded", "upstream_error",
)  # fmt: skip


def operations(use: UseCases) -> Sequence[Operation]:
    """Return every operation, bound to its use case."""
    read, write, credit = OperationClass.READ, OperationClass.WRITE, OperationClass.CREDIT
    meetings = _Meetings(use)
    return (
        Operation(
            "get_me", "GET", "/me", "Who the key belongs to, its scopes and the balance", read,
            _show_account, response="Account",
        ),
        Operation(
            "list_pricing_tiers", "GET", "/pricing-tiers", "The pricing tiers on sale", read,
            _ListTiers(use.catalogue), response="TierList",
            listing=Listing(named_by=Named.SLUG),
        ),
        Operation(
            "create_meeting", "POST", "/meetings", "Create a meeting and deduct its credits", credit,
            meetings.create, _CREATION_REFUSALS, 201, (Scope.MEETINGS_WRITE,),
            CreateMeetingBody, _present_created, "Meeting",
        ),
        Operation(
            "list_meetings", "GET", "/meetings", "List the meetings, the newest first", read,
            meetings.list, (), 200, (Scope.MEETINGS_READ, Scope.MEETINGS_WRITE),
            response="MeetingList", listing=Listing(_MEETING_FILTERS, ranges=[("from", "to")]),
        ),
        Operation(
            "get_meeting", "GET", "/meetings/{id}", "Read a meeting", read, meetings.get,
            scopes=(Scope.MEETINGS_READ, Scope.MEETINGS_WRITE), response="Meeting", includes=_meeting_of_path,
        ),
        Operation(
            "cancel_meeting", "DELETE", "/meetings/{id}", "Cancel a meeting, or end one that runs", write,
            meetings.cancel, ("conflict", "upstream_error"), 200, (Scope.MEETINGS_WRITE,),
            None, _present_cancelled, "Cancellation",
        ),
        *credit_operations(use),
        *note_operations(use),
        *webhook_operations(use),
    )  # fmt: skip


def _meeting_of_path(path: dict[str, str], _: datetime) -> CallerIncludes:
    try:
        return CallerIncludes(meeting_id=parse_id(path["id"], "meeting"))
    except NotFound:  # reported later: the key is checked first
        return NO_INCLUDES


async def _show_account(call: Call) -> ApiResponse:
    caller = call.caller
    return render_record(
        200,
        {
            "user": {
                "id": str(caller.account.user_id),
                "email": caller.account.email,
                "full_name": caller.account.full_name,
            },
            "credits": {"balance": caller.account.balance},
            "api_key": {
                "id": str(caller.key.id),
                "scopes": [scope.value for scope in caller.key.scopes],
                "daily_credit_cap": caller.key.daily_cap,
            },
        },
    )


@frozen
class _ListTiers:
    catalogue: TierCatalogue

    async def __call__(self, call: Call) -> ApiResponse:
        tiers, cursor = page_of(self.catalogue.on_sale(), call.page, lambda tier: tier.id)
        return render_record(200, {"data": [tier_record(tier) for tier in tiers], "next_cursor": cursor})


@frozen
class _Meetings:
    use: UseCases

    async def create(self, call: Call) -> Answer:
        body: CreateMeetingBody = call.body
        wanted = MeetingRequest(
            title=body.title,
            date=body.date,
            start_time=body.start_time,
            pricing_tier_id=body.pricing_tier_id,
            description=None if body.description is UNSET else str(body.description),
            password=None if body.password is UNSET else str(body.password),
            with_recording=body.with_recording,
            auto_notulen=body.auto_notulen,
            must_login=body.must_login,
            mic_off=body.mic_off,
            email_notification=body.email_notification,
        )
        return await self.use.create_meeting(call.caller, wanted, call.required_request, call.now)

    async def get(self, call: Call) -> ApiResponse:
        meeting = call.caller.load_meeting()
        if meeting is None or meeting.status not in VISIBLE:
            raise NotFound("No meeting with this id.")
        return render_record(200, meeting_record(meeting, call.now))

    async def list(self, call: Call) -> ApiResponse:
        page, given = call.page, call.page.filters
        wanted = MeetingFilter(call.now, given.get("status"), given.get("from"), given.get("to"))
        found = await self.use.queries.list_meetings(
            call.caller.account.id, wanted, page.limit + 1, page.before
        )
        shown, cursor = slice_page(found, page, lambda one: one.id)
        data = [meeting_record(one, call.now) for one in shown]
        return render_record(200, {"data": data, "next_cursor": cursor})

    async def cancel(self, call: Call) -> Answer:
        return await self.use.cancel_meeting(call.caller, path_id(call), call.required_request, call.now)


def _present_created(outcome: object, _: datetime) -> ApiResponse:
    assert isinstance(outcome, Meeting)
    location = f"{API_ROOT}/meetings/{outcome.id}"
    # As of its creation, so that a replay that is rendered late shows what the first answer showed.
    return render_record(201, meeting_record(outcome, outcome.created_at), location)


def _present_cancelled(outcome: object, now: datetime) -> ApiResponse:
    assert isinstance(outcome, Meeting)
    return render_record(200, cancellation_record(outcome, now))
