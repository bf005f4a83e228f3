"""The webhooks of providers: `POST /provider-events/{provider}`, outside the API.

A provider has no API key. It signs its requests and waits for a few seconds: an authentic event is stored and
answered at once, and handled by a worker. An event that cannot be stored now is answered 503, so that it is
sent again. Owns the way from bytes to the inbox, and the statuses. The parsers of each provider's format are
passed in. An answer names the fault, and never the expected value.
"""

import asyncio
import hashlib
from collections.abc import Mapping
from typing import Final

import structlog
from attrs import frozen
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from meetcore.adapters.api.answers import render_record
from meetcore.adapters.api.http_common import DEFAULT_LIMITS, read_body
from meetcore.adapters.api.limits import RequestLimits
from meetcore.adapters.http.refuse import Refuse
from meetcore.adapters.http.shared_memory import MemoryTaken, SharedMemory
from meetcore.domain.errors import (
    DomainError,
    InternalError,
    InvalidApiKey,
    InvalidRequest,
    ServiceUnavailable,
)
from meetcore.ports.provider_events import SignatureInvalid, WebhookMalformed, WebhookParser
from meetcore.ports.store import StoreUnavailable
from meetcore.usecases.provider_events import ReceiveProviderEvent
from meetcore.usecases.runtime import Runtime

MAX_NOTICE_BYTES: Final = 1024 * 1024
KEEP_WITHIN_S: Final = 2.0
"""A provider waits three seconds at least: an event that is not kept by then is repeated."""

RETRY_AFTER_S: Final = 5

log = structlog.get_logger("meetcore.http")


def provider_event_routes(
    readers: Mapping[str, WebhookParser],
    receive: ReceiveProviderEvent,
    runtime: Runtime,
    base_url: str,
    limits: RequestLimits = DEFAULT_LIMITS,
    bytes_together: int = 8 * MAX_NOTICE_BYTES,
) -> list[Route]:
    """Serve one path for each provider with a parser; any other is unknown.

    Args:
        readers: how each provider's requests are verified and read, by the provider's name.
        receive: stores the event.
        runtime: the clock that signatures are checked against.
        base_url: for the addresses in refusals.
        limits: how slow a body may be.
        bytes_together: the limit of all large bodies in memory together.
    """
    memory = SharedMemory(bytes_together)
    refuse = Refuse("provider event", runtime, base_url, _HEADERS)
    return [
        Route(
            f"/provider-events/{name}",
            _Endpoint(name, read, receive, runtime, refuse, limits, memory).answer,
            methods=["POST"],
        )
        for name, read in readers.items()
    ]


@frozen
class _Endpoint:
    provider: str
    read: WebhookParser
    receive: ReceiveProviderEvent
    runtime: Runtime
    refuse: Refuse
    limits: RequestLimits
    memory: SharedMemory

    async def answer(self, request: Request) -> Response:
        """Answer one request, faults included."""
        try:
            return await self._take(request)
        except ClientDisconnect:
            return Response(status_code=400)  # it is not read
        except Exception as error:  # noqa: BLE001  (whatever it is, the provider gets an answer)
            return self.refuse(self._refusal_of(error), error, provider=self.provider)

    async def _take(self, request: Request) -> Response:
        with self.memory.share() as share:
            body = await read_body(request, MAX_NOTICE_BYTES, self.limits, claim=share.claim)
            return await self._keep(request, body)

    async def _keep(self, request: Request, body: bytes) -> Response:
        notice = self.read(body, request.headers, self.runtime.now())
        if notice.response is not None:
            answer = render_record(200, notice.response)
            return Response(answer.body, 200, _HEADERS, "application/json")
        if notice.event is not None:
            async with asyncio.timeout(KEEP_WITHIN_S):
                is_new = await self.receive(notice.event, hashlib.sha256(body).digest())
            log.info(
                "provider event", provider=self.provider, kind=notice.event.kind.value,
                provider_meeting_id=notice.event.provider_meeting_id, is_new=is_new,
            )  # fmt: skip
        return Response(status_code=204, headers=_HEADERS)

    def _refusal_of(self, error: Exception) -> DomainError:
        match error:
            case DomainError():
                return error
            case SignatureInvalid():
                return InvalidApiKey(
                    "The signature is not that of the secret token that is set here, or its time is more "
                    "than 5 minutes off."
                )
            case WebhookMalformed():
                return InvalidRequest({"body": [f"must be an event of {self.provider}"]})
            case StoreUnavailable() | TimeoutError() | MemoryTaken():
                return ServiceUnavailable("The event cannot be stored now. Send it again.", RETRY_AFTER_S)
            case _:
                return InternalError("Something went wrong at the service. Send the event again.")


_HEADERS: Final = {"Cache-Control": "no-store"}
