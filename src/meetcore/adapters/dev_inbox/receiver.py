"""Receive deliveries like a careful customer, and keep mails instead of sending them.

`X-Service-Signature` is checked over the raw body: 200 if valid, else 401. The last deliveries and mails are
kept in memory.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

from attrs import frozen
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from meetcore.adapters.dev_inbox.certificates import INBOX_HOST
from meetcore.domain.mails.views import OutgoingMail
from meetcore.domain.webhooks.signature import SIGNATURE_HEADER, SignatureRejected, verify
from meetcore.ports.mails import MailRefused

FindSecrets = Callable[[str], Awaitable[list[str]]]
"""Returns the secrets of the endpoints with a URL."""

KEPT: Final = 200
MAILS_KEPT: Final = 100
MAX_BODY_BYTES: Final = 1024 * 1024

_SHOWN_HEADERS: Final = (
    "X-Service-Event", "X-Service-Delivery", SIGNATURE_HEADER, "webhook-id", "webhook-timestamp",
    "webhook-signature", "Content-Type", "User-Agent",
)  # fmt: skip


@frozen
class Delivery:
    """A received delivery. `problem`: why its verification failed, or `None`."""

    received_at: datetime
    path: str
    headers: dict[str, str]
    body: bytes
    problem: str | None

    @property
    def is_verified(self) -> bool:
        """Whether the verification succeeded."""
        return self.problem is None


class InboxApp:
    """The ASGI application behind TLS; takes a POST to any path.

    `find_secret` returns the secrets, any of which may have signed, of a URL under
    `https://inbox.meetcore.test`.
    """

    def __init__(
        self, find_secret: FindSecrets, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._find_secret = find_secret
        self._now = now
        self._deliveries: deque[Delivery] = deque(maxlen=KEPT)
        self._app = Starlette(routes=[Route("/{path:path}", self._take, methods=["POST"])])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection."""
        await self._app(scope, receive, send)

    @property
    def deliveries(self) -> Sequence[Delivery]:
        """The last 200, newest first."""
        return tuple(reversed(self._deliveries))

    async def _take(self, request: Request) -> Response:
        body = await _read(request)
        if body is None:
            return PlainTextResponse(f"more than {MAX_BODY_BYTES} bytes\n", status_code=413)
        at, path = self._now(), _target(request)
        problem = await self._problem(path, body, request.headers.get(SIGNATURE_HEADER), at)
        shown = {name: request.headers[name] for name in _SHOWN_HEADERS if name in request.headers}
        self._deliveries.append(Delivery(at, path, shown, body, problem))
        if problem is not None:
            return PlainTextResponse(problem + "\n", status_code=401)
        return PlainTextResponse("received\n")

    async def _problem(self, path: str, body: bytes, header: str | None, at: datetime) -> str | None:
        if header is None:
            return f"there is no {SIGNATURE_HEADER}"
        secrets = await self._find_secret(f"https://{INBOX_HOST}{path}")
        if not secrets:
            return "no endpoint is registered under this address"
        try:
            verify(secrets, body, header, int(at.timestamp()))
        except SignatureRejected as rejected:
            return str(rejected)
        return None


async def _read(request: Request) -> bytes | None:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            return None
    return bytes(body)


def _target(request: Request) -> str:
    """Return path and query as sent: the URL was registered in this spelling."""
    raw = request.scope.get("raw_path") or quote(request.scope["path"]).encode()
    query = request.scope["query_string"]
    return (raw + b"?" + query if query else raw).decode("latin-1")


class MailInbox:
    """Keeps the last 100 mails in memory; they hold one-time links."""

    def __init__(self) -> None:
        self._mails: deque[OutgoingMail] = deque(maxlen=MAILS_KEPT)

    @property
    def mails(self) -> Sequence[OutgoingMail]:
        """The kept mails, newest first."""
        return tuple(reversed(self._mails))

    async def send(self, mail: OutgoingMail) -> None:
        """Keep a mail."""
        if not (mail.recipient.isprintable() and mail.subject.isprintable()):
            raise MailRefused("header")
        self._mails.append(mail)
