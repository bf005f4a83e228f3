"""The two HTTP transports, one blocking, one awaited: both only run calls and procedures.

Owns the httpx client, the API key in its headers, the size and time that an answer may take, and the rate
state last seen. They decide nothing about a call. Redirects are not followed: a key goes nowhere that
it was not meant to go.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping
from contextlib import aclosing, closing, contextmanager
from functools import cache
from importlib import metadata
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx
from attrs import define, field, frozen

from meetcore.client.calls import Call
from meetcore.client.exchange import HttpResponse, NoResponse, RetryPolicy, Send, run_with_retries
from meetcore.client.procedures import Fetch, Means, Pause, Procedure, Step
from meetcore.client.rate_limit import RateLimit, read_rate_limit
from meetcore.client.response import Response

__all__ = ["MAX_RESPONSE_BYTES", "AsyncTransport", "ServiceAddress", "SyncTransport"]

MAX_RESPONSE_BYTES = 16 * 1024 * 1024
"""The largest answer that is read, unpacked. A page of the longest records is a fiftieth of it."""

API_ROOT = "/api/v1"
T = TypeVar("T")
_KEY = re.compile(r"[!-~]+")
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[ -~]*")
_OWN_HEADERS = frozenset(
    {"authorization", "content-length", "content-type", "host", "idempotency-key", "transfer-encoding"}
)
"""The headers that a caller may not set: they have arguments of their own, or belong to the connection."""


def _bare(url: str) -> str:
    return url.rstrip("/")


@frozen
class ServiceAddress:
    """Where the service is, and who asks.

    Raises:
        ValueError: the base URL or the key cannot be one; the message does not repeat the key.
    """

    base_url: str = field(converter=_bare)
    api_key: str = field(repr=False)
    extra_headers: Mapping[str, str] = field(factory=dict, repr=False)

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

    @extra_headers.validator
    def _check_extra_headers(self, _attribute: object, extra_headers: Mapping[str, str]) -> None:
        for name, value in extra_headers.items():
            if name.lower() in _OWN_HEADERS:
                raise ValueError(f"the header {name} is the client's own")
            if not (_NAME.fullmatch(name) and _VALUE.fullmatch(value)):
                raise ValueError("a header has a name and one line of visible ASCII characters")

    @property
    def headers(self) -> dict[str, str]:
        """The headers of every request."""
        return {
            "Authorization": f"Bearer {self.api_key}",
            "Accept": "application/json",
            "User-Agent": f"meetcore-python/{_version()}",
        }

    def request(self, send: Send) -> dict[str, Any]:
        """One request, as httpx builds it."""
        call = send.call
        headers = dict(self.extra_headers)
        if call.idempotency_key is not None:
            headers["Idempotency-Key"] = call.idempotency_key
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
    for distribution in (
        "meetcore",
        "meetcore-client",
    ):  # where both are installed, the first one's files are used
        try:
            return metadata.version(distribution)
        except metadata.PackageNotFoundError:
            continue
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
        if self.size > MAX_RESPONSE_BYTES:
            raise _Overlong(f"the answer is larger than {MAX_RESPONSE_BYTES} bytes")
        if self.clock() > self.ends_at:
            raise TimeoutError
        self.pieces.append(piece)

    def whole(self, response: httpx.Response) -> HttpResponse:
        """The answer, when all of it is there."""
        headers: Mapping[str, str] = {name.lower(): value for name, value in response.headers.items()}
        return HttpResponse(response.status_code, headers, b"".join(self.pieces))


@define
class _Outcome:
    """What became of one request."""

    reply: HttpResponse | NoResponse = field(factory=lambda: NoResponse("no answer"))


@contextmanager
def _catch_failures() -> Iterator[_Outcome]:
    """Turn every failure to get an answer into a `NoResponse`.

    Only its text is kept: an exception of httpx refers to the request, and the request has the key.
    """
    outcome = _Outcome()
    try:
        yield outcome
    except (httpx.TimeoutException, TimeoutError):
        outcome.reply = NoResponse("no whole answer in time", is_timeout=True)
    except httpx.RequestError as error:
        outcome.reply = NoResponse(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)
    except _Overlong as error:
        outcome.reply = NoResponse(str(error))


@define
class LastSeen:
    """State of the last answer; shared by a client and those derived from it with other options."""

    rate_limit: RateLimit | None = None

    def note(self, answer: HttpResponse) -> HttpResponse:
        """Remember what an answer says of the request rate, and return it."""
        self.rate_limit = read_rate_limit(answer.headers) or self.rate_limit
        return answer


@define
class SyncTransport:
    """Sends over HTTP, blocking. Threads may share it."""

    place: ServiceAddress
    policy: RetryPolicy
    http: httpx.Client = field(repr=False)
    sleep: Callable[[float], object]
    clock: Callable[[], float]
    jitter: Callable[[], float]
    last_seen: LastSeen = field(factory=LastSeen)

    def respond(self, call: Call[T]) -> Response[T]:
        """Make a call; the result and its answer, or a `MeetcoreError`."""
        return self._run(run_with_retries(call, self.policy, self.clock, self.jitter))

    def run_procedure(self, wanted: Procedure[T]) -> T:
        """Take the steps of a procedure; its result, or what one of them raised."""
        return self._run(wanted.steps(Means(self.policy, self.clock, self.jitter)))

    def _run(self, steps: Generator[Step | Send, Any, T]) -> T:
        with closing(steps):
            try:
                step = next(steps)
                while True:
                    step = steps.send(self._take(step))
            except StopIteration as done:
                result: T = done.value
                return result

    def _take(self, step: Step | Send) -> object:
        match step:
            case Pause(seconds):
                return self.sleep(seconds)
            case Send():
                if step.wait_s:
                    self.sleep(step.wait_s)
                return self._ask(step)
            case Fetch():
                return self._fetch(step)
            case Call():
                return self.respond(step).result

    def _ask(self, send: Send) -> HttpResponse | NoResponse:
        intake = _Intake(self.clock, self.clock() + send.timeout_s)
        with _catch_failures() as outcome, self.http.stream(**self.place.request(send)) as response:
            for piece in response.iter_bytes():
                intake.take(piece)
            outcome.reply = self.last_seen.note(intake.whole(response))
        return outcome.reply

    def _fetch(self, fetch: Fetch) -> HttpResponse | NoResponse:
        with _catch_failures() as outcome:
            response = self.http.send(_without_key(self.http, fetch, self.policy.timeout_s), stream=True)
            with closing(response):
                take, reply = _intake_of(fetch, response)
                for piece in response.iter_raw():
                    take(piece)
                outcome.reply = reply()
        return outcome.reply


@define
class AsyncTransport:
    """Sends over HTTP, awaiting. Tasks may share it."""

    place: ServiceAddress
    policy: RetryPolicy
    http: httpx.AsyncClient = field(repr=False)
    sleep: Callable[[float], Awaitable[object]]
    clock: Callable[[], float]
    jitter: Callable[[], float]
    last_seen: LastSeen = field(factory=LastSeen)

    async def respond(self, call: Call[T]) -> Response[T]:
        """Make a call; the result and its answer, or a `MeetcoreError`."""
        return await self._run(run_with_retries(call, self.policy, self.clock, self.jitter))

    async def run_procedure(self, wanted: Procedure[T]) -> T:
        """Take the steps of a procedure; its result, or what one of them raised."""
        return await self._run(wanted.steps(Means(self.policy, self.clock, self.jitter)))

    async def _run(self, steps: Generator[Step | Send, Any, T]) -> T:
        with closing(steps):
            try:
                step = next(steps)
                while True:
                    step = steps.send(await self._take(step))
            except StopIteration as done:
                result: T = done.value
                return result

    async def _take(self, step: Step | Send) -> object:
        match step:
            case Pause(seconds):
                return await self.sleep(seconds)
            case Send():
                if step.wait_s:
                    await self.sleep(step.wait_s)
                return await self._ask(step)
            case Fetch():
                return await self._fetch(step)
            case Call():
                return (await self.respond(step)).result

    async def _ask(self, send: Send) -> HttpResponse | NoResponse:
        intake = _Intake(self.clock, self.clock() + send.timeout_s)
        with _catch_failures() as outcome:
            async with self.http.stream(**self.place.request(send)) as response:
                async for piece in response.aiter_bytes():
                    intake.take(piece)
                outcome.reply = self.last_seen.note(intake.whole(response))
        return outcome.reply

    async def _fetch(self, fetch: Fetch) -> HttpResponse | NoResponse:
        with _catch_failures() as outcome:
            request = _without_key(self.http, fetch, self.policy.timeout_s)
            response = await self.http.send(request, stream=True)
            async with aclosing(response):
                take, reply = _intake_of(fetch, response)
                async for piece in response.aiter_raw():
                    await asyncio.to_thread(take, piece)  # it may write to a slow disk
                outcome.reply = reply()
        return outcome.reply


def _without_key(http: httpx.Client | httpx.AsyncClient, fetch: Fetch, timeout_s: float) -> httpx.Request:
    request = http.build_request(fetch.method, fetch.url, headers=dict(fetch.headers), timeout=timeout_s)
    del request.headers["Authorization"]
    return request


def _intake_of(
    fetch: Fetch, response: httpx.Response
) -> tuple[Callable[[bytes], object], Callable[[], HttpResponse]]:
    """What takes the pieces of an answer's body, and what gives the answer at its end."""
    head = _Intake(lambda: 0.0, 0.0)
    headers = head.whole(response).headers
    take = fetch.take if fetch.is_wanted(response.status_code, headers) else head.take
    return take, lambda: head.whole(response)
