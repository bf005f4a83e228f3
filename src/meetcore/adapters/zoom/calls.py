"""Call Zoom's API: token, repeats and three outcomes.

The outcome is a response (2xx or 4xx), `ProviderRefused` (nothing was done) or `ProviderUnknown` (it may have
been done). A request with an unknown outcome is repeated only if it is idempotent. All waits stay within one
budget. `provider` interprets the codes. The token is cached until shortly before it expires.
"""

import asyncio
import base64
import random
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final
from urllib.parse import quote

import msgspec
from attrs import define, evolve, field, frozen

from meetcore.adapters.bounded_http import BoundedHttp, HttpResponse, NoResponse, NotSent
from meetcore.adapters.zoom import schemas
from meetcore.ports.observability import NO_TRACING, Log, Tracing
from meetcore.ports.video_provider import ProviderRefused, ProviderUnknown, require_lease

MAX_RESPONSE_BYTES: Final = 4 * 1024 * 1024

_TIMEOUT_S: Final = 5.0
_READ_S: Final = 2.5
_ATTEMPTS: Final = 2
_MARGIN_S: Final = 60.0


@frozen
class ZoomAccess:
    """A server-to-server OAuth application. `api_url` ends with the API's version, without a slash."""

    account_id: str
    client_id: str
    client_secret: str = field(repr=False)
    api_url: str = "https://api.zoom.us/v2"
    oauth_url: str = "https://zoom.us/oauth/token"


def open_http(tracing: Tracing = NO_TRACING) -> BoundedHttp:
    """Open up to 512 connections, one per creation in flight: none waits for the response of another."""
    return BoundedHttp(max_bytes=MAX_RESPONSE_BYTES, connect_s=3.0, connections=32, pools=16, tracing=tracing)


class _Token(msgspec.Struct, frozen=True):
    access_token: str
    expires_in: float
    scope: str = ""

    def __repr__(self) -> str:
        return "<a token of Zoom>"


