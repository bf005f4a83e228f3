"""Every route of the console."""

from collections.abc import Sequence
from typing import Final

from starlette.responses import Response
from starlette.routing import Route

from meetcore.adapters.api.http_common import RequestLimits
from meetcore.adapters.web import shared_pages, visit, web_app
from meetcore.adapters.web.console import accounts, health, meetings, money, payments, portal_links
from meetcore.adapters.web.sign_in import SignInPages
from meetcore.adapters.web.texts import OPERATOR_ROLES, _
from meetcore.domain.members.roles import OPERATORS_ALLOWED, OperatorAction, check_operator_allowed
from meetcore.domain.members.views import SignedInOperator
from meetcore.domain.webhooks.addresses import Network
from meetcore.usecases.members.dashboard import ConsoleUseCases
from meetcore.usecases.members.passkeys import CONSOLE_PAGE

SESSIONS: Final = "/console/sessions"


@visit.ConsolePage("GET", SESSIONS, OperatorAction.MANAGE_SESSIONS)
async def list_sessions(here: visit.ConsoleVisit) -> Response:
    """List where the operator is signed in."""
    who = here.signed_in
    sessions = [(each, who.operator.email) for each in await here.use.sessions.list_own(who)]
    return here.page("console/sessions.html", sessions=sessions, own_id=who.session.id)


PAGES: Final[Sequence[visit.ConsolePage]] = (
    *(
        page
        for room in (accounts, money, payments, meetings, health)
        for page in vars(room).values()
        if isinstance(page, visit.AreaPage)
    ),
    shared_pages.audit_page("/console/audit", OperatorAction.VIEW_AUDIT, lambda use: use.audit.list_entries),
    list_sessions,
    *shared_pages.session_pages(SESSIONS, SESSIONS, OperatorAction.MANAGE_SESSIONS),
    *shared_pages.passkey_pages(CONSOLE_PAGE, OperatorAction.MANAGE_PASSKEYS),
)
"""The pages for operators, in the order in which their routes are tried."""

MENU: Final[tuple[tuple[str, str, OperatorAction], ...]] = (
    ("/console/accounts", _("Accounts"), OperatorAction.VIEW_ACCOUNTS),
    ("/console/proposals", _("Proposals"), OperatorAction.APPROVE_CREDITS),
    ("/console/payments", _("Payments"), OperatorAction.VIEW_PAYMENTS),
    ("/console/doubts", _("Meetings in doubt"), OperatorAction.VIEW_DOUBTS),
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
    site = web_app.Site(_area(use), base_url, limits, proxies)
    links = portal_links.PortalLinkRoute(site)
    return [*SignInPages(site).routes, links.route, *site.routes(PAGES), site.rest]


def _area(use: ConsoleUseCases) -> visit.Area[SignedInOperator, ConsoleUseCases, OperatorAction]:
    """Describe the console as an area of the site."""
    return visit.Area(
        root="/console",
        site="meetcore-console",
        use=use,
        can_sign_up=False,
        find=use.sessions.find_operator,
        send_link=use.request_link.for_operator,
        redeem=use.redeem_link.for_operator,
        find_invitation=_no_invitation,
        actions=OperatorAction,
        check=lambda who, action: check_operator_allowed(who.operator.role, action),
        is_allowed=lambda who, action: action in OPERATORS_ALLOWED[who.operator.role],
        name=lambda who: f"{who.operator.email} ({who.operator.role})",
        name_page=lambda _: CONSOLE_PAGE,
        identity=lambda who: visit.Identity(who.operator.email, *OPERATOR_ROLES[who.operator.role]),
        menu=MENU,
        doubts=lambda who: {"/console/payments": who.payments_in_doubt},
    )


async def _no_invitation(_token: str) -> None:
    """Find nothing: operators are not invited by links."""
