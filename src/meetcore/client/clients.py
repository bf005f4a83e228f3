"""The two clients and what they are made of: the same operations, blocking and awaited.

Owns the defaults. Refuses to hold an operation (`operations`), a rule of retrying (`exchange`) or a request
(`shells`).
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

import httpx

from meetcore.client.exchange import RetryPolicy
from meetcore.client.note_operations import NoteOperations, RecordingOperations
from meetcore.client.operations import (
    AccountOperations,
    CreditOperations,
    MeetingOperations,
    WebhookOperations,
)
from meetcore.client.rate_limit import RateLimit
from meetcore.client.shells import AsyncShell, Place, Shell
from meetcore.client.surface import AsyncResource, SyncResource

__all__ = ["AsyncClient", "Client"]


class Meetings(MeetingOperations, SyncResource):
    """`client.meetings`."""


class Credits(CreditOperations, SyncResource):
    """`client.credits`."""


class Webhooks(WebhookOperations, SyncResource):
    """`client.webhooks`."""


class Recordings(RecordingOperations, SyncResource):
    """`client.recordings`."""


class Notes(NoteOperations, SyncResource):
    """`client.notes`."""


class AsyncMeetings(MeetingOperations, AsyncResource):
    """`client.meetings`."""


class AsyncCredits(CreditOperations, AsyncResource):
    """`client.credits`."""


class AsyncWebhooks(WebhookOperations, AsyncResource):
    """`client.webhooks`."""


class AsyncRecordings(RecordingOperations, AsyncResource):
    """`client.recordings`."""


class AsyncNotes(NoteOperations, AsyncResource):
    """`client.notes`."""


class Client(AccountOperations, SyncResource):
    """A client that blocks. Make one and share it among threads; close it, or use it in a `with`.

    Args:
        base_url: where the service is, without `/api/v1`.
        api_key: the key, as it was shown once.
        timeout_s: seconds for one attempt: for connecting, for each wait for bytes, for the body as a whole.
        max_attempts: how often a call is tried; 1 tries it once.
        max_total_s: seconds for a call with its attempts and waits. A wait that would pass it is not begun.
        transport: of httpx, in the place of its own: for tests, proxies, certificates. Without one, httpx
            takes proxies from the environment.
        sleep: waits so many seconds.
        clock: seconds from any beginning.
        jitter: draws from [0, 1): the share of each back-off that is waited.

    Raises:
        ValueError: one of them cannot be meant.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        timeout_s: float = 30.0,
        max_attempts: int = 6,
        max_total_s: float = 120.0,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], object] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        place, policy = Place(base_url, api_key), RetryPolicy(timeout_s, max_attempts, max_total_s)
        http = httpx.Client(headers=place.headers, transport=transport)
        self._shell = Shell(place, policy, http, sleep, clock, jitter)
        super().__init__(self._shell)
        self.meetings = Meetings(self._shell)
        self.credits = Credits(self._shell)
        self.webhooks = Webhooks(self._shell)
        self.recordings = Recordings(self._shell)
        self.notes = Notes(self._shell)

    @property
    def rate_limit(self) -> RateLimit | None:
        """What the last answer said of the request rate; None before the first."""
        return self._shell.rate_limit

    def close(self) -> None:
        """Close the connections."""
        self._shell.http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self._shell.place.base_url!r})"


class AsyncClient(AccountOperations, AsyncResource):
    """A client that awaits, on asyncio. Make one and share it among tasks; close it, or use `async with`.

    The arguments are those of `Client`; `sleep` is awaited.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        timeout_s: float = 30.0,
        max_attempts: int = 6,
        max_total_s: float = 120.0,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        place, policy = Place(base_url, api_key), RetryPolicy(timeout_s, max_attempts, max_total_s)
        http = httpx.AsyncClient(headers=place.headers, transport=transport)
        self._shell = AsyncShell(place, policy, http, sleep, clock, jitter)
        super().__init__(self._shell)
        self.meetings = AsyncMeetings(self._shell)
        self.credits = AsyncCredits(self._shell)
        self.webhooks = AsyncWebhooks(self._shell)
        self.recordings = AsyncRecordings(self._shell)
        self.notes = AsyncNotes(self._shell)

    @property
    def rate_limit(self) -> RateLimit | None:
        """What the last answer said of the request rate; None before the first."""
        return self._shell.rate_limit

    async def aclose(self) -> None:
        """Close the connections."""
        await self._shell.http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"AsyncClient({self._shell.place.base_url!r})"
