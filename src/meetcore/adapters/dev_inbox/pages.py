"""The pages of the inbox, on the plain HTTP port.

Everything received is escaped; there are no scripts and no other files. Pages are neither cached nor framed:
they hold meeting passwords and one-time links.
"""

import hmac
import json
import re
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from html import escape
from typing import Any, Final

from attrs import asdict, field, frozen
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from meetcore.adapters.dev_inbox.certificates import INBOX_HOST
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

_STYLE: Final = """
:root { color-scheme: light dark; --ink: #17212b; --soft: #566573; --line: #dfe5ea; --card: #fff;
  --ground: #f2f5f7; --good: #0b6e5f; --on-good: #fff; --bad: #b3261e; --on-bad: #fff; --code: #f6f8f9; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8edf1; --soft: #9fb0be; --line: #2c3843;
  --card: #18212a; --ground: #0f161d; --good: #4fd1b8; --on-good: #06231e; --bad: #ffb4ab;
  --on-bad: #4a0f0b; --code: #111a22; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); font: 1rem/1.5 system-ui, sans-serif; }
main { max-width: 56rem; margin: 0 auto; padding: clamp(1rem, 4vw, 2.5rem); }
header { display: flex; flex-wrap: wrap; align-items: baseline; gap: .25rem 1rem; margin-bottom: 1.5rem; }
h1 { margin: 0; font-size: 1.6rem; } header p { margin: 0; color: var(--soft); flex: 1; min-width: 12rem; }
a { color: var(--good); }
a:focus-visible, summary:focus-visible, pre:focus-visible { outline: 3px solid var(--good);
  outline-offset: 3px; }
article { background: var(--card); border: 1px solid var(--line); border-left: 4px solid var(--good);
  border-radius: .75rem; padding: 1rem 1.25rem; margin-bottom: 1rem; }
article.bad { border-left-color: var(--bad); }
.top { display: flex; flex-wrap: wrap; align-items: center; gap: .25rem .75rem; }
h2 { margin: 0; font-size: 1.1rem; overflow-wrap: anywhere; } time { color: var(--soft); margin-left: auto; }
.mark { padding: .1rem .65rem; border-radius: 1rem; font-size: .8125rem; font-weight: 600;
  background: var(--good); color: var(--on-good); }
.bad .mark { background: var(--bad); color: var(--on-bad); }
.where { margin: .15rem 0 0; color: var(--soft); font-size: .875rem; overflow-wrap: anywhere; }
.problem { margin: .5rem 0 0; color: var(--bad); font-weight: 600; }
pre { margin: .75rem 0; padding: .85rem 1rem; background: var(--code); border-radius: .5rem; overflow: auto;
  max-height: 26rem; white-space: pre-wrap; overflow-wrap: anywhere;
  font: .8125rem/1.5 ui-monospace, monospace; }
summary { cursor: pointer; color: var(--soft); font-size: .875rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; margin: .5rem 0 0;
  font: .8125rem/1.5 ui-monospace, monospace; } dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; }
.empty { text-align: center; padding: 3rem 1.25rem; border: 1px dashed var(--line); border-radius: .75rem; }
.empty code { overflow-wrap: anywhere; }
@media (max-width: 32rem) { dl { grid-template-columns: 1fr; } dd { margin-bottom: .4rem; }
  time { margin-left: 0; width: 100%; } }
"""

_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} ({count})</title>
<style>{style}</style>
</head>
<body><main>
<header><h1>{title}</h1><p>{summary}</p>{other}{switch}</header>
{content}
</main></body>
</html>
"""

_EMPTY: Final = f"""
<div class="empty"><h2>Nothing has arrived yet</h2>
<p>Register <code>https://{INBOX_HOST}/any-path</code> as a webhook, then make a meeting or send a test.</p>
</div>
"""

_DELIVERY: Final = """
<article class="{kind}">
<div class="top"><h2>{event}</h2><span class="mark">{mark}</span><time datetime="{iso}">{at}</time></div>
<p class="where">POST {path}</p>{problem}
<pre tabindex="0" aria-label="Body of {event}">{body}</pre>
<details><summary>Headers</summary><dl>{headers}</dl></details>
</article>
"""
_LINK: Final = re.compile(r"https?://[^\s<>\"']+")

_Page = Callable[[Request], Awaitable[Response]]
_COOKIE: Final = "meetcore-mail-inbox"
_NO_TOKEN: Final = "Open the address of the mail inbox that `meetcore dev` printed: it has a token.\n"  # noqa: S105

_NO_MAIL: Final = """
<div class="empty"><h2>No mail yet</h2>
<p>Ask for a link to sign in, or let a webhook fail until it is disabled.</p>
</div>
"""

_MAIL: Final = """
<article>
<div class="top"><h2>{subject}</h2><time datetime="{iso}">{at}</time></div>
<p class="where">To {recipient} · <a href="{path}">as HTML</a></p>
<pre tabindex="0" aria-label="Text of {subject}">{text}</pre>
</article>
"""


def inbox_routes(
    inbox: InboxApp, *hosts: str, mails: MailInbox | None = None, mail_token: str = ""
) -> list[Route]:
    """Serve the received deliveries and mails, newest first.

    Only requests for this machine or one of `hosts` are answered: a foreign page whose name resolves here
    (DNS rebinding) could otherwise read them in the developer's browser.

    `GET /inbox` is a page that, with `?live`, reloads every 3 seconds; `GET /inbox.json` answers
    `{"data": [{"received_at", "path", "headers", "body", "payload", "verified", "problem"}]}`, where
    `payload` is the parsed body or null.

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
        content = "".join(map(_delivery, found)) or _EMPTY
        return _page(request, "Webhook inbox", len(found), _summary(found), content, MAIL_PATH)

    async def json(self, request: Request) -> Response:
        return _json([_record(delivery) for delivery in self.inbox.deliveries])

    async def mail_page(self, request: Request) -> Response:
        found = self.mails.mails
        kept = f"the last {MAILS_KEPT}" if len(found) == MAILS_KEPT else f"{len(found)} sent"
        summary = f"{kept}, newest first." if found else "What members would get by e-mail."
        content = "".join(map(_mail, found)) or _NO_MAIL
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
    page = _PAGE.format(
        style=_STYLE,
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
    return Response(json.dumps({"data": records}), media_type="application/json", headers=_HEADERS)


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
    return _DELIVERY.format(
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
    return _MAIL.format(
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
