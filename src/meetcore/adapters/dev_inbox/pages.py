"""The showing side: two routes on the plain HTTP port.

Owns their answers' forms. Refuses to be cached or framed: what is shown holds meeting passwords.
"""

import json
from typing import Final

from attrs import frozen
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from meetcore.adapters.dev_inbox.inbox_page import inbox_page, payload_of
from meetcore.adapters.dev_inbox.receiver import Delivery, InboxApp

LOOPBACK_HOSTS: Final = ("127.0.0.1", "localhost")

_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; form-action 'none'; "
        "base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def inbox_routes(inbox: InboxApp, *hosts: str) -> list[Route]:
    """Serve what the inbox received, newest first.

    Only requests for this machine, or for one of `hosts`, are answered. A foreign web page whose name
    resolves to this machine (DNS rebinding) could otherwise read meeting passwords in the developer's
    browser.

    `GET /inbox` is a page that renews itself every 3 seconds (`?pause` holds it still);
    `GET /inbox.json` answers `{"data": [{"received_at", "path", "headers", "body", "payload",
    "verified", "problem"}]}`, where `payload` is the body when it is JSON, else null.
    """
    pages = _Pages(inbox)
    own = [Middleware(TrustedHostMiddleware, allowed_hosts=[*LOOPBACK_HOSTS, *hosts], www_redirect=False)]
    return [
        Route("/inbox", pages.page, methods=["GET"], middleware=own),
        Route("/inbox.json", pages.json, methods=["GET"], middleware=own),
    ]


@frozen
class _Pages:
    inbox: InboxApp

    async def page(self, request: Request) -> Response:
        page = inbox_page(self.inbox.deliveries, is_paused="pause" in request.query_params)
        # A body may spell half a surrogate pair, which no encoding takes.
        return HTMLResponse(page.encode("utf-8", "replace"), headers=_HEADERS)

    async def json(self, request: Request) -> Response:
        text = json.dumps({"data": [_record(delivery) for delivery in self.inbox.deliveries]})
        return Response(text, media_type="application/json", headers=_HEADERS)


def _record(delivery: Delivery) -> dict[str, object]:
    return {
        "received_at": delivery.received_at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "path": delivery.path,
        "headers": delivery.headers,
        "body": delivery.body.decode("utf-8", "replace"),
        "payload": payload_of(delivery.body),
        "verified": delivery.is_verified,
        "problem": delivery.problem,
    }
