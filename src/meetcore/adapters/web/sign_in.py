"""Signing in and out, and the choice of the language: the routes that need no session.

A link by e-mail is bound to the browser that asked, by a cookie of its own. Following a link shows a page
with a button, so that programs that look into mails use up no link; the change is the POST behind it.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final, Generic
from urllib.parse import quote

from attrs import frozen
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from meetcore.adapters.web.area import Allowed, Use, Who
from meetcore.adapters.web.cookies import LANGUAGE_KEPT
from meetcore.adapters.web.same_origin import is_same_origin
from meetcore.adapters.web.texts import _
from meetcore.adapters.web.visit import HEADERS, Look, own_path, see_other
from meetcore.adapters.web.web_app import FormRefused, Site, refusal_page
from meetcore.domain.errors import DomainError, RateLimited, Unprocessable
from meetcore.domain.members.sessions import ABSOLUTE_LIMIT
from meetcore.domain.members.tokens import TOKEN_BYTES, mint_token
from meetcore.domain.notes.notes import Language
from meetcore.domain.requests.accounts import InvalidEmail
from meetcore.ports.member_queries import SignedIn
from meetcore.ports.store import StoreUnavailable
from meetcore.usecases.redeem_sign_in_link import Browser, NewOperatorSession, NewSession

BROWSER_KEPT: Final = timedelta(days=1)

_SENT: Final = _(
    "If %(email)s has access, a link is on its way. It works once, for 15 minutes, in this browser."
)

Step = Callable[[Request, Look, str], Awaitable[Response]]
Begin = Callable[[Browser], Awaitable[NewSession | NewOperatorSession]]


@frozen
class SignInPages(Generic[Who, Use, Allowed]):
    """The pages by which a session begins and ends."""

    site: Site[Who, Use, Allowed]

    @property
    def routes(self) -> list[Route]:
        """The routes, for the application."""
        root, sign_in = self.site.area.root, self.site.area.sign_in
        link = f"{sign_in}/{{token}}"
        return [
            self.route(sign_in, "GET", self.ask),
            self.route(sign_in, "POST", self.send),
            self.route(f"{sign_in}/passkey/options", "POST", self.ask_passkey),
            self.route(f"{sign_in}/passkey", "POST", self.enter_by_passkey),
            self.route(link, "GET", self.confirm),
            self.route(link, "POST", self.enter),
            Route(f"{root}/sign-out", self.leave, methods=["POST"]),
            Route(f"{root}/language", self.switch, methods=["POST"]),
        ]

    async def ask(self, request: Request, look: Look, _browser: str) -> Response:
        """The form for an e-mail address; who is signed in goes on, unless a fresh sign-in is asked for."""
        after = own_path(request.query_params.get("next", ""), look.root)
        cookies = self.site.cookies
        needs_fresh = request.query_params.get("reason") == "fresh"
        if not needs_fresh and await self.site.area.find(cookies.read(request, cookies.session)):
            return see_other(after)
        return self._form(look, after, needs_fresh=needs_fresh)

    async def send(self, request: Request, look: Look, browser: str) -> Response:
        """Send a link, if the address has access; the answer does not say whether it has."""
        form = await self.site.read_form(request, browser)
        email, after = form.get("email", "").strip(), own_path(form.get("next", ""), look.root)
        try:
            await self.site.area.send_link(email, browser, self.site.client_address(request), look.language)
        except InvalidEmail:
            errors = {"email": look.text(_("Write the address like name@example.com."))}
            return self._form(look, after, email=email, errors=errors, status=422)
        except RateLimited:
            errors = {
                "email": look.text(_("Too many links were asked for. Wait some minutes and try again."))
            }
            return self._form(look, after, email=email, errors=errors, status=429)
        answer = look.page(
            "message.html",
            heading=look.text(_("Look into your mail")),
            text=look.text(_SENT, email=email),
            link=self.site.area.sign_in,
            link_text=look.text(_("Use another address")),
        )  # fmt: skip
        self.site.cookies.set(answer, self.site.cookies.after, after, timedelta(minutes=20))
        return answer

    async def confirm(self, _request: Request, look: Look, _browser: str) -> Response:
        """A page with the button that signs in."""
        return look.page("confirm_sign_in.html")

    async def enter(self, request: Request, look: Look, browser: str) -> Response:
        """Use a link up and begin a session."""
        await self.site.read_form(request, browser)
        token = request.path_params["token"]
        try:
            return await self.begin(
                request, look, browser, lambda who: self.site.area.redeem(token, who), None
            )
        except DomainError:
            return look.page(
                "message.html",
                410,
                heading=look.text(_("This link does not work")),
                text=look.text(_("It was used, has expired, or was asked for in another browser.")),
                link=self.site.area.sign_in,
                link_text=look.text(_("Ask for a new link")),
            )

    async def ask_passkey(self, request: Request, _look: Look, browser: str) -> Response:
        """Say what the browser is to ask its authenticator, for the script of the page."""
        await self.site.read_form(request, browser)
        options = await self.site.area.passkeys.ask(browser, self.site.client_address(request))
        return JSONResponse(options, headers=HEADERS)

    async def enter_by_passkey(self, request: Request, look: Look, browser: str) -> Response:
        """Begin a session by what the authenticator answered."""
        form = await self.site.read_form(request, browser)
        answer, after = form.get("credential", ""), own_path(form.get("next", ""), look.root)
        try:
            return await self.begin(
                request, look, browser, lambda who: self.site.area.passkeys.enter(answer, who), after
            )
        except Unprocessable:
            text = _("The passkey was not accepted. Try again, or sign in by e-mail.")
            return self._form(look, after, errors={"passkey": look.text(text)}, status=422)
        except RateLimited:
            text = _("Too many attempts. Wait some minutes.")
            return self._form(look, after, errors={"passkey": look.text(text)}, status=429)

    async def begin(
        self, request: Request, look: Look, browser: str, begin: Begin, after: str | None
    ) -> Response:
        """Begin a session by whatever means, in the place of the one that the browser had, and go on.

        `after` is where; the page that was kept with the request for a link if `None`.
        """
        cookies, area = self.site.cookies, self.site.area
        earlier = await area.find(cookies.read(request, cookies.session))
        account_id = earlier.account.id if isinstance(earlier, SignedIn) else None
        agent, address = request.headers.get("user-agent", ""), self.site.client_address(request)
        begun = await begin(Browser(browser, agent, address, account_id))
        # The cookie is about to be replaced: nobody could end that session any more.
        if earlier is not None:
            await area.sessions.end(earlier.session)
        after = after or own_path(cookies.read(request, cookies.after) or "", look.root)
        if isinstance(begun, NewSession) and begun.has_choice:
            after = f"{area.root}/accounts?next={quote(after, safe='/')}"
        answer = see_other(after)
        cookies.set(answer, cookies.session, begun.token, ABSOLUTE_LIMIT)
        cookies.clear(answer, cookies.after)
        return answer

    async def leave(self, request: Request) -> Response:
        """End the session of the cookie."""
        cookies = self.site.cookies
        token = cookies.read(request, cookies.session) or ""
        look = self.site.look(request, token)
        try:
            await self.site.read_form(request, token)
            if signed_in := await self.site.area.find(token):
                await self.site.area.sessions.end(signed_in.session)
        except (FormRefused, DomainError, StoreUnavailable) as refusal:
            return refusal_page(look, refusal)
        answer = see_other(self.site.area.sign_in)
        cookies.clear(answer, cookies.session)
        return answer

    async def switch(self, request: Request) -> Response:
        """Keep the language chosen, and go back."""
        cookies = self.site.cookies
        look = self.site.look(request, "")
        if not is_same_origin(request.headers):
            return refusal_page(look, FormRefused("another origin"))
        form = await self.site.read_fields(request)
        answer = see_other(own_path(form.get("next", ""), look.root))
        if form.get("language") in set(Language):
            cookies.set(answer, cookies.language, form["language"], LANGUAGE_KEPT)
        return answer

    def route(self, path: str, method: str, step: Step) -> Route:
        """Build the route of a step of signing in, for which the browser gets a cookie of its own."""

        async def answer(request: Request) -> Response:
            cookies = self.site.cookies
            known = cookies.read(request, cookies.browser)
            browser = known or mint_token(self.site.area.runtime.entropy.token_bytes(TOKEN_BYTES))
            look = self.site.look(request, browser)
            try:
                response = await step(request, look, browser)
            except (FormRefused, DomainError, StoreUnavailable) as refusal:
                return refusal_page(look, refusal)
            if known is None:
                cookies.set(response, cookies.browser, browser, BROWSER_KEPT)
            return response

        return Route(path, answer, methods=[method])

    def _form(
        self, look: Look, after: str, *, email: str = "", errors: dict[str, str] | None = None,
        status: int = 200, needs_fresh: bool = False,
    ) -> Response:  # fmt: skip
        return look.page(
            "sign_in.html", status, next=after, email=email, errors=errors or {}, needs_fresh=needs_fresh,
            sends_mail=self.site.area.sends_mail, has_passkeys=self.site.area.passkeys.is_possible,
            can_sign_up=self.site.area.can_sign_up, has_provider=self.site.area.identities.is_possible,
        )  # fmt: skip
