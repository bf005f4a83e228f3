"""A visit: one request to a page by somebody who is signed in, and how pages answer."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Final, Generic, TypeVar
from urllib.parse import quote

from attrs import field, frozen
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from meetcore.adapters.catalogues import translations
from meetcore.adapters.web.area import Allowed, Area, Use, Who
from meetcore.adapters.web.cookies import Cookies
from meetcore.adapters.web.languages import CATALOGUES
from meetcore.adapters.web.templates import render
from meetcore.adapters.web.texts import DONE
from meetcore.domain.members.roles import Action
from meetcore.domain.members.sessions import VIEW_LIMIT, is_view
from meetcore.domain.notes.notes import Language
from meetcore.domain.requests.accounts import AccountStatus, status_of
from meetcore.ports.member_queries import SignedIn
from meetcore.usecases.dashboard import DashboardUseCases
from meetcore.usecases.work_by_hand import SentForm

HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
    "media-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""On every page: no inline script or style, nothing from elsewhere, no frame, no cache."""


@frozen
class Look:
    """What every page shows of its surroundings: language, root of the area, address, form token."""

    language: Language
    root: str
    here: str
    token: str = field(repr=False)

    def text(self, message: str, **values: object) -> str:
        """A text in the language of the page, its `%(name)s` filled in."""
        if not message:  # of which a catalogue has its own header
            return ""
        translated = translations(CATALOGUES, self.language).gettext(message)
        return translated % values if values else translated.replace("%%", "%")

    def page(self, template: str, status: int = 200, **values: object) -> Response:
        """Render a page."""
        common = {"root": self.root, "here": self.here, "csrf": self._hidden_token()}
        return HTMLResponse(render(template, self.language, common | values), status, HEADERS)

    def _hidden_token(self) -> Markup:
        return Markup('<input type="hidden" name="form_token" value="{}">').format(self.token)


@frozen
class MenuItem:
    """A link of the menu."""

    path: str
    label: str
    is_current: bool


@frozen
class AreaVisit(Generic[Who, Use, Allowed]):
    """A request of somebody who is signed in.

    `form` has the last value of each field that was sent, without the form token.
    """

    request: Request
    signed_in: Who
    area: Area[Who, Use, Allowed]
    look: Look
    cookies: Cookies
    now: datetime
    client_address: str | None = None
    form: Mapping[str, str] = field(factory=dict, repr=False)

    @property
    def use(self) -> Use:
        """The use cases of the area."""
        return self.area.use

    def text(self, message: str, **values: object) -> str:
        """A text in the language of the page."""
        return self.look.text(message, **values)

    def query(self, name: str) -> str:
        """A parameter of the address; empty where it is missing."""
        return self.request.query_params.get(name, "")

    def page(self, template: str, status: int = 200, **values: object) -> Response:
        """Render a page with the frame of its area around it."""
        frame = {
            "visitor": self.area.name(self.signed_in),
            "name_page": self.area.name_page(self.signed_in),
            "viewed_until": self._viewed_until(),
            "is_suspended": self._is_suspended(),
            "menu": self._menu(),
            "notice": self.text(DONE.get(self.query("done"), "")),
            "may": self.may,
        }
        return self.look.page(template, status, **(frame | values))

    def new_form_key(self) -> str:
        """A key for a form, by which sending it twice is one request."""
        return str(self.area.runtime.new_id(self.now))

    def sent_form(self) -> SentForm:
        """The form of this visit, for work by hand."""
        return SentForm(self.form.get("form_key", ""), self.now, self.client_address)

    def may(self, action: str) -> bool:
        """Whether the role allows an action, for what a page offers; the use case checks it again."""
        return self.area.is_allowed(self.signed_in, self.area.actions(action))

    @property
    def is_view(self) -> bool:
        """Whether an operator looks at a customer's account: join links, passwords and players are hidden."""
        return is_view(self.signed_in.session)

    def _viewed_until(self) -> datetime | None:
        """Until when an operator may look at the account here; `None` for its members and guests."""
        session = self.signed_in.session
        return session.created_at + VIEW_LIMIT if self.is_view else None

    def _is_suspended(self) -> bool:
        """Whether the account that is shown is suspended; never in the console."""
        who = self.signed_in
        return isinstance(who, SignedIn) and status_of(who.account.suspended_at) is AccountStatus.SUSPENDED

    def _menu(self) -> list[MenuItem]:
        path = self.request.url.path
        return [
            MenuItem(
                target,
                self.text(label),
                path == target or (path.startswith(f"{target}/") and target != self.area.root),
            )
            for target, label, action in self.area.menu
            if self.area.is_allowed(self.signed_in, action)
        ]


Visit = AreaVisit[SignedIn, DashboardUseCases, Action]
"""A visit of a member."""

Visited = TypeVar("Visited")
Handler = Callable[[Visited], Awaitable[Response]]


def see_other(path: str) -> Response:
    """Send the browser on to a page of ours, by GET."""
    return RedirectResponse(quote(path, safe="/?&=%-._~:@"), 303, HEADERS)


def own_path(text: str, root: str) -> str:
    """A path below `root` to go on to; the root itself for anything else, so that no link leads elsewhere."""
    is_own = text == root or text.startswith((f"{root}/", f"{root}?"))
    if not is_own or len(text) > 1000 or not text.isascii() or not text.isprintable() or "\\" in text:
        return root
    return text
