"""The operations on webhooks, their deliveries, and events (spec 4.3, 4.4, 6)."""

from datetime import timedelta
from typing import Final

from meetcore.adapters.api import answers, bodies, examples, paging
from meetcore.adapters.api.operation import ITS_ID, Operation, OperationRequest, UseCases, path_id
from meetcore.domain.errors import Gone, NotFound, require_record
from meetcore.domain.ids import parse_id
from meetcore.domain.meetings.schedule import read_instant
from meetcore.domain.records import webhooks as records
from meetcore.domain.records.webhooks import delivery_record, endpoint_record, event_record
from meetcore.domain.requests.keys import Scope
from meetcore.domain.webhooks import deliveries, endpoints, urls, views
from meetcore.domain.webhooks.events import EVENTS_KEPT, EventKind, is_past_retention, kept_since
from meetcore.usecases.requests.idempotency import Outcome
from meetcore.usecases.webhooks.endpoints import Registration

ITS_DELIVERY: Final = {"id": "$request.path.id", "delivery_id": "$response.body#/id"}
"""The parameters of a link from a new delivery to an operation on it."""

_READERS = (Scope.WEBHOOKS_READ, Scope.WEBHOOKS_WRITE)
_WRITERS = (Scope.WEBHOOKS_WRITE,)


@Operation(
    method="POST",
    path="/webhooks",
    scopes=_WRITERS,
    body=bodies.RegisterWebhookBody,
    record=records.WebhookWithSecret,
    success=201,
    refusals=("conflict", "unprocessable_entity"),
    links={
        "get_webhook": ITS_ID,
        "update_webhook": ITS_ID,
        "rotate_webhook_secret": ITS_ID,
        "test_webhook": ITS_ID,
        "list_deliveries": ITS_ID,
        "remove_webhook": ITS_ID,
    },
    reaches_out=True,
    summary="Register a URL for notifications",
    about="The host must lead to public addresses only; that is checked now and before every delivery. "
    "A URL can be registered once per account, and an account has a limited number of them (422). Keep the `secret`: "
    "it checks the signatures. Every event of the account can be asked for, so that this scope lets a receiver read "
    "what events carry: meetings with their join links, without `password` and `host_key`, recordings, notes with what "
    "was said, and the balance with its transactions.",
    for_agents="Use it when a system of the customer should receive events. The URL is https and public. "
    "Hand the secret to the system that checks the signatures; do not show it elsewhere.",
    requests={
        "meetings": {
            "url": examples.WEBHOOK["url"],
            "event_types": examples.WEBHOOK["event_types"],
            "description": examples.WEBHOOK["description"],
        }
    },
    example=examples.WEBHOOK_WITH_SECRET,
)
async def register_webhook(use: UseCases, request: OperationRequest) -> Outcome:
    """Rules 4.3/scope and 4.3/4: it is of the class WRITE, which costs no credits."""
    body: bodies.RegisterWebhookBody = request.body
    wanted = Registration(urls.parse_webhook_url(body.url), body.event_types, body.description)
    return await use.webhooks.register(request.caller, wanted, request.required_key, request.now)


@Operation(
    method="GET",
    path="/webhooks",
    scopes=_READERS,
    listing=paging.Listing(),
    record=paging.WebhookList,
    summary="List the webhooks, without their secrets",
    about="Read one of them for its secret.",
    for_agents="Use it to see which URLs receive which events, and which were disabled by failures.",
    example=examples.page_of(examples.WEBHOOK),
)
async def list_webhooks(use: UseCases, request: OperationRequest) -> answers.ApiResponse:
    page = request.page
    found = await use.lists.since(request.caller.version).list_endpoints(
        request.account_id, page.limit + 1, page.before
    )
    return paging.render_list(
        found, page, lambda one: one.id, lambda one: endpoint_record(one, with_secret=False)
    )


@Operation(
    method="GET",
    path="/webhooks/{id}",
    scopes=_READERS,
    record=records.WebhookWithSecret,
    summary="Read a webhook, with its secret if the key may write",
    about="`webhooks:read` sees the record without the secret.",
    for_agents="Use it to read one webhook; a key that may write sees its secret.",
    example=examples.WEBHOOK_WITH_SECRET,
)
async def get_webhook(use: UseCases, request: OperationRequest) -> answers.ApiResponse:
    """Rule 1/op/webhook-detail."""
    endpoint_id = parse_id(request.path["id"], "webhook")
    endpoint = require_record(await use.queries.find_endpoint(request.account_id, endpoint_id), "webhook")
    can_write = Scope.WEBHOOKS_WRITE in request.caller.key.scopes
    return answers.render_record(200, endpoint_record(endpoint, with_secret=can_write))


