"""One request to the endpoint: a whole answer, or `AiUnavailable`.

Owns the connections, the one time limit of a request and the cap on an answer's size. It follows no
redirects, takes no proxy of the environment, repeats nothing, and lets no text of the HTTP client out: it may
hold a header, and a header holds the key.
"""

import asyncio
import ssl
from collections.abc import Mapping
from functools import cache
from typing import BinaryIO, Final

import httpx
from attrs import field, frozen

from meetcore.adapters.openai.access import AiAccess
from meetcore.ports.ai import AiUnavailable
from meetcore.ports.tracing import NO_TRACING, Tracing

MAX_RESPONSE_BYTES: Final = 4 * 1024 * 1024
_CONNECT_S: Final = 5.0
_LIMITS: Final = httpx.Limits(max_connections=64, max_keepalive_connections=8, keepalive_expiry=20)


@frozen
class HttpResponse:
    """An answer of any status."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


@frozen
class FileForm:
    """What a file in a form is called, and what kind of media it is."""

    name: str
    media_type: str


@cache
def _tls() -> ssl.SSLContext:
    """Return the context of all clients: to load the authorities' certificates takes 20 ms."""
    return httpx.create_ssl_context(trust_env=False)


class HttpClient:
    """The connections to one endpoint; each request is a span, which the endpoint can continue."""

    def __init__(self, access: AiAccess, tracing: Tracing = NO_TRACING) -> None:
        self._tracing = tracing
        self._timeout_s = access.timeout_s
        self._base_url = access.base_url
        headers = {"Accept": "application/json"}
        if access.api_key:
            headers["Authorization"] = f"Bearer {access.api_key}"
        self._http = httpx.AsyncClient(
            verify=_tls(), limits=_LIMITS, headers=headers,
            trust_env=False, follow_redirects=False, timeout=httpx.Timeout(None, connect=_CONNECT_S),
        )  # fmt: skip

    async def post_json(self, path: str, body: object) -> HttpResponse:
        """Send JSON.

        Raises:
            AiUnavailable: there is no whole answer, or it is longer than 4 MiB.
        """
        with self._tracing.span(f"ai {path}"):
            return await self._send(
                self._http.build_request(
                    "POST", self._base_url + path, json=body, headers=self._tracing.headers()
                )
            )

    async def post_file(
        self, path: str, fields: Mapping[str, str], form: FileForm, file: BinaryIO
    ) -> HttpResponse:
        """Send a form with a file, read from where it is.

        Raises:
            AiUnavailable: as `post_json`.
        """
        with self._tracing.span(f"ai {path}"):
            request = self._http.build_request(
                "POST", self._base_url + path, data=dict(fields), headers=self._tracing.headers(),
                files={"file": (form.name, file, form.media_type)},
            )  # fmt: skip
            return await self._send(request)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def _send(self, request: httpx.Request) -> HttpResponse:
        try:
            async with asyncio.timeout(self._timeout_s):
                response = await self._http.send(request, stream=True)
                try:
                    return HttpResponse(response.status_code, response.headers, await _read(response))
                finally:
                    await response.aclose()
        except TimeoutError:
            raise AiUnavailable("ai: no whole answer in time") from None
        except (httpx.RequestError, httpx.StreamError) as error:
            raise AiUnavailable(f"ai: {type(error).__name__}") from None


async def _read(response: httpx.Response) -> bytes:
    body = bytearray()
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) > MAX_RESPONSE_BYTES:
            raise AiUnavailable("ai: longer than an answer may be")
    return bytes(body)
