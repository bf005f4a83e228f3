"""The showing side: routes on the plain HTTP port.

Owns their answers' forms. They are not cached or framed: what is shown holds meeting passwords and one-time
links.
"""

import json
from collections.abc import Sequence
from typing import Final

from attrs import frozen
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from meetcore.adapters.dev_inbox.inbox_page import INBOX_PATH, MAIL_PATH, inbox_page, payload_of
from meetcore.adapters.dev_inbox.mail_inbox import MailInbox
from meetcore.adapters.dev_inbox.mail_page import mail_page
from meetcore.adapters.dev_inbox.receiver import Delivery, InboxApp
from meetcore.ports.mailer import OutgoingMail

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


def inbox_routes(inbox: InboxApp, *hosts: str, mails: MailInbox | None = None) -> list[Route]:
    """Serve what the inboxes received, newest first.

    Only requests for this machine, or for one of `hosts`, are answered. A foreign web page whose name
    resolves to this machine (DNS rebinding) could otherwise read meeting passwords in the developer's
    browser.

    `GET /inbox` is a page that renews itself every 3 seconds (`?pause` holds it still);
    `GET /inbox.json` answers `{"data": [{"received_at", "path", "headers", "body", "payload",
    "verified", "problem"}]}`, where `payload` is the body when it is JSON, else null.

    `GET /inbox/mails` is the page of mails; `GET /inbox/mails.json` answers `{"data": [{"id", "created_at",
    "recipient", "subject", "text", "html", "language"}]}`, and `GET /inbox/mails/{id}` the HTML of one.
    """
    pages = _Pages(inbox, MailInbox() if mails is None else mails)
    own = [Middleware(TrustedHostMiddleware, allowed_hosts=[*LOOPBACK_HOSTS, *hosts], www_redirect=False)]
    return [
        Route(path, page, methods=["GET"], middleware=own)
        for path, page in (
            (INBOX_PATH, pages.page),
            (f"{INBOX_PATH}.json", pages.json),
            (MAIL_PATH, pages.mail_page),
            (f"{MAIL_PATH}.json", pages.mails_json),
            (f"{MAIL_PATH}/{{id:uuid}}", pages.mail),
        )
    ]


@frozen
class _Pages:
    inbox: InboxApp
    mails: MailInbox

    async def page(self, request: Request) -> Response:
        page = inbox_page(self.inbox.deliveries, is_paused="pause" in request.query_params)
        # A body may spell half a surrogate pair, which no encoding takes.
        return HTMLResponse(page.encode("utf-8", "replace"), headers=_HEADERS)

    async def json(self, request: Request) -> Response:
        return _json([_record(delivery) for delivery in self.inbox.deliveries])

    async def mail_page(self, request: Request) -> Response:
        page = mail_page(self.mails.mails, is_paused="pause" in request.query_params)
        return HTMLResponse(page, headers=_HEADERS)

    async def mails_json(self, request: Request) -> Response:
        return _json([_mail_record(mail) for mail in self.mails.mails])

    async def mail(self, request: Request) -> Response:
        for mail in self.mails.mails:
            if mail.id == request.path_params["id"]:
                return HTMLResponse(mail.html, headers=_HEADERS)
        return PlainTextResponse("no such mail\n", 404, _HEADERS)


def _json(records: Sequence[dict[str, object]]) -> Response:
    return Response(json.dumps({"data": records}), media_type="application/json", headers=_HEADERS)


def _mail_record(mail: OutgoingMail) -> dict[str, object]:
    return {
        "id": str(mail.id),
        "created_at": mail.created_at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "recipient": mail.recipient,
        "subject": mail.subject,
        "text": mail.text,
        "html": mail.html,
        "language": mail.language,
    }


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
