"""The operations of the API as one table: what the gate matches, what OpenAPI describes.

Owns how a request becomes a use case's command and how its outcome becomes a record. Refuses to
authenticate, count or decode: `gate` has done that before a handler runs.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from attrs import field, frozen
from msgspec import UNSET

from meetcore.adapters.http.answers import Rendered, render_record, unpack
from meetcore.adapters.http.bodies import CreateMeetingBody, RegisterWebhookBody, UpdateWebhookBody
from meetcore.adapters.http.paging import Page, page_of
from meetcore.domain import endpoints
from meetcore.domain.endpoints import Endpoint, EndpointChanges
from meetcore.domain.errors import NotFound
from meetcore.domain.ids import parse_id
from meetcore.domain.keys import Scope
from meetcore.domain.meetings import VISIBLE, Meeting, MeetingRequest
from meetcore.domain.pricing import TierCatalogue
from meetcore.domain.rate_window import OperationClass
from meetcore.domain.records import cancellation_record, endpoint_record, meeting_record, tier_record
from meetcore.domain.webhook_urls import parse_webhook_url
from meetcore.ports.queries import Caller, Queries
from meetcore.usecases.cancel_meeting import CancelMeeting
from meetcore.usecases.create_meeting import CreateMeeting
from meetcore.usecases.intent import Answer, Intent
from meetcore.usecases.webhooks import RegisterWebhook, Registration, UpdateWebhook

__all__ = ["API_ROOT", "Call", "Operation", "UseCases", "operations"]

API_ROOT = "/api/v1"
_NO_ID = UUID(int=0)  # no record has it: ids are of version 7


@frozen
class UseCases:
    """What the operations call."""

    create_meeting: CreateMeeting
    cancel_meeting: CancelMeeting
    register_webhook: RegisterWebhook
    update_webhook: UpdateWebhook
    queries: Queries
    catalogue: TierCatalogue


@frozen
class Call:
    """A request that was let in and decoded. `intent` is there for mutating operations only."""

    caller: Caller
    now: datetime
    path: dict[str, str]
    body: Any
    intent: Intent | None
    page: Page = field(factory=Page)

    @property
    def purpose(self) -> Intent:
        """The intent of a mutating operation."""
        assert self.intent is not None
        return self.intent


@frozen
class Operation:
    """One operation: what it is called, who may call it, what it takes and gives.

    `present` turns the outcome of a mutating operation into its answer; a read answers by itself.
    `errors` are the statuses that spec part 4 lists, for the documentation.
    """

    name: str
    method: str
    path: str
    summary: str
    rate_class: OperationClass
    handle: Callable[[Call], Awaitable[Rendered | Answer]]
    errors: tuple[int, ...]
    success: int = 200
    scopes: tuple[Scope, ...] = ()
    body: type | None = None
    present: Callable[[object, datetime], Rendered] | None = None
    response: str = ""
    is_list: bool = False

    @property
    def is_mutating(self) -> bool:
        """Whether it accepts an Idempotency-Key (spec part 4)."""
        return self.present is not None


def answered(answer: Rendered | Answer) -> tuple[Rendered, bool]:
    """A handler's answer, and whether an earlier request made it."""
    return (unpack(answer.payload), answer.is_replay) if isinstance(answer, Answer) else (answer, False)


