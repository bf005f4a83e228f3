"""Every route of the dashboard."""

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from starlette.routing import Route

from meetcore.adapters.api.limits import RequestLimits
from meetcore.adapters.web.assets import asset_route
from meetcore.adapters.web.cookies import Cookies
from meetcore.adapters.web.page import Page
from meetcore.adapters.web.pages import (
    audit,
    keys,
    ledger,
    meetings,
    notes,
    overview,
    settings,
    team,
    webhooks,
)
from meetcore.adapters.web.sign_in import SignInPages
from meetcore.adapters.web.web_app import Site
from meetcore.domain.webhooks.addresses import Network
from meetcore.usecases.dashboard import DashboardUseCases

PAGES: Final[Sequence[Page]] = tuple(
    page
    for module in (overview, meetings, notes, ledger, keys, webhooks, team, settings, audit)
    for page in vars(module).values()
    if isinstance(page, Page)
)
"""The pages for members, in the order in which their routes are tried."""


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
    cookies = Cookies("meetcore", is_secure=urlsplit(base_url).scheme == "https")
    site = Site(cookies, use, limits, proxies)
    return [asset_route(), *SignInPages(site).routes, *(site.route(page) for page in PAGES)]
