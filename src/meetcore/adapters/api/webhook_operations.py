"""The webhook operations: how a request becomes a command, and its outcome a record (spec 4.3, 4.4, 6)."""

from datetime import datetime

from attrs import frozen
from msgspec import UNSET

from meetcore.adapters.api.answers import ApiResponse, render_record
from meetcore.adapters.api.bodies import RegisterWebhookBody, UpdateWebhookBody
from meetcore.adapters.api.filters import one_of
from meetcore.adapters.api.operation import API_ROOT, Call, Operation, UseCases, path_id
from meetcore.adapters.api.paging import Listing, slice_page
from meetcore.domain.errors import NotFound
from meetcore.domain.ids import parse_id
from meetcore.domain.records import delivery_record, endpoint_record
from meetcore.domain.requests.keys import Scope
from meetcore.domain.requests.rate_window import OperationClass
from meetcore.domain.webhooks import endpoints
from meetcore.domain.webhooks.deliveries import DeliveryStatus
from meetcore.domain.webhooks.endpoints import Endpoint, EndpointChanges
from meetcore.domain.webhooks.urls import parse_webhook_url
from meetcore.ports.queries import DeliveryHistory
from meetcore.usecases.idempotency import Answer
from meetcore.usecases.webhooks import Registration

__all__ = ["webhook_operations"]

_READERS = (Scope.WEBHOOKS_READ, Scope.WEBHOOKS_WRITE)
_WRITERS = (Scope.WEBHOOKS_WRITE,)
_STATUS = one_of({status.value: status for status in DeliveryStatus}, "Only deliveries that stand so.")


def webhook_operations(use: UseCases) -> tuple[Operation, ...]:
    """The operations on webhooks and their deliveries, bound to their use cases."""
    read, write = OperationClass.READ, OperationClass.WRITE
    webhooks, deliveries = _Webhooks(use), _Deliveries(use)
    one, sent = "/webhooks/{id}", "/webhooks/{id}/deliveries"
    return (
        Operation(
            "register_webhook", "POST", "/webhooks", "Register a URL for notifications", write,
            webhooks.register, ("conflict", "unprocessable_entity"), 201, _WRITERS,
            RegisterWebhookBody, _present_registered, "WebhookWithSecret",
        ),
        Operation(
            "list_webhooks", "GET", "/webhooks", "List the webhooks, without their secrets", read,
            webhooks.list, (), 200, _READERS, response="WebhookList",
            listing=Listing(),
        ),
        Operation(
            "get_webhook", "GET", one, "Read a webhook, with its secret if the key may write", read,
            webhooks.get, (), 200, _READERS, response="WebhookWithSecret",
        ),
        Operation(
            "update_webhook", "PATCH", one, "Change, pause or resume a webhook", write,
            webhooks.update, (), 200, _WRITERS,
            UpdateWebhookBody, _present_webhook, "Webhook",
        ),
        Operation(
            "remove_webhook", "DELETE", one, "Remove a webhook, and what waits for it", write,
            webhooks.remove, (), 204, _WRITERS, None, _present_removed,
        ),
        Operation(
            "rotate_webhook_secret", "POST", f"{one}/rotate-secret",
            "Replace the secret; what waits is signed with the new one", write,
            webhooks.rotate_secret, (), 200, _WRITERS,
            None, _present_with_secret, "WebhookWithSecret",
        ),
        Operation(
            "test_webhook", "POST", f"{one}/test", "Send webhook.test to a webhook, subscribed or not", write,
            webhooks.test, ("conflict",), 202, _WRITERS,
            None, _present_posted, "Delivery",
        ),
        Operation(
            "list_deliveries", "GET", sent, "List the deliveries to a webhook with their attempts", read,
            deliveries.list, (), 200, _READERS, response="DeliveryList",
            listing=Listing({"status": _STATUS}),
        ),
        Operation(
            "get_delivery", "GET", f"{sent}/{{delivery_id}}", "Read a delivery with its attempts", read,
            deliveries.get, (), 200, _READERS, response="Delivery",
        ),
        Operation(
            "resend_delivery", "POST", f"{sent}/{{delivery_id}}/resend",
            "Send the event of a delivery again, the same bytes", write,
            deliveries.resend, ("conflict", "gone"), 202, _WRITERS,
            None, _present_posted, "Delivery",
        ),
    )  # fmt: skip


