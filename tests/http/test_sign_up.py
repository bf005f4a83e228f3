"""Signing up over HTTP: closed by default, an account when the address has answered, and no oracle."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from uuid import uuid4

import httpx
import pytest
from attrs import evolve

from meetcore.adapters.settings import Settings, SettingsRefused
from meetcore.composition.mails import sends_mails
from meetcore.domain.members.sign_in_links import REQUESTS_PER_EMAIL
from meetcore.domain.members.sign_ups import (
    ALL_SIGN_UPS,
    SIGN_UPS_IN_ALL,
    SIGN_UPS_PER_ADDRESS,
    sign_up_email_counter,
)
from tests.support.api_harness import BASE_URL, ApiHarness, Customer
from tests.support.mailed_service import MailedService, mailed_service
from tests.support.names import Names
from tests.support.pages import TOKEN, Browser

PAGE = "/dashboard/sign-up"
SESSION = "__Host-meetcore"


@pytest.fixture(scope="module")
async def site(service_settings: Settings, names: Names) -> AsyncIterator[MailedService]:
    async with mailed_service(evolve(service_settings, sign_up="open"), names) as site:
        yield site


@pytest.fixture(autouse=True)
async def no_attempts(harness: ApiHarness) -> None:
    """Tests share one client address."""
    await harness.query("DELETE FROM rate_counters")


def an_email() -> str:
    return f"{uuid4().hex}@example.com"


async def ask(browser: Browser, email: str, full_name: str = "Perkumpulan <b>Émile</b>") -> httpx.Response:
    return await browser.post(PAGE, page=PAGE, email=email, full_name=full_name)


async def test_an_account_is_opened_by_the_link_with_no_credits(
    site: MailedService, harness: ApiHarness
) -> None:
    browser, email = await site.browser(PAGE), an_email()
    assert (await ask(browser, email)).status_code == 200
    path = await site.mailed_path(email)
    assert path.startswith(f"{PAGE}/")
    assert await harness.query("SELECT id FROM accounts WHERE email = %s", email) == []
    assert (await browser.get(path)).status_code == 200, "looking at the page opens nothing"
    browser.http.cookies.set(SESSION, "A" * 43, domain="meetcore.test")
    entered = await browser.post(path, page=path)
    assert (entered.status_code, entered.headers["location"]) == (303, "/dashboard")
    assert "A" * 43 not in entered.headers["set-cookie"]
    (account,) = await harness.query(
        "SELECT id, full_name, balance, entries FROM accounts WHERE email = %s", email
    )
    assert (account["full_name"], account["balance"], account["entries"]) == (
        "Perkumpulan <b>Émile</b>",
        0,
        0,
    )
    assert await harness.query(
        "SELECT role, u.email FROM memberships JOIN users u ON u.id = user_id WHERE account_id = %s",
        account["id"],
    ) == [{"role": "owner", "email": email}]
    log = await harness.query(
        "SELECT action, actor_kind, actor_name, client_address, details FROM audit_log WHERE account_id = %s",
        account["id"],
    )
    assert log == [
        {
            "action": "account.created", "actor_kind": "member", "actor_name": "member",
            "client_address": "127.0.0.1", "details": {"by_sign_up": True},
        }
    ]  # fmt: skip
    assert "&lt;b&gt;Émile" in (await browser.get("/dashboard")).text
    assert (await browser.post(path, page="/dashboard/sign-in?reason=fresh")).status_code == 410, "used"


async def test_who_has_an_account_is_signed_in_to_it(
    site: MailedService, customer: Customer, harness: ApiHarness
) -> None:
    browser = await site.browser(PAGE)
    await ask(browser, customer.email.upper(), "Another name")
    path = await site.mailed_path(customer.email.upper())
    assert (await browser.post(path, page=path)).status_code == 303
    assert str(customer.account_id) in (await browser.get("/dashboard/settings")).text
    accounts = await harness.query(
        "SELECT full_name FROM accounts WHERE lower(email) = lower(%s)", customer.email
    )
    assert accounts == [{"full_name": "Sari Dewi"}]


async def test_a_removed_holder_of_the_address_gets_no_account_back(
    site: MailedService, customer: Customer, harness: ApiHarness
) -> None:
    await harness.query(
        "DELETE FROM memberships WHERE account_id = %s RETURNING user_id", customer.account_id
    )
    browser = await site.browser(PAGE)
    await ask(browser, customer.email)
    path = await site.mailed_path(customer.email)
    assert (await browser.post(path, page=path)).status_code == 410


async def test_a_link_works_in_its_browser_alone(site: MailedService) -> None:
    browser, email = await site.browser(PAGE), an_email()
    await ask(browser, email)
    path = await site.mailed_path(email)
    other = await site.browser(PAGE)
    assert (await other.post(path, page=path)).status_code == 410
    assert (await browser.post(path, page=path)).status_code == 303


async def test_a_known_and_an_unknown_address_are_answered_alike_and_in_the_same_time(
    site: MailedService, customer: Customer, harness: ApiHarness
) -> None:
    browser = await site.browser(PAGE)

    async def taken(email: str) -> tuple[float, str, int]:
        await harness.query("DELETE FROM rate_counters")
        token = TOKEN.search((await browser.get(PAGE)).text)
        assert token is not None
        sent = {"form_token": token[1], "email": email, "full_name": "A"}
        began = time.perf_counter()
        answer = await browser.http.post(PAGE, data=sent, headers={"Origin": BASE_URL})
        took_s = time.perf_counter() - began
        return took_s, answer.text.replace(email, ""), answer.status_code

    # By turns, and the shortest of each: what else the machine does only adds to some of them.
    pairs = [(await taken(customer.email), await taken(an_email())) for _ in range(5)]
    assert len({each[1:] for pair in pairs for each in pair}) == 1
    times = [min(pair[kind][0] for pair in pairs) for kind in range(2)]
    assert min(times) >= 0.24
    assert abs(times[0] - times[1]) < 0.1


@pytest.mark.parametrize(
    "fields", [("", "A"), ("no address", "A"), ("a@example.com", ""), ("a@example.com", "x" * 121)]
)
async def test_what_cannot_be_is_refused_beside_its_field(
    fields: tuple[str, str], site: MailedService
) -> None:
    answer = await ask(await site.browser(PAGE), *fields)
    assert answer.status_code == 422
    assert 'class="error"' in answer.text


async def test_requests_are_limited_by_address_email_and_in_all(
    site: MailedService, harness: ApiHarness
) -> None:
    browser = await site.browser(PAGE)
    for _ in range(SIGN_UPS_PER_ADDRESS):
        assert (await ask(browser, an_email())).status_code == 200
    assert (await ask(browser, an_email())).status_code == 429
    await harness.query("DELETE FROM rate_counters")
    email, statuses = an_email(), []
    for hits in (0, REQUESTS_PER_EMAIL - 2, None, None):
        counter = sign_up_email_counter(email)
        await harness.query("DELETE FROM rate_counters WHERE api_key_id <> %s", counter)
        if hits:  # as many as were asked for from elsewhere
            await harness.query(
                "UPDATE rate_counters SET hits = hits + %s WHERE api_key_id = %s", hits, counter
            )
        statuses.append((await ask(browser, email)).status_code)
    assert statuses == [200, 200, 429, 429]
    await harness.query("DELETE FROM rate_counters")
    await ask(browser, an_email())
    await harness.query(
        "UPDATE rate_counters SET hits = %s WHERE api_key_id = %s", SIGN_UPS_IN_ALL, ALL_SIGN_UPS
    )
    assert (await ask(browser, an_email())).status_code == 429


async def test_a_refused_request_uses_up_nothing_of_others(site: MailedService, harness: ApiHarness) -> None:
    browser, email = await site.browser(PAGE), an_email()
    statuses = [(await ask(browser, email)).status_code for _ in range(SIGN_UPS_PER_ADDRESS + 3)]
    assert statuses == [200] * SIGN_UPS_PER_ADDRESS + [429] * 3
    [counted] = await harness.query("SELECT hits FROM rate_counters WHERE api_key_id = %s", ALL_SIGN_UPS)
    assert counted["hits"] == SIGN_UPS_PER_ADDRESS
    sign_in = await site.browser("/dashboard/sign-in")
    answer = await sign_in.post("/dashboard/sign-in", page="/dashboard/sign-in", email=email)
    assert answer.status_code == 200, "links to sign in are counted apart"


async def test_sign_up_by_invitation_is_for_users_and_says_so_to_nobody(
    service_settings: Settings, names: Names, customer: Customer, harness: ApiHarness
) -> None:
    async with mailed_service(evolve(service_settings, sign_up="invited"), names) as site:
        browser, user, stranger = await site.browser(PAGE), an_email(), an_email()
        await harness.query(
            "INSERT INTO users (id, email, full_name, created_at) VALUES (%s, %s, 'A', now()) RETURNING id",
            uuid4(),
            user,
        )
        answers = [(await ask(browser, email)).text.replace(email, "") for email in (stranger, user)]
        assert answers[0] == answers[1]
        path = await site.mailed_path(user)
        assert site.mails_to(stranger) == []
        assert (await browser.post(path, page=path)).status_code == 303


async def test_closed_sign_up_is_not_there(
    service_settings: Settings, names: Names, customer: Customer
) -> None:
    async with mailed_service(service_settings, names) as site:
        browser = await site.browser("/dashboard/sign-in")
        assert (await browser.get(PAGE)).status_code == 404
        assert "sign-up" not in (await browser.get("/dashboard/sign-in")).text
        assert (await browser.post(PAGE, email=an_email(), full_name="A")).status_code == 404
        assert (await browser.post(f"{PAGE}/{'A' * 43}")).status_code == 404


def test_sign_up_needs_a_mail_server(service_settings: Settings) -> None:
    with pytest.raises(SettingsRefused, match="MEETCORE_SIGN_UP is open, which needs MEETCORE_SMTP_URL"):
        sends_mails(evolve(service_settings, sign_up="open"))
