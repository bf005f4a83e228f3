"""A page: one route of the dashboard, as a declaration above its handler."""

from attrs import evolve, frozen

from meetcore.adapters.web.visit import Handler
from meetcore.domain.members.roles import Action


@frozen
class Page:
    """A route for members.

    `action` is what a role must allow, checked by the use case and before the handler. A change with
    `needs_fresh` asks for a sign-in of the last minutes.
    """

    method: str
    path: str
    action: Action
    needs_fresh: bool = False
    handle: Handler | None = None

    def __call__(self, handle: Handler) -> "Page":
        """Declare the handler of the page."""
        return evolve(self, handle=handle)
