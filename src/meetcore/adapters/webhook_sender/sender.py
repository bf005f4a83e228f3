"""The sender: one attempt under one clock (spec 4.3 rule 1, 6 rules 1 and 4).

Owns an attempt from the lookup of the name to the last byte that is read. It refuses to retry what a
receiver answered, to follow redirects, to use a proxy or cookies, and to raise for anything that the
other side does.
"""

import asyncio
import ssl
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from ipaddress import ip_address
from time import monotonic

import aiohttp
from attrs import define, field
from multidict import CIMultiDict
from yarl import URL

from meetcore.adapters.webhook_sender.answers import (
    error_code,
    excerpt_of,
    is_our_fault,
    read_capped,
    retry_after_s,
)
from meetcore.adapters.webhook_sender.dialling import (
    Dial,
    Target,
    VettedRequest,
    VettedResolver,
    current_dial,
    vetted_socket,
)
from meetcore.adapters.webhook_sender.resolver import BriefAnswers
from meetcore.domain.addresses import Network, vet
from meetcore.domain.deliveries import Attempt
from meetcore.domain.errors import DomainError
from meetcore.domain.webhook_urls import WebhookUrl
from meetcore.ports.resolver import Resolver
from meetcore.ports.webhook_sender import OutgoingPost

__all__ = ["AiohttpWebhookSender"]

_HTTPS_PORT = 443
_NO_PIECES = aiohttp.ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None)
"""One clock runs over the whole attempt; aiohttp's own would each begin anew."""


def _utc_now() -> datetime:
    return datetime.now(UTC)


@define
class _Exchange:
    """What is known of an attempt so far: kept outside the clock, so that a time-out loses nothing."""

    dial: Dial | None = None
    status: int | None = None
    headers: Mapping[str, str] = field(factory=dict)
    body: bytearray = field(factory=bytearray)