@frozen
class _Webhooks:
    use: UseCases

    async def register(self, call: Call) -> Answer:
        body: RegisterWebhookBody = call.body
        wanted = Registration(
            parse_webhook_url(body.url),
            tuple(body.event_types),
            None if body.description is UNSET else str(body.description),
        )
        return await self.use.register_webhook(call.caller, wanted, call.required_request, call.now)

    async def list(self, call: Call) -> ApiResponse:
        page = call.page
        found = await self.use.queries.list_endpoints(call.caller.account.id, page.limit + 1, page.before)
        shown, cursor = slice_page(found, page, lambda one: one.id)
        data = [endpoint_record(one, with_secret=False) for one in shown]
        return render_record(200, {"data": data, "next_cursor": cursor})

    async def get(self, call: Call) -> ApiResponse:
        endpoint_id = parse_id(call.path["id"], "webhook")
        endpoint = await self.use.queries.find_endpoint(call.caller.account.id, endpoint_id)
        if endpoint is None:
            raise NotFound("No webhook with this id.")
        can_write = Scope.WEBHOOKS_WRITE in call.caller.key.scopes
        return render_record(200, endpoint_record(endpoint, with_secret=can_write))

    async def update(self, call: Call) -> Answer:
        body: UpdateWebhookBody = call.body
        changes = EndpointChanges(
            event_types=endpoints.UNSET if body.event_types is UNSET else tuple(body.event_types),
            description=endpoints.UNSET if body.description is UNSET else body.description,
            is_active=endpoints.UNSET if body.is_active is UNSET else body.is_active,
        )
        return await self.use.update_webhook(call.caller, path_id(call), changes, call.required_request)

    async def remove(self, call: Call) -> Answer:
        return await self.use.remove_webhook(call.caller, path_id(call), call.required_request)

    async def rotate_secret(self, call: Call) -> Answer:
        return await self.use.rotate_secret(call.caller, path_id(call), call.required_request)

    async def test(self, call: Call) -> Answer:
        return await self.use.send_test_event(call.caller, path_id(call), call.required_request, call.now)


@frozen
class _Deliveries:
    use: UseCases

    async def list(self, call: Call) -> ApiResponse:
        endpoint_id, page = parse_id(call.path["id"], "webhook"), call.page
        found = await self.use.queries.list_deliveries(
            call.caller.account.id, endpoint_id, page.filters.get("status"), page.limit + 1, page.before
        )
        if found is None:
            raise NotFound("No webhook with this id.")
        shown, cursor = slice_page(found, page, lambda one: one.delivery.id)
        data = [delivery_record(one.delivery, one.attempts) for one in shown]
        return render_record(200, {"data": data, "next_cursor": cursor})

    async def get(self, call: Call) -> ApiResponse:
        endpoint_id, delivery_id = (parse_id(call.path[name], "delivery") for name in ("id", "delivery_id"))
        found = await self.use.queries.find_delivery(call.caller.account.id, endpoint_id, delivery_id)
        if found is None:
            raise NotFound("No delivery with this id.")
        return render_record(200, delivery_record(found.delivery, found.attempts))

    async def resend(self, call: Call) -> Answer:
        endpoint_id, delivery_id = path_id(call), path_id(call, "delivery_id")
        return await self.use.resend_delivery(
            call.caller, endpoint_id, delivery_id, call.required_request, call.now
        )


def _present_registered(outcome: object, _: datetime) -> ApiResponse:
    assert isinstance(outcome, Endpoint)
    location = f"{API_ROOT}/webhooks/{outcome.id}"
    return render_record(201, endpoint_record(outcome, with_secret=True), location)


def _present_webhook(outcome: object, _: datetime) -> ApiResponse:
    assert isinstance(outcome, Endpoint)
    return render_record(200, endpoint_record(outcome, with_secret=False))


def _present_with_secret(outcome: object, _: datetime) -> ApiResponse:
    assert isinstance(outcome, Endpoint)
    return render_record(200, endpoint_record(outcome, with_secret=True))


def _present_removed(_: object, __: datetime) -> ApiResponse:
    return ApiResponse(204, b"")


def _present_posted(outcome: object, _: datetime) -> ApiResponse:
    assert isinstance(outcome, DeliveryHistory)
    return render_record(202, delivery_record(outcome.delivery, outcome.attempts))
