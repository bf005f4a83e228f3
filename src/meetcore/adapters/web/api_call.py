"""A request to the API of this process, without a network: it passes the same checks as any other."""

from collections.abc import Mapping, MutableMapping
from typing import Any
from urllib.parse import quote, urlencode

from attrs import field, frozen
from starlette.datastructures import Headers
from starlette.types import ASGIApp


@frozen
class ApiCall:
    """A request to be sent. `path` is not percent-encoded; `headers` may hold a key."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)

    @property
    def url(self) -> str:
        """The address below the service's own."""
        return quote(self.path) + (f"?{urlencode(self.query)}" if self.query else "")


@frozen
class ApiAnswer:
    """An answer, complete."""

    status: int
    headers: Headers
    body: bytes = field(repr=False)


async def call_api(api: ASGIApp, call: ApiCall) -> ApiAnswer:
    """Send a request to an ASGI application, and return the answer once it is whole."""
    given = {"host": "localhost", "content-length": str(len(call.body))} | dict(call.headers)
    scope: dict[str, Any] = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http",
        "method": call.method, "path": call.path, "raw_path": quote(call.path).encode(), "root_path": "",
        "query_string": urlencode(call.query).encode(), "client": None, "server": None,
        "headers": [(name.lower().encode(), value.encode()) for name, value in given.items()],
    }  # fmt: skip
    sent: list[MutableMapping[str, Any]] = []
    parts = iter([{"type": "http.request", "body": call.body, "more_body": False}])

    async def receive() -> MutableMapping[str, Any]:
        return next(parts, {"type": "http.disconnect"})

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    await api(scope, receive, send)
    body = b"".join(message.get("body", b"") for message in sent[1:])
    return ApiAnswer(sent[0]["status"], Headers(raw=list(sent[0]["headers"])), body)
