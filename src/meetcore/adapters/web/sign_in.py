"""Signing in and out, and the choice of the language: the routes that need no session.

A link by e-mail is bound to the browser that asked, by a cookie of its own. Following a link shows a page
with a button, so that programs that look into mails use up no link; the change is the POST behind it.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final, Generic

from attrs import frozen
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from meetcore.adapters.web.area import Allowed, Use, Who
from meetcore.adapters.web.cookies import LANGUAGE_KEPT
from meetcore.adapters.web.same_origin import is_same_origin
from meetcore.adapters.web.texts import _
from meetcore.adapters.web.visit import Look, own_path, see_other
from meetcore.adapters.web.web_app import FormRefused, Site, refusal_page
from meetcore.domain.errors import DomainError, RateLimited
from meetcore.domain.members.sessions import ABSOLUTE_LIMIT
from meetcore.domain.members.tokens import TOKEN_BYTES, mint_token
from meetcore.domain.notes.notes import Language
from meetcore.domain.requests.accounts import InvalidEmail
from meetcore.ports.store import StoreUnavailable
from meetcore.usecases.redeem_sign_in_link import Browser

BROWSER_KEPT: Final = timedelta(days=1)

_SENT: Final = _(
    "If %(email)s has access, a link is on its way. It works once, for 15 minutes, in this browser."
)

Step = Callable[[Request, Look, str], Awaitable[Response]]


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
            self._route(sign_in, "GET", self.ask),
            self._route(sign_in, "POST", self.send),
            self._route(link, "GET", self.confirm),
            self._route(link, "POST", self.enter),
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
        cookies = self.site.cookies
        who = Browser(browser, request.headers.get("user-agent", ""), self.site.client_address(request))
        try:
            begun = await self.site.area.redeem(request.path_params["token"], who)
        except DomainError:
            return look.page(
                "message.html",
                410,
                heading=look.text(_("This link does not work")),
                text=look.text(_("It was used, has expired, or was asked for in another browser.")),
                link=self.site.area.sign_in,
                link_text=look.text(_("Ask for a new link")),
            )
        # The cookie is about to be replaced: nobody could end that session any more.
        if earlier := await self.site.area.find(cookies.read(request, cookies.session)):
            await self.site.area.sessions.end(earlier.session)
        answer = see_other(own_path(cookies.read(request, cookies.after) or "", look.root))
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

    def _route(self, path: str, method: str, step: Step) -> Route:
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
            sends_mail=self.site.area.sends_mail,
        )  # fmt: skip
