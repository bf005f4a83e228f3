"""The routes of an area: language, origin, session and role are settled before a page's handler runs.

1. The language, and for a POST the origin and the form's token; a form has at most its page's bytes.
2. The session of the cookie; without one, a redirect to sign in, and back.
3. The role, and for money and keys a fresh sign-in; a form that is sent too late is kept over it.
4. The question before a change that cannot be undone; its form sends the same fields again, `confirmed`.
5. The handler. Refusals of the domain that it lets through become pages.
"""

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from http import HTTPStatus
from typing import Final, Generic
from urllib.parse import parse_qsl, quote, urlsplit

import structlog
from attrs import Factory, evolve, field, frozen
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from meetcore.adapters.api.answers import PayloadTooLarge
from meetcore.adapters.api.http_common import (
    DEFAULT_LIMITS,
    RequestLimits,
    client_address,
    loggable_path,
    read_body,
)
from meetcore.adapters.catalogues import choose_language
from meetcore.adapters.web.cookies import (
    FORM_KEPT,
    MAX_ENCODED,
    Cookies,
    KeptForm,
    decode_form,
    encode_form,
    form_token,
    is_form_token,
    is_same_origin,
    may_compress,
)  # fmt: skip
from meetcore.adapters.web.refusals import translate_refusal
from meetcore.adapters.web.texts import _
from meetcore.adapters.web.visit import (
    CONSENT,
    MAX_FORM_BYTES,
    Allowed,
    Area,
    AreaPage,
    AreaVisit,
    Look,
    Use,
    Who,
    own_path,
    see_other,
)
from meetcore.domain.errors import ActionNotAllowed, DomainError, Gone, NotFound, RateLimited
from meetcore.domain.members import sessions, views
from meetcore.domain.webhooks.addresses import Network
from meetcore.ports.observability import add_log_fields
from meetcore.ports.runtime import PrinterBusy, PrintingFailed
from meetcore.ports.store import StoreUnavailable

MAX_FIELDS: Final = 2000

log = structlog.get_logger("meetcore.web")


class FormRefused(Exception):
    """A form that no page of ours sent, or that was sent from a page of an earlier session."""


class ReadOnlyView(Exception):
    """A change in a session in which an operator looks at a customer's account."""