@Operation(
    method="PATCH",
    path="/webhooks/{id}",
    scopes=_WRITERS,
    body=bodies.UpdateWebhookBody,
    record=records.Webhook,
    reaches_out=True,
    summary="Change, pause or resume a webhook",
    about="`is_active: true` resumes a webhook; one that was disabled by failures starts counting anew. "
    "The URL cannot be changed: register another one.",
    for_agents="Use it to change which events a webhook receives, or to pause and resume it. The URL cannot be "
    "changed: register another one.",
    requests={
        "pause": {"is_active": False},
        "resume": {"is_active": True},
        "change": {"event_types": ["meeting.ended", "credit.low"], "description": None},
    },
    example=examples.WEBHOOK | {"is_active": False},
)
async def update_webhook(use: UseCases, request: OperationRequest) -> Outcome:
    """Rules 4.4/scope and 4.4/4."""
    body: bodies.UpdateWebhookBody = request.body
    changes = endpoints.EndpointChanges(body.event_types, body.description, body.is_active)
    return await use.webhooks.update(request.caller, path_id(request), changes, request.required_key)


@Operation(
    method="DELETE",
    path="/webhooks/{id}",
    scopes=_WRITERS,
    success=204,
    summary="Remove a webhook, and what waits for it",
    about="What waits for it is not sent any more.",
    for_agents="Use it to stop telling a URL for good; what waits for it is dropped. To pause it, use "
    "update_webhook with is_active false.",
)
async def remove_webhook(use: UseCases, request: OperationRequest) -> Outcome:
    return await use.webhooks.remove(request.caller, path_id(request), request.required_key)


@Operation(
    method="POST",
    path="/webhooks/{id}/rotate-secret",
    scopes=_WRITERS,
    record=records.WebhookWithSecret,
    summary="Replace the secret; what waits is signed with the new one",
    about="`X-Service-Signature` is made with the new secret at once, retries included. `webhook-signature` (Standard "
    "Webhooks) carries a signature with each secret for 24 hours, the new one first; `overlap=0` ends that at once.",
    for_agents="Use it when a webhook's secret has leaked, with overlap 0, or is due for renewal. The service's own "
    "signature is made with the new one at once; webhook-signature carries both for 24 hours.",
    options={
        "overlap": paging.whole_number(
            0,
            endpoints.MAX_OVERLAP_HOURS,
            "For how many hours the old secret signs beside the new one; 24 if it is absent.",
        )
    },
    example=examples.WEBHOOK_WITH_SECRET,
)
async def rotate_webhook_secret(use: UseCases, request: OperationRequest) -> Outcome:
    """Rule 1/op/rotate-secret."""
    overlap = timedelta(hours=request.options.get("overlap", endpoints.MAX_OVERLAP_HOURS))
    return await use.webhooks.rotate_secret(
        request.caller, path_id(request), request.required_key, request.now, overlap
    )


@Operation(
    method="POST",
    path="/webhooks/{id}/test",
    scopes=_WRITERS,
    record=records.Delivery,
    success=202,
    refusals=("conflict",),
    links={"get_delivery": ITS_DELIVERY, "resend_delivery": ITS_DELIVERY},
    reaches_out=True,
    summary="Send webhook.test to a webhook, subscribed or not",
    about="Look at the delivery to see what came of it. An inactive webhook is 409.",
    for_agents="Use it to try a webhook: it sends webhook.test. Read the delivery with get_delivery a little later.",
    example=examples.PENDING_DELIVERY,
)
async def test_webhook(use: UseCases, request: OperationRequest) -> Outcome:
    return await use.webhooks.send_test(request.caller, path_id(request), request.required_key, request.now)


@Operation(
    method="GET",
    path="/webhooks/{id}/deliveries",
    scopes=_READERS,
    listing=paging.Listing(
        {
            "status": paging.one_of(
                {status.value: status for status in deliveries.DeliveryStatus},
                "Only deliveries that stand so.",
            )
        }
    ),
    record=paging.DeliveryList,
    summary="List the deliveries to a webhook with their attempts",
    about="A delivery is one event on its way to one webhook, with its latest attempts.",
    for_agents="Use it to find out what was sent to a webhook and what came of it.",
    example=examples.page_of(examples.DELIVERY),
)
async def list_deliveries(use: UseCases, request: OperationRequest) -> answers.ApiResponse:
    """Rule 1/op/deliveries."""
    endpoint_id, page = parse_id(request.path["id"], "webhook"), request.page
    found = require_record(
        await use.lists.since(request.caller.version).list_deliveries(
            request.account_id,
            endpoint_id,
            views.DeliveryFilter(page.filters.get("status")),
            page.limit + 1,
            page.before,
        ),
        "webhook",
    )
    kept = [one for one in found if not is_past_retention(one.delivery.id, request.now, use.events_kept)]
    return paging.render_list(
        kept, page, lambda one: one.delivery.id, lambda one: delivery_record(one.delivery, one.attempts)
    )


