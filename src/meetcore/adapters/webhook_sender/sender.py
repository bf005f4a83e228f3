"""One delivery attempt under one time limit (rules 4.3/1, 6/1 and 6/4).

An attempt lasts from the lookup to the last byte read. An answered post is not repeated; redirects, proxies
and cookies are not used; a receiver's behaviour raises no errors.
"""

import asyncio
import ssl
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from http import HTTPStatus
from ipaddress import ip_address
from time import monotonic
from uuid import UUID

from meetcore.adapters.webhook_sender import connection, dialling
from meetcore.adapters.webhook_sender.pool import ConnectionPool
from meetcore.adapters.webhook_sender.resolver import DnsCache
from meetcore.adapters.webhook_sender.trust import Trust
from meetcore.domain.errors import DomainError
from meetcore.domain.requests.grants import MAX_DOCUMENT_BYTES
from meetcore.domain.webhooks import deliveries, urls
from meetcore.domain.webhooks.addresses import Address, Network, vet
from meetcore.domain.webhooks.kept_headers import kept_headers
from meetcore.domain.webhooks.sender_faults import SenderFault
from meetcore.ports import webhook_sender
from meetcore.ports.webhook_sender import OutgoingPost, SenderFailed

_HTTPS_PORT = 443
_ROUTES = 4096
_SILENT = 4096
"""Limit of remembered receivers that did not answer; the oldest is dropped first."""


