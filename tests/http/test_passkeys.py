"""Passkeys over HTTP: registered after a fresh sign-in, used once a challenge, and by their owner alone."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import httpx
import pytest

from meetcore.adapters.settings import Settings
from meetcore.domain.members.passkeys import ATTEMPTS_PER_ADDRESS, MAX_PASSKEYS
from meetcore.domain.members.roles import OperatorRole, Role
from tests.support.api_harness import BASE_URL, Customer, until
from tests.support.authenticator import SoftwareAuthenticator
from tests.support.mailed_service import MailedService, mailed_service
from tests.support.names import Names
from tests.support.pages import Browser
from tests.support.texts import assert_contains

pytestmark = pytest.mark.usefixtures("no_attempts")

COOKIES = {"/dashboard": "__Host-meetcore", "/console": "__Host-meetcore-console"}


@pytest.fixture(scope="module")
async def site(service_settings: Settings, names: Names) -> AsyncIterator[MailedService]:
    async with mailed_service(service_settings, names) as site:
        yield site


def a_device(**fields: Any) -> SoftwareAuthenticator:
    return SoftwareAuthenticator(BASE_URL, "meetcore.test", **fields)


async def signed_in(site: MailedService, customer: Customer, area: str = "/dashboard") -> Browser:
    """A browser of the customer's owner, or of a new operator."""
    links, browser = customer.application.access.portal_links, await site.browser(f"{area}/passkeys")
    if area == "/console":
        operator = await customer.application.access.operators.add(
            f"{uuid4().hex}@example.com", OperatorRole.FINANCE
        )
        url = (await links.for_operator(operator.id)).url
    else:
        url = (await links.for_member(customer.account_id, customer.email)).url
    path = url.removeprefix(BASE_URL)
    assert (await browser.post(path, page=path)).status_code == 303
    return browser


async def register(
    browser: Browser, device: SoftwareAuthenticator, name: str = "Laptop", area: str = "/dashboard"
) -> httpx.Response:
    options = await browser.post(f"{area}/passkeys/options")
    assert options.status_code == 200, options.text
    return await browser.post(f"{area}/passkeys", name=name, credential=device.register(options.json()))


async def ask(browser: Browser, area: str = "/dashboard") -> dict[str, Any]:
    page = f"{area}/sign-in?reason=fresh"
    answer = await browser.post(f"{area}/sign-in/passkey/options", page=page)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def answer(
    browser: Browser, credential: str, area: str = "/dashboard", **fields: str
) -> httpx.Response:
    page = f"{area}/sign-in?reason=fresh"
    return await browser.post(f"{area}/sign-in/passkey", page=page, credential=credential, **fields)


@pytest.mark.parametrize("area", COOKIES)
async def test_a_passkey_is_registered_signs_in_and_is_removed(
    area: str, site: MailedService, customer: Customer
) -> None:
    browser, device = await signed_in(site, customer, area), a_device()
    added = await register(browser, device, "  Dewi's <b>phone</b> ", area)
    assert added.headers["location"] == f"{area}/passkeys?done=passkey_added"
    listed = (await browser.get(f"{area}/passkeys")).text
    assert "Dewi&#39;s &lt;b&gt;phone&lt;/b&gt;" in listed
    assert "never" in listed
    other = await site.browser(f"{area}/passkeys")
    other.http.cookies.set(COOKIES[area], "A" * 43, domain="meetcore.test")
    device.sign_count += 1
    entered = await answer(other, device.sign_in(await ask(other, area)), area, next=f"{area}/audit")
    assert (entered.status_code, entered.headers["location"]) == (303, f"{area}/audit")
    cookie = entered.headers["set-cookie"]
    assert "A" * 43 not in cookie
    assert all(part in cookie for part in ("HttpOnly", "Secure", "SameSite=lax", "Path=/"))
    page = (await other.get(f"{area}/passkeys")).text
    assert "never" not in page
    path = page.partition(f'action="{area}/passkeys/')[2].partition('"')[0]
    asked = (await other.post(f"{area}/passkeys/{path}")).text
    assert "Remove the passkey Dewi&#39;s &lt;b&gt;phone&lt;/b&gt;?" in asked
    assert path in (await other.get(f"{area}/passkeys")).text
    removed = await other.post(f"{area}/passkeys/{path}", confirmed="yes")
    assert removed.headers["location"] == f"{area}/passkeys?done=passkey_removed"
    device.sign_count += 1
    refused = await answer(other, device.sign_in(await ask(other, area)), area)
    assert refused.status_code == 422
    assert "not accepted" in refused.text
    assert "set-cookie" not in refused.headers


