"""The receiving side: accepts deliveries as a careful customer would.

Owns the check of `X-Service-Signature` over the raw body and the memory of the last deliveries. It answers
200 to valid deliveries and 401 to invalid ones, and keeps both until the process ends. It acts on none of
them.
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
from meetcore.domain.webhooks.signature import SIGNATURE_HEADER, SignatureRejected, verify

FindSecrets = Callable[[str], Awaitable[list[str]]]
"""The secrets of the endpoints with a URL; empty when there are none."""

KEPT: Final = 200
MAX_BODY_BYTES: Final = 1024 * 1024

_SHOWN_HEADERS: Final = (
    "X-Service-Event",
    "X-Service-Delivery",
    SIGNATURE_HEADER,
    "webhook-id",
    "webhook-timestamp",
    "webhook-signature",
    "Content-Type",
    "User-Agent",
)


@frozen
class Delivery:
    """A received delivery. `problem` is why its verification failed, or `None`."""

    received_at: datetime
    path: str
    headers: dict[str, str]
    body: bytes
    problem: str | None

    @property
    def is_verified(self) -> bool:
        """Whether a careful receiver would accept it."""
        return self.problem is None


def _utc_now() -> datetime:
    return datetime.now(UTC)


class InboxApp:
    """The ASGI application to put behind TLS: takes a POST to any path.

    Args:
        find_secret: the secrets registered for a URL, `https://inbox.meetcore.test` with path and
            query as they were sent; any of them may have signed.
    """

    def __init__(self, find_secret: FindSecrets, *, now: Callable[[], datetime] = _utc_now) -> None:
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
    """Return path and query as they were sent: the URL was registered in this spelling."""
    raw = request.scope.get("raw_path") or quote(request.scope["path"]).encode()
    query = request.scope["query_string"]
    return (raw + b"?" + query if query else raw).decode("latin-1")
