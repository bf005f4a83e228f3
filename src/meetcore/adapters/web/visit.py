"""Areas of the site, their pages, and visits: one request of someone signed in, and how pages answer.

The dashboard and the console are areas, each with sessions, use cases and roles of its own. A page is one
route of an area, as a declaration above its handler.
"""

import gzip
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final, Generic, TypeVar
from urllib.parse import parse_qsl, quote, urlencode
from uuid import UUID

from attrs import evolve, field, frozen
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp

from meetcore.adapters.catalogues import translations
from meetcore.adapters.web.cookies import Cookies
from meetcore.adapters.web.formats import CATALOGUES
from meetcore.adapters.web.templates import render
from meetcore.adapters.web.texts import DONE, _
from meetcore.domain.ids import parse_id
from meetcore.domain.members.roles import Action, OperatorAction
from meetcore.domain.members.sessions import VIEW_LIMIT, is_view
from meetcore.domain.members.views import OpenInvitation, SignedIn, SignedInOperator
from meetcore.domain.notes.notes import Language
from meetcore.domain.requests.accounts import AccountStatus, status_of
from meetcore.domain.requests.views import AccountSummary
from meetcore.usecases.members.dashboard import ConsoleUseCases, DashboardUseCases, SentForm
from meetcore.usecases.members.sign_in_links import Browser, NewOperatorSession, NewSession

MAX_FORM_BYTES: Final = 64 * 1024

Who = TypeVar("Who", bound=SignedIn | SignedInOperator)
Use = TypeVar("Use", bound=DashboardUseCases | ConsoleUseCases)
Allowed = TypeVar("Allowed", bound=StrEnum)


@frozen
class Identity:
    """The person signed in: an address or a word for one, the role, and what it may do; not translated."""

    name: str
    role: str
    meaning: str


@frozen
class Area(Generic[Who, Use, Allowed]):
    """The differences between the dashboard and the console.

    `root` begins every path, and `site` the names of the cookies. `find` knows the sessions of this area
    alone. `menu` has a path, a label and the action that it needs for each of its pages. `can_sign_up` is
    whether accounts can be opened. The name at the top leads to the page of `name_page`, if there is one.
    `api` is the API of this process, for an area that has a playground. `doubts` counts the records in doubt
    behind paths of the menu.
    """

    root: str
    site: str
    use: Use
    can_sign_up: bool
    find: Callable[[str | None], Awaitable[Who | None]]
    send_link: Callable[[str, str, str | None, Language], Awaitable[None]]
    redeem: Callable[[str, Browser], Awaitable[NewSession | NewOperatorSession]]
    find_invitation: Callable[[str], Awaitable[OpenInvitation | None]]
    actions: type[Allowed]
    check: Callable[[Who, Allowed], None]
    is_allowed: Callable[[Who, Allowed], bool]
    name: Callable[[Who], str]
    name_page: Callable[[Who], str]
    identity: Callable[[Who], Identity]
    menu: Sequence[tuple[str, str, Allowed]]
    api: ASGIApp | None = None
    doubts: Callable[[Who], Mapping[str, int]] = lambda _: {}

    @property
    def sign_in(self) -> str:
        """The path of the sign-in page."""
        return f"{self.root}/sign-in"


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
_GZIP_LEVEL: Final = 5
_NO_FILTERS: Final = frozenset({"done", "view", "week", "when"})
"""The fields of an address that leave nothing out of a list."""
_PLACES: Final = ("before", "when")
"""The fields of an address that tell how far down a list its page is."""
_SENT_AGAIN: Final = _("You are signed in again. Nothing was sent yet: go on from here.")
_TOKEN_FIELD: Final = Markup('<input type="hidden" name="form_token" value="{}">')


