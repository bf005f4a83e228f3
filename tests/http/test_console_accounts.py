"""The console's pages of accounts over HTTP: the search, and what one account shows."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4

import pytest

from meetcore.composition.application import Application
from meetcore.domain.members.roles import OperatorRole
from meetcore.domain.requests.keys import Scope, digest
from meetcore.domain.requests.request_log import LoggedRequest
from tests.support.api_harness import ApiHarness, Customer
from tests.support.console_pages import SignIn
from tests.support.pages import Browser

ROOT = "/console/accounts"


async def search(browser: Browser, text: str) -> tuple[str, str]:
    """Search as the form does; the address that it leads to, and the page there."""
    answer = await browser.post(ROOT, q=text)
    assert answer.status_code == 303, answer.text
    page = await browser.get(answer.headers["location"])
    assert page.status_code == 200
    return answer.headers["location"], page.text


async def test_accounts_are_found_by_everything_that_the_form_promises(
    application: Application, customer: Customer, sign_in: SignIn, harness: ApiHarness
) -> None:
    browser = await sign_in(OperatorRole.SUPPORT)
    account = await application.administration.registry.find_account(customer.account_id)
    name = f"Toko {uuid4().hex}"
    await harness.query("UPDATE accounts SET full_name = %s WHERE id = %s RETURNING id", name, account.id)
    meeting = await customer.make_meeting()
    webhook = await customer.make_webhook()
    await customer.post(f"/webhooks/{webhook['id']}/test", {})
    [delivery] = (await customer.get(f"/webhooks/{webhook['id']}/deliveries")).json()["data"]
    link = f'href="{ROOT}/{account.id}"'
    request_id = uuid4()
    await application.ports.request_log.save(
        [LoggedRequest(request_id, account.id, customer.key.key.id, datetime.now(UTC), "GET", "/me", 200, 1)]
    )
    for text in (
        str(request_id),
        account.email.upper(),
        account.email[:9],
        name.lower()[:12],
        str(account.id),
        str(account.user_id),
        customer.key.text[-4:],
        f"mk_live_…{customer.key.text[-4:]}",
        str(customer.key.key.id),
        str(meeting["id"]),
        str(delivery["event_id"]),
    ):
        _, page = await search(browser, f" {text} ")
        assert link in page, text
    for text in (str(uuid4()), "nobody@example.com", "a\0b", "x" * 300, "%", "mk_live_…"):
        _, page = await search(browser, text)
        assert link not in page
        assert "Nothing was found." in page
    assert link in (await search(browser, ""))[1]
    assert link in (await browser.http.get(ROOT, params={"q": account.email})).text, "a link of an operator"


async def test_a_whole_key_that_is_searched_for_stands_in_no_address(
    customer: Customer, sign_in: SignIn
) -> None:
    browser = await sign_in()
    address, page = await search(browser, customer.key.text)
    assert f"{ROOT}/{customer.account_id}" in page
    for text in (address, page):
        assert customer.key.text not in text
        assert digest(customer.key.text).hex() not in text


async def test_an_account_shows_what_belongs_to_it_and_no_secret(customer: Customer, sign_in: SignIn) -> None:
    meeting = await customer.make_meeting(title="<i>Weekly</i>")
    browser = await sign_in(OperatorRole.SUPPORT)
    page = (await browser.get(f"/console/accounts/{customer.account_id}")).text
    assert "&lt;i&gt;Weekly" in page
    assert "<i>Weekly" not in page
    assert str(meeting["id"]) in page, "the charge names its meeting"
    assert meeting["join_url"] not in page
    assert "/top-up" not in page, "support moves no credits"
    assert "/suspend" not in page


async def test_an_account_shows_its_keys_entries_and_deliveries(
    application: Application, customer: Customer, sign_in: SignIn
) -> None:
    webhook = await customer.make_webhook()
    for _ in range(12):
        await customer.post(f"/webhooks/{webhook['id']}/test", {})
    deliveries = (await customer.get(f"/webhooks/{webhook['id']}/deliveries")).json()["data"]
    capped = await application.administration.create_key(
        customer.account_id,
        [Scope.MEETINGS_READ],
        77,
        name="<b>Capped",
    )
    await application.administration.revoke_key(capped.key.id)
    browser = await sign_in(OperatorRole.SUPPORT)
    page = (await browser.get(f"{ROOT}/{customer.account_id}")).text
    for text in ("&lt;b&gt;Capped", ">77<", "revoked", str(capped.key.id), webhook["url"]):
        assert text in page, text
    for each in deliveries[:10]:
        assert each["event_id"] in page
    for each in deliveries[10:]:
        assert each["event_id"] not in page
    assert webhook["secret"] not in page
    assert capped.text not in page


@pytest.mark.parametrize("id", ["x", "00000000-0000-7000-8000-000000000000"])
async def test_an_account_that_is_not_there(id: str, sign_in: SignIn) -> None:
    assert (await (await sign_in()).get(f"{ROOT}/{id}")).status_code == 404
