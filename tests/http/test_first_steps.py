"""The first steps of a new account on its overview: they tick themselves, by role, and disappear."""

from __future__ import annotations

import re
from uuid import uuid4

from meetcore.composition.application import Application
from meetcore.domain.members.roles import Role
from tests.support.api_harness import BASE_URL, ApiHarness, Customer
from tests.support.pages import Browser
from tests.support.texts import assert_contains
from tests.support.visitors import SignIn

HEADING = "First steps"
CREDITS, KEY, CALL, MEETING, WEBHOOK = (
    "Get credits", "Create an API key", "Make the first call", "Create a meeting", "Receive an event",
)  # fmt: skip
LINKS = (
    "/dashboard/credits", "/dashboard/keys/new", "/docs/integrating", "/dashboard/meetings/new",
    "/dashboard/webhooks/new",
)  # fmt: skip
CURL = f"curl -sS {BASE_URL}/api/v1/me"
REMINDER = "There are no credits."


async def overview(browser: Browser) -> str:
    return (await browser.get("/dashboard")).text


def steps(page: str) -> dict[str, bool]:
    """The steps that a page shows, and whether each is done."""
    found = re.search(rf">{HEADING}</h2>(.*?)</section>", page, re.DOTALL)
    rows = re.findall(r"<li>(.*?)</li>", found[1], re.DOTALL) if found else []
    shown = [(re.search(r"<strong>(.*?)</strong>", row), ">done<" in row) for row in rows]
    return {title[1]: is_done for title, is_done in shown if title}


async def test_an_account_that_has_nothing_is_led_and_not_warned(
    application: Application, sign_in: SignIn
) -> None:
    account = await application.administration.create_account(f"{uuid4().hex}@example.com", "New", 0)
    page = await overview(await sign_in(account.id, Role.OWNER))
    assert steps(page) == dict.fromkeys((CREDITS, KEY, CALL, MEETING, WEBHOOK), False)
    assert_contains(page, CURL, *(f'href="{link}"' for link in LINKS), absent=("notice warn", REMINDER))
    assert_contains(page, "Nothing was spent.", absent=("<svg",))


async def test_each_step_ticks_itself_and_the_last_one_hides_them(
    customer: Customer, sign_in: SignIn
) -> None:
    browser = await sign_in(customer.account_id, Role.OWNER)
    account_id = customer.account_id
    await customer.query("UPDATE api_keys SET last_used_at = NULL WHERE account_id = %s", account_id)
    done = dict.fromkeys((CREDITS, KEY), True) | dict.fromkeys((CALL, MEETING, WEBHOOK), False)
    assert steps(await overview(browser)) == done
    await customer.query("UPDATE api_keys SET last_used_at = now() WHERE account_id = %s", account_id)
    await customer.make_meeting()
    done |= {CALL: True, MEETING: True}
    page = await overview(browser)
    assert steps(page) == done
    assert CURL not in page
    webhook = await customer.make_webhook()
    tested = await customer.post(f"/webhooks/{webhook['id']}/test", None)
    page = await overview(browser)
    assert steps(page) == done, "nothing was delivered yet"
    assert f'href="/dashboard/webhooks/{webhook["id"]}"' in page
    await customer.query(
        "UPDATE deliveries SET status = 'succeeded', due_at = NULL, lease_token = NULL, lease_host = NULL"
        " WHERE id = %s",
        tested.json()["id"],
    )
    page = await overview(browser)
    assert_contains(page, "Available", absent=(HEADING,))


async def test_an_account_that_needs_no_webhook_is_no_longer_led_after_a_month(
    customer: Customer, sign_in: SignIn
) -> None:
    browser = await sign_in(customer.account_id, Role.OWNER)
    age = "UPDATE accounts SET created_at = created_at - interval '31 days' WHERE id = %s"
    await customer.query(age, customer.account_id)
    assert MEETING in steps(await overview(browser)), "without a meeting it is still new"
    await customer.make_meeting()
    assert HEADING not in await overview(browser)


async def test_steps_are_those_of_the_role(harness: ApiHarness, sign_in: SignIn) -> None:
    poor = await harness.customer(credits=0)
    for role, titles in (
        (Role.DEVELOPER, [KEY, CALL, MEETING, WEBHOOK]), (Role.FINANCE, [CREDITS]), (Role.VIEWER, []),
    ):  # fmt: skip
        page = await overview(await sign_in(poor.account_id, role))
        assert list(steps(page)) == titles, role
        assert page.count(REMINDER) == (CREDITS not in titles), "who cannot buy is reminded"
    await harness.application.administration.suspend_account(poor.account_id)
    assert steps(await overview(await sign_in(poor.account_id, Role.OWNER))) == {}


async def test_the_overview_leads_with_what_can_be_spent(customer: Customer, sign_in: SignIn) -> None:
    page = await overview(await sign_in(customer.account_id))
    assert re.findall(r"<dt>(.*?)</dt>", page) == ["Available", "Reserved", "Balance", "Spent today"]


async def test_a_rolled_key_shows_its_cap_once(customer: Customer, sign_in: SignIn) -> None:
    key_id = customer.key.key.id
    await customer.query("UPDATE api_keys SET daily_cap = 50, name = 'Capped' WHERE id = %s", key_id)
    browser = await sign_in(customer.account_id)
    form = await browser.form_key("/dashboard/keys")
    rolled = await browser.post(f"/dashboard/keys/{key_id}/roll", form_key=form, overlap_h="24")
    assert rolled.status_code == 200
    await customer.make_meeting()
    await customer.query("UPDATE cap_usage SET spent = 45 WHERE account_id = %s", customer.account_id)
    page = await overview(browser)
    assert page.count("Capped</td>") == 1
    assert page.count("has used most of its cap") == 1
    await customer.query("UPDATE api_keys SET daily_cap = 70 WHERE id = %s", key_id)
    assert (await overview(browser)).count("Capped</td>") == 2, "two caps"


async def test_a_key_that_has_expired_shows_no_cap(customer: Customer, sign_in: SignIn) -> None:
    browser, key_id = await sign_in(customer.account_id), customer.key.key.id
    await customer.query("UPDATE api_keys SET daily_cap = 10, name = 'Capped' WHERE id = %s", key_id)
    await customer.make_meeting()
    assert_contains(await overview(browser), "Capped</td>", "has used most of its cap")
    await customer.query("UPDATE api_keys SET expires_at = now() - interval '1 day' WHERE id = %s", key_id)
    assert_contains(await overview(browser), absent=("Capped</td>", "has used most of its cap"))


async def test_a_key_that_may_spend_nothing_has_not_used_most_of_its_cap(
    customer: Customer, sign_in: SignIn
) -> None:
    await customer.query("UPDATE api_keys SET daily_cap = 0 WHERE id = %s RETURNING id", customer.key.key.id)
    page = await overview(await sign_in(customer.account_id))
    assert_contains(page, "0 of 0 credits", absent=("has used most of its cap",))
