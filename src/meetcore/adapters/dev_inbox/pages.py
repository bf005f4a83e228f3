"""The pages of the inbox, on the plain HTTP port.

Everything received is escaped; there are no scripts and no other files. Pages are neither cached nor framed:
they hold meeting passwords and one-time links.
"""

import hmac
import json
import re
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from functools import cache
from html import escape
from importlib import resources
from typing import Any, Final

from attrs import asdict, field, frozen
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from meetcore.adapters.dev_inbox.receiver import KEPT, MAILS_KEPT, Delivery, InboxApp, MailInbox
from meetcore.domain.mails.views import OutgoingMail
from meetcore.domain.meetings.schedule import WIB

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
INBOX_PATH: Final = "/inbox"
MAIL_PATH: Final = "/inbox/mails"

_NAMES: Final = {INBOX_PATH: "Webhooks", MAIL_PATH: "Mails"}
_MAX_DEPTH: Final = 64
_SCALARS: Final = (str, int, float, bool, type(None))


@cache
def _template(name: str) -> str:
    return resources.files(__package__).joinpath("html", name).read_text("utf-8")


_LINK: Final = re.compile(r"https?://[^\s<>\"']+")

_Page = Callable[[Request], Awaitable[Response]]
_COOKIE: Final = "meetcore-mail-inbox"
_NO_TOKEN: Final = "Open the address of the mail inbox that `meetcore dev` printed: it has a token.\n"  # noqa: S105


def inbox_routes(
    inbox: InboxApp, *hosts: str, mails: MailInbox | None = None, mail_token: str = ""
) -> list[Route]:
    """Serve the received deliveries and mails, newest first.

    Only requests for this machine or one of `hosts` are answered: a foreign page whose name resolves here
    (DNS rebinding) could otherwise read them in the developer's browser.

    `GET /inbox` is a page that, with `?live`, reloads every 3 seconds; `GET /inbox.json` answers
    `{"data": [{"received_at", "path", "headers", "body", "payload", "verified", "problem"}]}`, where
    `payload` is the parsed body or null; with `?path=` it has the deliveries to that path alone.

    `GET /inbox/mails` is the page of mails; `GET /inbox/mails.json` answers `{"data": [{"id", "created_at",
    "recipient", "subject", "text", "html", "language"}]}`, and `GET /inbox/mails/{id}` the HTML of one.
    Mails hold links that sign in, and other users of the machine reach the port, too: with a `mail_token`
    they are for a browser that has once opened an address with `?token=` and that token.
    """
    pages = _Pages(inbox, MailInbox() if mails is None else mails)
    guard = _MailGuard(mail_token)
    own = [Middleware(TrustedHostMiddleware, allowed_hosts=[*LOOPBACK_HOSTS, *hosts], www_redirect=False)]
    return [
        Route(path, page, methods=["GET"], middleware=own)
        for path, page in (
            (INBOX_PATH, pages.page),
            (f"{INBOX_PATH}.json", pages.json),
            (MAIL_PATH, guard.of(pages.mail_page)),
            (f"{MAIL_PATH}.json", guard.of(pages.mails_json)),
            (f"{MAIL_PATH}/{{id:uuid}}", guard.of(pages.mail)),
        )
    ]


@frozen
class _MailGuard:
    """Lets the holder of a token see the mails, by the address at first and by a cookie then."""

    token: str = field(repr=False)

    def of(self, page: _Page) -> _Page:
        """Return a page that is for the holder alone."""

        async def guarded(request: Request) -> Response:
            given = request.query_params.get("token") or request.cookies.get(_COOKIE, "")
            if not hmac.compare_digest(given.encode(), self.token.encode()):
                return PlainTextResponse(_NO_TOKEN, 403, _HEADERS)
            answer = await page(request)
            if self.token:
                answer.set_cookie(_COOKIE, self.token, path=MAIL_PATH, httponly=True, samesite="strict")
            return answer

        return guarded


@frozen
class _Pages:
    inbox: InboxApp
    mails: MailInbox

    async def page(self, request: Request) -> Response:
        found = self.inbox.deliveries
        content = "".join(map(_delivery, found)) or _template("no_delivery.html")
        return _page(request, "Webhook inbox", len(found), _summary(found), content, MAIL_PATH)

    async def json(self, request: Request) -> Response:
        path = request.query_params.get("path")
        return _json([_record(each) for each in self.inbox.deliveries if path in (None, each.path)])

    async def mail_page(self, request: Request) -> Response:
        found = self.mails.mails
        kept = f"the last {MAILS_KEPT}" if len(found) == MAILS_KEPT else f"{len(found)} sent"
        summary = f"{kept}, newest first." if found else "What members would get by e-mail."
        content = "".join(map(_mail, found)) or _template("no_mail.html")
        return _page(request, "Mail inbox", len(found), summary, content, INBOX_PATH)

    async def mails_json(self, request: Request) -> Response:
        found = self.mails.mails
        return _json(
            [asdict(each) | {"id": str(each.id), "created_at": _at(each.created_at)} for each in found]
        )

    async def mail(self, request: Request) -> Response:
        for mail in self.mails.mails:
            if mail.id == request.path_params["id"]:
                return HTMLResponse(mail.html, headers=_HEADERS)
        return PlainTextResponse("no such mail\n", 404, _HEADERS)


