"""One call to a provider: a whole answer in time and of limited size, or `IdentityUnavailable`.

It follows no redirects, takes no proxy of the environment, and lets no text of the HTTP client out.
"""

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Final

import httpx
from attrs import field, frozen

from meetcore.ports.identity_provider import IdentityUnavailable

MAX_ANSWER_BYTES: Final = 256 * 1024
TIMEOUT_S: Final = 5.0
_LIMITS: Final = httpx.Limits(max_connections=16, max_keepalive_connections=2, keepalive_expiry=20)


@frozen
class JsonAnswer:
    """An answer of any status, and its JSON object; empty where it is none."""

    status: int
    body: Mapping[str, Any] = field(repr=False)


class OidcHttp:
    """Calls, each on a connection to where the address says."""

    def __init__(self, timeout_s: float = TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self._http = httpx.AsyncClient(
            limits=_LIMITS, headers={"Accept": "application/json"}, trust_env=False, follow_redirects=False,
            timeout=None,  # noqa: S113  the call as a whole has one
        )  # fmt: skip

    async def get(self, url: str) -> JsonAnswer:
        """Ask for a document.

        Raises:
            IdentityUnavailable: there is no whole answer in time, or it is longer than 256 KiB.
        """
        return await self._send("GET", url, {}, None)

    async def post(
        self, url: str, form: Mapping[str, str], basic: tuple[str, str] | None = None
    ) -> JsonAnswer:
        """Send a form, with a user and a password where they are given.

        Raises:
            IdentityUnavailable: see `get`.
        """
        return await self._send("POST", url, form, basic)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def _send(
        self, method: str, url: str, form: Mapping[str, str], basic: tuple[str, str] | None
    ) -> JsonAnswer:
        auth = None if basic is None else httpx.BasicAuth(*basic)
        try:
            async with (
                asyncio.timeout(self._timeout_s),
                self._http.stream(method, url, data=dict(form) or None, auth=auth) as response,
            ):
                return JsonAnswer(response.status_code, await _read(response))
        except TimeoutError:
            raise IdentityUnavailable("timeout") from None
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            raise IdentityUnavailable(type(error).__name__) from None


async def _read(response: httpx.Response) -> Mapping[str, Any]:
    body = bytearray()
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) > MAX_ANSWER_BYTES:
            raise IdentityUnavailable("too long")
    try:
        found = json.loads(bytes(body))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