async def test_a_known_passkey_that_does_not_hold_is_in_the_audit_log_and_an_unknown_one_is_not(
    site: MailedService, customer: Customer
) -> None:
    browser, device = await signed_in(site, customer), a_device()
    await register(browser, device)
    other = await site.browser()
    for each in (device, a_device()):
        refused = await answer(other, each.sign_in(await ask(other)))
        assert refused.status_code == 422
    device.sign_count += 1
    assert (await answer(other, device.sign_in(await ask(other)))).status_code == 303
    log = await customer.application.ports.queries.list_audit_entries(customer.account_id, 3, None)
    assert [(each.action, each.details.get("how")) for each in log] == [
        ("session.started", "passkey"), ("session.refused", "passkey"), ("passkey.added", None),
    ]  # fmt: skip
    assert (log[1].details["email"], log[1].client_address) == (customer.email, "127.0.0.1")


async def test_the_owner_gets_a_mail_and_the_account_an_entry_of_each_change(
    site: MailedService, customer: Customer
) -> None:
    browser = await signed_in(site, customer)
    await register(browser, a_device())
    await until(lambda: len(site.mails_to(customer.email)) == 1)
    page = (await browser.get("/dashboard/passkeys")).text
    path = page.partition('action="/dashboard/passkeys/')[2].partition('"')[0]
    await browser.post(f"/dashboard/passkeys/{path}", confirmed="yes")
    await until(lambda: len(site.mails_to(customer.email)) == 2)
    mails = " ".join(site.mails_to(customer.email))
    assert_contains(mails, "Laptop", "127.0.0.1", f"{BASE_URL}/dashboard/passkeys")
    entries = await customer.query(
        "SELECT action, details FROM audit_log WHERE account_id = %s AND action ~ '^passkey' ORDER BY id",
        customer.account_id,
    )
    assert entries == [
        {"action": "passkey.added", "details": {"name": "Laptop"}},
        {"action": "passkey.removed", "details": {"name": "Laptop"}},
    ]


async def test_an_answer_that_does_not_hold_has_used_its_challenge_up(
    site: MailedService, customer: Customer
) -> None:
    device = a_device()
    await register(await signed_in(site, customer), device)
    browser, options = await site.browser(), None
    options = await ask(browser)
    device.sign_count += 1
    good = device.sign_in(options)
    device.origin = "https://evil.example"
    assert (await answer(browser, device.sign_in(options))).status_code == 422, "of another origin"
    assert (await answer(browser, good)).status_code == 422, "the challenge is used up"


async def test_an_answer_of_a_page_in_a_foreign_frame_is_refused(
    site: MailedService, customer: Customer
) -> None:
    browser, device = await signed_in(site, customer), a_device(is_cross_origin=True)
    assert (await register(browser, device)).status_code == 422
    device.is_cross_origin = False
    assert (await register(browser, device)).status_code == 303
    device.is_cross_origin, device.sign_count = True, 2
    other = await site.browser()
    assert (await answer(other, device.sign_in(await ask(other)))).status_code == 422


async def test_a_challenge_is_of_one_browser_one_area_and_one_purpose(
    site: MailedService, customer: Customer
) -> None:
    member, device = await signed_in(site, customer), a_device()
    await register(member, device)
    one, two = await site.browser(), await site.browser()
    device.sign_count += 1
    stolen = device.sign_in(await ask(one))
    assert (await answer(two, stolen)).status_code == 422, "another browser's"
    assert (await answer(one, stolen)).status_code == 303
    device.sign_count += 1
    of_console = device.sign_in(await ask(one, "/console"))
    assert (await answer(one, of_console)).status_code == 422, "the console's"
    registration = (await member.post("/dashboard/passkeys/options")).json()
    assert (await answer(member, device.sign_in(registration))).status_code == 422, "a registration's"
    device.sign_count += 1
    sign_in = await ask(member)
    made = a_device().register(sign_in | {"user": registration["user"]})
    refused = await member.post("/dashboard/passkeys", name="a", credential=made)
    assert refused.status_code == 422, "a sign-in's"


