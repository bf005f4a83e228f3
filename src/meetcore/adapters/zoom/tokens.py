"""The token that authenticates us at Zoom: fetched once for many, kept until shortly before it ends.

Owns one token in memory; it is never stored.
"""

import asyncio
import base64
import time
from collections.abc import Callable
from typing import Final

import msgspec

from meetcore.adapters.zoom.access import Log, ZoomAccess
from meetcore.adapters.zoom.http import HttpClient, HttpResponse, NoResponse, NotSent
from meetcore.ports.video_provider import ProviderRefused

_TIMEOUT_S: Final = 5.0
_READ_S: Final = 2.5
_ATTEMPTS: Final = 2
_MARGIN_S: Final = 60.0


class _Token(msgspec.Struct, frozen=True):
    access_token: str
    expires_in: float

    def __repr__(self) -> str:
        return "<a token of Zoom>"


class Tokens:
    """Tokens of one server-to-server application.

    Args:
        line: the connections.
        log: takes the report when Zoom does not know the application.
        monotonic: seconds from a clock that is never set back.
    """

    def __init__(
        self, access: ZoomAccess, http: HttpClient, log: Log, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._access = access
        self._http = http
        self._log = log
        self._monotonic = monotonic
        self._token: str | None = None
        self._good_until = 0.0
        self._renewal: asyncio.Task[str] | None = None

    async def get(self) -> str:
        """A token that is good for a while; concurrent callers share one fetch.

        Raises:
            ProviderRefused: Zoom gives none, so that no request can be sent.
        """
        if self._token is not None and self._monotonic() < self._good_until:
            return self._token
        if self._renewal is None:
            self._renewal = asyncio.create_task(self._renew())
            self._renewal.add_done_callback(self._is_over)
        # A caller that is cancelled must not take the others' token away.
        return await asyncio.shield(self._renewal)

    def drop(self, token: str) -> None:
        """Drop a token that Zoom refused, unless another has taken its place already."""
        if self._token == token:
            self._token = None

    async def aclose(self) -> None:
        """Stop fetching."""
        if self._renewal is not None:
            self._renewal.cancel()
            await asyncio.wait([self._renewal])

    def _is_over(self, renewal: asyncio.Task[str]) -> None:
        self._renewal = None
        if not renewal.cancelled():
            renewal.exception()  # every waiting caller may have been cancelled meanwhile

    async def _renew(self) -> str:
        requested_at = self._monotonic()
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                token = await self._fetch()
        except TimeoutError:
            self._log.warning("zoom_gives_no_token", cause="no answer in time")
            raise ProviderRefused("zoom: no token in time") from None
        self._token = token.access_token
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
            form={"grant_type": "account_credentials", "account_id": access.account_id},
            read_s=_READ_S,
        )


class _NoLog:
    """Logs nothing: the caller of a check gets the answer."""

    def warning(self, event: str, /, **fields: object) -> None:
        """Log nothing."""


async def check_credentials(access: ZoomAccess) -> str | None:
    """Fetch a token and drop it; return why Zoom gives none, or None where it gives one."""
    http = HttpClient()
    try:
        await Tokens(access, http, _NoLog()).get()
    except ProviderRefused as error:
        return str(error).removeprefix("zoom: no token: ").removeprefix("zoom: ")
    finally:
        await http.aclose()
    return None


def _decoded(response: HttpResponse) -> _Token:
    try:
        token = msgspec.json.decode(response.body, type=_Token)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise ProviderRefused("zoom: no token: its answer cannot be read") from None
    # A value that is invalid in a header would be quoted whole in the error.
    if not (token.access_token.isascii() and token.access_token.isprintable()):
        raise ProviderRefused("zoom: no token: it cannot be sent")
    return token
