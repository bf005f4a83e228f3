"""Every route of the dashboard."""

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from starlette.routing import Route

from meetcore.adapters.api.limits import RequestLimits
from meetcore.adapters.web.area import Area
from meetcore.adapters.web.assets import asset_route
from meetcore.adapters.web.cookies import DASHBOARD, Cookies
from meetcore.adapters.web.page import AreaPage, Page
from meetcore.adapters.web.pages import (
    account_data,
    accounts,
    audit,
    keys,
    ledger,
    meetings,
    notes,
    overview,
    passkeys,
    requests,
    settings,
    statements,
    team,
    webhooks,
)
from meetcore.adapters.web.provider_sign_in import ProviderSignInPages
from meetcore.adapters.web.sign_in import SignInPages
from meetcore.adapters.web.sign_up import SignUpPages
from meetcore.adapters.web.texts import _
from meetcore.adapters.web.web_app import Site
from meetcore.domain.members.roles import Action, check_allowed, is_allowed
from meetcore.domain.webhooks.addresses import Network
from meetcore.ports.member_queries import SignedIn
from meetcore.usecases.dashboard import DashboardUseCases

PAGES: Final[Sequence[Page]] = tuple(
    page
    for module in (
        overview,
        meetings,
        notes,
        ledger,
        statements,
        keys,
        webhooks,
        requests,
        team,
        settings,
        audit,
        accounts,
        passkeys,
        account_data,
    )
    for page in vars(module).values()
    if isinstance(page, AreaPage)
)
"""The pages for members, in the order in which their routes are tried."""

MENU: Final[tuple[tuple[str, str, Action], ...]] = (
    ("/dashboard", _("Overview"), Action.VIEW_OVERVIEW),
    ("/dashboard/meetings", _("Meetings"), Action.VIEW_MEETINGS),
    ("/dashboard/notes", _("Notes"), Action.VIEW_NOTES),
    ("/dashboard/ledger", _("Ledger"), Action.VIEW_LEDGER),
    ("/dashboard/keys", _("API keys"), Action.VIEW_KEYS),
    ("/dashboard/webhooks", _("Webhooks"), Action.VIEW_WEBHOOKS),
    ("/dashboard/requests", _("Requests"), Action.VIEW_REQUESTS),
    ("/dashboard/team", _("Team"), Action.VIEW_MEMBERS),
    ("/dashboard/settings", _("Settings"), Action.VIEW_SETTINGS),
    ("/dashboard/audit", _("Audit log"), Action.VIEW_AUDIT),
)
"""The pages of the menu, in its order, and the action that each needs."""


def dashboard_routes(
    use: DashboardUseCases, base_url: str, limits: RequestLimits, proxies: Sequence[Network] = ()
) -> list[Route]:
    """Build the routes under `/dashboard`.

    Args:
        use: the use cases.
        base_url: its scheme decides whether the cookies are bound to TLS.
        limits: how long a form may take.
        proxies: trusted to name the client's address.
    """
    area = _area(use)
    cookies = Cookies(area.site, is_secure=urlsplit(base_url).scheme == "https")
    site = Site(cookies, area, limits, proxies)
    sign_in = SignInPages(site)
    return [
        asset_route(),
        *ProviderSignInPages(sign_in).routes,
        *sign_in.routes,
        *SignUpPages(sign_in).routes,
        *(site.route(page) for page in PAGES),
        site.rest,
    ]


def _area(use: DashboardUseCases) -> Area[SignedIn, DashboardUseCases, Action]:
    """The dashboard as an area of the site."""
    return Area(
        root="/dashboard",
        site=DASHBOARD,
        use=use,
        sessions=use.sessions,
        runtime=use.runtime,
        sends_mail=use.sends_mail,
        can_sign_up=use.sign_up.is_open,
        find=use.sessions.find,
        send_link=use.request_link.for_member,
        passkeys=use.passkey_sign_in,
        identities=use.identity_sign_in,
        redeem=use.redeem_link.for_customer,
        actions=Action,
        check=lambda who, action: check_allowed(who.role, action),
        is_allowed=lambda who, action: is_allowed(who.role, action),
        name=lambda who: who.account.full_name,
        name_page=lambda who: "" if who.user is None else accounts.ROOT,
        menu=MENU,
    )
