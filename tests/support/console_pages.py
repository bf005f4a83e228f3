"""What tests of the console's pages share."""

from __future__ import annotations

from uuid import UUID, uuid4

from meetcore.adapters.web.visit import ConsolePage
from meetcore.composition.application import Application
from meetcore.domain.members.views import SignedInOperator
from tests.support.api_harness import ApiHarness, Customer
from tests.support.pages import FORM_KEY, Browser

SESSION = "__Host-meetcore-console"
CUSTOMER_SESSION = "__Host-meetcore"


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