class AsyncioWebhookSender:
    """Posts to a vetted address within a time limit.

    `post` takes at most `max_wait_s` + `timeout_s` and returns an attempt or raises `SenderFailed`: a claim
    that lasts longer does not expire meanwhile. `timeout_s` is for lookup, connecting, TLS, headers and body
    together; waiting for one of `max_connections` does not count towards it. Lookups are shared for at most
    one second. The allowed networks are exempt from the address rule, the denied ones refused in addition;
    `ca_file` has additional authorities (PEM), and is read again when it has changed. `dial_overrides` map
    host names to an address and port, without lookup and vetting, for development. From `max_open` open
    connections on, idle ones included, none is kept.
    """

    def __init__(
        self,
        resolver: webhook_sender.Resolver,
        allowed_networks: Iterable[Network] = (),
        ca_file: str | None = None,
        timeout_s: float = 10.0,
        dial_overrides: Mapping[str, tuple[str, int]] | None = None,
        max_connections: int = 512,
        max_wait_s: float = 10.0,
        max_open: int = 768,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        denied_networks: Iterable[Network] = (),
    ) -> None:
        self._dns_cache = DnsCache(resolver, monotonic)
        self._allowed_networks = tuple(allowed_networks)
        self._denied_networks = tuple(denied_networks)
        self._trust = Trust(ca_file)
        self._timeout_s = timeout_s
        self._overrides = {
            host: dialling.VettedRoute(host, (ip_address(address),), port)
            for host, (address, port) in (dial_overrides or {}).items()
        }
        self._under_way = asyncio.Semaphore(max_connections)
        self._max_wait_s = max_wait_s
        self._now = now
        self._max_open = max_open
        self._pool: ConnectionPool | None = None
        self._silent: dict[str, None] = {}
        # A verdict depends on the address alone, so it is cached.
        self._vetted = lru_cache(_ROUTES)(self._vet)

    def open(self) -> None:
        """Load the certificates and open the pool; raise `OSError` where the CA file cannot be read."""
        self._trust.load()
        self._pool = ConnectionPool(self._trust, self._max_open)

    async def close(self) -> None:
        """Close all connections; posts in progress raise `SenderFailed`."""
        pool, self._pool = self._pool, None
        await self._dns_cache.close()
        if pool is not None:
            await pool.close()

    async def post(self, post: OutgoingPost) -> deliveries.Attempt:
        exchange = connection.Exchange()
        error, took_s, at = await self._send(post, exchange)
        return self._to_attempt(exchange, error, at, round(took_s * 1000))

    async def fetch(self, url: urls.WebhookUrl, requester: UUID) -> bytes:
        exchange = connection.Exchange()
        get = OutgoingPost(requester, url, {"Accept": "application/json"}, b"", "GET")
        try:
            error, *_ = await self._send(get, exchange)
        except (SenderFailed, webhook_sender.PostDeferred) as fault:
            raise webhook_sender.DocumentUnavailable(str(fault)) from None
        if error or exchange.status != HTTPStatus.OK or len(exchange.body) > MAX_DOCUMENT_BYTES:
            raise webhook_sender.DocumentUnavailable(error or f"status {exchange.status}, or too large")
        return bytes(exchange.body)

    async def _send(
        self, post: OutgoingPost, exchange: connection.Exchange
    ) -> tuple[str | None, float, datetime]:
        """Make one attempt; return its error, how many seconds it took, and when it began."""
        pool = self._pool
        if pool is None:
            raise RuntimeError("open() the sender before posting")
        request = connection.request_bytes(post)
        if self._trust.is_look_due():
            await asyncio.to_thread(self._trust.look)
        await self._acquire()
        try:
            at, started = self._now(), monotonic()
            error = await self._try(pool, post, request, exchange)
            self._remember(post.url, exchange, error)
            return error, monotonic() - started, at
        finally:
            self._under_way.release()

    def _remember(self, url: urls.WebhookUrl, exchange: connection.Exchange, error: str | None) -> None:
        """Deny a receiver that timed out pooled connections until it has answered again.

        It would probably time out again, which closes the connection, and another receiver at the same host
        would need a new one.
        """
        if exchange.status is not None:
            self._silent.pop(url.text, None)
        elif error == "timeout":
            self._silent[url.text] = None
            if len(self._silent) > _SILENT:
                del self._silent[next(iter(self._silent))]

    async def _acquire(self) -> None:
        if not self._under_way.locked():
            await self._under_way.acquire()  # without the cost of a timeout
            return
        try:
            async with asyncio.timeout(self._max_wait_s):
                await self._under_way.acquire()
        except TimeoutError as fault:
            raise _short("too many concurrent posts") from fault

    async def _try(
        self, pool: ConnectionPool, post: OutgoingPost, request: bytes, exchange: connection.Exchange
    ) -> str | None:
        clock = asyncio.timeout(self._timeout_s)
        try:
            async with clock:
                await self._resolve_and_send(pool, post, request, exchange)
        except asyncio.CancelledError as fault:
            if self._pool is pool:
                raise
            raise _short("the sender was closed") from fault
        except TimeoutError as fault:
            if dialling.is_late(clock):
                raise _short("the timeout fired late") from fault
            return _where_time_ran_out(exchange)
        except webhook_sender.LookupsBusy as fault:
            raise webhook_sender.PostDeferred(fault.message) from fault
        except (DomainError, connection.InvalidResponse, OSError) as fault:
            if self._pool is not pool or dialling.is_local_fault(fault, exchange.dial):
                raise _short("this machine fell short") from fault
            if (own := self._own_fault(fault, exchange)) is not None:
                raise SenderFailed(own, str(fault)) from fault
            return connection.error_code(fault, is_connected=_peer_of(exchange) is not None)
        except (MemoryError, RuntimeError) as fault:
            if dialling.is_local_fault(fault, exchange.dial):
                raise _short("this machine fell short") from fault
            raise
        return None

    def _own_fault(self, fault: Exception, exchange: connection.Exchange) -> SenderFault | None:
        """Return why an attempt would have failed at any receiver; `None` where the fault is this one's."""
        if isinstance(fault, webhook_sender.ResolverUnavailable):
            return SenderFault.NO_RESOLVER
        if isinstance(fault, ssl.SSLCertVerificationError) and not self._trust.has_authorities:
            return SenderFault.NO_AUTHORITIES
        if exchange.dial is not None and exchange.dial.peer is None and dialling.is_without_route(fault):
            return SenderFault.NO_ROUTE
        return None

    async def _resolve_and_send(
        self, pool: ConnectionPool, post: OutgoingPost, request: bytes, exchange: connection.Exchange
    ) -> None:
        route = await self._route(post.url, post.account_id)
        while True:
            dial = exchange.dial = dialling.ConnectionAttempt(
                route, may_reuse=post.url.text not in self._silent
            )
            try:
                return await pool.post(dial, request, exchange)
            except OSError:
                # A stale pooled connection is not a failed delivery. If the receiver took the event before
                # closing, the event's id identifies the duplicate.
                if dial.is_new_connection or exchange.status is not None:
                    raise

    async def _route(self, url: urls.WebhookUrl, account_id: UUID) -> dialling.VettedRoute:
        if (override := self._overrides.get(url.host)) is not None:
            return override
        literal = url.address
        found = (literal,) if literal is not None else await self._dns_cache.resolve(url.host, account_id)
        return self._vetted(url.host, found, _HTTPS_PORT)

    def _vet(self, host: str, addresses: tuple[Address, ...], port: int) -> dialling.VettedRoute:
        vet(addresses, self._allowed_networks, self._denied_networks)
        return dialling.VettedRoute(host, addresses, port)

    def _to_attempt(
        self, exchange: connection.Exchange, error: str | None, at: datetime, duration_ms: int
    ) -> deliveries.Attempt:
        status = exchange.status
        if status is not None and not 200 <= status < 300:
            # A received status outranks a faulty end of the response.
            error = f"status_{status}"
        return deliveries.Attempt(
            at=at,
            duration_ms=duration_ms,
            status_code=status,
            error=error,
            response_excerpt=connection.excerpt_of(
                bytes(exchange.body), exchange.headers.get("Content-Encoding", "")
            ),
            address=_peer_of(exchange),
            retry_after_s=connection.retry_after_s(exchange.headers, self._now()),
            response_headers=kept_headers(exchange.headers) if error and exchange.headers else None,
        )


def _short(cause: str) -> SenderFailed:
    return SenderFailed(SenderFault.NO_RESOURCES, cause)


def _where_time_ran_out(exchange: connection.Exchange) -> str:
    if exchange.dial is None:
        return "dns_failed"
    return "connect_timeout" if exchange.dial.peer is None else "timeout"


def _peer_of(exchange: connection.Exchange) -> str | None:
    return None if exchange.dial is None else exchange.dial.peer
