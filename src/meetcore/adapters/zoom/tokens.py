"""The credentials of a Zoom account and its access token, cached until shortly before it expires."""

import asyncio
import base64
import time
from collections.abc import Callable
from typing import Final

import msgspec
from attrs import field, frozen

from meetcore.adapters.bounded_http import BoundedHttp, HttpResponse, NoResponse, NotSent
from meetcore.ports.observability import NO_TRACING, Log, Tracing
from meetcore.ports.video_provider import ProviderRefused

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
