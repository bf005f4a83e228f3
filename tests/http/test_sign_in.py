"""Signing in over HTTP: a choice among accounts, a new session each time, and only our own pages after it."""

from __future__ import annotations

import html
from collections.abc import AsyncIterator

import pytest

from meetcore.adapters.settings import Settings
from meetcore.composition.application import Application
from tests.support.api_harness import ApiHarness, Customer
from tests.support.mailed_service import MailedService, mailed_service
from tests.support.names import Names

SESSION = "__Host-meetcore"


@pytest.fixture(scope="module")
async def site(service_settings: Settings, names: Names) -> AsyncIterator[MailedService]:
    async with mailed_service(service_settings, names) as site:
        yield site


@pytest.fixture
async def other(harness: ApiHarness, customer: Customer) -> Customer:
    """Another account, of which the customer is a viewer."""
    other = await harness.customer()
    await harness.query(
        "INSERT INTO memberships (account_id, user_id, role, created_at)"
        " SELECT %s, id, 'viewer', now() FROM users WHERE lower(email) = lower(%s)",
        other.account_id,
        customer.email,
    )
    return other


async def test_a_user_of_one_account_goes_straight_in(site: MailedService, customer: Customer) -> None:
    browser = await site.browser()
    entered = await site.enter(browser, customer.email, "/dashboard/ledger")
    assert entered.headers["location"] == "/dashboard/ledger"
    page = (await browser.get("/dashboard/accounts")).text
    assert str(customer.account_id) in page
    assert page.count("/enter") == 1


async def test_a_user_of_several_accounts_chooses_one_and_goes_on_there(
    site: MailedService, customer: Customer, other: Customer
) -> None:
    browser = await site.browser()
    entered = await site.enter(browser, customer.email, "/dashboard/keys?a=b")
    assert entered.headers["location"] == "/dashboard/accounts?next=/dashboard/keys%3Fa%3Db"
    page = html.unescape((await browser.get(entered.headers["location"])).text)
    assert 'name="next" value="/dashboard/keys?a=b"' in page
    before = browser.http.cookies[SESSION]
    path = f"/dashboard/accounts/{other.account_id}/enter"
    chosen = await browser.post(path, next="/dashboard/keys?a=b")
    assert (chosen.status_code, chosen.headers["location"]) == (303, "/dashboard/keys?a=b")
    assert browser.http.cookies[SESSION] != before
    assert str(other.account_id) in (await browser.get("/dashboard/settings")).text
    assert (await browser.post("/dashboard/keys", name="a")).status_code == 403, "a viewer there"
    browser.http.cookies.set(SESSION, before, domain="meetcore.test")
    assert (await browser.get("/dashboard")).status_code == 303, "one account at a time"


async def test_another_sign_in_goes_on_in_the_account_that_was_shown(
    site: MailedService, customer: Customer, other: Customer
) -> None:
    browser = await site.browser()
    await site.enter(browser, customer.email)
    await browser.post(f"/dashboard/accounts/{other.account_id}/enter")
    again = await site.enter(browser, customer.email, "/dashboard/settings")
    assert again.headers["location"] == "/dashboard/settings"
    assert str(other.account_id) in (await browser.get("/dashboard/settings")).text


async def test_only_accounts_of_the_user_can_be_chosen(
    site: MailedService, customer: Customer, harness: ApiHarness, application: Application
) -> None:
    foreign, browser = await harness.customer(), await site.browser()
    await site.enter(browser, customer.email)
    before = browser.http.cookies[SESSION]
    for account_id in (foreign.account_id, "nothing"):
        answer = await browser.post(f"/dashboard/accounts/{account_id}/enter")
        assert answer.status_code == 404
        assert "set-cookie" not in answer.headers
    same = await browser.post(f"/dashboard/accounts/{customer.account_id}/enter", next="https://evil.example")
    assert same.headers["location"] == "/dashboard"
    assert browser.http.cookies[SESSION] == before
    found = await application.access.sessions.find(before)
    assert found is not None
    assert found.account.id == customer.account_id


@pytest.mark.parametrize(
    "target",
    [
        "https://evil.example/", "//evil.example", "/\\evil.example", "/dashboard\\..\\..",
        "\t//evil.example", "/dashboardevil", "/console", "javascript:x", "/dashboard/\r\nSet-Cookie: a=b",
        "/dashboard/" + "x" * 2000,
    ],
)  # fmt: skip
async def test_a_sign_in_leads_nowhere_but_to_our_own_pages(
    target: str, site: MailedService, customer: Customer, other: Customer
) -> None:
    browser = await site.browser()
    asked = await browser.http.get("/dashboard/sign-in", params={"next": target})
    assert f'value="{html.escape(target)}"' not in asked.text
    entered = await site.enter(browser, customer.email, target)
    for answer in (entered, await browser.post(f"/dashboard/accounts/{other.account_id}/enter", next=target)):
        location = answer.headers["location"]
        assert location.startswith("/dashboard")
        assert location.partition("?")[0] in ("/dashboard", "/dashboard/accounts")
    signed_in = await browser.http.get("/dashboard/sign-in", params={"next": target})
    assert signed_in.headers["location"].startswith("/dashboard")


async def test_each_sign_in_has_a_session_of_its_own(site: MailedService, customer: Customer) -> None:
    browser = await site.browser()
    browser.http.cookies.set(SESSION, "A" * 43, domain="meetcore.test")
    tokens: set[str | None] = {"A" * 43}
    for _ in range(3):
        await site.enter(browser, customer.email)
        tokens.add([each.value for each in browser.http.cookies.jar if each.name == SESSION][-1])
    assert len(tokens) == 4