@pytest.mark.parametrize("area", COOKIES)
async def test_a_passkey_opens_its_own_area_alone(area: str, site: MailedService, customer: Customer) -> None:
    device, other = a_device(), "/console" if area == "/dashboard" else "/dashboard"
    await register(await signed_in(site, customer, area), device, area=area)
    browser = await site.browser()
    device.sign_count += 1
    assert (await answer(browser, device.sign_in(await ask(browser, other)), other)).status_code == 422


async def test_a_counter_that_does_not_go_up_is_refused(site: MailedService, customer: Customer) -> None:
    device = a_device(sign_count=5)
    await register(await signed_in(site, customer), device)
    browser = await site.browser()
    for sign_count, status in ((5, 422), (4, 422), (6, 303), (6, 422), (7, 303)):
        device.sign_count = sign_count
        assert (await answer(browser, device.sign_in(await ask(browser)))).status_code == status


async def test_who_is_no_member_any_more_does_not_get_in(site: MailedService, customer: Customer) -> None:
    device = a_device()
    await register(await signed_in(site, customer), device)
    await customer.query(
        "DELETE FROM memberships WHERE account_id = %s RETURNING user_id", customer.account_id
    )
    browser = await site.browser()
    device.sign_count += 1
    assert (await answer(browser, device.sign_in(await ask(browser)))).status_code == 422


async def test_another_users_passkey_answers_for_its_owner_alone(
    site: MailedService, customer: Customer
) -> None:
    device, foreign = a_device(), await customer.harness.customer()
    browser = await signed_in(site, customer)
    await register(browser, device)
    device.user_handle = foreign.user_id.bytes
    device.sign_count += 1
    assert (await answer(browser, device.sign_in(await ask(browser)))).status_code == 422
    page = (await browser.get("/dashboard/passkeys")).text
    path = page.partition('action="/dashboard/passkeys/')[2].partition('"')[0]
    stranger = await signed_in(site, foreign)
    assert (await stranger.post(f"/dashboard/passkeys/{path}")).status_code == 404
    taken = await register(stranger, device)
    assert taken.status_code == 422
    assert "registered already" in taken.text


async def test_there_are_ten_passkeys_at_most(site: MailedService, customer: Customer) -> None:
    browser = await signed_in(site, customer)
    options = (await browser.post("/dashboard/passkeys/options")).json()
    for number in range(MAX_PASSKEYS):
        assert (await register(browser, a_device(), f"Device {number}")).status_code == 303
    late = await browser.post("/dashboard/passkeys", name="One more", credential=a_device().register(options))
    assert late.status_code == 422
    assert "One more" in late.text
    assert (await browser.post("/dashboard/passkeys/options")).status_code == 409


async def test_a_bad_name_and_a_bad_answer_change_nothing(site: MailedService, customer: Customer) -> None:
    browser = await signed_in(site, customer)
    for name, credential in (("", "{}"), ("x" * 61, "{}"), ("a", ""), ("a", "{}"), ("a", "x" * 20_000)):
        refused = await browser.post("/dashboard/passkeys", name=name, credential=credential)
        assert refused.status_code == 422
    assert (await register(browser, a_device(flags=1))).status_code == 422
    assert "no passkey" in (await browser.get("/dashboard/passkeys")).text
    for credential in ("", "{}", json.dumps({"rawId": "AA"}), "x" * 20_000):
        assert (await answer(browser, credential)).status_code == 422


async def test_a_guest_has_no_passkeys(site: MailedService, customer: Customer) -> None:
    link = await customer.application.access.portal_links.for_guest(customer.account_id, Role.OWNER)
    browser, path = await site.browser("/dashboard/passkeys"), link.url.removeprefix(BASE_URL)
    await browser.post(path, page=path)
    assert "data-passkey" not in (await browser.get("/dashboard/passkeys")).text
    for path in ("", "/options", f"/{uuid4()}/remove"):
        assert (await browser.post(f"/dashboard/passkeys{path}", name="a", credential="{}")).status_code in (
            404,
            422,
        )
    assert (await browser.post("/dashboard/passkeys/options")).status_code == 404


async def test_attempts_of_an_address_are_limited(site: MailedService) -> None:
    browser = await site.browser()
    for _ in range(ATTEMPTS_PER_ADDRESS):
        assert (await answer(browser, "{}")).status_code == 422
    assert (await answer(browser, "{}")).status_code == 429
    for _ in range(ATTEMPTS_PER_ADDRESS):
        await ask(browser)
    page = "/dashboard/sign-in"
    assert (await browser.post(f"{page}/passkey/options", page=page)).status_code == 429