class AiohttpWebhookSender:
    """Posts to a vetted address within a time limit.

    Args:
        resolver: asked anew for every attempt; an answer serves one second at most.
        allowed_networks: the operator's exemptions from the address rule.
        ca_file: certificates of more authorities (PEM), believed beside those of the system.
        timeout_s: the limit for lookup, connecting, TLS, headers and body together.
        dial_overrides: for development: host names that are not looked up and not vetted but dialled
            at an address and port, such as a made-up name that stands for an inbox on this machine.
        max_connections: posts at one time. The wait for a free one is ours and not on the clock.
        now: the wall clock.
    """

    def __init__(
        self,
        resolver: Resolver,
        allowed_networks: Iterable[Network] = (),
        ca_file: str | None = None,
        timeout_s: float = 10.0,
        dial_overrides: Mapping[str, tuple[str, int]] | None = None,
        max_connections: int = 200,
        now: Callable[[], datetime] = _utc_now,
    ) -> None:
        self._answers = BriefAnswers(resolver, monotonic)
        self._allowed_networks = tuple(allowed_networks)
        self._ca_file = ca_file
        self._timeout_s = timeout_s
        self._overrides = {
            host: (Target(ip_address(address), port),)
            for host, (address, port) in (dial_overrides or {}).items()
        }
        self._slots = asyncio.Semaphore(max_connections)
        self._now = now
        self._session: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        """Load the certificates and open the pool.

        Raises:
            OSError: the CA file cannot be read.
        """
        context = await asyncio.to_thread(_tls_context, self._ca_file)
        connector = aiohttp.TCPConnector(
            ssl=context,
            resolver=VettedResolver(),
            socket_factory=vetted_socket,
            use_dns_cache=False,
            limit=0,  # the slots are the limit: aiohttp's queue would wait on the receiver's clock
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            request_class=VettedRequest,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=_NO_PIECES,
            auto_decompress=False,
            trust_env=False,
        )

    async def close(self) -> None:
        """Close every connection. Posts under way end as lost connections."""
        await self._answers.close()
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def post(self, post: OutgoingPost) -> Attempt:
        """Make one attempt; see `meetcore.ports.webhook_sender.WebhookSender.post`.

        Raises:
            RuntimeError: the sender was not started.
            OSError: this machine is out of sockets or memory. No attempt has been made.
        """
        if self._session is None:
            raise RuntimeError("start() the sender before posting")
        async with self._slots:
            at, started = self._now(), monotonic()
            exchange = _Exchange()
            error = await self._try(self._session, post, exchange)
            return self._told(exchange, error, at, round((monotonic() - started) * 1000))

    async def _try(
        self, session: aiohttp.ClientSession, post: OutgoingPost, exchange: _Exchange
    ) -> str | None:
        is_whole = False
        try:
            async with asyncio.timeout(self._timeout_s):
                is_whole = await self._resolve_and_send(session, post, exchange)
        except TimeoutError:
            return _where_time_ran_out(exchange)
        except (DomainError, aiohttp.ClientError, OSError) as fault:
            if is_our_fault(fault):
                raise
            return error_code(fault)
        finally:
            if not is_whole and exchange.dial is not None and exchange.dial.transport is not None:
                # At once: a polite TLS goodbye would wait half a minute for a peer that does not answer.
                exchange.dial.transport.abort()
        return None

    async def _resolve_and_send(
        self, session: aiohttp.ClientSession, post: OutgoingPost, exchange: _Exchange
    ) -> bool:
        targets = await self._vetted(post.url)
        while True:
            exchange.dial = Dial(post.url.host, targets)
            current_dial.set(exchange.dial)
            try:
                return await _send(session, post, exchange)
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
                # A pooled connection that the receiver had closed meanwhile is not a failed delivery. Should
                # it have taken the event before it closed, the event's id lets it drop the double.
                if exchange.dial.is_new_connection or exchange.status is not None:
                    raise

    async def _vetted(self, url: WebhookUrl) -> tuple[Target, ...]:
        if (override := self._overrides.get(url.host)) is not None:
            return override
        literal = url.address
        addresses = (literal,) if literal is not None else await self._answers.resolve(url.host)
        vet(addresses, self._allowed_networks)
        return tuple(Target(address, _HTTPS_PORT) for address in addresses)

    def _told(self, exchange: _Exchange, error: str | None, at: datetime, duration_ms: int) -> Attempt:
        status = exchange.status
        if status is not None and not 200 <= status < 300:
            # What the receiver said counts for more than how its answer ended.
            error = f"status_{status}"
        return Attempt(
            at=at,
            duration_ms=duration_ms,
            status_code=status,
            error=error,
            response_excerpt=excerpt_of(bytes(exchange.body), exchange.headers.get("Content-Encoding", "")),
            address=exchange.dial.peer if exchange.dial is not None else None,
            retry_after_s=retry_after_s(exchange.headers, self._now()),
        )


async def _send(session: aiohttp.ClientSession, post: OutgoingPost, exchange: _Exchange) -> bool:
    """Send and read; tell whether the whole answer was read, so that the connection may be kept."""
    dial = exchange.dial
    assert dial is not None
    url = post.url
    async with session.post(
        URL(f"https://{dial.pseudonym}{url.request_target}", encoded=True),
        data=post.body,
        headers=_headers(post),
        server_hostname=url.host,
        allow_redirects=False,
    ) as response:
        exchange.status = response.status
        exchange.headers = response.headers
        is_whole = await read_capped(response, exchange.body)
        if not is_whole:
            response.close()
        return is_whole


def _headers(post: OutgoingPost) -> CIMultiDict[str]:
    headers = CIMultiDict(
        {
            "User-Agent": "meetcore",
            "Content-Type": "application/json",
            "Accept": "*/*",
            "Accept-Encoding": "identity",
        }
    )
    headers.update(post.headers)
    host = post.url.host
    headers["Host"] = f"[{host}]" if ":" in host else host
    return headers


def _where_time_ran_out(exchange: _Exchange) -> str:
    if exchange.dial is None:
        return "dns_failed"
    return "connect_timeout" if exchange.dial.transport is None else "timeout"


def _tls_context(ca_file: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    # From 3.13 on Python's default also refuses certificates that lack extensions which nobody misses:
    # a receiver must not fall silent because we run on a newer Python.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.set_alpn_protocols(["http/1.1"])
    if ca_file is not None:
        context.load_verify_locations(cafile=ca_file)
    return context
