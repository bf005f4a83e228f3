"""Signing in and out, by link, passkey or OpenID provider, and the choice of the language.

A link by e-mail is bound to the browser that asked, by a cookie of its own. Following a link shows a page
with a button, so that programs that look into mails use up no link; the change is the POST behind it.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final, Generic
from urllib.parse import quote

from attrs import evolve, frozen
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from meetcore.adapters.web.cookies import LANGUAGE_KEPT, is_same_origin
from meetcore.adapters.web.texts import ROLE_MEANINGS, ROLE_TEXTS, _
from meetcore.adapters.web.visit import HEADERS, Allowed, Look, Use, Who, own_path, see_other
from meetcore.adapters.web.web_app import FormRefused, Site, refusal_page
from meetcore.domain.errors import DomainError, RateLimited, Unprocessable
from meetcore.domain.members import sessions, views
from meetcore.domain.members.identities import FLOW_FOR, OtherSubject
from meetcore.domain.members.sign_in import TOKEN_BYTES, SignInFirst, mint_token
from meetcore.domain.notes.notes import Language
from meetcore.domain.requests.accounts import InvalidEmail
from meetcore.ports import identity, store
from meetcore.usecases.members.sign_in_links import Browser, NewOperatorSession, NewSession

BROWSER_KEPT: Final = timedelta(days=1)
MAX_CODE: Final = 4096

_SENT: Final = _(
    "If %(email)s has access, a link is on its way. It works once, for 15 minutes, in this browser. "
    "If none comes, use the last one that was sent."
)

_REASONS: Final = {
    "fresh": _(
        "Keys and secrets, connecting a program, new webhooks, passkeys, members, and downloading or erasing "
        "the account ask for a sign-in of the last 15 minutes. Sign in once more to go on."
    ),
    "operator": _(
        "Credits, payments, meetings in doubt, passkeys, and suspending or viewing an account ask for a "
        "sign-in of the last 15 minutes. Sign in once more to go on."
    ),
    "link": _(
        "The link that you came by opens this account, but does not prove that you are its member. Keys and "
        "secrets, connecting a program, new webhooks, passkeys, members, and downloading or erasing the "
        "account ask you to sign in yourself. Then you go on where you were."
    ),
    "guest": _(
        "You are here as a guest, and came more than 15 minutes ago, which is too long for keys and secrets, "
        "connecting a program, new webhooks, members, and downloading or erasing the account. Open a new "
        "link where you got the last one, or sign in as a member."
    ),
    "invited": _("The invited address has access already. Sign in with it, then accept the invitation."),
}
"""Why a visitor with a session is asked to sign in, by `reason`; the three after `fresh` are kinds of it."""
_ASKED: Final = ("fresh", "invited")
"""The values of the parameter `reason`."""

Step = Callable[[Request, Look, str], Awaitable[Response]]
Begin = Callable[[Browser], Awaitable[NewSession | NewOperatorSession]]


def unusable_link(look: Look, again: str) -> Response:
    """Render the page of a link that was used or has expired; `again` is where to ask for another."""
    text = look.text("It was used, has expired, or was asked for in another browser.")
    return look.message(_("This link does not work"), text, again, _("Ask for a new link"), 410)


def _reason(asked: str, who: views.SignedIn | views.SignedInOperator | None) -> str:
    """Return the key of the text that says why a sign-in is asked for; empty without a reason."""
    if asked == "fresh" and isinstance(who, views.SignedInOperator):
        return "operator"
    if asked == "fresh" and isinstance(who, views.SignedIn):
        if who.user is None:
            return "guest"
        if who.session.is_pinned:
            return "link"
    return asked if asked in _ASKED else ""


def _email_of(who: views.SignedIn | views.SignedInOperator | None) -> str:
    """Return the address of the person signed in; empty for guests."""
    person = who.operator if isinstance(who, views.SignedInOperator) else who and who.user
    return person.email if person else ""


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
            # Before those of links, whose tokens could be their names.
            self.route(f"{sign_in}/oidc", "GET", self.leave_to_provider),
            self.route(f"{sign_in}/oidc/callback", "GET", self.enter_from_provider),
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
        """Show the form; redirect a signed-in visitor unless a fresh sign-in is required."""
        after = own_path(request.query_params.get("next", ""), look.root)
        cookies = self.site.cookies
        reason = request.query_params.get("reason", "")
        signed_in = await self.site.area.find(cookies.read(request, cookies.session))
        if reason in _ASKED or signed_in is None:
            email = _email_of(signed_in) if reason == "fresh" else ""
            return self._form(look, after, email=email, reason=_reason(reason, signed_in))
        return see_other(after)

    async def send(self, request: Request, look: Look, browser: str) -> Response:
        """Send a link, if the address has access; the answer does not say whether it has."""
        form = await self.site.read_form(request, browser)
        email, after = form.get("email", "").strip(), own_path(form.get("next", ""), look.root)
        try:
            await self.site.area.send_link(email, browser, self.site.client_address(request), look.language)
        except InvalidEmail:
            errors = {"email": look.text("Write the address like name@example.com.")}
            return self._form(look, after, email=email, errors=errors, status=422)
        except RateLimited:
            errors = {"email": look.text("Too many links were asked for. Wait some minutes and try again.")}
            return self._form(look, after, email=email, errors=errors, status=429)
        answer = look.message(
            _("Look into your mail"), look.text(_SENT, email=email), self.site.area.sign_in,
            _("Use another address"),
        )  # fmt: skip
        return self.keep(answer, browser, after)

    def keep(self, answer: Response, browser: str, after: str) -> Response:
        """Have the browser keep until its link is used what that needs: its own cookie, and the next page."""
        cookies = self.site.cookies
        cookies.set(answer, cookies.browser, browser, BROWSER_KEPT)
        cookies.set(answer, cookies.after, after, timedelta(minutes=20))
        return answer

    async def confirm(self, request: Request, look: Look, _browser: str) -> Response:
        """Show the button that signs in, and for an invitation what it is to."""
        invitation = await self.site.area.find_invitation(request.path_params["token"])
        if invitation is None:
            return look.page("confirm_sign_in.html", invitation=None)
        role, meaning = ROLE_TEXTS[invitation.role], ROLE_MEANINGS[invitation.role]
        return look.page(
            "confirm_sign_in.html", invitation=invitation, role=look.text(role), meaning=look.text(meaning)
        )

    async def enter(self, request: Request, look: Look, browser: str) -> Response:
        """Use a link up and begin a session."""
        await self.site.read_form(request, browser)
        token = request.path_params["token"]
        try:
            return await self.begin(
                request, look, browser, lambda who: self.site.area.redeem(token, who), None
            )
        except SignInFirst:
            again = quote(request.url.path, safe="/")
            return see_other(f"{self.site.area.sign_in}?next={again}&reason=invited")
        except DomainError:
            return unusable_link(look, self.site.area.sign_in)

    async def ask_passkey(self, request: Request, _look: Look, browser: str) -> Response:
        """Return the request to the authenticator, for the script of the page."""
        await self.site.read_form(request, browser)
        options = await self.site.area.use.passkey_sign_in.ask(browser, self.site.client_address(request))
        return JSONResponse(options, headers=HEADERS)

    async def enter_by_passkey(self, request: Request, look: Look, browser: str) -> Response:
        """Begin a session by the answer of the authenticator."""
        form = await self.site.read_form(request, browser)
        answer, after = form.get("credential", ""), own_path(form.get("next", ""), look.root)
        use = self.site.area.use.passkey_sign_in
        try:
            return await self.begin(request, look, browser, lambda who: use.enter(answer, who), after)
        except Unprocessable:
            text = _("The passkey was not accepted. Try again, or sign in by e-mail.")
            return self._form(look, after, errors={"passkey": look.text(text)}, status=422)
        except RateLimited:
            text = _("Too many attempts. Wait some minutes.")
            return self._form(look, after, errors={"passkey": look.text(text)}, status=429)

    async def begin(
        self, request: Request, look: Look, browser: str, begin: Begin, after: str | None
    ) -> Response:
        """Begin a session in place of the browser's earlier one, and redirect to `after` or the kept page."""
        cookies, area = self.site.cookies, self.site.area
        earlier = await area.find(cookies.read(request, cookies.session))
        session = earlier.session if isinstance(earlier, views.SignedIn) else None
        agent, address = request.headers.get("user-agent", ""), self.site.client_address(request)
        begun = await begin(Browser(browser, agent, address, session, look.language))
        # The cookie is about to be replaced: without it that session cannot be ended.
        if earlier is not None:
            await area.use.sessions.end(earlier.session)
        after = after or own_path(cookies.read(request, cookies.after) or "", look.root)
        if isinstance(begun, NewSession) and begun.has_choice:
            after = f"{area.root}/accounts?next={quote(after, safe='/')}"
        answer = see_other(after)
        cookies.set(answer, cookies.session, begun.token, sessions.ABSOLUTE_LIMIT)
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
                await self.site.area.use.sessions.end(signed_in.session)
        except (FormRefused, DomainError, store.StoreUnavailable) as refusal:
            return refusal_page(look, refusal)
        answer = see_other(self.site.area.sign_in)
        cookies.clear(answer, cookies.session)
        cookies.clear(answer, cookies.form)
        return answer

    async def switch(self, request: Request) -> Response:
        """Keep the language chosen, and go back."""
        cookies = self.site.cookies
        look = self.site.look(request, "")
        if not is_same_origin(request.headers, self.site.base_url):
            return refusal_page(look, FormRefused("another origin"))
        try:
            form = await self.site.read_fields(request)
        except (FormRefused, DomainError) as refusal:
            return refusal_page(look, refusal)
        answer = see_other(own_path(form.get("next", ""), look.root))
        if form.get("language") in set(Language):
            cookies.set(answer, cookies.language, form["language"], LANGUAGE_KEPT)
        return answer

    def route(self, path: str, method: str, step: Step) -> Route:
        """Build the route of a step of signing in, for which the browser gets a cookie of its own."""

        async def answer(request: Request) -> Response:
            cookies = self.site.cookies
            known = cookies.read(request, cookies.browser)
            browser = known or mint_token(self.site.area.use.runtime.entropy.token_bytes(TOKEN_BYTES))
            look = self.site.look(request, browser)
            try:
                response = await step(request, look, browser)
            except (FormRefused, DomainError, store.StoreUnavailable) as refusal:
                return refusal_page(look, refusal)
            if known is None:
                cookies.set(response, cookies.browser, browser, BROWSER_KEPT)
            return response

        return Route(path, answer, methods=[method])

    def _form(
        self, look: Look, after: str, *, email: str = "", errors: dict[str, str] | None = None,
        status: int = 200, reason: str = "",
    ) -> Response:  # fmt: skip
        area, use = self.site.area, self.site.area.use
        if errors:
            look = evolve(look, shown_at=f"{area.sign_in}?next={quote(after, safe='/')}")
        return look.page(
            "sign_in.html", status, next=after, email=email, errors=errors or {},
            reason=look.text(_REASONS.get(reason, "")), needs_fresh=reason in _REASONS,
            sends_mail=use.sends_mail, has_passkeys=use.passkey_sign_in.is_possible,
            can_sign_up=area.can_sign_up, has_provider=use.identity_sign_in.is_possible,
        )  # fmt: skip

    async def leave_to_provider(self, request: Request, look: Look, _browser: str) -> Response:
        """Send the browser to the OpenID provider; 404 where there is none."""
        site, query = self.site, request.query_params
        token = mint_token(site.area.use.runtime.entropy.token_bytes(TOKEN_BYTES))
        asks_again = query.get("reason") == "fresh"
        try:
            url = await site.area.use.identity_sign_in.ask(token, site.client_address(request), asks_again)
        except (Unprocessable, RateLimited) as refusal:
            return self._refused_by_provider(look, refusal)
        answer = RedirectResponse(url, 303, HEADERS)
        site.cookies.set(answer, site.cookies.provider, token, FLOW_FOR)
        site.cookies.set(answer, site.cookies.after, own_path(query.get("next", ""), look.root), FLOW_FOR)
        return answer

    async def enter_from_provider(self, request: Request, look: Look, browser: str) -> Response:
        """Begin a session by the answer of the provider."""
        site, query, use = self.site, request.query_params, self.site.area.use.identity_sign_in
        token = site.cookies.read(request, site.cookies.provider)
        state, code, issuer = query.get("state", ""), query.get("code", ""), query.get("iss")
        answer = identity.ProviderAnswer(code[:MAX_CODE], issuer)
        try:
            response = await self.begin(
                request, look, browser, lambda who: use.enter(token, state, answer, who), None
            )
        except (Unprocessable, RateLimited) as refusal:
            response = self._refused_by_provider(look, refusal)
        site.cookies.clear(response, site.cookies.provider)
        return response

    def _refused_by_provider(self, look: Look, refusal: Unprocessable | RateLimited) -> Response:
        texts: dict[type[DomainError], str] = {
            Unprocessable: _(
                "It was begun in another browser or too long ago, the provider refused, or your address has "
                "no access here."
            ),
            OtherSubject: _(
                "The provider knows another person by this e-mail address than before. Ask the operator of "
                "this service to let you in."
            ),
            RateLimited: _("Too many attempts. Wait some minutes."),
        }
        return look.message(
            _("The sign-in did not work"), look.text(texts[type(refusal)]), self.site.area.sign_in,
            _("Try again"), 429 if isinstance(refusal, RateLimited) else 422,
        )  # fmt: skip
