"""The two clients, blocking and awaited, their defaults and their environment variables."""

import asyncio
import os
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Final, Generic, Self, TypeVar

import httpx
from attrs import evolve

from meetcore.client import calls, descriptors, exchange, operations, records, webhooks
from meetcore.client.transport import (
    AsyncTransport,
    ServiceAddress,
    SyncTransport,
    async_transport,
    sync_transport,
)

__all__ = ["API_KEY_VARIABLE", "BASE_URL_VARIABLE", "AsyncClient", "Client"]

BASE_URL_VARIABLE: Final = "MEETCORE_BASE_URL"
API_KEY_VARIABLE: Final = "MEETCORE_API_KEY"

T = TypeVar("T")
Transport = TypeVar("Transport", SyncTransport, AsyncTransport)


class Operations(operations.AccountOperations[descriptors.M]):
    """Every operation of the API in a mode."""

    def __init__(self, mode: descriptors.M) -> None:
        super().__init__(mode)
        self.meetings = operations.MeetingOperations(mode)
        self.credits = operations.CreditOperations(mode)
        self.webhooks = webhooks.WebhookOperations(mode)
        self.events = webhooks.EventOperations(mode)
        self.recordings = operations.RecordingOperations(mode)
        self.notes = operations.NoteOperations(mode)


class _Client(Operations[descriptors.M], Generic[descriptors.M, Transport]):
    _mode_of: Callable[[Transport], descriptors.M]

    def _use(self, transport: Transport) -> None:
        super().__init__(self._mode_of(transport))
        self._transport: Transport = transport

    def with_options(
        self,
        *,
        timeout_s: float | None = None,
        max_attempts: int | None = None,
        max_total_s: float | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Self:
        """Make a client with other options, and more headers, that shares the connections of this one.

        Options that are not given stay. Close this client, not the derived ones. Raises `ValueError` where an
        option is out of range, or a header belongs to the client.
        """
        address, policy = self._transport.address, self._transport.policy
        address = evolve(address, extra_headers={**address.extra_headers, **(headers or {})})
        policy = evolve(
            policy,
            timeout_s=policy.timeout_s if timeout_s is None else timeout_s,
            max_attempts=policy.max_attempts if max_attempts is None else max_attempts,
            max_total_s=policy.max_total_s if max_total_s is None else max_total_s,
        )
        twin = object.__new__(type(self))
        twin._use(evolve(self._transport, address=address, policy=policy))
        return twin

    @property
    def rate_limit(self) -> records.RateLimit | None:
        """The rate limit by the last response; None before the first."""
        return self._transport.last_seen.rate_limit

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._transport.address.base_url!r})"


def _address(base_url: str | None, api_key: str | None, *, allow_http: bool) -> ServiceAddress:
    """Return the service's address and the key, as given or from the environment."""
    return ServiceAddress(
        _given("base_url", base_url, BASE_URL_VARIABLE), _given("api_key", api_key, API_KEY_VARIABLE),
        allow_http=allow_http,
    )  # fmt: skip


def _given(name: str, value: str | None, variable: str) -> str:
    if value is None:
        value = os.environ.get(variable) or None
    if value is None:
        raise ValueError(f"{name} is not given, and {variable} is not set")
    return value


class Client(_Client[descriptors.Blocking, SyncTransport]):
    """A blocking client. Make one and share it among threads; close it, or use it in a `with`.

    Args:
        base_url: the address of the service, without `/api/v1`; else `MEETCORE_BASE_URL`.
        api_key: the key, as it was shown once; else `MEETCORE_API_KEY`.
        timeout_s: seconds for one attempt: connecting, each wait for bytes, and the body as a whole.
        max_attempts: attempts of a call; 1 disables retries.
        max_total_s: seconds for a call with its attempts and waits. A wait that would pass it is not begun.
        allow_http: whether the key may be sent in the clear, to another machine.
        transport: a transport of httpx, for tests, proxies or certificates. Without one, the proxy
            for `base_url` is taken from the environment, but for what `NO_PROXY` names.
        clock: seconds from any beginning.
        jitter: draws the share of each back-off from [0, 1).

    Raises:
        ValueError: an argument is missing or out of range.
    """

    _mode_of = descriptors.Blocking

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        timeout_s: float = 30.0,
        max_attempts: int = 6,
        max_total_s: float = 120.0,
        allow_http: bool = False,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], object] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        address = _address(base_url, api_key, allow_http=allow_http)
        policy = exchange.RetryPolicy(timeout_s, max_attempts, max_total_s)
        transport = transport or sync_transport(address.base_url)
        http = httpx.Client(headers=address.headers, transport=transport)
        self._use(SyncTransport(address, policy, http, sleep, clock, jitter))

    @property
    def with_response(self) -> Operations[descriptors.BlockingResponses]:
        """The same operations, each returning a `Response` with the result."""
        return Operations(descriptors.BlockingResponses(self._transport))

    def send(self, call: calls.Call[T]) -> T:
        """Make a call that is described by hand, such as of an operation that this version does not know."""
        return self._transport.respond(call).result

    def close(self) -> None:
        """Close the connections."""
        self._transport.http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class AsyncClient(_Client[descriptors.Awaited, AsyncTransport]):
    """A client on asyncio. Make one and share it among tasks; close it, or use `async with`.

    The arguments are those of `Client`; `sleep` is awaited. On trio give `sleep=trio.sleep`: without it,
    nothing is tried again there.
    """

    _mode_of = descriptors.Awaited

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        timeout_s: float = 30.0,
        max_attempts: int = 6,
        max_total_s: float = 120.0,
        allow_http: bool = False,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        address = _address(base_url, api_key, allow_http=allow_http)
        policy = exchange.RetryPolicy(timeout_s, max_attempts, max_total_s)
        transport = transport or async_transport(address.base_url)
        http = httpx.AsyncClient(headers=address.headers, transport=transport)
        self._use(AsyncTransport(address, policy, http, sleep, clock, jitter))

    @property
    def with_response(self) -> Operations[descriptors.AwaitedResponses]:
        """The same operations, each returning a `Response` with the result."""
        return Operations(descriptors.AwaitedResponses(self._transport))

    async def send(self, call: calls.Call[T]) -> T:
        """Make a call that is described by hand, such as of an operation that this version does not know."""
        return (await self._transport.respond(call)).result

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()
