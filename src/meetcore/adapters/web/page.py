"""A page: one route of the dashboard or the console, as a declaration above its handler."""

from typing import Generic

from attrs import evolve, frozen

from meetcore.adapters.web.area import Allowed, Use, Who
from meetcore.adapters.web.visit import AreaVisit, Handler
from meetcore.domain.members.roles import Action
from meetcore.ports.member_queries import SignedIn
from meetcore.usecases.dashboard import DashboardUseCases


@frozen
class AreaPage(Generic[Who, Use, Allowed]):
    """A route for those who are signed in.

    `action` is what a role must allow, checked by the use case and before the handler. A change with
    `needs_fresh` asks for a sign-in of the last minutes.
    """

    method: str
    path: str
    action: Allowed
    needs_fresh: bool = False
    handle: Handler[AreaVisit[Who, Use, Allowed]] | None = None

    def __call__(self, handle: Handler[AreaVisit[Who, Use, Allowed]]) -> "AreaPage[Who, Use, Allowed]":
        """Declare the handler of the page."""
        return evolve(self, handle=handle)


Page = AreaPage[SignedIn, DashboardUseCases, Action]
"""A page for members."""