@frozen
class Site(Generic[Who, Use, Allowed]):
    """The state that the routes of an area share.

    `base_url` names the origin of its pages; `proxies` are trusted to name the client's address.
    """

    area: Area[Who, Use, Allowed]
    base_url: str
    limits: RequestLimits = DEFAULT_LIMITS
    proxies: Sequence[Network] = ()
    cookies: Cookies = field(init=False, default=Factory(lambda site: site.make_cookies(), takes_self=True))

    def make_cookies(self) -> Cookies:
        """Name the cookies of the area: they are bound to TLS where the base URL has it."""
        return Cookies(self.area.site, is_secure=urlsplit(self.base_url).scheme == "https")

    def client_address(self, request: Request) -> str | None:
        """Return the client's address, for the audit log and the limits on sign-in."""
        return client_address(request.scope, self.proxies) or None

    def look(self, request: Request, cookie: str) -> Look:
        """Build the surroundings of a page: its language and its form token."""
        language = choose_language(
            self.cookies.read(request, self.cookies.language), request.headers.get("accept-language", "")
        )
        query = f"?{request.url.query}" if request.url.query else ""
        here, support = request.url.path + query, self.area.use.support_contact
        return Look(
            language, self.area.root, here, form_token(cookie), support, may_compress(request.headers)
        )

    async def read_form(
        self, request: Request, cookie: str, max_bytes: int = MAX_FORM_BYTES
    ) -> Mapping[str, str]:
        """Read a form that a page of ours sent to the holder of the cookie.

        Raises `FormRefused` from another site or with another token, `PayloadTooLarge`.
        """
        if not is_same_origin(request.headers, self.base_url):
            raise FormRefused("another origin")
        fields = await self.read_fields(request, max_bytes)
        if not is_form_token(fields.pop("form_token", ""), cookie):
            raise FormRefused("another token")
        return fields

    async def read_fields(self, request: Request, max_bytes: int = MAX_FORM_BYTES) -> dict[str, str]:
        """Read the fields of any sender's form; raise `FormRefused`, or `PayloadTooLarge`."""
        try:
            body = await read_body(request, max_bytes, self.limits)
            return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MAX_FIELDS))
        except (ValueError, ClientDisconnect):
            raise FormRefused("no form") from None

    def routes(self, pages: Sequence[AreaPage[Who, Use, Allowed]]) -> list[Route]:
        """Build the routes of pages for those who are signed in."""
        shown = {page.path for page in pages if page.method == "GET"}
        return [self._route(page, _form_page(page.path, shown)) for page in pages]

    def _route(self, page: AreaPage[Who, Use, Allowed], form_page: str) -> Route:
        async def answer(request: Request) -> Response:
            here = request.url.path if page.method == "GET" else form_page.format(**request.path_params)
            return await self._guarded(request, page, own_path(here, self.area.root))

        return Route(page.path, answer, methods=[page.method])

    @property
    def rest(self) -> Route:
        """The route of every other address of the area, to stand last: a page that says so."""

        async def answer(request: Request) -> Response:
            look = self.look(request, "")
            if request.url.path.endswith("/"):
                return see_other(request.url.path.rstrip("/"))
            return refusal_page(look, NotFound("Nothing is here."))

        return Route(f"{self.area.root}/{{rest:path}}", answer)

    async def _guarded(self, request: Request, page: AreaPage[Who, Use, Allowed], form_page: str) -> Response:
        token = self.cookies.read(request, self.cookies.session) or ""
        look = self.look(request, token)
        if page.method == "POST":
            look = evolve(look, shown_at=form_page)
        try:
            return await self._answer(request, page, look, token, form_page)
        except _REFUSED as refusal:
            return refusal_page(look, refusal)

    async def _answer(
        self, request: Request, page: AreaPage[Who, Use, Allowed], look: Look, token: str, form_page: str
    ) -> Response:
        back = look.here if page.method == "GET" else form_page
        sign_in = f"{self.area.sign_in}?next={quote(own_path(back, self.area.root), safe='/')}"
        signed_in, form = await self._admit(request, page, token)
        if signed_in is None:
            return see_other(sign_in)
        self.area.check(signed_in, page.action)
        now = self.area.use.runtime.now()
        if page.needs_fresh and not sessions.is_fresh(signed_in.session, now):
            answer = see_other(f"{sign_in}&reason=fresh")
            kept = KeptForm(_owner(signed_in), form_page, request.url.path, form)
            if form and (text := encode_form(kept)):
                self.cookies.set(answer, self.cookies.form, text, FORM_KEPT)
            return answer
        visit = AreaVisit(
            request, signed_in, self.area, look, self.cookies, now, self.client_address(request), form,
            request.url.path if page.method == "POST" else "",
        )  # fmt: skip
        consent = form.get("confirmed")
        if page.ask is not None and consent not in ("", CONSENT):
            question, sent = await page.ask(visit), {name: form[name] for name in form if name != "confirmed"}
            if question is not None and question.consent != consent:
                return visit.page("confirm.html", question=question, fields=sent, back=form_page)
        return await self._handle(page, self._with_kept_form(visit))

    async def _admit(
        self, request: Request, page: AreaPage[Who, Use, Allowed], token: str
    ) -> tuple[Who | None, Mapping[str, str]]:
        """Find the visitor, and read the form; `None` without a session.

        A slow client's form takes seconds: session, role and account are those of its end.
        """
        signed_in = await self.area.find(token)
        if signed_in is None:
            return None, {}
        add_log_fields(**_log_fields_of(signed_in))
        await self.area.use.sessions.count(signed_in.session)
        if page.method != "POST":
            return signed_in, {}
        if sessions.is_view(signed_in.session):
            raise ReadOnlyView
        form = await self.read_form(request, token, page.max_form_bytes)
        return await self.area.find(token), form

    def _with_kept_form(self, visit: AreaVisit[Who, Use, Allowed]) -> AreaVisit[Who, Use, Allowed]:
        """Put the form that was kept for this page, by the same visitor, into a visit."""
        text = self.cookies.read(visit.request, self.cookies.form, MAX_ENCODED)
        kept = decode_form(text) if text and visit.request.method == "GET" else None
        if kept is None or (kept.owner, kept.page) != (_owner(visit.signed_in), visit.request.url.path):
            return visit
        return evolve(visit, form=kept.fields, sent_to=kept.sent_to)

    async def _handle(
        self, page: AreaPage[Who, Use, Allowed], visit: AreaVisit[Who, Use, Allowed]
    ) -> Response:
        assert page.handle is not None
        request, signed_in = visit.request, visit.signed_in
        response = await page.handle(visit)
        if visit.is_restored:
            self.cookies.clear(response, self.cookies.form)
        if page.method == "POST" and response.status_code < HTTPStatus.BAD_REQUEST:
            _log_action(signed_in, page.action, request.url.path)
        return response