def _page(request: Request, title: str, count: int, summary: str, content: str, other: str) -> Response:
    """Render an inbox page with a link to the other one. Only `content` is HTML."""
    is_live = "live" in request.query_params
    page = _template("page.html").format(
        style=_template("style.css"),
        title=title,
        count=count,
        summary=summary,
        other=f'<a href="{other}">{_NAMES[other]}</a>',
        switch='<a href="?">Stop</a>' if is_live else '<a href="?live">Reload every 3 seconds</a>',
        content=content,
    )
    # A body may hold a lone surrogate, which cannot be encoded.
    headers = _HEADERS | ({"Refresh": "3"} if is_live else {})
    return HTMLResponse(page.encode("utf-8", "replace"), headers=headers)


def _json(records: Sequence[dict[str, object]]) -> Response:
    return Response(json.dumps({"data": records}) + "\n", media_type="application/json", headers=_HEADERS)


def _at(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _record(delivery: Delivery) -> dict[str, object]:
    return {
        "received_at": _at(delivery.received_at),
        "path": delivery.path,
        "headers": delivery.headers,
        "body": delivery.body.decode("utf-8", "replace"),
        "payload": payload_of(delivery.body),
        "verified": delivery.is_verified,
        "problem": delivery.problem,
    }


def payload_of(body: bytes) -> Any:
    """Parse the body as JSON; `None` if invalid or nested deeper than 64 levels."""
    try:
        payload = json.loads(body, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return None if _is_too_deep(payload) else payload


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _is_too_deep(value: Any) -> bool:
    # Encoding needs more stack than parsing, so bound the depth here.
    level = [value]
    for _ in range(_MAX_DEPTH):
        parts = [part.values() if isinstance(part, dict) else part for part in level]
        level = [inner for part in parts if not isinstance(part, _SCALARS) for inner in part]
    return bool(level)


def _summary(deliveries: Sequence[Delivery]) -> str:
    doubtful = sum(not delivery.is_verified for delivery in deliveries)
    if not deliveries:
        return "What your receiver would get."
    count = f"the last {KEPT}" if len(deliveries) == KEPT else f"{len(deliveries)} received"
    return f"{count}, {f'{doubtful} not verified' if doubtful else 'all verified'}, newest first."


def _delivery(delivery: Delivery) -> str:
    at = delivery.received_at.astimezone(WIB)
    headers = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in delivery.headers.items()
    )
    return _template("delivery.html").format(
        kind="good" if delivery.is_verified else "bad",
        event=escape(delivery.headers.get("X-Service-Event", "no event named")),
        mark="✓ verified" if delivery.is_verified else "✗ not verified",
        iso=at.isoformat(timespec="seconds"),
        at=f"{at:%H:%M:%S} WIB",
        path=escape(delivery.path),
        problem="" if delivery.problem is None else f'<p class="problem">{escape(delivery.problem)}</p>',
        body=escape(_pretty(delivery.body)),
        headers=headers or "<dt>none</dt><dd></dd>",
    )


def _pretty(body: bytes) -> str:
    payload = payload_of(body)
    if payload is None:
        return body.decode("utf-8", "replace") or "(empty)"
    return json.dumps(payload, indent=2, ensure_ascii=False)


def _mail(mail: OutgoingMail) -> str:
    at = mail.created_at.astimezone(WIB)
    return _template("mail.html").format(
        subject=escape(mail.subject),
        iso=at.isoformat(timespec="seconds"),
        at=f"{at:%H:%M:%S} WIB",
        recipient=escape(mail.recipient),
        path=f"{MAIL_PATH}/{mail.id}",
        text=_with_links(mail.text),
    )


def _with_links(text: str) -> str:
    parts, end = [], 0
    for link in _LINK.finditer(text):
        url = escape(link[0])
        parts += [escape(text[end : link.start()]), f'<a href="{url}">{url}</a>']
        end = link.end()
    return "".join([*parts, escape(text[end:])])
