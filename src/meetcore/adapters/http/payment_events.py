"""The notifications of payment gateways: `POST /payment-events/{gateway}`, outside the API.

A notification is verified by its signature, kept for operators, and makes its payment due: a worker asks the
gateway, whose answer decides. One about a payment that is not ours is acknowledged, so that it is not sent
again for days.
"""

from collections.abc import Mapping
from typing import Final

import structlog
from attrs import frozen
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from meetcore.adapters.api import http_common
from meetcore.adapters.http.pages import Refuse
from meetcore.domain import errors
from meetcore.ports import payments as ports
from meetcore.ports import store
from meetcore.usecases.payments.follow_payments import ReceiveNotification
from meetcore.usecases.runtime import Runtime

MAX_NOTICE_BYTES: Final = 64 * 1024
"""Gateways send a few KiB."""
RETRY_AFTER_S: Final = 5

log = structlog.get_logger("meetcore.http")

_HEADERS: Final = {"Cache-Control": "no-store"}


def payment_event_routes(
    parsers: Mapping[str, ports.NotificationParser],
    receive: ReceiveNotification,
    runtime: Runtime,
    base_url: str,
    limits: http_common.RequestLimits = http_common.DEFAULT_LIMITS,
) -> list[Route]:
    """Serve one path for each gateway with a parser; any other is unknown."""
    refuse = Refuse("payment event", runtime, base_url, _HEADERS)
    return [
        Route(
            f"/payment-events/{name}",
            _Endpoint(name, read, receive, runtime, refuse, limits).answer,
            methods=["POST"],
        )
        for name, read in parsers.items()
    ]


@frozen
class _Endpoint:
    gateway: str
    read: ports.NotificationParser
    receive: ReceiveNotification
    runtime: Runtime
    refuse: Refuse
    limits: http_common.RequestLimits

    async def answer(self, request: Request) -> Response:
        """Answer one request, faults included."""
        try:
            body = await http_common.read_body(request, MAX_NOTICE_BYTES, self.limits)
            notification = self.read(body, request.headers, self.runtime.now())
            is_ours = notification is not None and await self.receive(notification)
        except ClientDisconnect:
            return Response(status_code=400)  # it is not read
        except Exception as error:  # noqa: BLE001  (any fault becomes an answer)
            return self.refuse(_refusal_of(error, self.gateway), error, gateway=self.gateway)
        payment_id = None if notification is None else str(notification.payment_id)
        log.info("payment event", gateway=self.gateway, payment_id=payment_id, is_ours=is_ours)
        return Response(status_code=204, headers=_HEADERS)


def _refusal_of(error: Exception, gateway: str) -> errors.DomainError:
    match error:
        case errors.DomainError():
            return error
        case ports.NotificationInvalid():
            return errors.InvalidApiKey("The signature is not that of the secret that is set here.")
        case ports.NotificationMalformed():
            return errors.InvalidRequest({"body": [f"must be a notification of {gateway}"]})
        case store.StoreUnavailable():
            return errors.ServiceUnavailable(
                "The notification cannot be stored now. Send it again.", RETRY_AFTER_S
            )
        case _:
            return errors.InternalError("Something went wrong at the service. Send the notification again.")
