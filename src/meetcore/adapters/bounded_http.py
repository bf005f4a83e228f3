"""HTTP requests bounded in time and size, with two failures: `NotSent` and `NoResponse`.

No redirects, no proxy or netrc of the environment, no repeats. Texts of the HTTP client are not passed on:
they may hold a header with a token.
"""

import asyncio
import ssl
from collections.abc import Mapping
from functools import cache
from typing import Any

import httpx
from attrs import define, field, frozen

from meetcore.adapters.tls import without_strict
from meetcore.ports.observability import NO_TRACING, Tracing


class NotSent(Exception):
    """No connection: nothing was sent."""


class NoResponse(Exception):
    """The request may have arrived; there is no whole response."""


@frozen
class HttpResponse:
    """A response of any status."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)

    @property
    def is_done(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300


@define
class _Pool:
    http: httpx.AsyncClient
    in_flight: int = 0


@cache
def tls_context() -> ssl.SSLContext:
    """Return the shared TLS context: loading the authorities takes 20 ms."""
    return without_strict(httpx.create_ssl_context(trust_env=False))


class BoundedHttp:
    """Pooled connections, kept for 20 s; requests continue the current trace.

    `max_bytes` bounds a response's body, `whole_s` seconds a request, if its caller does not, and `connect_s`
    connecting, and waiting for a free connection. There are several pools, because httpx scans all
    connections of one at the start and end of each request: one for 200 requests blocked the process for
    seconds, sixteen small ones do not.
    """

    def __init__(
        self,
        *,
        max_bytes: int,
        connect_s: float,
        whole_s: float | None = None,
        connections: int = 32,
        pools: int = 1,
        tracing: Tracing = NO_TRACING,
    ) -> None:
        self._max_bytes = max_bytes
        self._connect_s = connect_s
        self._whole_s = whole_s
        self._tracing = tracing
        limits = httpx.Limits(max_connections=connections, max_keepalive_connections=4, keepalive_expiry=20)
        self._pools = [
            _Pool(httpx.AsyncClient(verify=tls_context(), limits=limits, trust_env=False))
            for _ in range(pools)
        ]

    async def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        *,
        read_s: float | None = None,
        **content: Any,
    ) -> HttpResponse:
        """Send one request, with `content` as httpx takes it, and read its response, each read in `read_s`.

        Raises `NotSent` without a connection; `NoResponse` for a timeout, a broken connection, no HTTP, or
        too long a response.
        """
        timeout = httpx.Timeout(read_s, connect=self._connect_s, pool=self._connect_s)
        headers = {**headers, **self._tracing.headers()}
        pool = min(self._pools, key=lambda each: each.in_flight)
        pool.in_flight += 1
        try:
            async with (
                asyncio.timeout(self._whole_s),
                pool.http.stream(method, url, headers=headers, timeout=timeout, **content) as response,
            ):
                return HttpResponse(response.status_code, response.headers, await self._read(response))
        except TimeoutError:
            raise NoResponse("no whole answer in time") from None
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.InvalidURL) as error:
            raise NotSent(type(error).__name__) from None
        except (httpx.RequestError, httpx.StreamError) as error:
            raise NoResponse(type(error).__name__) from None
        finally:
            pool.in_flight -= 1

    async def _read(self, response: httpx.Response) -> bytes:
        body = bytearray()
        async for piece in response.aiter_bytes():
            body += piece
            if len(body) > self._max_bytes:
                raise NoResponse("response too long")
        return bytes(body)

    async def aclose(self) -> None:
        """Close the connections."""
        for pool in self._pools:
            await pool.http.aclose()
