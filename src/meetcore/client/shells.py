"""The two that speak HTTP, one blocking, one awaited: both do what `exchange.conduct` says, no more.

Owns the httpx client, the API key in its headers, the size and time that an answer may take, and the rate
state last seen. Refuses to decide anything about a call. Redirects are not followed: a key goes nowhere that
it was not meant to go.
"""

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import metadata
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx
from attrs import define, field, frozen

from meetcore.client.calls import Call
from meetcore.client.exchange import Answer, Lost, RetryPolicy, Send, conduct
from meetcore.client.rate_limit import RateLimit, read_rate_limit

__all__ = ["MAX_ANSWER_BYTES", "AsyncShell", "Place", "Shell"]

MAX_ANSWER_BYTES = 16 * 1024 * 1024
"""The largest answer that is read, unpacked. A page of the longest records is a fiftieth of it."""

API_ROOT = "/api/v1"
T = TypeVar("T")
_KEY = re.compile(r"[!-~]+")


def _bare(url: str) -> str:
    return url.rstrip("/")


@frozen
class Place:
    """Where the service is, and who asks.

    Raises:
        ValueError: the base URL or the key cannot be one; the message does not repeat the key.
    """

    base_url: str = field(converter=_bare)
    api_key: str = field(repr=False)

    @base_url.validator
    def _check_base_url(self, _attribute: object, base_url: str) -> None:
        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("base_url is the service's address, such as https://meet.example.com")
        if parts.username is not None or parts.query or parts.fragment:
            raise ValueError("base_url has no user, no query and no fragment")
        if parts.path.endswith(API_ROOT):
            raise ValueError(f"base_url comes without {API_ROOT}: the client adds it")

    @api_key.validator
    def _check_api_key(self, _attribute: object, api_key: str) -> None:
        if not _KEY.fullmatch(api_key):
            raise ValueError("api_key is the key as it was shown once, without white space")

    @property
    def headers(self) -> dict[str, str]:
        """What every request carries."""
        return {
            "Authorization": f"Bearer {self.api_key}",
            "Accept": "application/json",
            "User-Agent": f"meetcore-python/{_version()}",
        }

    def request(self, send: Send) -> dict[str, Any]:
        """One request, as httpx builds it."""
        call = send.call
        headers = {} if call.idempotency_key is None else {"Idempotency-Key": call.idempotency_key}
        if call.body is not None:
            headers["Content-Type"] = "application/json"
        return {
            "method": call.method,
            "url": f"{self.base_url}{API_ROOT}{call.path}",
            "params": call.query or None,
            "headers": headers,
            "content": call.body,
            "timeout": send.timeout_s,
        }


@cache
def _version() -> str:
    try:
        return metadata.version("meetcore")
    except metadata.PackageNotFoundError:
        return "0"  # from a checkout that is not installed


class _Overlong(Exception):
    """An answer passed its size or its time."""


@define
class _Intake:
    """Takes an answer in, piece by piece, as far as it may go."""

    clock: Callable[[], float]
    ends_at: float
    pieces: list[bytes] = field(factory=list)
    size: int = 0

    def take(self, piece: bytes) -> None:
        """Add a piece."""
        self.size += len(piece)
        if self.size > MAX_ANSWER_BYTES:
            raise _Overlong(f"the answer is larger than {MAX_ANSWER_BYTES} bytes")
        if self.clock() > self.ends_at:
            raise TimeoutError
        self.pieces.append(piece)

    def whole(self, response: httpx.Response) -> Answer:
        """The answer, when all of it is there."""
        headers: Mapping[str, str] = {name.lower(): value for name, value in response.headers.items()}
        return Answer(response.status_code, headers, b"".join(self.pieces))


@define
class _Outcome:
    """What became of one request."""

    reply: Answer | Lost = field(factory=lambda: Lost("no answer"))


@contextmanager
def _heard() -> Iterator[_Outcome]:
    """Turns every way in which an answer can fail to come into a `Lost`.

    Only its words are kept: an exception of httpx has the request at hand, and the request has the key.
    """
    outcome = _Outcome()
    try:
        yield outcome
    except (httpx.TimeoutException, TimeoutError):
        outcome.reply = Lost("no whole answer in time", is_timeout=True)
    except httpx.RequestError as error:
        outcome.reply = Lost(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)
    except _Overlong as error:
        outcome.reply = Lost(str(error))


@define
class Shell:
    """Speaks HTTP and blocks meanwhile. Threads may share it."""

    place: Place
    policy: RetryPolicy
    http: httpx.Client = field(repr=False)
    sleep: Callable[[float], object]
    clock: Callable[[], float]
    jitter: Callable[[], float]
    rate_limit: RateLimit | None = None

    def run(self, call: Call[T]) -> T:
        """Make a call; the result, or a `MeetcoreError`."""
        steps = conduct(call, self.policy, self.clock, self.jitter)
        try:
            send = next(steps)
            while True:
                if send.wait_s:
                    self.sleep(send.wait_s)
                send = steps.send(self._ask(send))
        except StopIteration as done:
            result: T = done.value
            return result

    def _ask(self, send: Send) -> Answer | Lost:
        intake = _Intake(self.clock, self.clock() + send.timeout_s)
        with _heard() as outcome, self.http.stream(**self.place.request(send)) as response:
            for piece in response.iter_bytes():
                intake.take(piece)
            outcome.reply = intake.whole(response)
            self.rate_limit = read_rate_limit(outcome.reply.headers) or self.rate_limit
        return outcome.reply


@define
class AsyncShell:
    """Speaks HTTP and gives way meanwhile. Tasks may share it."""

    place: Place
    policy: RetryPolicy
    http: httpx.AsyncClient = field(repr=False)
    sleep: Callable[[float], Awaitable[object]]
    clock: Callable[[], float]
    jitter: Callable[[], float]
    rate_limit: RateLimit | None = None

    async def run(self, call: Call[T]) -> T:
        """Make a call; the result, or a `MeetcoreError`."""
        steps = conduct(call, self.policy, self.clock, self.jitter)
        try:
            send = next(steps)
            while True:
                if send.wait_s:
                    await self.sleep(send.wait_s)
                send = steps.send(await self._ask(send))
        except StopIteration as done:
            result: T = done.value
            return result

    async def _ask(self, send: Send) -> Answer | Lost:
        intake = _Intake(self.clock, self.clock() + send.timeout_s)
        with _heard() as outcome:
            async with self.http.stream(**self.place.request(send)) as response:
                async for piece in response.aiter_bytes():
                    intake.take(piece)
                outcome.reply = intake.whole(response)
                self.rate_limit = read_rate_limit(outcome.reply.headers) or self.rate_limit
        return outcome.reply