@frozen
class Look:
    """The surroundings of a page: language, root of the area, address, form token, and whom to ask.

    `is_compressed` is whether pages are sent with gzip. `shown_at` is where a page can be asked for again, if
    that is not `here`: most forms are sent to an address that shows nothing.
    """

    language: Language
    root: str
    here: str
    token: str = field(repr=False)
    support: str = ""
    is_compressed: bool = False
    shown_at: str = ""

    @property
    def support_link(self) -> Markup:
        """Return the support contact as a link; empty where none is set."""
        if not self.support:
            return Markup("")
        target = self.support if self.support.startswith("https:") else f"mailto:{self.support}"
        return Markup('<a href="{}">{}</a>').format(target, self.support)

    @property
    def is_searched(self) -> bool:
        """Whether the address has fields that leave something out of a list."""
        return not {name for name, _ in parse_qsl(self.here.partition("?")[2])} <= _NO_FILTERS

    @property
    def newest(self) -> str:
        """Return the address of the first page of the list that this page goes on; else empty."""
        path, _mark, query = self.here.partition("?")
        fields = parse_qsl(query)
        kept = [(name, text) for name, text in fields if name not in _PLACES]
        if "before" not in dict(fields):
            return ""
        return f"{path}?{urlencode(kept)}" if kept else path

    def text(self, message: str, **values: object) -> str:
        """Translate a text, its `%(name)s` filled in."""
        if not message:  # of which a catalogue has its own header
            return ""
        translated = translations(CATALOGUES, self.language).gettext(message)
        return translated % values if values else translated.replace("%%", "%")

    def plural(self, one: str, many: str, number: int, **values: object) -> str:
        """Translate a text in the form that a number takes."""
        return translations(CATALOGUES, self.language).ngettext(one, many, number) % values

    def page(self, template: str, status: int = 200, **values: object) -> Response:
        """Render a page."""
        common = {
            "root": self.root,
            "here": self.here,
            "shown_at": self.shown_at or self.here,
            "csrf": _TOKEN_FIELD.format(self.token),
            "support": self.support_link,
            "is_searched": self.is_searched,
            "newest": self.newest,
        }
        text = render(template, self.language, common | values)
        if not self.is_compressed:
            return HTMLResponse(text, status, HEADERS)
        headers = {**HEADERS, "Content-Encoding": "gzip"}
        return HTMLResponse(gzip.compress(text.encode(), _GZIP_LEVEL), status, headers)

    def message(
        self, heading: str, text: str, link: str = "", link_text: str = "", status: int = 200
    ) -> Response:
        """Render a page with one message; `text` is translated already, the others are not."""
        return self.page(
            "message.html", status, heading=self.text(heading), text=text, link=link,
            link_text=self.text(link_text),
        )  # fmt: skip


@frozen
class MenuItem:
    """A link of the menu, with the number of records in doubt behind it."""

    path: str
    label: str
    is_current: bool
    in_doubt: int = 0


