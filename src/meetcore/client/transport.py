"""The two HTTP transports, blocking and awaited, which run calls and procedures.

Owns the httpx client, the API key in its headers, the limits of size and time of a response, and the last
rate limit. Redirects are not followed, so that the key is sent to no other address.
"""

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping
from contextlib import aclosing, closing, contextmanager
from typing import Any, TypeVar
from urllib.parse import SplitResult, urlsplit

import httpx
from attrs import define, evolve, field, frozen

import meetcore
from meetcore.client import calls, exchange, records
from meetcore.domain.proxies import check_proxy, is_in_the_clear, proxy_of

__all__ = [
    "MAX_RESPONSE_BYTES", "AsyncTransport", "ServiceAddress", "SyncTransport", "async_transport",
    "sync_transport",
]  # fmt: skip

MAX_RESPONSE_BYTES = 16 * 1024 * 1024
"""The largest response, decompressed. A page of the longest records is a fiftieth of it."""

API_ROOT = "/api/v1"
T = TypeVar("T")
_KEY = re.compile(r"[!-~]+")
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[ -~]*")
_OWN_HEADERS = frozenset(
    {"authorization", "content-length", "content-type", "host", "idempotency-key", "transfer-encoding"}
)
"""The headers that a caller may not set."""


def _bare(url: str) -> str:
    return url.rstrip("/")


def _parts(url: str) -> SplitResult | None:
    """Return the parts of an address; `None` for one that no request can be sent to, such as with a blank."""
    try:
        httpx.URL(url)
        parts = urlsplit(url)
        parts.port  # noqa: B018  # raises for one out of range
    except (httpx.InvalidURL, ValueError):
        return None
    return None if re.search(r"[\s\x00-\x1f\x7f]", url) else parts


def sync_transport(base_url: str) -> httpx.BaseTransport:
    """Return a transport to a service, by the proxy and the certificates that the environment names.

    Raises `ValueError`: one of them cannot be used.
    """
    with _environment_refused():
        return httpx.HTTPTransport(proxy=check_proxy(proxy_of(base_url, os.environ)))


def async_transport(base_url: str) -> httpx.AsyncBaseTransport:
    """Return a transport as `sync_transport` does."""
    with _environment_refused():
        return httpx.AsyncHTTPTransport(proxy=check_proxy(proxy_of(base_url, os.environ)))


@contextmanager
def _environment_refused() -> Iterator[None]:
    try:
        yield
    except ImportError:
        raise ValueError(
            "the environment names a SOCKS proxy: pip install 'httpx[socks]', or name the service in NO_PROXY"
        ) from None
    except (httpx.InvalidURL, ValueError):
        raise ValueError("the environment names a proxy that is no address of one") from None
    except OSError as error:  # of certificates without a certificate, too
        raise ValueError(
            f"the environment names a file of TLS that cannot be used (SSL_CERT_FILE, SSLKEYLOGFILE): {error}"
        ) from None


@frozen
class ServiceAddress:
    """The address of the service, the API key and further headers; a `ValueError` does not repeat the key."""

    base_url: str = field(converter=_bare)
    api_key: str = field(repr=False)
    extra_headers: Mapping[str, str] = field(factory=dict, repr=False)
    allow_http: bool = False

    @base_url.validator
    def _check_base_url(self, _attribute: object, base_url: str) -> None:
        parts = _parts(base_url)
        if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("base_url is the service's address, such as https://meet.example.com")
        if is_in_the_clear(base_url) and not self.allow_http:
            raise ValueError(
                "base_url is not https: the key would be sent in the clear. Use https, "
                "or allow_http=True in a network of your own"
            )
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
                raise ValueError(f"the header {name} is set by the client")
            if not (_NAME.fullmatch(name) and _VALUE.fullmatch(value)):
                raise ValueError("a header has a name and one line of visible ASCII characters")

    @property
    def headers(self) -> dict[str, str]:
        """The headers of every request."""
        return {
            "Authorization": f"Bearer {self.api_key}",
            "Accept": "application/json",
            "User-Agent": f"meetcore-python/{meetcore.__version__}",
        }

    def request(self, send: exchange.Send) -> dict[str, Any]:
        """Return the arguments of a request for httpx."""
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


