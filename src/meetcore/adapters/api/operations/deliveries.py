"""The operations on the deliveries to webhooks (spec 6)."""

from typing import Final

from meetcore.adapters.api import example_records as examples
from meetcore.adapters.api import lists
from meetcore.adapters.api.answers import ApiResponse, render_record
from meetcore.adapters.api.bodies import RecoverBody
from meetcore.adapters.api.filters import one_of
from meetcore.adapters.api.operation import Operation, OperationRequest, UseCases, path_id
from meetcore.adapters.api.paging import Listing, slice_page
from meetcore.domain.errors import Gone, NotFound
from meetcore.domain.ids import parse_id
from meetcore.domain.meetings.schedule import read_instant
from meetcore.domain.records import webhooks as records
from meetcore.domain.records.webhooks import delivery_record
from meetcore.domain.requests.keys import Scope
from meetcore.domain.requests.rate_window import OperationClass
from meetcore.domain.webhooks.deliveries import DeliveryStatus
from meetcore.domain.webhooks.events import is_past_retention
from meetcore.usecases.idempotency import Outcome

ITS_DELIVERY: Final = {"id": "$request.path.id", "delivery_id": "$response.body#/id"}
"""The parameters of a link from a new delivery to an operation on it."""

_READERS = (Scope.WEBHOOKS_READ, Scope.WEBHOOKS_WRITE)


@Operation(
    method="GET",
    path="/webhooks/{id}/deliveries",
    scopes=_READERS,
    rate_class=OperationClass.READ,
    listing=Listing(
        {
            "status": one_of(
                {status.value: status for status in DeliveryStatus}, "Only deliveries that stand so."
            )
        }
    ),
    record=lists.DeliveryList,
    summary="List the deliveries to a webhook with their attempts",
    about="A delivery is one event on its way to one webhook, with every attempt.",
    for_agents="Use it to find out what was sent to a webhook and what came of it.",
    example=examples.page_of(examples.DELIVERY),
)
async def list_deliveries(use: UseCases, request: OperationRequest) -> ApiResponse:
    """Rule 1/op/deliveries."""
    endpoint_id, page = parse_id(request.path["id"], "webhook"), request.page
    found = await use.lists.since(request.caller.version).list_deliveries(
        request.caller.account.id, endpoint_id, page.filters.get("status"), page.limit + 1, page.before
    )
    if found is None:
        raise NotFound("No webhook with this id.")
    kept = [one for one in found if not is_past_retention(one.delivery.id, request.now, use.events_kept)]
    shown, cursor = slice_page(kept, page, lambda one: one.delivery.id)
    data = [delivery_record(one.delivery, one.attempts) for one in shown]
    return render_record(200, {"data": data, "next_cursor": cursor})


@Operation(
    method="GET",
    path="/webhooks/{id}/deliveries/{delivery_id}",
    scopes=_READERS,
    rate_class=OperationClass.READ,
    record=records.Delivery,
    refusals=("gone",),
    summary="Read a delivery with its attempts",
    about="`attempts` show the result of each post.",
    for_agents="Use it to see each attempt of a delivery and what it met.",
    example=examples.DELIVERY,
)
async def get_delivery(use: UseCases, request: OperationRequest) -> ApiResponse:
    endpoint_id, delivery_id = (parse_id(request.path[name], "delivery") for name in ("id", "delivery_id"))
    if is_past_retention(delivery_id, request.now, use.events_kept, request.caller.account.id):
        raise Gone("Deliveries of that time are past their retention.")
    found = await use.queries.find_delivery(request.caller.account.id, endpoint_id, delivery_id)
    if found is None:
        raise NotFound("No delivery with this id.")
    return render_record(200, delivery_record(found.delivery, found.attempts))


@Operation(
    method="POST",
    path="/webhooks/{id}/deliveries/{delivery_id}/resend",
    scopes=(Scope.WEBHOOKS_WRITE,),
    rate_class=OperationClass.WRITE,
    record=records.Delivery,
    success=202,
    refusals=("conflict", "gone"),
    summary="Send the event of a delivery again, the same bytes",
    about="A new delivery of the same event: the payload, its `id` included, is the same.",
    for_agents="Use it to send an event again after its receiver was mended.",
    example=examples.PENDING_DELIVERY | {"event_type": "meeting.created"},
)
async def resend_delivery(use: UseCases, request: OperationRequest) -> Outcome:
    endpoint_id, delivery_id = path_id(request), path_id(request, "delivery_id")
    return await use.resend_delivery(
        request.caller, endpoint_id, delivery_id, request.required_key, request.now
    )


@Operation(
    method="POST",
    path="/webhooks/{id}/recover",
    scopes=(Scope.WEBHOOKS_WRITE,),
    rate_class=OperationClass.WRITE,
    body=RecoverBody,
    record=records.Recovery,
    success=202,
    refusals=("conflict", "unprocessable_entity"),
    summary="Send everything again that failed or expired since a time",
    about="Every delivery to the webhook that failed or expired since then is `held`, and is sent the oldest first, ten a "
    "second, with its retries anew. One request takes 2,000 at most; `has_more` says that there may be more. What waits "
    "already and what has succeeded stay as they are. An inactive webhook is 409.",
    for_agents="Use it after a webhook's receiver was down: it sends what failed or expired since then. Ask again while "
    "has_more is true.",
    requests={"since": {"since": examples.MADE_AT}},
    example={
        "webhook_id": examples.WEBHOOK["id"],
        "since": examples.MADE_AT,
        "deliveries": 17,
        "has_more": False,
    },
)
async def recover_deliveries(use: UseCases, request: OperationRequest) -> Outcome:
    body: RecoverBody = request.body
    since = read_instant(body.since)
    return await use.recover_deliveries(
        request.caller, path_id(request), since, request.required_key, request.now
    )
