"""The two clients: the same operations, blocking and awaited.

Owns the defaults and what is read from the environment.
"""

import asyncio
import os
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Final, Generic, Self, TypeVar

import httpx
from attrs import evolve

from meetcore.client.descriptors import Awaited, AwaitedResponses, Blocking, BlockingResponses, M
from meetcore.client.event_operations import EventOperations
from meetcore.client.exchange import RetryPolicy
from meetcore.client.note_operations import NoteOperations, RecordingOperations
from meetcore.client.operations import (
    AccountOperations,
    CreditOperations,
    MeetingOperations,
    WebhookOperations,
)
from meetcore.client.rate_limit import RateLimit
from meetcore.client.transport import AsyncTransport, ServiceAddress, SyncTransport

__all__ = ["API_KEY_VARIABLE", "BASE_URL_VARIABLE", "AsyncClient", "Client"]

BASE_URL_VARIABLE: Final = "MEETCORE_BASE_URL"
API_KEY_VARIABLE: Final = "MEETCORE_API_KEY"

Transport = TypeVar("Transport", SyncTransport, AsyncTransport)


class Operations(AccountOperations[M]):
    """Every operation of the API, in a mode."""

    def __init__(self, mode: M) -> None:
        super().__init__(mode)
        self.meetings = MeetingOperations(mode)
        self.credits = CreditOperations(mode)
        self.webhooks = WebhookOperations(mode)
        self.events = EventOperations(mode)
        self.recordings = RecordingOperations(mode)
        self.notes = NoteOperations(mode)


class _Client(Operations[M], Generic[M, Transport]):
    _mode_of: Callable[[Transport], M]

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
        """Make a client with other options that shares the connections of this one: for a call, or for some.

        What is not given stays. Close this one, not those that were made of it.

        Args:
            timeout_s: see `Client`.
            max_attempts: see `Client`.
            max_total_s: see `Client`.
            headers: sent with every request to the API, beside those that were given before.

        Raises:
            ValueError: one of them cannot be meant, or a header is the client's own.
        """
        place, policy = self._transport.place, self._transport.policy
        place = evolve(place, extra_headers={**place.extra_headers, **(headers or {})})
        policy = evolve(
            policy,
            timeout_s=policy.timeout_s if timeout_s is None else timeout_s,
            max_attempts=policy.max_attempts if max_attempts is None else max_attempts,
            max_total_s=policy.max_total_s if max_total_s is None else max_total_s,
        )
        twin = object.__new__(type(self))
        twin._use(evolve(self._transport, place=place, policy=policy))
        return twin

    @property
    def rate_limit(self) -> RateLimit | None:
        """The request rate by the last answer; None before the first."""
        return self._transport.last_seen.rate_limit

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._transport.place.base_url!r})"


def _place(base_url: str | None, api_key: str | None) -> ServiceAddress:
    """The service's address and the key: as given, or from the environment."""
    return ServiceAddress(
        _given("base_url", base_url, BASE_URL_VARIABLE), _given("api_key", api_key, API_KEY_VARIABLE)
    )


def _given(name: str, value: str | None, variable: str) -> str:
    if value is None:
        value = os.environ.get(variable) or None
    if value is None:
        raise ValueError(f"{name} is not given, and {variable} is not set")
    return value


class Client(_Client[Blocking, SyncTransport]):
    """A client that blocks. Make one and share it among threads; close it, or use it in a `with`.

    Args:
        base_url: where the service is, without `/api/v1`; else `MEETCORE_BASE_URL` of the environment.
        api_key: the key, as it was shown once; else `MEETCORE_API_KEY` of the environment.
        timeout_s: seconds for one attempt: for connecting, for each wait for bytes, for the body as a whole.
        max_attempts: how often a call is tried; 1 tries it once.
        max_total_s: seconds for a call with its attempts and waits. A wait that would pass it is not begun.
        transport: of httpx, in the place of its own: for tests, proxies, certificates. Without one, httpx
            takes proxies from the environment.
        sleep: waits so many seconds.
        clock: seconds from any beginning.
        jitter: draws from [0, 1): the share of each back-off that is waited.

    Raises:
        ValueError: one of them is missing or cannot be meant.
    """

    _mode_of = Blocking

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        timeout_s: float = 30.0,
        max_attempts: int = 6,
        max_total_s: float = 120.0,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], object] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        place, policy = _place(base_url, api_key), RetryPolicy(timeout_s, max_attempts, max_total_s)
        http = httpx.Client(headers=place.headers, transport=transport)
        self._use(SyncTransport(place, policy, http, sleep, clock, jitter))

    @property
    def with_response(self) -> Operations[BlockingResponses]:
        """The operations once more, each returning a `Response` that holds the result."""
        return Operations(BlockingResponses(self._transport))

    def close(self) -> None:
        """Close the connections."""
        self._transport.http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class AsyncClient(_Client[Awaited, AsyncTransport]):
    """A client that awaits, on asyncio. Make one and share it among tasks; close it, or use `async with`.

    The arguments are those of `Client`; `sleep` is awaited.
    """

    _mode_of = Awaited

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        timeout_s: float = 30.0,
        max_attempts: int = 6,
        max_total_s: float = 120.0,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        place, policy = _place(base_url, api_key), RetryPolicy(timeout_s, max_attempts, max_total_s)
        http = httpx.AsyncClient(headers=place.headers, transport=transport)
        self._use(AsyncTransport(place, policy, http, sleep, clock, jitter))

    @property
    def with_response(self) -> Operations[AwaitedResponses]:
        """The operations once more, each returning a `Response` that holds the result."""
        return Operations(AwaitedResponses(self._transport))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()
