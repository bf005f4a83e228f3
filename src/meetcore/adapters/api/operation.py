"""An operation, and a decoded request to it with its caller.

Owns the types of the table of operations. Knows no single operation.
"""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from attrs import field, frozen

from meetcore.adapters.api.answers import ApiResponse, unpack
from meetcore.adapters.api.bodies import OneOfBody
from meetcore.adapters.api.filters import Filter
from meetcore.adapters.api.paging import Listing, Page
from meetcore.domain.errors import NotFound
from meetcore.domain.ids import parse_id
from meetcore.domain.money.pricing import TierCatalogue
from meetcore.domain.requests.keys import Scope
from meetcore.domain.requests.rate_window import OperationClass
from meetcore.ports.queries import NO_INCLUDES, Caller, CallerIncludes, Queries
from meetcore.usecases.cancel_meeting import CancelMeeting
from meetcore.usecases.create_meeting import CreateMeeting
from meetcore.usecases.create_note import CreateNote
from meetcore.usecases.download_recording import DownloadRecording
from meetcore.usecases.estimate import Estimate
from meetcore.usecases.expire_recordings import DeleteRecording
from meetcore.usecases.idempotency import Answer, IdempotentRequest
from meetcore.usecases.post_webhooks import ResendDelivery, SendTestEvent
from meetcore.usecases.webhooks import RegisterWebhook, RemoveWebhook, RotateSecret, UpdateWebhook

__all__ = ["API_ROOT", "Call", "Operation", "UseCases", "answered", "path_id"]

API_ROOT = "/api/v1"
_NO_ID = UUID(int=0)  # no record has it: ids are of version 7


@frozen
class UseCases:
    """The use cases that the operations call."""

    create_meeting: CreateMeeting
    cancel_meeting: CancelMeeting
    register_webhook: RegisterWebhook
    update_webhook: UpdateWebhook
    remove_webhook: RemoveWebhook
    rotate_secret: RotateSecret
    send_test_event: SendTestEvent
    resend_delivery: ResendDelivery
    download_recording: DownloadRecording
    delete_recording: DeleteRecording
    create_note: CreateNote
    estimate: Estimate
    queries: Queries
    catalogue: TierCatalogue
    base_url: str


@frozen
class Call:
    """An authenticated and decoded request. `request_key` is there for mutating operations only.

    `options` are the values of those of the operation's that were given.
    """

    caller: Caller
    now: datetime
    path: dict[str, str]
    body: Any
    request_key: IdempotentRequest | None
    page: Page = field(factory=Page)
    options: Mapping[str, Any] = field(factory=dict)

    @property
    def required_request(self) -> IdempotentRequest:
        """Return the idempotent request of a mutating operation."""
        assert self.request_key is not None
        return self.request_key


def _nothing_else(_: dict[str, str], __: datetime) -> CallerIncludes:
    return NO_INCLUDES


@frozen
class Operation:
    """One operation: what it is called, who may call it, what it takes and gives.

    `present` turns the outcome of a mutating operation into its answer; a read answers by itself.
    `refusals` are the codes that its own work can decide, for the documentation; `refusals.refusals_of` adds
    those that follow from its form. `options` are the parameters of a query that is no list's. `includes`
    names what is read of the account in the statement that authenticates, by the parts of the path and the
    request's instant.
    """

    name: str
    method: str
    path: str
    summary: str
    rate_class: OperationClass
    handle: Callable[[Call], Awaitable[ApiResponse | Answer]]
    refusals: tuple[str, ...] = ()
    success: int = 200
    scopes: tuple[Scope, ...] = ()
    body: type | OneOfBody | None = None
    present: Callable[[object, datetime], ApiResponse] | None = None
    response: str = ""
    listing: Listing | None = None
    options: Mapping[str, Filter] = field(factory=dict)
    includes: Callable[[dict[str, str], datetime], CallerIncludes] = _nothing_else

    @property
    def is_mutating(self) -> bool:
        """Whether it accepts an Idempotency-Key (spec part 4)."""
        return self.present is not None

    @property
    def reads_body(self) -> bool:
        """Whether a body is looked at. A mutation without a body class takes an empty one, or `{}`.

        A body has no meaning on a read (RFC 9110, 9.3.1) and is not looked at there.
        """
        return self.body is not None or self.is_mutating


def answered(answer: ApiResponse | Answer) -> tuple[ApiResponse, bool]:
    """Return a handler's answer, and whether it is a replay of an earlier request's."""
    return (unpack(answer.payload), answer.is_replay) if isinstance(answer, Answer) else (answer, False)


def path_id(call: Call, name: str = "id") -> UUID:
    """Read the id that a mutating operation names. A text that is no id is treated as an unknown id.

    So that both are answered identically (spec 7/404), under an idempotency key too.
    """
    try:
        return parse_id(call.path[name], "record")
    except NotFound:
        return _NO_ID
