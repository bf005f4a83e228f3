"""The authorization server of the agent interface, on the handlers of the protocol's package.

The package reads requests and checks PKCE, redirect URIs and clients; the grants are our use case's. All
clients are public. A request that is wrong is answered here and never redirected: anyone can register a
client, so that the service would redirect to any address without a question (RFC 9700, 4.11.2).
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from mcp.server.auth.handlers.authorize import AuthorizationHandler
from mcp.server.auth.handlers.metadata import MetadataHandler, ProtectedResourceMetadataHandler
from mcp.server.auth.handlers.register import RegistrationHandler
from mcp.server.auth.handlers.token import TokenHandler
from mcp.server.auth.middleware.client_auth import ClientAuthenticator
from mcp.server.auth.provider import (
    AuthorizationCode,
    AuthorizationParams,
    AuthorizeError,
    RefreshToken,
    RegistrationError,
    TokenError,
)
from mcp.server.auth.settings import ClientRegistrationOptions
from mcp.shared.auth import (
    InvalidRedirectUriError,
    OAuthClientInformationFull,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import Message

from meetcore.adapters.api.answers import PayloadTooLarge
from meetcore.adapters.api.http_common import MAX_BODY_BYTES, RequestLimits, client_address, read_body
from meetcore.adapters.mcp.oauth_routes import (
    AGENT_PATH,
    AUTHORIZE_PATH,
    REGISTER_PATH,
    SCOPES_FOR_BOOKING,
    TOKEN_PATH,
)
from meetcore.domain.errors import DomainError, RateLimited
from meetcore.domain.requests import grants
from meetcore.domain.requests.keys import Scope
from meetcore.domain.webhooks.addresses import Network
from meetcore.ports.store import StoreUnavailable
from meetcore.usecases.requests.grants import CONSENT_PAGE, Grants, IssuedTokens

_SCOPES: Final = [scope.value for scope in Scope]
_NEVER: Final = float("inf")
"""The expiry of a code for the package, whose clock is the process's; the use case has checked it by ours."""


class _Client(OAuthClientInformationFull):
    """A client as the package checks requests against it."""

    def validate_redirect_uri(self, redirect_uri: AnyUrl | None) -> AnyUrl:
        registered = [str(each) for each in self.redirect_uris or ()]
        if redirect_uri is None or not grants.is_registered(str(redirect_uri), registered):
            raise InvalidRedirectUriError("redirect_uri is not one of the client's")
        return redirect_uri

    def validate_scope(self, requested_scope: str | None) -> list[str] | None:
        wanted = grants.known_scopes((requested_scope or "").split())
        return [scope.value for scope in wanted or SCOPES_FOR_BOOKING]


def _client_of(client: grants.OAuthClient | None) -> _Client | None:
    if client is None:
        return None
    return _Client(
        client_id=client.id,
        client_name=client.name,
        redirect_uris=[AnyUrl(each) for each in client.redirect_uris],
        token_endpoint_auth_method="none",  # noqa: S106  (no secret at all)
    )


class _Provider:
    """Answers the questions of the package during one request of a client, which was looked up before.

    It has those methods of `OAuthAuthorizationServerProvider` that the handlers here call.
    """

    def __init__(self, use: Grants, resource: str, client: grants.OAuthClient | None = None) -> None:
        self._use, self._resource, self._client = use, resource, _client_of(client)
        self._authorization: grants.Authorization | None = None
        self.asked: Callable[[], Awaitable[str]] | None = None
        """Keeps the request for a grant, once it is found right; the package answers faults by itself."""

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self._client if self._client is not None and self._client.client_id == client_id else None

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        """Register a client as a public one, whatever it asked for (RFC 7591, 3.2.1)."""
        uris = [str(each) for each in client_info.redirect_uris or ()]
        try:
            client = await self._use.clients.register(client_info.client_id, client_info.client_name, uris)
        except grants.InvalidClient as error:
            raise RegistrationError("invalid_redirect_uri", str(error)) from None
        client_info.client_name = client.name
        client_info.token_endpoint_auth_method = "none"  # noqa: S105
        client_info.client_secret = client_info.client_secret_expires_at = None

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        if not grants.is_challenge(params.code_challenge):
            raise AuthorizeError("invalid_request", "code_challenge is no challenge of S256")
        if not _is_resource(params.resource, self._resource):
            raise AuthorizeError("invalid_target", f"resource is not {self._resource}")
        if not grants.is_state(params.state or ""):
            raise AuthorizeError(
                "invalid_request", f"state is no line of up to {grants.MAX_STATE} characters"
            )
        self.asked = partial(
            self._use.ask, client.client_id, str(params.redirect_uri), params.state, params.code_challenge,
            grants.known_scopes(params.scopes or ()),
        )  # fmt: skip
        return CONSENT_PAGE

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        found = self._authorization = await self._use.find_code(client.client_id, authorization_code)
        if found is None:
            return None
        return AuthorizationCode(
            code=authorization_code,
            scopes=list(found.scopes),
            expires_at=_NEVER,
            client_id=found.client_id,
            code_challenge=found.code_challenge,
            redirect_uri=AnyUrl(found.redirect_uri),
            redirect_uri_provided_explicitly=True,
            resource=self._resource,
        )

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        assert self._authorization is not None
        return _token_of(await self._use.exchange_code(self._authorization))

    async def load_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: str
    ) -> RefreshToken | None:
        key = await self._use.find_refreshed(client.client_id, refresh_token)
        if key is None:
            return None
        return RefreshToken(token=refresh_token, client_id=client.client_id, scopes=list(key.scopes))

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        if set(scopes) != set(refresh_token.scopes):
            raise TokenError("invalid_scope", "a token has the scopes of its grant")
        return _token_of(await self._use.refresh(refresh_token.token))


