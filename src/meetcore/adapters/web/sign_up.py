"""Signing up: a form for the address and the name, and the link that opens the account."""

from collections.abc import Mapping
from typing import Final

from attrs import frozen
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from meetcore.adapters.web.forms import FORM, explain
from meetcore.adapters.web.sign_in import SignInPages, unusable_link
from meetcore.adapters.web.texts import _
from meetcore.adapters.web.visit import Look
from meetcore.domain.errors import Gone, InvalidRequest, NotFound, RateLimited
from meetcore.domain.members import roles, views
from meetcore.domain.requests.accounts import InvalidEmail
from meetcore.usecases.members import dashboard, sign_up

ROOT: Final = "/dashboard/sign-up"
_SENT: Final = _("A link is on its way to %(email)s. It works once, for 15 minutes, in this browser.")


@frozen
class SignUpPages:
    """The pages by which an account is opened; 404 where sign-up is closed."""

    sign_in: SignInPages[views.SignedIn, dashboard.DashboardUseCases, roles.Action]

    @property
    def routes(self) -> list[Route]:
        """The routes, for the application."""
        return [
            self.sign_in.route(ROOT, "GET", self.ask),
            self.sign_in.route(ROOT, "POST", self.send),
            self.sign_in.route(f"{ROOT}/{{token}}", "GET", self.confirm),
            self.sign_in.route(f"{ROOT}/{{token}}", "POST", self.enter),
        ]

    @property
    def _use(self) -> sign_up.SignUpForAccount:
        return self.sign_in.site.area.use.sign_up

    async def ask(self, _request: Request, look: Look, _browser: str) -> Response:
        """Show the form."""
        return self._form(look, {}, {})

    async def send(self, request: Request, look: Look, browser: str) -> Response:
        """Send a link; the answer does not say whether the address is known."""
        site = self.sign_in.site
        form = await site.read_form(request, browser)
        email = form.get("email", "").strip()
        asked = sign_up.SignUpRequest(
            email, form.get("full_name", ""), browser, site.client_address(request), look.language
        )
        try:
            await self._use.request(asked)
        except InvalidEmail:
            return self._form(look, form, {"email": look.text("Write the address like name@example.com.")})
        except InvalidRequest as refusal:
            return self._form(look, form, explain(look, refusal))
        except RateLimited:
            text = look.text("Too many attempts. Wait some minutes.")
            return self._form(look, form, {FORM: text}, status=429)
        text = look.text(_SENT, email=email)
        answer = look.message(_("Look into your mail"), text, ROOT, _("Use another address"))
        return self.sign_in.keep(answer, browser, look.root)

    async def confirm(self, _request: Request, look: Look, _browser: str) -> Response:
        """Show the button that opens the account."""
        self._check_open()
        return look.page("confirm_sign_in.html", invitation=None)

    async def enter(self, request: Request, look: Look, browser: str) -> Response:
        """Use a link up: open the account, and begin a session."""
        await self.sign_in.site.read_form(request, browser)
        token = request.path_params["token"]
        try:
            return await self.sign_in.begin(
                request, look, browser, lambda who: self._use.enter(token, who), look.root
            )
        except Gone:
            return unusable_link(look, ROOT)

    def _form(
        self, look: Look, form: Mapping[str, str], errors: Mapping[str, str], status: int | None = None
    ) -> Response:
        self._check_open()
        return look.page(
            "sign_up.html", status or (422 if errors else 200), email=form.get("email", ""),
            full_name=form.get("full_name", ""), errors=errors,
        )  # fmt: skip

    def _check_open(self) -> None:
        if not self._use.is_open:
            raise NotFound("Accounts are opened by the operator of this service.")
