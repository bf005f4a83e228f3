"""`POST /console/portal-links`: a backend of the operator's makes a link, with an operator's token.

The one address of the console for programs: JSON in and out, refusals in the form of the API's.
"""

from collections.abc import Mapping
from typing import Annotated, Final

import structlog
from attrs import field, frozen
from msgspec import Meta
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from meetcore.adapters.api.answers import MethodNotAllowed, encode_record, headers_of, render_error
from meetcore.adapters.api.decoding import decode_body, decode_json
from meetcore.adapters.api.http_common import authorization_of, check_media, read_body
from meetcore.adapters.web.web_app import Site
from meetcore.domain.errors import DomainError, InvalidRequest, ServiceUnavailable
from meetcore.domain.ids import parse_id
from meetcore.domain.meetings.schedule import utc_text
from meetcore.domain.members import roles, sign_in, views
from meetcore.ports.store import StoreUnavailable
from meetcore.usecases.members import dashboard, operators

PATH: Final = "/console/portal-links"
_METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_HEADERS: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}

log = structlog.get_logger("meetcore.web")


@frozen(kw_only=True)
class PortalLinkBody:
    """The account to link to. `email` names a member; without it the link signs in a guest of `role`."""

    account_id: str
    role: roles.Role | None = None
    email: Annotated[str, Meta(min_length=1, max_length=254)] | None = None
    minutes: Annotated[int, Meta(ge=1, le=sign_in.MAX_PORTAL_MINUTES)] = sign_in.DEFAULT_PORTAL_MINUTES


@frozen
class PortalLinkRecord:
    """The answer: an address that signs in once."""

    url: str = field(repr=False)
    expires_at: str


@frozen
class PortalLinkRoute:
    """Answers requests for links."""

    site: Site[views.SignedInOperator, dashboard.ConsoleUseCases, roles.OperatorAction]

    @property
    def route(self) -> Route:
        """The route, for the application."""
        return Route(PATH, self.answer, methods=_METHODS)

    async def answer(self, request: Request) -> Response:
        """Make a link, or refuse in JSON with the id of the request, which is in the log, too."""
        runtime = self.site.area.use.runtime
        request_id = str(runtime.new_id(runtime.now()))
        try:
            made = await self._make(request)
        except ClientDisconnect:
            return Response(status_code=400)  # it is not read
        except (DomainError, StoreUnavailable) as error:
            return self._refused(error, request_id)
        log.info("operator action", action="portal link by token", request_id=request_id)
        record = encode_record(PortalLinkRecord(made.url, utc_text(made.expires_at)))
        return _json(201, record, {"X-Request-Id": request_id})

    async def _make(self, request: Request) -> operators.PortalLink:
        use, limits = self.site.area.use, self.site.limits
        authorization = authorization_of(request.headers)
        token = await use.tokens.authenticate(authorization)
        if request.method != "POST":
            raise MethodNotAllowed(request.method, "POST")
        check_media(request)
        start = use.runtime.now()
        body = decode_body(decode_json(await read_body(request, limits=limits)), PortalLinkBody)
        if (use.runtime.now() - start).total_seconds() > limits.recheck_after_s:
            token = await use.tokens.authenticate(authorization)
        links = use.portal_links.by_token(token, self.site.client_address(request))
        account_id = parse_id(body.account_id, "account")
        if body.email is None:
            return await links.for_guest(account_id, body.role or roles.Role.VIEWER, body.minutes)
        if body.role is not None:
            raise InvalidRequest({"role": ["must be left out with email: a member has a role of their own"]})
        return await links.for_member(account_id, body.email, body.minutes)

    def _refused(self, error: DomainError | StoreUnavailable, request_id: str) -> Response:
        refusal = (
            error
            if isinstance(error, DomainError)
            else ServiceUnavailable("The service is out of reach for a moment.", 5)
        )
        log.warning("portal link refused", code=refusal.code, request_id=request_id)
        answer = render_error(refusal, self.site.base_url, request_id)
        return _json(answer.status, answer.body, {"X-Request-Id": request_id} | headers_of(refusal))


def _json(status: int, body: bytes, headers: Mapping[str, str]) -> Response:
    return Response(body, status, _HEADERS | dict(headers), "application/json")
