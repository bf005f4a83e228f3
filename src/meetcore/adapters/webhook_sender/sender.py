"""The sender: one attempt under one clock (rules 4.3/1, 6/1 and 6/4).

An attempt reaches from the lookup of the name to the last byte that is read. The sender does not repeat an
answered post, follows no redirect, uses no proxy and no cookies, and raises nothing for what the other
side does.
"""

import asyncio
import ssl
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from ipaddress import ip_address
from time import monotonic
from uuid import UUID

from meetcore.adapters.webhook_sender.answers import InvalidResponse, error_code, excerpt_of, retry_after_s
from meetcore.adapters.webhook_sender.dialling import ConnectionAttempt, VettedRoute
from meetcore.adapters.webhook_sender.exchange import Exchange, request_bytes
from meetcore.adapters.webhook_sender.local_faults import is_late, is_local_fault
from meetcore.adapters.webhook_sender.pool import ConnectionPool
from meetcore.adapters.webhook_sender.resolver import DnsCache
from meetcore.adapters.webhook_sender.semaphore import Semaphore
from meetcore.domain.errors import DomainError
from meetcore.domain.webhooks.addresses import Address, Network, vet
from meetcore.domain.webhooks.deliveries import Attempt
from meetcore.domain.webhooks.urls import WebhookUrl
from meetcore.ports.resolver import LookupsBusy, Resolver
from meetcore.ports.webhook_sender import OutgoingPost, PostDeferred, SenderExhausted

_HTTPS_PORT = 443
_ROUTES = 4096
_SILENT = 4096
"""At most so many receivers that did not answer are remembered; the oldest is forgotten first."""


def _utc_now() -> datetime:
    return datetime.now(UTC)


