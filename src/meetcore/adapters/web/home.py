"""The page at `/`: what the service is, and the ways to the dashboard, to an account and to the documents."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from meetcore.adapters.web.sign_in import SignInPages
from meetcore.adapters.web.visit import Look
from meetcore.domain.members import roles, views
from meetcore.usecases.members import dashboard


def home_route(sign_in: SignInPages[views.SignedIn, dashboard.DashboardUseCases, roles.Action]) -> Route:
    """Build the route of the page; a signed-in visitor is led on to the dashboard by its button."""

    async def show(_request: Request, look: Look, _browser: str) -> Response:
        return look.page("home.html", can_sign_up=sign_in.site.area.can_sign_up)

    return sign_in.route("/", "GET", show)
