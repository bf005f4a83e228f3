"""Visitors of the pages over HTTP: strangers, members and operators, each in their own browser."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from uuid import UUID, uuid4

import httpx
from attrs import field, frozen
from starlette.routing import Route

from meetcore.adapters.api.http_common import RequestLimits
from meetcore.adapters.web.console.routes import console_routes
from meetcore.adapters.web.routes import dashboard_routes
from meetcore.app import Service
from meetcore.composition.application import Application
from meetcore.domain.members.roles import OperatorRole, Role
from tests.support.api_harness import BASE_URL, api_of
from tests.support.pages import Browser

SignIn = Callable[..., Awaitable[Browser]]
SESSIONS = {"/dashboard": "__Host-meetcore", "/console": "__Host-meetcore-console"}
"""The session cookie of each area."""

BY_TOKEN = frozenset({"/console/portal-links"})
"""Routes for programs with a token, without cookies."""


@frozen
class Visitors:
    """Makes browsers and closes them."""

    service: Service
    application: Application
    opened: list[httpx.AsyncClient] = field(factory=list)

    def stranger(self, home: str = "/dashboard/sign-in") -> Browser:
        self.opened.append(httpx.AsyncClient(transport=httpx.ASGITransport(self.service), base_url=BASE_URL))
        return Browser(self.opened[-1], home)

    async def member(self, account_id: UUID, role: Role = Role.OWNER) -> Browser:
        """Return a browser with a new session: a member's for the owner, a portal link's for other roles."""
        if role is not Role.OWNER:
            return await self.guest(account_id, role)
        [owner] = await self.application.ports.queries.list_members(account_id)
        link = await self.application.access.portal_links.for_member(account_id, owner.user.email)
        return await self.entered(link.url, "/dashboard")

    async def guest(self, account_id: UUID, role: Role = Role.OWNER) -> Browser:
        """Return a browser with the session of a portal link with a role."""
        link = await self.application.access.portal_links.for_guest(account_id, role)
        return await self.entered(link.url, "/dashboard")

    async def operator(self, role: OperatorRole = OperatorRole.ADMIN) -> Browser:
        operator = await self.application.access.operators.add(f"{uuid4().hex}@example.com", role)
        link = await self.application.access.portal_links.for_operator(operator.id)
        return await self.entered(link.url, "/console/audit")

    async def entered(self, link: str, home: str) -> Browser:
        """Return a browser after a sign-in link."""
        browser, path = self.stranger(home), link.removeprefix(BASE_URL)
        answer = await browser.post(path, page=path)
        assert answer.status_code == 303, answer.text
        return browser

    def routes(self) -> Sequence[Route]:
        return [each for each in web_routes(self.application) if each.path not in BY_TOKEN]


def web_routes(application: Application) -> Sequence[Route]:
    """Return the routes of dashboard, console and sign-in."""
    limits = RequestLimits()
    return [
        *dashboard_routes(application.dashboard, api_of(application), BASE_URL, limits),
        *console_routes(application.console, BASE_URL, limits),
    ]


def root_of(path: str) -> str:
    """Return the area of a path."""
    return "/console" if path.startswith("/console") else "/dashboard"