class AsyncioWebhookSender:
    """Posts to a vetted address within a time limit.

    `post` ends at most `max_wait_s` + `timeout_s` after it was called, in an attempt or in
    `SenderExhausted`: a claim that lasts longer is not lost meanwhile.

    Args:
        resolver: used for every attempt; an answer serves one second at most.
        allowed_networks: the operator's exemptions from the address rule.
        denied_networks: the operator's additions to what is refused.
        ca_file: certificates of more authorities (PEM), trusted beside those of the system.
        timeout_s: the limit for lookup, connecting, TLS, headers and body together.
        dial_overrides: for development: host names that are not looked up and not vetted but dialled
            at an address and port, such as a made-up name that stands for an inbox on this machine.
        max_connections: posts at one time. The wait for one to end does not count as the receiver's time.
        max_wait_s: the limit of that wait.
        max_open: connections open at one time, idle ones included; when there are so many, the connection
            of a post is closed after it and not kept.
        now: the wall clock.
    """

    def __init__(
        self,
        resolver: Resolver,
        allowed_networks: Iterable[Network] = (),
        ca_file: str | None = None,
        timeout_s: float = 10.0,
        dial_overrides: Mapping[str, tuple[str, int]] | None = None,
        max_connections: int = 512,
        max_wait_s: float = 10.0,
        max_open: int = 768,
        now: Callable[[], datetime] = _utc_now,
        denied_networks: Iterable[Network] = (),
    ) -> None:
        self._dns_cache = DnsCache(resolver, monotonic)
        self._allowed_networks = tuple(allowed_networks)
        self._denied_networks = tuple(denied_networks)
        self._ca_file = ca_file
        self._timeout_s = timeout_s
        self._overrides = {
            host: VettedRoute(host, (ip_address(address),), port)
            for host, (address, port) in (dial_overrides or {}).items()
        }
        self._under_way = Semaphore(max_connections)
        self._max_wait_s = max_wait_s
        self._now = now
        self._max_open = max_open
        self._pool: ConnectionPool | None = None
        self._silent: dict[str, None] = {}
        # The verdict on an address follows from the address, so one serves every attempt that brings it.
        self._vetted = lru_cache(_ROUTES)(self._vet)

    async def start(self) -> None:
        """Load the certificates and open the pool.

        Raises:
            OSError: the CA file cannot be read.
        """
        self._pool = ConnectionPool(await asyncio.to_thread(_tls_context, self._ca_file), self._max_open)

    async def close(self) -> None:
        """Close every connection. Posts under way end in `SenderExhausted`."""
        pool, self._pool = self._pool, None
        await self._dns_cache.close()
        if pool is not None:
            await pool.close()

    async def post(self, post: OutgoingPost) -> Attempt:
        pool = self._pool
        if pool is None:
            raise RuntimeError("start() the sender before posting")
        request = request_bytes(post)
        await self._acquire()
        try:
            at, started = self._now(), monotonic()
            exchange = Exchange()
            error = await self._try(pool, post, request, exchange)
            self._remember(post.url, exchange, error)
            return self._to_attempt(exchange, error, at, round((monotonic() - started) * 1000))
        finally:
            self._under_way.release()

    def _remember(self, url: WebhookUrl, exchange: Exchange, error: str | None) -> None:
        """Let a receiver that did not answer in time use no kept connection until it has answered again.

        It would most likely not answer the next post, either, and the connection is closed then: another
        receiver at the same host would need a new one.
        """
        if exchange.status is not None:
            self._silent.pop(url.text, None)
        elif error == "timeout":
            self._silent[url.text] = None
            if len(self._silent) > _SILENT:
                del self._silent[next(iter(self._silent))]

    async def _acquire(self) -> None:
        try:
            await self._under_way.acquire(self._max_wait_s)
        except TimeoutError as fault:
            raise SenderExhausted("too many posts were under way for too long") from fault

    async def _try(
        self, pool: ConnectionPool, post: OutgoingPost, request: bytes, exchange: Exchange
    ) -> str | None:
        clock = asyncio.timeout(self._timeout_s)
        try:
            async with clock:
                await self._resolve_and_send(pool, post, request, exchange)
        except asyncio.CancelledError as fault:
            if self._pool is pool:
                raise
            raise SenderExhausted("the sender was closed") from fault
        except TimeoutError as fault:
            if is_late(clock):
                raise SenderExhausted("this process did not look at the clock in time") from fault
            return _where_time_ran_out(exchange)
        except LookupsBusy as fault:
            raise PostDeferred(fault.message) from fault
        except (DomainError, InvalidResponse, OSError) as fault:
            if self._pool is not pool or is_local_fault(fault, exchange.dial):
                raise SenderExhausted("this machine fell short") from fault
            return error_code(fault, is_connected=_peer_of(exchange) is not None)
        except (MemoryError, RuntimeError) as fault:
            if is_local_fault(fault, exchange.dial):
                raise SenderExhausted("this machine fell short") from fault
            raise
        return None

    async def _resolve_and_send(
        self, pool: ConnectionPool, post: OutgoingPost, request: bytes, exchange: Exchange
    ) -> None:
        route = await self._route(post.url, post.account_id)
        while True:
            dial = exchange.dial = ConnectionAttempt(route, may_reuse=post.url.text not in self._silent)
            try:
                return await pool.post(dial, request, exchange)
            except OSError:
                # A pooled connection that the receiver had closed meanwhile is not a failed delivery. Should
                # it have taken the event before it closed, the event's id lets it drop the double.
                if dial.is_new_connection or exchange.status is not None:
                    raise

    async def _route(self, url: WebhookUrl, account_id: UUID) -> VettedRoute:
        if (override := self._overrides.get(url.host)) is not None:
            return override
        literal = url.address
        found = (literal,) if literal is not None else await self._dns_cache.resolve(url.host, account_id)
        return self._vetted(url.host, found, _HTTPS_PORT)

    def _vet(self, host: str, addresses: tuple[Address, ...], port: int) -> VettedRoute:
        vet(addresses, self._allowed_networks, self._denied_networks)
        return VettedRoute(host, addresses, port)

    def _to_attempt(self, exchange: Exchange, error: str | None, at: datetime, duration_ms: int) -> Attempt:
        status = exchange.status
        if status is not None and not 200 <= status < 300:
            # The receiver's status outranks a faulty end of its answer.
            error = f"status_{status}"
        return Attempt(
            at=at,
            duration_ms=duration_ms,
            status_code=status,
            error=error,
            response_excerpt=excerpt_of(bytes(exchange.body), exchange.headers.get("Content-Encoding", "")),
            address=_peer_of(exchange),
            retry_after_s=retry_after_s(exchange.headers, self._now()),
        )


def _where_time_ran_out(exchange: Exchange) -> str:
    if exchange.dial is None:
        return "dns_failed"
    return "connect_timeout" if exchange.dial.peer is None else "timeout"


def _peer_of(exchange: Exchange) -> str | None:
    return None if exchange.dial is None else exchange.dial.peer


def _tls_context(ca_file: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    # From 3.13 on Python's default also refuses certificates that lack extensions that are rarely set:
    # a receiver must not fail because we run on a newer Python.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.set_alpn_protocols(["http/1.1"])
    if ca_file is not None:
        context.load_verify_locations(cafile=ca_file)
    return context
