"""One HTTP exchange with Zoom, and which of three ways it ended: answered, not sent, no answer.

Owns the connections and the cap on an answer's size. It knows no operation, repeats nothing,
and lets no text of the HTTP client out: it may hold a header, and a header holds a token.
"""

import ssl
from collections.abc import Mapping
from functools import cache
from typing import Final

import httpx
import msgspec
from attrs import define, field, frozen

from meetcore.ports.tracing import NO_TRACING, Tracing

MAX_RESPONSE_BYTES: Final = 4 * 1024 * 1024
# A pool of httpx looks through all of its connections and its queue whenever a request begins or ends. One
# pool for 200 requests in flight stopped the process for seconds; sixteen small ones do not.
_POOLS: Final = 16
# Together as many as there may be creations in flight, or some would wait for others' answers.
_LIMITS: Final = httpx.Limits(max_connections=32, max_keepalive_connections=4, keepalive_expiry=20)
_CONNECT_S: Final = 3.0


class NotSent(Exception):
    """No connection came about: nothing reached Zoom."""


class NoResponse(Exception):
    """It may have reached Zoom, and what came back is no answer."""


class _Refusal(msgspec.Struct, frozen=True):
    code: int = 0
    message: str = ""


@frozen
class HttpResponse:
    """What Zoom answered. `is_after_doubt`: an earlier try of the same request may have arrived."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    is_after_doubt: bool = False

    @property
    def is_done(self) -> bool:
        """Whether the request succeeded."""
        return 200 <= self.status < 300

    @property
    def code(self) -> int:
        """Zoom's number of what it refused for; 0 when it gave none."""
        return self._refusal.code

    @property
    def message(self) -> str:
        """Zoom's message, never shown to customers."""
        return self._refusal.message

    @property
    def _refusal(self) -> _Refusal:
        try:
            return msgspec.json.decode(self.body, type=_Refusal)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return _Refusal()


@define
class _Pool:
    http: httpx.AsyncClient
    in_flight: int = 0


@cache
def tls_context() -> ssl.SSLContext:
    """Return the context of all connections: to load the authorities' certificates takes 20 ms."""
    return httpx.create_ssl_context(trust_env=False)


class HttpClient:
    """The connections to Zoom, five hundred at most; each request continues the trace that is open."""

    def __init__(self, tracing: Tracing = NO_TRACING) -> None:
        self._tracing = tracing
        tls = tls_context()
        # No proxy, and no password file, of the environment: what is set is all there is.
        self._pools = [
            _Pool(httpx.AsyncClient(verify=tls, limits=_LIMITS, trust_env=False, follow_redirects=False))
            for _ in range(_POOLS)
        ]

    async def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        *,
        params: Mapping[str, str] | None = None,
        body: object = None,
        form: Mapping[str, str] | None = None,
        read_s: float,
    ) -> HttpResponse:
        """Send one request and read its answer, of at most 4 MiB; wait at most `read_s` for each piece of it.

        Raises:
            NotSent: there is no connection.
            NoResponse: there was one, and then a time-out, a break, or no HTTP.
        """
        pool = min(self._pools, key=lambda each: each.in_flight)
        pool.in_flight += 1
        try:
            async with pool.http.stream(
                method, url, headers={**headers, **self._tracing.headers()}, params=params, json=body,
                data=form, timeout=httpx.Timeout(read_s, connect=_CONNECT_S, pool=_CONNECT_S),
            ) as response:  # fmt: skip
                return HttpResponse(response.status_code, response.headers, await _read(response))
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise NotSent(type(error).__name__) from None
        except (httpx.RequestError, httpx.StreamError) as error:
            raise NoResponse(type(error).__name__) from None
        finally:
            pool.in_flight -= 1

    async def aclose(self) -> None:
        """Close the connections."""
        for pool in self._pools:
            await pool.http.aclose()


async def _read(response: httpx.Response) -> bytes:
    body = bytearray()
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) > MAX_RESPONSE_BYTES:
            raise NoResponse("longer than an answer may be")
    return bytes(body)
