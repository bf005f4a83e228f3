"""Fixtures for tests of the console's pages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from uuid import UUID, uuid4

import httpx
import pytest

from meetcore.adapters.web.visit import ConsolePage
from meetcore.app import Service
from meetcore.composition.application import Application
from meetcore.domain.members.roles import OperatorRole
from meetcore.domain.members.views import SignedInOperator
from tests.support.api_harness import BASE_URL, ApiHarness, Customer
from tests.support.pages import FORM_KEY, Browser

SESSION = "__Host-meetcore-console"
CUSTOMER_SESSION = "__Host-meetcore"

SignIn = Callable[..., Awaitable[Browser]]


@pytest.fixture
async def browsers(service: Service) -> AsyncIterator[Callable[[str], Browser]]:
    opened: list[httpx.AsyncClient] = []

    def browser(home: str = "/console/audit") -> Browser:
        opened.append(httpx.AsyncClient(transport=httpx.ASGITransport(service), base_url=BASE_URL))
        return Browser(opened[-1], home)

    yield browser
    for each in opened:
        await each.aclose()


@pytest.fixture
def sign_in(application: Application, browsers: Callable[[], Browser]) -> SignIn:
    async def signed_in(role: OperatorRole = OperatorRole.ADMIN) -> Browser:
        operator = await application.access.operators.add(f"{uuid4().hex}@example.com", role)
        path = (await application.access.portal_links.for_operator(operator.id)).url.removeprefix(BASE_URL)
        browser = browsers()
        entered = await browser.post(path, page=path)
        assert entered.status_code == 303, entered.text
        return browser

    return signed_in


def path_of(page: ConsolePage, id: object) -> str:
    return (
        page.path.replace("{id}", str(id))
        .replace("{meeting_id}", str(uuid4()))
        .replace("{proposal_id}", str(uuid4()))
    )


async def form_key(browser: Browser, account_id: UUID) -> str:
    found = FORM_KEY.search((await browser.get(f"/console/accounts/{account_id}")).text)
    assert found is not None
    return found[1]


async def logged(harness: ApiHarness, action: str) -> list[dict[str, object]]:
    return await harness.query(
        "SELECT id, account_id, actor_kind, actor_name, details FROM audit_log WHERE action = %s ORDER BY id",
        action,
    )


async def logged_of(customer: Customer, action: str) -> list[dict[str, object]]:
    """Return a customer's audit entries of an action."""
    entries = await logged(customer.harness, action)
    return [each for each in entries if each["account_id"] == customer.account_id]


async def who_is(application: Application, browser: Browser) -> SignedInOperator:
    """Return a browser's operator session."""
    who = await application.console.sessions.find_operator(browser.http.cookies[SESSION])
    assert who is not None
    return who
