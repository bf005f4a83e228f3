"""Every route of the dashboard."""

from collections.abc import Sequence
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from meetcore.adapters.api.http_common import RequestLimits
from meetcore.adapters.web import shared_pages, sign_up, texts, visit, web_app
from meetcore.adapters.web.cookies import DASHBOARD
from meetcore.adapters.web.pages import (
    connect,
    credits,
    meeting_lists,
    meetings,
    members,
    money,
    notes,
    overview,
    playground,
    requests,
    settings,
    statements,
    webhooks,
)
from meetcore.adapters.web.sign_in import SignInPages
from meetcore.adapters.web.templates import asset_route
from meetcore.domain.members.roles import Action, check_allowed, is_allowed
from meetcore.domain.members.sessions import is_view
from meetcore.domain.members.views import SignedIn
from meetcore.domain.webhooks.addresses import Network
from meetcore.usecases.mails import CREDITS_PAGE
from meetcore.usecases.members import dashboard, passkeys

_ROOMS: Final = (
    overview, meeting_lists, meetings, notes, credits, money, statements, requests, connect,
    playground, webhooks, members, settings,
)  # fmt: skip

PAGES: Final[Sequence[visit.Page]] = (
    *(page for room in _ROOMS for page in vars(room).values() if isinstance(page, visit.AreaPage)),
    shared_pages.audit_page(
        "/dashboard/audit", Action.VIEW_AUDIT, lambda use: use.settings.list_audit_entries
    ),
    *shared_pages.session_pages(f"{settings.ROOT}/sessions", settings.ROOT, Action.VIEW_SETTINGS),
    *shared_pages.passkey_pages(passkeys.DASHBOARD_PAGE, Action.MANAGE_PASSKEYS),
)
"""The pages for members, in the order in which their routes are tried."""

MENU: Final[tuple[tuple[str, str, Action], ...]] = (
    ("/dashboard", texts._("Overview"), Action.VIEW_OVERVIEW),
    ("/dashboard/meetings", texts._("Meetings"), Action.VIEW_MEETINGS),
    ("/dashboard/notes", texts._("Notes"), Action.VIEW_NOTES),
    (CREDITS_PAGE, texts._("Credits"), Action.VIEW_LEDGER),
    ("/dashboard/ledger", texts._("Ledger"), Action.VIEW_LEDGER),
    ("/dashboard/keys", texts._("API keys"), Action.VIEW_KEYS),
    ("/dashboard/webhooks", texts._("Webhooks"), Action.VIEW_WEBHOOKS),
    ("/dashboard/requests", texts._("Requests"), Action.VIEW_REQUESTS),
    ("/dashboard/team", texts._("Team"), Action.VIEW_MEMBERS),
    ("/dashboard/settings", texts._("Settings"), Action.VIEW_SETTINGS),
    ("/dashboard/audit", texts._("Audit log"), Action.VIEW_AUDIT),
)
"""The pages of the menu, in its order, and the action that each needs."""


def dashboard_routes(
    use: dashboard.DashboardUseCases, api: ASGIApp, base_url: str, limits: RequestLimits,
    proxies: Sequence[Network] = (), *, has_home: bool = True,
) -> list[Route]:  # fmt: skip
    """Build the routes under `/dashboard`, and the page at `/`, unless it is turned off.

    `api` answers the requests of the playground. `base_url`'s scheme decides whether cookies are bound to
    TLS.
    """
    site = web_app.Site(_area(use, api), base_url, limits, proxies)
    sign_in = SignInPages(site)

    async def show_home(_request: Request, look: visit.Look, _browser: str) -> Response:
        """Show what the service is, and the ways to the dashboard, to an account and to the documents."""
        return look.page("home.html", can_sign_up=site.area.can_sign_up)

    return [
        asset_route(),
        *([sign_in.route("/", "GET", show_home)] if has_home else []),
        *sign_in.routes,
        *sign_up.SignUpPages(sign_in).routes,
        *site.routes(PAGES),
        site.rest,
    ]


def _area(
    use: dashboard.DashboardUseCases, api: ASGIApp
) -> visit.Area[SignedIn, dashboard.DashboardUseCases, Action]:
    """Describe the dashboard as an area of the site."""
    return visit.Area(
        root="/dashboard",
        site=DASHBOARD,
        use=use,
        can_sign_up=use.sign_up.is_open,
        find=use.sessions.find,
        send_link=use.request_link.for_member,
        redeem=use.redeem_link.for_customer,
        find_invitation=use.redeem_link.find_invitation,
        actions=Action,
        check=lambda who, action: check_allowed(who.role, action),
        is_allowed=lambda who, action: is_allowed(who.role, action),
        name=lambda who: who.account.full_name,
        name_page=lambda who: "" if who.user is None else members.ACCOUNTS,
        identity=_identity,
        menu=MENU,
        api=api,
    )


def _identity(who: SignedIn) -> visit.Identity:
    """Name a member by the e-mail address; a guest and an operator who looks have none here."""
    nameless = texts.OPERATOR if is_view(who.session) else texts.GUEST
    name = nameless if who.user is None else who.user.email
    return visit.Identity(name, texts.ROLE_TEXTS[who.role], texts.ROLE_MEANINGS[who.role])