def operations(use: UseCases) -> Sequence[Operation]:
    """Every operation, bound to its use case."""
    read, write, credit = OperationClass.READ, OperationClass.WRITE, OperationClass.CREDIT
    meetings, webhooks = _Meetings(use), _Webhooks(use)
    return (
        Operation(
            "get_me", "GET", "/me", "Who the key belongs to, its scopes and the balance", read,
            _show_account, (401, 429, 500), response="Account",
        ),
        Operation(
            "list_pricing_tiers", "GET", "/pricing-tiers", "The pricing tiers on sale", read,
            _ListTiers(use.catalogue), (400, 401, 429, 500), response="TierList", is_list=True,
        ),
        Operation(
            "create_meeting", "POST", "/meetings", "Create a meeting and deduct its credits", credit,
            meetings.create, (400, 401, 403, 404, 422, 429, 500, 502, 503), 201, (Scope.MEETINGS_WRITE,),
            CreateMeetingBody, _present_created, "Meeting",
        ),
        Operation(
            "get_meeting", "GET", "/meetings/{id}", "Read a meeting", read, meetings.get,
            (401, 403, 404, 429, 500), scopes=(Scope.MEETINGS_READ, Scope.MEETINGS_WRITE), response="Meeting",
        ),
        Operation(
            "cancel_meeting", "DELETE", "/meetings/{id}", "Cancel a meeting, or end one that runs", write,
            meetings.cancel, (400, 401, 403, 404, 409, 429, 500, 502, 503), 200, (Scope.MEETINGS_WRITE,),
            None, _present_cancelled, "Cancellation",
        ),
        Operation(
            "register_webhook", "POST", "/webhooks", "Register a URL for notifications", write,
            webhooks.register, (400, 401, 403, 409, 422, 429, 500), 201, (Scope.WEBHOOKS_WRITE,),
            RegisterWebhookBody, _present_registered, "WebhookWithSecret",
        ),
        Operation(
            "get_webhook", "GET", "/webhooks/{id}", "Read a webhook, with its secret if the key may write",
            read, webhooks.get, (401, 403, 404, 429, 500),
            scopes=(Scope.WEBHOOKS_READ, Scope.WEBHOOKS_WRITE), response="WebhookWithSecret",
        ),
        Operation(
            "update_webhook", "PATCH", "/webhooks/{id}", "Change, pause or resume a webhook", write,
            webhooks.update, (400, 401, 403, 404, 429, 500), 200, (Scope.WEBHOOKS_WRITE,),
            UpdateWebhookBody, _present_webhook, "Webhook",
        ),
    )  # fmt: skip


async def _show_account(call: Call) -> Rendered:
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

    async def __call__(self, call: Call) -> Rendered:
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
        return await self.use.create_meeting(call.caller, wanted, call.purpose, call.now)

    async def get(self, call: Call) -> Rendered:
        meeting_id = parse_id(call.path["id"], "meeting")
        meeting = await self.use.queries.find_meeting(call.caller.account.id, meeting_id)
        if meeting is None or meeting.status not in VISIBLE:
            raise NotFound("No meeting with this id.")
        return render_record(200, meeting_record(meeting, call.now))

    async def cancel(self, call: Call) -> Answer:
        return await self.use.cancel_meeting(call.caller, _subject(call), call.purpose, call.now)


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
        return await self.use.register_webhook(call.caller, wanted, call.purpose, call.now)

    async def get(self, call: Call) -> Rendered:
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
        return await self.use.update_webhook(call.caller, _subject(call), changes, call.purpose)


def _subject(call: Call) -> UUID:
    """The id that a mutating operation names. A text that is no id goes the way of an unknown one.

    So that both are answered identically (spec 7/404), under an idempotency key too.
    """
    try:
        return parse_id(call.path["id"], "record")
    except NotFound:
        return _NO_ID


def _present_created(outcome: object, _: datetime) -> Rendered:
    assert isinstance(outcome, Meeting)
    location = f"{API_ROOT}/meetings/{outcome.id}"
    # As of its creation, so that a replay that is rendered late shows what the first answer showed.
    return render_record(201, meeting_record(outcome, outcome.created_at), location)


def _present_cancelled(outcome: object, now: datetime) -> Rendered:
    assert isinstance(outcome, Meeting)
    return render_record(200, cancellation_record(outcome, now))


def _present_registered(outcome: object, _: datetime) -> Rendered:
    assert isinstance(outcome, Endpoint)
    location = f"{API_ROOT}/webhooks/{outcome.id}"
    return render_record(201, endpoint_record(outcome, with_secret=True), location)


def _present_webhook(outcome: object, _: datetime) -> Rendered:
    assert isinstance(outcome, Endpoint)
    return render_record(200, endpoint_record(outcome, with_secret=False))
