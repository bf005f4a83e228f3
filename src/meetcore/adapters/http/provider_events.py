"""The webhooks of providers: `POST /provider-events/{provider}`, outside the API.

A provider has no API key. It signs its requests and waits for a few seconds: an authentic event is stored and
answered at once, and handled by a worker. An event that cannot be stored now is answered 503, so that it is
sent again. An answer names the fault, and never the expected value.
"""

import asyncio
import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import structlog
from attrs import define, frozen
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from meetcore.adapters.api import answers, http_common
from meetcore.adapters.http.pages import Refuse
from meetcore.domain import errors
from meetcore.ports import store, video_provider
from meetcore.usecases.meetings.provider_events import ReceiveProviderEvent
from meetcore.usecases.runtime import Runtime

FREE_BYTES: Final = 64 * 1024
"""A body up to this size claims nothing: many large unverified bodies must not keep a small one out."""


class MemoryTaken(Exception):
    """The bodies in memory have reached their limit; there is room again when they are answered."""


@define
class SharedMemory:
    """The bytes that large bodies share."""

    bytes_left: int

    @contextmanager
    def share(self) -> Iterator["Share"]:
        """Give one body its share, until it is answered."""
        share = Share(self)
        try:
            yield share
        finally:
            self.bytes_left += share.bytes_taken


@define
class Share:
    """The memory that one body has claimed."""

    memory: SharedMemory
    bytes_taken: int = 0

    def claim(self, size: int) -> None:
        """Claim the memory of a body of this size, in place of the earlier claim; or raise `MemoryTaken`."""
        more = max(0, size - FREE_BYTES) - self.bytes_taken
        if more > self.memory.bytes_left:
            raise MemoryTaken
        self.memory.bytes_left -= more
        self.bytes_taken += more


MAX_NOTICE_BYTES: Final = 1024 * 1024
BYTES_TOGETHER: Final = 8 * MAX_NOTICE_BYTES
"""Memory for bodies larger than 64 KiB while they come in: no signature is checked before they are whole."""
KEEP_WITHIN_S: Final = 2.0
"""A provider waits three seconds at least: an event that is not kept by then is repeated."""

RETRY_AFTER_S: Final = 5

log = structlog.get_logger("meetcore.http")


def provider_event_routes(
    readers: Mapping[str, video_provider.WebhookParser],
    receive: ReceiveProviderEvent,
    runtime: Runtime,
    base_url: str,
    limits: http_common.RequestLimits = http_common.DEFAULT_LIMITS,
) -> list[Route]:
    """Serve one path for each provider with a parser; any other is unknown."""
    memory = SharedMemory(BYTES_TOGETHER)
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
    read: video_provider.WebhookParser
    receive: ReceiveProviderEvent
    runtime: Runtime
    refuse: Refuse
    limits: http_common.RequestLimits
    memory: SharedMemory

    async def answer(self, request: Request) -> Response:
        """Answer one request, faults included."""
        try:
            return await self._take(request)
        except ClientDisconnect:
            return Response(status_code=400)  # it is not read
        except Exception as error:  # noqa: BLE001  (any fault becomes an answer)
            return self.refuse(self._refusal_of(error), error, provider=self.provider)

    async def _take(self, request: Request) -> Response:
        with self.memory.share() as share:
            body = await http_common.read_body(request, MAX_NOTICE_BYTES, self.limits, claim=share.claim)
            return await self._keep(request, body)

    async def _keep(self, request: Request, body: bytes) -> Response:
        notice = self.read(body, request.headers, self.runtime.now())
        if notice.response is not None:
            answer = answers.render_record(200, notice.response)
            return Response(answer.body, 200, _HEADERS, "application/json")
        if notice.event is not None:
            async with asyncio.timeout(KEEP_WITHIN_S):
                is_new = await self.receive(notice.event, hashlib.sha256(body).digest())
            log.info(
                "provider event", provider=self.provider, kind=notice.event.kind.value,
                provider_meeting_id=notice.event.provider_meeting_id, is_new=is_new,
            )  # fmt: skip
        return Response(status_code=204, headers=_HEADERS)

    def _refusal_of(self, error: Exception) -> errors.DomainError:
        match error:
            case errors.DomainError():
                return error
            case video_provider.SignatureInvalid():
                return errors.InvalidApiKey(
                    "The signature is not that of the secret token that is set here, or its time is more "
                    "than 5 minutes off."
                )
            case video_provider.WebhookMalformed():
                return errors.InvalidRequest({"body": [f"must be an event of {self.provider}"]})
            case store.StoreUnavailable() | TimeoutError() | MemoryTaken():
                return errors.ServiceUnavailable(
                    "The event cannot be stored now. Send it again.", RETRY_AFTER_S
                )
            case _:
                return errors.InternalError("Something went wrong at the service. Send the event again.")


_HEADERS: Final = {"Cache-Control": "no-store"}