class _TooLarge(Exception):
    """A response passed its size."""


@define
class _Body:
    """Reads a response body up to a limit of size and time."""

    clock: Callable[[], float]
    ends_at: float
    pieces: list[bytes] = field(factory=list)
    size: int = 0

    def take(self, piece: bytes) -> None:
        """Add a piece; raise _TooLarge or TimeoutError past the limits."""
        self.size += len(piece)
        if self.size > MAX_RESPONSE_BYTES:
            raise _TooLarge(f"the response is larger than {MAX_RESPONSE_BYTES} bytes")
        if self.clock() > self.ends_at:
            raise TimeoutError
        self.pieces.append(piece)

    def whole(self, response: httpx.Response) -> exchange.HttpResponse:
        """Return the response with the body that was read."""
        headers: Mapping[str, str] = {name.lower(): value for name, value in response.headers.items()}
        return exchange.HttpResponse(response.status_code, headers, b"".join(self.pieces))


@define
class _Outcome:
    """The reply to one request."""

    reply: exchange.HttpResponse | exchange.NoResponse = field(
        factory=lambda: exchange.NoResponse("no response")
    )


@contextmanager
def _catch_failures() -> Iterator[_Outcome]:
    """Turn every failure to get a response into a `NoResponse` of its text: httpx's refers to the key."""
    outcome = _Outcome()
    try:
        yield outcome
    except (httpx.TimeoutException, TimeoutError):
        outcome.reply = exchange.NoResponse("no complete response in time", is_timeout=True)
    except httpx.RequestError as error:
        outcome.reply = exchange.NoResponse(
            f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        )
    except httpx.InvalidURL:
        outcome.reply = exchange.NoResponse("the service names an address that no request can be sent to")
    except _TooLarge as error:
        outcome.reply = exchange.NoResponse(str(error))


@define
class LastSeen:
    """The rate limit by the last response, shared by a client and the clients derived from it."""

    rate_limit: records.RateLimit | None = None

    def note(self, response: exchange.HttpResponse) -> exchange.HttpResponse:
        """Keep the rate limit of a response, and return the response."""
        self.rate_limit = records.read_rate_limit(response.headers) or self.rate_limit
        return response


@define
class SyncTransport:
    """Sends over HTTP and blocks. Threads may share it."""

    address: ServiceAddress
    policy: exchange.RetryPolicy
    http: httpx.Client = field(repr=False)
    sleep: Callable[[float], object]
    clock: Callable[[], float]
    jitter: Callable[[], float]
    last_seen: LastSeen = field(factory=LastSeen)

    def respond(self, call: calls.Call[T]) -> records.Response[T]:
        """Make a call; return its response or raise a `MeetcoreError`."""
        return self._run(exchange.run_with_retries(call, self.policy, self.clock, self.jitter))

    def run_procedure(self, wanted: exchange.Procedure[T]) -> T:
        """Run the steps of a procedure; return its result or raise the error of a step."""
        return self._run(wanted.steps(exchange.Means(self.policy, self.clock, self.jitter)))

    def _run(self, steps: Generator[exchange.Step | exchange.Send, Any, T]) -> T:
        with closing(steps):
            try:
                step = next(steps)
                while True:
                    step = steps.send(self._take(step))
            except StopIteration as done:
                result: T = done.value
                return result

    def _take(self, step: exchange.Step | exchange.Send) -> object:
        match step:
            case exchange.Pause(seconds):
                return self.sleep(seconds)
            case exchange.Send():
                if step.wait_s:
                    self.sleep(step.wait_s)
                return self._ask(step)
            case exchange.Fetch():
                return self._fetch(step)
            case calls.Call():
                return self.respond(step).result

    def _ask(self, send: exchange.Send) -> exchange.HttpResponse | exchange.NoResponse:
        body = _Body(self.clock, self.clock() + send.timeout_s)
        with _catch_failures() as outcome, self.http.stream(**self.address.request(send)) as response:
            for piece in response.iter_bytes():
                body.take(piece)
            outcome.reply = self.last_seen.note(body.whole(response))
        return outcome.reply

    def _fetch(self, fetch: exchange.Fetch) -> exchange.HttpResponse | exchange.NoResponse:
        with _catch_failures() as outcome:
            response = self.http.send(_without_key(self.http, fetch, self.policy.timeout_s), stream=True)
            with closing(response):
                take, reply = _taker_of(fetch, response)
                for piece in response.iter_raw():
                    take(piece)
                outcome.reply = reply()
        return outcome.reply