class Tokens:
    """Fetches and caches the token of one application."""

    def __init__(
        self, access: ZoomAccess, http: BoundedHttp, log: Log, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._access = access
        self._http = http
        self._log = log
        self._monotonic = monotonic
        self._token: str | None = None
        self._good_until = 0.0
        self._renewal: asyncio.Task[str] | None = None
        self._scopes = frozenset[str]()

    @property
    def scopes(self) -> frozenset[str]:
        """The scopes of the latest token; none where Zoom did not tell."""
        return self._scopes

    async def get(self) -> str:
        """Return a valid token, fetched once for concurrent callers; or raise `ProviderRefused`."""
        if self._token is not None and self._monotonic() < self._good_until:
            return self._token
        if self._renewal is None:
            self._renewal = asyncio.create_task(self._renew())
            self._renewal.add_done_callback(self._is_over)
        # A cancelled caller must not cancel the fetch of the others.
        return await asyncio.shield(self._renewal)

    def drop(self, token: str) -> None:
        """Drop a refused token unless it was replaced already."""
        if self._token == token:
            self._token = None

    async def aclose(self) -> None:
        if self._renewal is not None:
            self._renewal.cancel()
            await asyncio.wait([self._renewal])

    def _is_over(self, renewal: asyncio.Task[str]) -> None:
        self._renewal = None
        if not renewal.cancelled():
            renewal.exception()  # retrieved: every waiting caller may have been cancelled

    async def _renew(self) -> str:
        requested_at = self._monotonic()
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                token = await self._fetch()
        except TimeoutError:
            self._log.warning("zoom_gives_no_token", cause="no answer in time")
            raise ProviderRefused("zoom: no token in time") from None
        self._token, self._scopes = token.access_token, frozenset(token.scope.split())
        self._good_until = requested_at + token.expires_in - min(_MARGIN_S, token.expires_in / 2)
        return self._token

    async def _fetch(self) -> _Token:
        cause = "nothing"
        for _ in range(_ATTEMPTS):
            try:
                response = await self._ask()
            except (NotSent, NoResponse) as error:
                cause = str(error)
                continue
            if response.is_done:
                return _decoded(response)
            cause = f"status {response.status}"
            if response.status < 500 and response.status != 429:
                break
        self._log.warning("zoom_gives_no_token", cause=cause)
        raise ProviderRefused(f"zoom: no token: {cause}")

    async def _ask(self) -> HttpResponse:
        access = self._access
        application = base64.b64encode(f"{access.client_id}:{access.client_secret}".encode()).decode()
        return await self._http.send(
            "POST",
            access.oauth_url,
            {"Authorization": f"Basic {application}", "Accept": "application/json"},
            data={"grant_type": "account_credentials", "account_id": access.account_id},
            read_s=_READ_S,
        )


class NoLog:
    """Logs nothing: for checks, which tell what they find."""

    def warning(self, event: str, /, **fields: object) -> None:
        """Do nothing."""

    info = error = exception = warning


def _decoded(response: HttpResponse) -> _Token:
    try:
        token = msgspec.json.decode(response.body, type=_Token)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise ProviderRefused("zoom: no token: malformed response") from None
    # httpx quotes an invalid header value in its error.
    if not (token.access_token.isascii() and token.access_token.isprintable()):
        raise ProviderRefused("zoom: no token: invalid in a header")
    return token


BUDGET_S: Final = 8.0
"""Seconds for a call with its repeats, below the 10 s limit of every provider call."""

_REPEATS: Final = 2
_FIRST_PAUSE_S: Final = 0.2
_NEEDED_S: Final = 0.5
_READ_SHARE: Final = 0.44


def segment(text: str) -> str:
    """Encode one path segment; raise `ProviderRefused` for an empty one or dots."""
    if text in ("", ".", ".."):
        raise ProviderRefused("zoom: invalid id of a user or meeting")
    return quote(text, safe="")


def is_number(provider_meeting_id: str) -> bool:
    """Return whether an id can be Zoom's."""
    return provider_meeting_id.isascii() and provider_meeting_id.isdigit()


@define
class _Request:
    """A request under way. `is_in_doubt`: Zoom may have executed it."""

    method: str
    path: str
    params: Mapping[str, str] | None
    body: object = field(repr=False)
    can_repeat: bool
    deadline: float
    is_in_doubt: bool = False
    has_renewed: bool = False
    failures: int = 0
    pauses: int = 0


class ZoomCalls:
    """Calls the API of one account, for `budget_s` seconds with all repeats."""

    def __init__(
        self,
        access: ZoomAccess,
        log: Log,
        now: Callable[[], datetime],
        budget_s: float = BUDGET_S,
        tracing: Tracing = NO_TRACING,
    ) -> None:
        self._budget_s = budget_s
        self._api_url = access.api_url
        self._log = log
        self._http = open_http(tracing)
        self._tokens = Tokens(access, self._http, log)
        self._now = now

    async def ask(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: object = None,
        can_repeat: bool = True,
    ) -> schemas.ZoomResponse:
        """Send one request below the API's address; return a 2xx, or a 4xx, which changed nothing.

        Raises:
            ProviderRefused: it was not done.
            ProviderUnknown: it may have been done.
        """
        deadline = asyncio.get_running_loop().time() + self._budget_s
        request = _Request(method, path, params, body, can_repeat, deadline)
        try:
            async with asyncio.timeout_at(deadline):
                return await self._with_repeats(request)
        except TimeoutError:
            ended = _ended(request, "no answer in time")
        except ProviderUnknown as error:
            ended = error
        self._log.warning("zoom_did_not_answer", method=method, cause=str(ended))
        raise ended from None

    async def token(self) -> str:
        """Return the bearer token, for requests outside the API; raise `ProviderRefused` if there is none."""
        return await self._tokens.get()

    def drop_token(self, token: str) -> None:
        self._tokens.drop(token)

    async def aclose(self) -> None:
        await self._tokens.aclose()
        await self._http.aclose()

    async def _with_repeats(self, request: _Request) -> schemas.ZoomResponse:
        while True:
            token = await self._token_for(request)
            was_in_doubt, request.is_in_doubt = request.is_in_doubt, True
            try:
                response = await self._send(request, token)
            except NotSent as error:
                request.is_in_doubt = was_in_doubt
                await self._pause_after_failure(request, str(error), can_repeat=True)
                continue
            except NoResponse as error:
                await self._pause_after_failure(request, str(error), can_repeat=request.can_repeat)
                continue
            if response.status in (401, 429):
                request.is_in_doubt = was_in_doubt
                if await self._can_try_again(request, response, token):
                    continue
                if was_in_doubt:
                    raise _ended(request, f"status {response.status}")
                return response
            if response.is_done or (400 <= response.status < 500 and response.status != 408):
                return evolve(response, is_after_doubt=was_in_doubt)
            cause = f"status {response.status}"
            await self._pause_after_failure(request, cause, can_repeat=request.can_repeat)

    async def _token_for(self, request: _Request) -> str:
        try:
            return await self._tokens.get()
        except ProviderRefused as refusal:
            if request.is_in_doubt:  # it was sent before, with another token
                raise ProviderUnknown(str(refusal)) from None
            raise

    async def _send(self, request: _Request, token: str) -> schemas.ZoomResponse:
        require_lease()
        response = await self._http.send(
            request.method,
            self._api_url + request.path,
            {"Authorization": f"Bearer {token}", "Accept": "application/json"},
            params=request.params,
            json=request.body,
            # Leave time for a repeat.
            read_s=self._budget_s * (_READ_SHARE if request.can_repeat else 1),
        )
        return schemas.ZoomResponse(response.status, response.headers, response.body)

    async def _can_try_again(self, request: _Request, response: schemas.ZoomResponse, token: str) -> bool:
        """Return whether an unprocessed request is worth another attempt, after waiting for it."""
        if response.status == 401:
            if request.has_renewed:
                return False
            request.has_renewed = True
            self._tokens.drop(token)
            return True
        if schemas.limit_of(response) is not schemas.Limit.SECOND:
            return False
        requested_s = schemas.retry_after_s(response, self._now())
        wait_s = max(_pause_s(request.pauses), requested_s or 0.0)
        if not _has_time(request, wait_s):
            return False
        request.pauses += 1
        await asyncio.sleep(wait_s)
        return True

    async def _pause_after_failure(self, request: _Request, cause: str, *, can_repeat: bool) -> None:
        """Wait before a failed request is repeated, or raise its outcome."""
        request.failures += 1
        wait_s = _pause_s(request.failures - 1)
        if not can_repeat or request.failures > _REPEATS or not _has_time(request, wait_s):
            raise _ended(request, cause)
        await asyncio.sleep(wait_s)


def _has_time(request: _Request, wait_s: float) -> bool:
    return asyncio.get_running_loop().time() + wait_s + _NEEDED_S < request.deadline


def _pause_s(number: int) -> float:
    # Spread the repeats of callers that failed together.
    return float(_FIRST_PAUSE_S * 2**number * random.uniform(0.75, 1.25))  # noqa: S311


def _ended(request: _Request, cause: str) -> ProviderRefused | ProviderUnknown:
    # A failed read changed nothing, but has no result either.
    text = f"zoom: {request.method} ended with: {cause}"
    return ProviderUnknown(text) if request.is_in_doubt else ProviderRefused(text)
