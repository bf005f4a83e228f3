"""Signing in at an OpenID provider: the browser goes there, and comes back with a code.

The start is a link, for a form may lead to our own pages alone (`form-action`). A token in a cookie binds the
answer to this browser; it is gone with the answer.
"""

from typing import Generic

from attrs import frozen
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from meetcore.adapters.web.area import Allowed, Use, Who
from meetcore.adapters.web.sign_in import SignInPages
from meetcore.adapters.web.texts import _
from meetcore.adapters.web.visit import HEADERS, Look, own_path
from meetcore.domain.errors import RateLimited, Unprocessable
from meetcore.domain.members.identities import FLOW_FOR
from meetcore.domain.members.tokens import TOKEN_BYTES, mint_token
from meetcore.ports.identity_provider import ProviderAnswer

MAX_CODE = 4096


@frozen
class ProviderSignInPages(Generic[Who, Use, Allowed]):
    """The way to a provider and back; 404 where there is none."""

    sign_in: SignInPages[Who, Use, Allowed]

    @property
    def routes(self) -> list[Route]:
        """The routes, for the application; before those of links, whose tokens could be their names."""
        root = f"{self.sign_in.site.area.sign_in}/oidc"
        return [
            self.sign_in.route(root, "GET", self.leave),
            self.sign_in.route(f"{root}/callback", "GET", self.enter),
        ]

    async def leave(self, request: Request, look: Look, _browser: str) -> Response:
        """Send the browser to the provider."""
        site, query = self.sign_in.site, request.query_params
        token = mint_token(site.area.runtime.entropy.token_bytes(TOKEN_BYTES))
        asks_again = query.get("reason") == "fresh"
        try:
            url = await site.area.identities.ask(token, site.client_address(request), asks_again)
        except (Unprocessable, RateLimited) as refusal:
            return self._refused(look, refusal)
        answer = RedirectResponse(url, 303, HEADERS)
        site.cookies.set(answer, site.cookies.provider, token, FLOW_FOR)
        site.cookies.set(answer, site.cookies.after, own_path(query.get("next", ""), look.root), FLOW_FOR)
        return answer

    async def enter(self, request: Request, look: Look, browser: str) -> Response:
        """Begin a session by the answer of the provider."""
        site, query = self.sign_in.site, request.query_params
        token = site.cookies.read(request, site.cookies.provider)
        state, code, issuer = query.get("state", ""), query.get("code", ""), query.get("iss")
        answer = ProviderAnswer(code[:MAX_CODE], issuer)
        try:
            response = await self.sign_in.begin(
                request,
                look,
                browser,
                lambda who: site.area.identities.enter(token, state, answer, who),
                None,
            )
        except (Unprocessable, RateLimited) as refusal:
            response = self._refused(look, refusal)
        site.cookies.clear(response, site.cookies.provider)
        return response

    def _refused(self, look: Look, refusal: Unprocessable | RateLimited) -> Response:
        texts = {
            Unprocessable: _(
                "It was begun in another browser or too long ago, the provider refused, or your address has "
                "no access here."
            ),
            RateLimited: _("Too many attempts. Wait some minutes."),
        }
        return look.page(
            "message.html", 429 if isinstance(refusal, RateLimited) else 422,
            heading=look.text(_("The sign-in did not work")), text=look.text(texts[type(refusal)]),
            link=self.sign_in.site.area.sign_in, link_text=look.text(_("Try again")),
        )  # fmt: skip