@define
class AsyncTransport:
    """Sends over HTTP on asyncio, and on trio with a `sleep` of trio's. Tasks may share it."""

    address: ServiceAddress
    policy: exchange.RetryPolicy
    http: httpx.AsyncClient = field(repr=False)
    sleep: Callable[[float], Awaitable[object]]
    clock: Callable[[], float]
    jitter: Callable[[], float]
    last_seen: LastSeen = field(factory=LastSeen)

    async def respond(self, call: calls.Call[T]) -> records.Response[T]:
        """Make a call; return its response or raise a `MeetcoreError`."""
        can_wait = _is_asyncio() or self.sleep is not asyncio.sleep
        policy = self.policy if can_wait else evolve(self.policy, max_attempts=1)
        return await self._run(exchange.run_with_retries(call, policy, self.clock, self.jitter))

    async def run_procedure(self, wanted: exchange.Procedure[T]) -> T:
        """Run the steps of a procedure; return its result or raise the error of a step."""
        return await self._run(wanted.steps(exchange.Means(self.policy, self.clock, self.jitter)))

    async def _run(self, steps: Generator[exchange.Step | exchange.Send, Any, T]) -> T:
        with closing(steps):
            try:
                step = next(steps)
                while True:
                    step = steps.send(await self._take(step))
            except StopIteration as done:
                result: T = done.value
                return result

    async def _take(self, step: exchange.Step | exchange.Send) -> object:
        match step:
            case exchange.Pause(seconds):
                return await self.sleep(seconds)
            case exchange.Send():
                if step.wait_s:
                    await self.sleep(step.wait_s)
                return await self._ask(step)
            case exchange.Fetch():
                return await self._fetch(step)
            case calls.Call():
                return (await self.respond(step)).result

    async def _ask(self, send: exchange.Send) -> exchange.HttpResponse | exchange.NoResponse:
        body = _Body(self.clock, self.clock() + send.timeout_s)
        with _catch_failures() as outcome:
            async with self.http.stream(**self.address.request(send)) as response:
                async for piece in response.aiter_bytes():
                    body.take(piece)
                outcome.reply = self.last_seen.note(body.whole(response))
        return outcome.reply

    async def _fetch(self, fetch: exchange.Fetch) -> exchange.HttpResponse | exchange.NoResponse:
        with _catch_failures() as outcome:
            request = _without_key(self.http, fetch, self.policy.timeout_s)
            response = await self.http.send(request, stream=True)
            async with aclosing(response):
                take, reply = _taker_of(fetch, response)
                async for piece in response.aiter_raw():
                    if _is_asyncio():
                        await asyncio.to_thread(take, piece)  # it may write to a slow disk
                    else:
                        take(piece)
                outcome.reply = reply()
        return outcome.reply


def _is_asyncio() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _without_key(
    http: httpx.Client | httpx.AsyncClient, fetch: exchange.Fetch, timeout_s: float
) -> httpx.Request:
    request = http.build_request(fetch.method, fetch.url, headers=dict(fetch.headers), timeout=timeout_s)
    del request.headers["Authorization"]
    return request


def _taker_of(
    fetch: exchange.Fetch, response: httpx.Response
) -> tuple[Callable[[bytes], object], Callable[[], exchange.HttpResponse]]:
    """Return the consumer of the body's pieces, and a function that returns the response at its end."""
    head = _Body(lambda: 0.0, 0.0)
    headers = head.whole(response).headers
    take = fetch.take if fetch.is_wanted(response.status_code, headers) else head.take
    return take, lambda: head.whole(response)
