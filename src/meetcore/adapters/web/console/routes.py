"""Every route of the console."""

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from starlette.routing import Route

from meetcore.adapters.api.limits import RequestLimits
from meetcore.adapters.web.area import Area
from meetcore.adapters.web.console.page import ConsolePage
from meetcore.adapters.web.console.pages import (
    accounts,
    audit,
    doubts,
    health,
    hosts,
    liability,
    passkeys,
    proposals,
)
from meetcore.adapters.web.console.portal_links import PortalLinkRoute
from meetcore.adapters.web.cookies import Cookies
from meetcore.adapters.web.page import AreaPage
from meetcore.adapters.web.provider_sign_in import ProviderSignInPages
from meetcore.adapters.web.sign_in import SignInPages
from meetcore.adapters.web.texts import _
from meetcore.adapters.web.web_app import Site
from meetcore.domain.members.roles import OPERATORS_ALLOWED, OperatorAction, check_operator_allowed
from meetcore.domain.webhooks.addresses import Network
from meetcore.ports.member_queries import SignedInOperator
from meetcore.usecases.console import ConsoleUseCases
from meetcore.usecases.passkeys import CONSOLE_PAGE

PAGES: Final[Sequence[ConsolePage]] = tuple(
    page
    for module in (accounts, proposals, doubts, hosts, liability, health, audit, passkeys)
    for page in vars(module).values()
    if isinstance(page, AreaPage)
)
"""The pages for operators, in the order in which their routes are tried."""

MENU: Final[tuple[tuple[str, str, OperatorAction], ...]] = (
    ("/console/accounts", _("Accounts"), OperatorAction.VIEW_ACCOUNTS),
    ("/console/proposals", _("Proposals"), OperatorAction.APPROVE_CREDITS),
    ("/console/doubts", _("In doubt"), OperatorAction.VIEW_DOUBTS),
    ("/console/hosts", _("Hosts"), OperatorAction.VIEW_HOSTS),
    ("/console/liability", _("Liability"), OperatorAction.VIEW_LIABILITY),
    ("/console/prices", _("Prices"), OperatorAction.VIEW_PRICES),
    ("/console/health", _("Health"), OperatorAction.VIEW_HEALTH),
    ("/console/audit", _("Audit log"), OperatorAction.VIEW_AUDIT),
)
"""The pages of the menu, in its order, and the action that each needs."""


def console_routes(
    use: ConsoleUseCases, base_url: str, limits: RequestLimits, proxies: Sequence[Network] = ()
) -> list[Route]:
    """Build the routes under `/console`; see `dashboard_routes`, which has the assets of both."""
    area = _area(use)
    cookies = Cookies(area.site, is_secure=urlsplit(base_url).scheme == "https")
    site = Site(cookies, area, limits, proxies)
    links = PortalLinkRoute(site, base_url)
    sign_in = SignInPages(site)
    pages = (site.route(page) for page in PAGES)
    return [*ProviderSignInPages(sign_in).routes, *sign_in.routes, links.route, *pages, site.rest]


def _area(use: ConsoleUseCases) -> Area[SignedInOperator, ConsoleUseCases, OperatorAction]:
    """The console as an area of the site."""
    return Area(
        root="/console",
        site="meetcore-console",
        use=use,
        sessions=use.sessions,
        runtime=use.runtime,
        sends_mail=use.sends_mail,
        can_sign_up=False,
        find=use.sessions.find_operator,
        send_link=use.request_link.for_operator,
        passkeys=use.passkey_sign_in,
        identities=use.identity_sign_in,
        redeem=use.redeem_link.for_operator,
        actions=OperatorAction,
        check=lambda who, action: check_operator_allowed(who.operator.role, action),
        is_allowed=lambda who, action: action in OPERATORS_ALLOWED[who.operator.role],
        name=lambda who: f"{who.operator.email} ({who.operator.role})",
        name_page=lambda _: CONSOLE_PAGE,
        menu=MENU,
    )
