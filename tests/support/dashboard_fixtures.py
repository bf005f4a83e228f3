"""Fixtures for tests of the dashboard's pages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from uuid import UUID

import httpx
import pytest

from meetcore.app import Service
from meetcore.composition.application import Application
from meetcore.domain.members.roles import Role
from tests.support.api_harness import BASE_URL
from tests.support.pages import Browser

__all__ = ["SignIn", "browsers", "sign_in"]

SignIn = Callable[..., Awaitable[Browser]]


@pytest.fixture
async def browsers(service: Service) -> AsyncIterator[Callable[[], Browser]]:
    opened: list[httpx.AsyncClient] = []

    def browser() -> Browser:
        opened.append(httpx.AsyncClient(transport=httpx.ASGITransport(service), base_url=BASE_URL))
        return Browser(opened[-1])

    yield browser
    for each in opened:
        await each.aclose()


@pytest.fixture
def sign_in(application: Application, browsers: Callable[[], Browser]) -> SignIn:
    async def signed_in(account_id: UUID, role: Role = Role.OWNER) -> Browser:
        """Return a browser with the session of a portal link with a role."""
        link = await application.access.portal_links.for_guest(account_id, role)
        browser, path = browsers(), link.url.removeprefix(BASE_URL)
        entered = await browser.post(path, page=path)
        assert entered.status_code == 303, entered.text
        return browser

    return signed_in
