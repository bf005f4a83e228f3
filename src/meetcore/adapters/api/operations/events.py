"""The operations on events: what happened, as webhooks were sent it (spec 6)."""

from meetcore.adapters.api import example_records as examples
from meetcore.adapters.api import lists
from meetcore.adapters.api.answers import ApiResponse, render_record
from meetcore.adapters.api.filters import instant, one_of
from meetcore.adapters.api.operation import Operation, OperationRequest, UseCases
from meetcore.adapters.api.paging import Listing, slice_page
from meetcore.domain.errors import Gone, NotFound
from meetcore.domain.ids import parse_id
from meetcore.domain.records import webhooks as records
from meetcore.domain.records.webhooks import event_record
from meetcore.domain.requests.keys import Scope
from meetcore.domain.requests.rate_window import OperationClass
from meetcore.domain.webhooks.events import EVENTS_KEPT, EventKind, is_past_retention, kept_since
from meetcore.ports.queries import EventFilter

_READERS = (Scope.WEBHOOKS_READ, Scope.WEBHOOKS_WRITE)
_KEPT = f"Events are kept for {EVENTS_KEPT.days} days unless your operator says otherwise, whether or not a webhook was sent them."


@Operation(
    method="GET",
    path="/events",
    scopes=_READERS,
    rate_class=OperationClass.READ,
    listing=Listing(
        {
            "type": one_of({kind.value: kind for kind in EventKind}, "Only events of this kind."),
            "from": instant("Only events made then or later."),
            "to": instant("Only events made before."),
        },
        ranges=[("from", "to")],
    ),
    record=lists.EventList,
    summary="List what happened, with payloads, the newest first",
    about=f"Each event is as webhooks were sent it. {_KEPT}",
    for_agents="Use it to see what happened in the account, or what a webhook has missed: of a kind and of a range "
    "of time where you ask for them.",
    example=examples.page_of(examples.EVENT),
)
async def list_events(use: UseCases, request: OperationRequest) -> ApiResponse:
    page, given, oldest = request.page, request.page.filters, kept_since(request.now, use.events_kept)
    wanted = EventFilter(max(given.get("from", oldest), oldest), given.get("type"), given.get("to"))
    found = await use.lists.since(request.caller.version).list_events(
        request.caller.account.id, wanted, page.limit + 1, page.before
    )
    shown, cursor = slice_page(found, page, lambda one: one.id)
    return render_record(200, {"data": [event_record(one) for one in shown], "next_cursor": cursor})


@Operation(
    method="GET",
    path="/events/{id}",
    scopes=_READERS,
    rate_class=OperationClass.READ,
    record=records.Event,
    refusals=("gone",),
    summary="Read an event with its payload",
    about=f"`id` is that of the payload, `webhook-id` and a delivery's `event_id`. {_KEPT}",
    for_agents="Use it to read what a webhook was sent; a delivery has the event's id as event_id.",
    example=examples.EVENT,
)
async def get_event(use: UseCases, request: OperationRequest) -> ApiResponse:
    event_id, account_id = parse_id(request.path["id"], "event"), request.caller.account.id
    if is_past_retention(event_id, request.now, use.events_kept, account_id):
        raise Gone("Events of that time are past their retention.")
    found = await use.queries.find_event(account_id, event_id)
    if found is None or is_past_retention(event_id, request.now, use.events_kept):
        raise NotFound("No event with this id.")
    return render_record(200, event_record(found))
