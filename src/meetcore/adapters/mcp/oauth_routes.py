"""The routes of OAuth at the agent interface; their endpoints are imported at the first request."""

import asyncio
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from meetcore.adapters.api.http_common import RequestLimits
from meetcore.adapters.api.operations import OPERATIONS
from meetcore.adapters.mcp.tools import FOR_BOOKING
from meetcore.domain.requests.keys import Scope
from meetcore.domain.webhooks.addresses import Network
from meetcore.usecases.requests.grants import Grants

if TYPE_CHECKING:
    from meetcore.adapters.mcp.oauth import OAuthEndpoints

AGENT_PATH: Final = "/mcp"
AUTHORIZE_PATH, TOKEN_PATH, REGISTER_PATH = "/oauth/authorize", "/oauth/token", "/oauth/register"
_RESOURCE_METADATA: Final = "/.well-known/oauth-protected-resource"
_SERVER_METADATA: Final = "/.well-known/oauth-authorization-server"

_BOOKING: Final = {scope for each in OPERATIONS if each.name in FOR_BOOKING for scope in each.scopes}
SCOPES_FOR_BOOKING: Final = tuple(scope for scope in Scope if scope in _BOOKING)
"""The scopes that the service names for a first request; those of another tool are named at its call."""

_ENDPOINTS: Final = (
    (_RESOURCE_METADATA, "GET", "resource_metadata"),
    (_RESOURCE_METADATA + AGENT_PATH, "GET", "resource_metadata"),
    (_SERVER_METADATA, "GET", "server_metadata"),
    (_SERVER_METADATA + AGENT_PATH, "GET", "server_metadata"),
    (AUTHORIZE_PATH, "GET", "authorize"),
    (TOKEN_PATH, "POST", "token"),
    (REGISTER_PATH, "POST", "register"),
)


def metadata_url(base_url: str) -> str:
    """Return the address of the metadata of the agent interface as a protected resource (RFC 9728)."""
    return f"{base_url}{_RESOURCE_METADATA}{AGENT_PATH}"


def oauth_routes(
    use: Grants, base_url: str, limits: RequestLimits, proxies: Sequence[Network] = ()
) -> list[Route]:
    """Build the routes of the authorization server."""

    @cache
    def endpoints() -> "OAuthEndpoints":
        from meetcore.adapters.mcp.oauth import OAuthEndpoints  # an extra

        return OAuthEndpoints(use, base_url, limits, proxies)

    def route(path: str, method: str, name: str) -> Route:
        async def answer(request: Request) -> Response:
            made = await asyncio.to_thread(endpoints)
            return await made.answer(request, name)

        return Route(path, answer, methods=[method])

    return [route(*each) for each in _ENDPOINTS]