def _token_of(issued: IssuedTokens | None) -> OAuthToken:
    if issued is None:
        raise TokenError("invalid_grant", "the grant has ended")
    return OAuthToken(
        access_token=issued.access,
        expires_in=int(issued.expires_in.total_seconds()),
        scope=" ".join(issued.key.scopes),
        refresh_token=issued.refresh,
    )


def _is_resource(given: str | None, resource: str) -> bool:
    """Return whether a request names this resource, or none: there is one only (RFC 8707)."""
    return given is None or given.rstrip("/") == resource


class OAuthEndpoints:
    """The endpoints of the authorization server at an origin, and the metadata of it and its resource."""

    def __init__(
        self, use: Grants, base_url: str, limits: RequestLimits, proxies: Sequence[Network] = ()
    ) -> None:
        self._use, self._limits, self._proxies = use, limits, proxies
        self._resource = f"{base_url}{AGENT_PATH}"
        server = OAuthMetadata.model_validate({
            "issuer": base_url,
            "authorization_endpoint": f"{base_url}{AUTHORIZE_PATH}",
            "token_endpoint": f"{base_url}{TOKEN_PATH}",
            "registration_endpoint": f"{base_url}{REGISTER_PATH}",
            "scopes_supported": _SCOPES,
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_methods_supported": ["none"],
            "code_challenge_methods_supported": ["S256"],
            "client_id_metadata_document_supported": use.clients.documents is not None,
            "authorization_response_iss_parameter_supported": True,
        })  # fmt: skip
        resource = ProtectedResourceMetadata.model_validate({
            "resource": self._resource, "authorization_servers": [base_url], "scopes_supported": _SCOPES,
        })  # fmt: skip
        described = ProtectedResourceMetadataHandler(resource)
        register = ClientRegistrationOptions(enabled=True)
        self._endpoints: Mapping[str, Callable[[Request, str | None], Awaitable[Response]]] = {
            "server_metadata": lambda request, _: MetadataHandler(server).handle(request),
            "resource_metadata": lambda request, _: described.handle(request),
            "authorize": self._authorize,
            "token": self._token,
            "register": lambda request, _: RegistrationHandler(self._provider(), register).handle(request),
        }

    async def answer(self, request: Request, name: str) -> Response:
        """Answer one request to the endpoint of a name; count it, if it is no metadata."""
        address = client_address(request.scope, self._proxies) or None
        try:
            if name in _ACTS:
                await self._use.clients.count(_ACTS[name], address)
                request = _replayed(request, await read_body(request, MAX_BODY_BYTES, self._limits))
            response = await self._endpoints[name](request, address)
        except ClientDisconnect:
            return Response(status_code=HTTPStatus.BAD_REQUEST)  # it is not read
        except RateLimited as refusal:
            response = _refused(HTTPStatus.TOO_MANY_REQUESTS, "temporarily_unavailable", refusal.message)
            response.headers["Retry-After"] = str(refusal.retry_after_s)
        except PayloadTooLarge as refusal:
            response = _refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "invalid_request", refusal.message)
        except DomainError as refusal:
            response = _refused(HTTPStatus.BAD_REQUEST, "invalid_request", refusal.message)
        except StoreUnavailable:
            response = _refused(HTTPStatus.SERVICE_UNAVAILABLE, "temporarily_unavailable", "Try again soon.")
        response.headers.setdefault("Cache-Control", "no-store")
        response.headers["X-Content-Type-Options"] = "nosniff"
        return response

    async def _authorize(self, request: Request, address: str | None) -> Response:
        client_id = request.query_params.get("client_id", "")
        client = await self._use.clients.find_or_fetch(client_id, address)
        provider = self._provider(client)
        response = await AuthorizationHandler(provider).handle(request)
        if provider.asked is not None:
            return RedirectResponse(await provider.asked(), HTTPStatus.FOUND)
        place = response.headers.get("location")
        if place is None:
            return response
        sent = {name: values[-1] for name, values in parse_qs(urlsplit(place).query).items()}
        return _refused(
            HTTPStatus.BAD_REQUEST, sent.get("error", "invalid_request"), sent.get("error_description", "")
        )

    async def _token(self, request: Request, _: str | None) -> Response:
        form = await request.form()
        resource, client_id = form.get("resource"), form.get("client_id")
        if not _is_resource(None if resource is None else str(resource), self._resource):
            return _refused(HTTPStatus.BAD_REQUEST, "invalid_target", f"resource is not {self._resource}")
        provider = self._provider(await self._use.clients.find(str(client_id or "")))
        response: Response = await TokenHandler(provider, ClientAuthenticator(provider)).handle(request)
        return response

    def _provider(self, client: grants.OAuthClient | None = None) -> Any:
        return _Provider(self._use, self._resource, client)


_ACTS: Final = {
    "authorize": grants.Act.AUTHORIZE, "token": grants.Act.TOKEN, "register": grants.Act.REGISTER,
}  # fmt: skip


def _refused(status: int, error: str, description: str) -> Response:
    return JSONResponse({"error": error, "error_description": description}, status)


def _replayed(request: Request, body: bytes) -> Request:
    """Return a request whose body was read within the limits already."""

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return Request(request.scope, receive)