@frozen
class AreaVisit(Generic[Who, Use, Allowed]):
    """A request with a session; `form` has the last value of each field that was sent, but the token's.

    `sent_to` is the path that the form was sent to, now or before a fresh sign-in.
    """

    request: Request
    signed_in: Who
    area: Area[Who, Use, Allowed]
    look: Look
    cookies: Cookies
    now: datetime
    client_address: str | None = None
    form: Mapping[str, str] = field(factory=dict, repr=False)
    sent_to: str = ""

    @property
    def use(self) -> Use:
        """The use cases of the area."""
        return self.area.use

    def text(self, message: str, **values: object) -> str:
        """Translate a text into the language of the page."""
        return self.look.text(message, **values)

    def query(self, name: str) -> str:
        """Return a parameter of the address; empty where it is missing."""
        return self.request.query_params.get(name, "")

    def path_id(self, what: str, name: str = "id") -> UUID:
        """Read the id of such a record in the path, or raise `NotFound`."""
        return parse_id(self.request.path_params[name], what)

    def mark(self, mark: tuple[str, str]) -> tuple[str, str]:
        """Translate the text of a mark; its kind stays."""
        return self.text(mark[0]), mark[1]

    def choices(self, texts: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Build the options of a filter; the first one, without a value, means all."""
        return [("", self.text("all")), *((value, self.text(text)) for value, text in texts)]

    def form_page(self, template: str, errors: Mapping[str, str], **values: object) -> Response:
        """Render a page with a form; 422 where the form has errors, by field."""
        return self.page(template, 422 if errors else 200, errors=errors, **values)

    def page(self, template: str, status: int = 200, **values: object) -> Response:
        """Render a page with the frame of its area around it."""
        identity = self.area.identity(self.signed_in)
        frame = {
            "identity": Identity(
                identity.name if "@" in identity.name else self.text(identity.name),
                self.text(identity.role),
                self.text(identity.meaning),
            ),
            "visitor": self.area.name(self.signed_in),
            "name_page": self.area.name_page(self.signed_in),
            "viewed_until": self._viewed_until(),
            "suspended": self._suspended_account(),
            "menu": self._menu(),
            "notice": self.text(_SENT_AGAIN if self.is_restored else DONE.get(self.query("done"), "")),
            "may": self.may,
            "typed": self.typed,
        }
        return self.look.page(template, status, **(frame | values))

    def new_form_key(self) -> str:
        """Make a key for a form: sending it twice is one request."""
        return str(self.area.use.runtime.new_id(self.now))

    def sent_form(self) -> SentForm:
        """Return the form of this visit for a use case."""
        return SentForm(self.form.get("form_key", ""), self.now, self.client_address)

    @property
    def is_restored(self) -> bool:
        """Whether the page shows a form again that was kept over a sign-in."""
        return bool(self.sent_to) and self.request.method == "GET"

    def typed(self, path: str) -> Mapping[str, str]:
        """Return what was typed into the form that is sent to a path; empty for every other form."""
        return self.form if path == self.sent_to else {}

    def may(self, action: str) -> bool:
        """Return whether the role allows an action; for display, the use case checks again."""
        return self.area.is_allowed(self.signed_in, self.area.actions(action))

    @property
    def is_view(self) -> bool:
        """Whether an operator looks at a customer's account: join links, passwords and players are hidden."""
        return is_view(self.signed_in.session)

    def _viewed_until(self) -> datetime | None:
        """Return the end of an operator's view; `None` for members and guests."""
        session = self.signed_in.session
        return session.created_at + VIEW_LIMIT if self.is_view else None

    def _suspended_account(self) -> AccountSummary | None:
        """Return the account if it is suspended; `None` in the console."""
        who = self.signed_in
        if isinstance(who, SignedIn) and status_of(who.account.suspended_at) is AccountStatus.SUSPENDED:
            return who.account
        return None

    def _menu(self) -> list[MenuItem]:
        path, doubts = self.request.url.path, self.area.doubts(self.signed_in)
        return [
            MenuItem(
                target,
                self.text(label),
                path == target or (path.startswith(f"{target}/") and target != self.area.root),
                doubts.get(target, 0),
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
    """Return a path below `root` unchanged, and the root for any other text: no link leads elsewhere."""
    is_own = text == root or text.startswith((f"{root}/", f"{root}?"))
    if not is_own or len(text) > 1000 or not text.isascii() or not text.isprintable() or "\\" in text:
        return root
    return text


CONSENT: Final = "yes"
"""Consent to a change that stays the same, however long the question is open."""


@frozen
class Question:
    """What a page asks before a change that cannot be undone; the texts are translated already.

    `button` carries the change out, and a link beside it leads back. It sends the `consent`, which names what
    is agreed to where that can change meanwhile: then the page asks again.
    """

    heading: str
    text: str
    button: str
    consent: str = CONSENT


Ask = Callable[[Visited], Awaitable[Question | None]]


@frozen
class AreaPage(Generic[Who, Use, Allowed]):
    """A route for those who are signed in and may do its action; with `needs_fresh`, in the last minutes.

    A form of it has at most `max_form_bytes`. Before the handler, `ask` returns a question about the change,
    or `None` where there is nothing to ask.
    """

    method: str
    path: str
    action: Allowed
    needs_fresh: bool = False
    handle: Handler[AreaVisit[Who, Use, Allowed]] | None = None
    max_form_bytes: int = MAX_FORM_BYTES
    ask: Ask[AreaVisit[Who, Use, Allowed]] | None = None

    def __call__(self, handle: Handler[AreaVisit[Who, Use, Allowed]]) -> "AreaPage[Who, Use, Allowed]":
        """Declare the handler of the page."""
        return evolve(self, handle=handle)


Page = AreaPage[SignedIn, DashboardUseCases, Action]
"""A page for members."""


ConsoleVisit = AreaVisit[SignedInOperator, ConsoleUseCases, OperatorAction]
"""A visit of an operator."""

ConsolePage = AreaPage[SignedInOperator, ConsoleUseCases, OperatorAction]
"""A page for operators."""