def _form_page(path: str, shown: Collection[str]) -> str:
    """Return the path of the page that has the form which is sent to a path: below it, there, or above it."""
    if f"{path}/new" in shown:
        return f"{path}/new"
    while path and path not in shown:
        path = path.rpartition("/")[0]
    return path


def _owner(who: views.SignedIn | views.SignedInOperator) -> str:
    """Return whose form is kept: the operator, or the member or guest in one account."""
    if isinstance(who, views.SignedInOperator):
        return str(who.operator.id)
    return f"{who.account.id} {who.user.id if who.user else ''}"


def _log_fields_of(who: views.SignedIn | views.SignedInOperator) -> dict[str, str]:
    """Return who a request's line names: the session, and the operator or the account of it."""
    found = {"session_id": str(who.session.id)}
    if isinstance(who, views.SignedInOperator):
        return found | {"operator_id": str(who.operator.id)}
    if who.session.impersonated_by is not None:
        found["operator_id"] = str(who.session.impersonated_by)
    return found | {"account_id": str(who.account.id)}


def _log_action(who: views.SignedIn | views.SignedInOperator, action: StrEnum, path: str) -> None:
    """Log an operator's action; those of members are in the audit log."""
    if isinstance(who, views.SignedInOperator):
        log.info(
            "operator action", action=action.value, operator=str(who.operator.id), path=loggable_path(path)
        )


_REFUSALS: Final[Sequence[tuple[type[Exception], int, str, str]]] = (
    (
        ActionNotAllowed, 403, _("Not allowed"),
        _("Your role does not include this. An owner of the account, or an admin, can change it."),
    ),
    (
        ReadOnlyView, 403, _("Read-only view"),
        _("You look at this account as an operator. Nothing can be changed here, and nothing was."),
    ),
    (
        FormRefused, 403, _("This form has expired"),
        _("Go back, reload the page and try again. Nothing was changed."),
    ),
    (
        Gone, 410, _("Not there any more"),
        _("This was deleted for good, or is past the time for which it is kept. The ledger stays as it was."),
    ),
    (NotFound, 404, _("Not found"), _("There is nothing at this address, or it belongs to another account.")),
    (RateLimited, 429, _("Too many requests"), _("Too many requests. Wait a moment, then try again.")),
    (PayloadTooLarge, 413, _("Too large"), _("The form is too large. Nothing was changed.")),
    (StoreUnavailable, 503, _("Out of service for a moment"), _("Try again in a few seconds.")),
    (
        PrinterBusy, 503, _("Other documents are being made"),
        _("One document is made for an account at a time. Try again in a few seconds."),
    ),
    (PrintingFailed, 500, _("The document was not made"), _("Try again, or take the data in another form.")),
)  # fmt: skip
_REFUSED: Final[tuple[type[Exception], ...]] = (DomainError, *(each[0] for each in _REFUSALS))


def refusal_page(look: Look, refusal: Exception) -> Response:
    """Render the page of a refusal that a handler let through."""
    back = _("Back to the overview")
    for kind, status, heading, text in _REFUSALS:
        if isinstance(refusal, kind):
            answer = look.message(heading, look.text(text), look.root, back, status)
            if isinstance(refusal, RateLimited):
                answer.headers["Retry-After"] = str(refusal.retry_after_s)
            return answer
    assert isinstance(refusal, DomainError)
    return look.message(
        _("This was refused"), translate_refusal(look.language, refusal.message), look.root, back, 409
    )