@Operation(
    method="GET",
    path="/webhooks/{id}/deliveries/{delivery_id}",
    scopes=_READERS,
    record=records.Delivery,
    refusals=("gone",),
    summary="Read a delivery with its attempts",
    about="`attempts` show the result of each post.",
    for_agents="Use it to see each attempt of a delivery and what it met.",
    example=examples.DELIVERY,
)
async def get_delivery(use: UseCases, request: OperationRequest) -> answers.ApiResponse:
    endpoint_id, delivery_id = (parse_id(request.path[name], "delivery") for name in ("id", "delivery_id"))
    if is_past_retention(delivery_id, request.now, use.events_kept, request.account_id):
        raise Gone("Deliveries of that time are past their retention.")
    found = require_record(
        await use.queries.find_delivery(request.account_id, endpoint_id, delivery_id), "delivery"
    )
    return answers.render_record(200, delivery_record(found.delivery, found.attempts))


@Operation(
    method="POST",
    path="/webhooks/{id}/deliveries/{delivery_id}/resend",
    scopes=_WRITERS,
    record=records.Delivery,
    success=202,
    refusals=("conflict", "gone"),
    reaches_out=True,
    summary="Send the event of a delivery again, the same bytes",
    about="A new delivery of the same event: the payload, its `id` included, is the same.",
    for_agents="Use it to send an event again after its receiver was fixed.",
    example=examples.PENDING_DELIVERY | {"event_type": "meeting.created"},
)
async def resend_delivery(use: UseCases, request: OperationRequest) -> Outcome:
    endpoint_id, delivery_id = path_id(request), path_id(request, "delivery_id")
    return await use.webhooks.resend(
        request.caller, endpoint_id, delivery_id, request.required_key, request.now
    )


@Operation(
    method="POST",
    path="/webhooks/{id}/recover",
    scopes=_WRITERS,
    body=bodies.RecoverBody,
    record=records.Recovery,
    success=202,
    refusals=("conflict", "unprocessable_entity"),
    reaches_out=True,
    summary="Send everything again that failed or expired since a time",
    about="Every delivery to the webhook that failed or expired since then with fewer than 200 attempts is `held`, and is "
    "sent the oldest first, ten a second, with its retries anew. One request takes 2,000 at most; `has_more` says that "
    "there may be more. What waits already and what has succeeded stay as they are. An inactive webhook is 409.",
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
    body: bodies.RecoverBody = request.body
    since = read_instant(body.since)
    return await use.webhooks.recover(
        request.caller, path_id(request), since, request.required_key, request.now
    )


_KEPT = f"Events are kept for {EVENTS_KEPT.days} days unless your operator says otherwise, whether or not a webhook was sent them."


@Operation(
    method="GET",
    path="/events",
    scopes=_READERS,
    listing=paging.Listing(
        {
            "type": paging.one_of({kind.value: kind for kind in EventKind}, "Only events of this kind."),
            "from": paging.instant("Only events made then or later."),
            "to": paging.instant("Only events made before."),
        },
        ranges=[("from", "to")],
    ),
    record=paging.EventList,
    summary="List what happened, with payloads, the newest first",
    about=f"Each event is as webhooks were sent it. {_KEPT}",
    for_agents="Use it to see what happened in the account, or what a webhook has missed: of a kind and of a range "
    "of time where you ask for them.",
    example=examples.page_of(examples.EVENT),
)
async def list_events(use: UseCases, request: OperationRequest) -> answers.ApiResponse:
    page, given, oldest = request.page, request.page.filters, kept_since(request.now, use.events_kept)
    wanted = views.EventFilter(max(given.get("from", oldest), oldest), given.get("type"), given.get("to"))
    found = await use.lists.since(request.caller.version).list_events(
        request.account_id, wanted, page.limit + 1, page.before
    )
    return paging.render_list(found, page, lambda one: one.id, event_record)


@Operation(
    method="GET",
    path="/events/{id}",
    scopes=_READERS,
    record=records.Event,
    refusals=("gone",),
    summary="Read an event with its payload",
    about=f"`id` is that of the payload, `webhook-id` and a delivery's `event_id`. {_KEPT}",
    for_agents="Use it to read what a webhook was sent; a delivery has the event's id as event_id.",
    example=examples.EVENT,
)
async def get_event(use: UseCases, request: OperationRequest) -> answers.ApiResponse:
    event_id, account_id = parse_id(request.path["id"], "event"), request.account_id
    if is_past_retention(event_id, request.now, use.events_kept, account_id):
        raise Gone("Events of that time are past their retention.")
    found = await use.queries.find_event(account_id, event_id)
    if found is None or is_past_retention(event_id, request.now, use.events_kept):
        raise NotFound("No event with this id.")
    return answers.render_record(200, event_record(found))
