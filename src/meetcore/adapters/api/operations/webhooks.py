"""The operations on webhooks (spec 4.3, 4.4)."""

from datetime import timedelta

from meetcore.adapters.api import example_records as examples
from meetcore.adapters.api import lists
from meetcore.adapters.api.answers import ApiResponse, render_record
from meetcore.adapters.api.bodies import RegisterWebhookBody, UpdateWebhookBody
from meetcore.adapters.api.filters import whole_number
from meetcore.adapters.api.operation import (
    ITS_ID,
    Operation,
    OperationRequest,
    UseCases,
    path_id,
)
from meetcore.adapters.api.operations.deliveries import ITS_DELIVERY
from meetcore.adapters.api.paging import Listing, slice_page
from meetcore.domain.errors import NotFound
from meetcore.domain.ids import parse_id
from meetcore.domain.records import webhooks as records
from meetcore.domain.records.webhooks import endpoint_record
from meetcore.domain.requests.keys import Scope
from meetcore.domain.requests.rate_window import OperationClass
from meetcore.domain.webhooks.endpoints import MAX_OVERLAP_HOURS, EndpointChanges
from meetcore.domain.webhooks.urls import parse_webhook_url
from meetcore.usecases.idempotency import Outcome
from meetcore.usecases.webhooks import Registration

_READERS = (Scope.WEBHOOKS_READ, Scope.WEBHOOKS_WRITE)
_WRITERS = (Scope.WEBHOOKS_WRITE,)


@Operation(
    method="POST",
    path="/webhooks",
    scopes=_WRITERS,
    rate_class=OperationClass.WRITE,
    body=RegisterWebhookBody,
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
    body: RegisterWebhookBody = request.body
    wanted = Registration(parse_webhook_url(body.url), body.event_types, body.description)
    return await use.register_webhook(request.caller, wanted, request.required_key, request.now)


@Operation(
    method="GET",
    path="/webhooks",
    scopes=_READERS,
    rate_class=OperationClass.READ,
    listing=Listing(),
    record=lists.WebhookList,
    summary="List the webhooks, without their secrets",
    about="Read one of them for its secret.",
    for_agents="Use it to see which URLs receive which events, and which were disabled by failures.",
    example=examples.page_of(examples.WEBHOOK),
)
async def list_webhooks(use: UseCases, request: OperationRequest) -> ApiResponse:
    page = request.page
    found = await use.lists.since(request.caller.version).list_endpoints(
        request.caller.account.id, page.limit + 1, page.before
    )
    shown, cursor = slice_page(found, page, lambda one: one.id)
    data = [endpoint_record(one, with_secret=False) for one in shown]
    return render_record(200, {"data": data, "next_cursor": cursor})


@Operation(
    method="GET",
    path="/webhooks/{id}",
    scopes=_READERS,
    rate_class=OperationClass.READ,
    record=records.WebhookWithSecret,
    summary="Read a webhook, with its secret if the key may write",
    about="`webhooks:read` sees the record without the secret.",
    for_agents="Use it to read one webhook; a key that may write sees its secret.",
    example=examples.WEBHOOK_WITH_SECRET,
)
async def get_webhook(use: UseCases, request: OperationRequest) -> ApiResponse:
    """Rule 1/op/webhook-detail."""
    endpoint_id = parse_id(request.path["id"], "webhook")
    endpoint = await use.queries.find_endpoint(request.caller.account.id, endpoint_id)
    if endpoint is None:
        raise NotFound("No webhook with this id.")
    can_write = Scope.WEBHOOKS_WRITE in request.caller.key.scopes
    return render_record(200, endpoint_record(endpoint, with_secret=can_write))


@Operation(
    method="PATCH",
    path="/webhooks/{id}",
    scopes=_WRITERS,
    rate_class=OperationClass.WRITE,
    body=UpdateWebhookBody,
    record=records.Webhook,
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
    body: UpdateWebhookBody = request.body
    changes = EndpointChanges(body.event_types, body.description, body.is_active)
    return await use.update_webhook(request.caller, path_id(request), changes, request.required_key)


@Operation(
    method="DELETE",
    path="/webhooks/{id}",
    scopes=_WRITERS,
    rate_class=OperationClass.WRITE,
    success=204,
    summary="Remove a webhook, and what waits for it",
    about="What waits for it is not sent any more.",
    for_agents="Use it to stop telling a URL for good; what waits for it is dropped. To pause it, use "
    "update_webhook with is_active false.",
)
async def remove_webhook(use: UseCases, request: OperationRequest) -> Outcome:
    return await use.remove_webhook(request.caller, path_id(request), request.required_key)


@Operation(
    method="POST",
    path="/webhooks/{id}/rotate-secret",
    scopes=_WRITERS,
    rate_class=OperationClass.WRITE,
    record=records.WebhookWithSecret,
    summary="Replace the secret; what waits is signed with the new one",
    about="`X-Service-Signature` is made with the new secret at once, retries included. `webhook-signature` (Standard "
    "Webhooks) carries a signature with each secret for 24 hours, the new one first; `overlap=0` ends that at once.",
    for_agents="Use it when a webhook's secret has leaked, with overlap 0, or is due for renewal. The service's own "
    "signature is made with the new one at once; webhook-signature carries both for 24 hours.",
    options={
        "overlap": whole_number(
            0,
            MAX_OVERLAP_HOURS,
            "For how many hours the old secret signs beside the new one; 24 if it is absent.",
        )
    },
    example=examples.WEBHOOK_WITH_SECRET,
)
async def rotate_webhook_secret(use: UseCases, request: OperationRequest) -> Outcome:
    """Rule 1/op/rotate-secret."""
    overlap = timedelta(hours=request.options.get("overlap", MAX_OVERLAP_HOURS))
    return await use.rotate_secret(
        request.caller, path_id(request), request.required_key, request.now, overlap
    )


@Operation(
    method="POST",
    path="/webhooks/{id}/test",
    scopes=_WRITERS,
    rate_class=OperationClass.WRITE,
    record=records.Delivery,
    success=202,
    refusals=("conflict",),
    links={"get_delivery": ITS_DELIVERY, "resend_delivery": ITS_DELIVERY},
    summary="Send webhook.test to a webhook, subscribed or not",
    about="Look at the delivery to see what came of it. An inactive webhook is 409.",
    for_agents="Use it to try a webhook: it sends webhook.test. Read the delivery with get_delivery a little later.",
    example=examples.PENDING_DELIVERY,
)
async def test_webhook(use: UseCases, request: OperationRequest) -> Outcome:
    return await use.send_test_event(request.caller, path_id(request), request.required_key, request.now)
