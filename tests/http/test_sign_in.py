"""Signing in and signing up over HTTP."""

from __future__ import annotations

import html
import re
import time
from collections.abc import AsyncIterator
from uuid import uuid4

import httpx
import pytest
from attrs import evolve

from meetcore.adapters.settings import Settings, SettingsRefused
from meetcore.composition.providers import sends_mails
from meetcore.domain.members.roles import Role
from meetcore.domain.members.sign_in import (
    ALL_SIGN_UPS,
    REQUESTS_PER_EMAIL,
    SIGN_UPS_IN_ALL,
    SIGN_UPS_PER_ADDRESS,
    sign_up_email_counter,
)
from tests.support.api_harness import BASE_URL, ApiHarness, Customer
from tests.support.mailed_service import MailedService, mailed_service
from tests.support.names import Names
from tests.support.pages import TOKEN, Browser
from tests.support.texts import assert_contains
from tests.support.visitors import Visitors

pytestmark = pytest.mark.usefixtures("no_attempts")

SESSION = "__Host-meetcore"


@pytest.fixture(scope="module")
async def site(service_settings: Settings, names: Names) -> AsyncIterator[MailedService]:
    async with mailed_service(service_settings, names) as site:
        yield site


@pytest.fixture
async def other(customer: Customer) -> Customer:
    """Another account, of which the customer is a viewer."""
    other = await customer.harness.customer()
    await customer.query(
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
    assert re.search(r'aria-label="Stay here: [^"]+">Stay here<', page), "the name begins as what is seen"


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


async def test_only_accounts_of_the_user_can_be_chosen(site: MailedService, customer: Customer) -> None:
    foreign, browser = await customer.harness.customer(), await site.browser()
    await site.enter(browser, customer.email)
    before = browser.http.cookies[SESSION]
    for account_id in (foreign.account_id, "nothing"):
        answer = await browser.post(f"/dashboard/accounts/{account_id}/enter")
        assert answer.status_code == 404
        assert "set-cookie" not in answer.headers
    same = await browser.post(f"/dashboard/accounts/{customer.account_id}/enter", next="https://evil.example")
    assert same.headers["location"] == "/dashboard"
    assert browser.http.cookies[SESSION] == before
    found = await customer.application.access.sessions.find(before)
    assert found is not None
    assert found.account.id == customer.account_id


async def test_an_invited_user_signs_in_first_and_then_accepts(
    site: MailedService, customer: Customer
) -> None:
    guest = await customer.harness.customer()
    inviting, invited, stranger = [await site.browser() for _ in range(3)]
    await site.enter(inviting, customer.email)
    before = len(site.mails_to(guest.email))
    await inviting.post("/dashboard/team/invitations", email=guest.email, role="viewer")
    path = await site.mailed_path(guest.email, before)
    account = await customer.harness.administration.registry.find_account(customer.account_id)
    facts = (account.full_name, customer.email, "Viewer")
    mail = html.unescape(site.mails_to(guest.email)[-1])
    page = html.unescape((await stranger.get(path)).text)
    for text in facts:
        assert text in mail
        assert text in page
    assert_contains(page, "Changes nothing.", "Accept the invitation", absent=("Sign in",))
    unknown = (await stranger.get(f"/dashboard/sign-in/{'a' * 43}")).text
    assert_contains(unknown, "Sign in", absent=("invit", account.full_name))
    sign_in = f"/dashboard/sign-in?next={path}&reason=invited"
    for browser in (stranger, inviting):
        refused = await browser.post(path, page=path)
        assert refused.headers["location"] == sign_in, "no other account, and no session"
        assert "accept the invitation" in html.unescape((await browser.get(sign_in)).text)
    entered = await site.enter(invited, guest.email, path)
    assert entered.headers["location"] == path
    accepted = await invited.post(path, page=path)
    assert accepted.headers["location"] == "/dashboard"
    assert str(customer.account_id) in (await invited.get("/dashboard/settings")).text
    assert str(guest.account_id) in (await invited.get("/dashboard/accounts")).text


async def test_a_fresh_sign_in_says_why_it_is_asked_for_and_knows_the_address(
    site: MailedService, customer: Customer, visitors: Visitors
) -> None:
    by_link, by_mail, guest, console = [await site.browser() for _ in range(4)]
    by_link.http.cookies = (await visitors.member(customer.account_id)).http.cookies
    guest.http.cookies = (await visitors.member(customer.account_id, Role.DEVELOPER)).http.cookies
    console.http.cookies = (await visitors.operator()).http.cookies
    await customer.query(
        "UPDATE sessions SET authenticated_at = now() - interval '20 minutes', "
        "is_pinned = user_id IS NOT NULL WHERE account_id = %s RETURNING id",
        customer.account_id,
    )
    await site.enter(by_mail, customer.email)
    page, address = "/sign-in?reason=fresh", f'value="{customer.email}"'
    recent, link = "a sign-in of the last 15 minutes", "does not prove that you are its member"
    asked = (await by_link.get((await by_link.get("/dashboard/keys/new")).headers["location"])).text
    assert_contains(asked, link, address, "/dashboard/keys/new", "connecting a program", absent=[recent])
    assert_contains(
        (await by_mail.get(f"/dashboard{page}")).text, recent, address, "connecting a program", absent=[link]
    )
    asked = (await guest.get(f"/dashboard{page}")).text
    assert_contains(
        asked,
        "Open a new link where you got the last one",
        "connecting a program",
        absent=[recent, link, "@"],
    )
    for shown in (asked, (await by_mail.get(f"/dashboard{page}")).text):
        assert_contains(shown, "members", "erasing the account", absent=["money"])
    assert_contains(
        (await console.get(f"/console{page}")).text, recent, "@example.com", "Credits, payments",
        absent=["connecting a program"],
    )  # fmt: skip
    stranger = await site.browser()
    assert_contains((await stranger.get(f"/dashboard{page}")).text, recent, absent=["@example.test"])
    assert address not in (await by_link.get("/dashboard/sign-in?reason=invited")).text


PAGE = "/dashboard/sign-up"


@pytest.fixture(scope="module")
async def open_site(service_settings: Settings, names: Names) -> AsyncIterator[MailedService]:
    async with mailed_service(evolve(service_settings, sign_up="open"), names) as open_site:
        yield open_site


@pytest.mark.parametrize(("page", "fields"), [("/dashboard/sign-in", {}), (PAGE, {"full_name": "A"})])
async def test_a_browser_keeps_its_cookie_for_as_long_as_its_link_works(
    page: str, fields: dict[str, str], open_site: MailedService
) -> None:
    """It was kept for a day from the first visit on: a link that was asked for at its end did not work."""
    browser = await open_site.browser(page)
    await browser.get(page)
    known = browser.http.cookies["__Host-meetcore-browser"]
    sent = await browser.post(page, page=page, email=an_email(), **fields)
    assert f"__Host-meetcore-browser={known}; HttpOnly; Max-Age=86400;" in sent.headers["set-cookie"]


def an_email() -> str:
    return f"{uuid4().hex}@example.com"


async def ask(browser: Browser, email: str, full_name: str = "Perkumpulan <b>Émile</b>") -> httpx.Response:
    return await browser.post(PAGE, page=PAGE, email=email, full_name=full_name)


async def test_account_is_opened_by_link_with_no_credits(
    open_site: MailedService, harness: ApiHarness
) -> None:
    browser, email = await open_site.browser(PAGE), an_email()
    assert (await ask(browser, email)).status_code == 200
    path = await open_site.mailed_path(email)
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
        "SELECT action, actor_kind, actor_name, client_address, details FROM audit_log"
        " WHERE account_id = %s AND action <> 'session.started'",
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


async def test_who_has_an_account_is_signed_in_to_it(open_site: MailedService, customer: Customer) -> None:
    browser = await open_site.browser(PAGE)
    await ask(browser, customer.email.upper(), "Another name")
    path = await open_site.mailed_path(customer.email.upper())
    assert (await browser.post(path, page=path)).status_code == 303
    assert str(customer.account_id) in (await browser.get("/dashboard/settings")).text
    accounts = await customer.query(
        "SELECT full_name FROM accounts WHERE lower(email) = lower(%s)", customer.email
    )
    assert accounts == [{"full_name": "Sari Dewi"}]


async def test_a_removed_holder_of_the_address_gets_no_account_back(
    open_site: MailedService, customer: Customer
) -> None:
    await customer.query(
        "DELETE FROM memberships WHERE account_id = %s RETURNING user_id", customer.account_id
    )
    browser = await open_site.browser(PAGE)
    await ask(browser, customer.email)
    path = await open_site.mailed_path(customer.email)
    assert (await browser.post(path, page=path)).status_code == 410


async def test_a_link_works_in_its_browser_alone(open_site: MailedService) -> None:
    browser, email = await open_site.browser(PAGE), an_email()
    await ask(browser, email)
    path = await open_site.mailed_path(email)
    assert (await (await open_site.browser(PAGE)).post(path, page=path)).status_code == 410
    assert (await browser.post(path, page=path)).status_code == 303


def seen_by_others(answer: httpx.Response, email: str) -> str:
    """Return an answer without the address that was sent and the token, which each page masks anew."""
    return TOKEN.sub("", answer.text).replace(email, "")


async def test_a_known_and_an_unknown_address_are_answered_alike_and_in_the_same_time(
    open_site: MailedService, customer: Customer
) -> None:
    browser = await open_site.browser(PAGE)

    async def taken(email: str) -> tuple[float, str, int]:
        await customer.query("DELETE FROM rate_counters")
        token = TOKEN.search((await browser.get(PAGE)).text)
        assert token is not None
        sent = {"form_token": token[1], "email": email, "full_name": "A"}
        began = time.perf_counter()
        answer = await browser.http.post(PAGE, data=sent, headers={"Origin": BASE_URL})
        took_s = time.perf_counter() - began
        return took_s, seen_by_others(answer, email), answer.status_code

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
    fields: tuple[str, str], open_site: MailedService
) -> None:
    answer = await ask(await open_site.browser(PAGE), *fields)
    assert answer.status_code == 422
    assert 'class="error"' in answer.text


async def test_requests_are_limited_by_address_email_and_in_all(
    open_site: MailedService, harness: ApiHarness
) -> None:
    browser = await open_site.browser(PAGE)
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


async def test_sign_up_by_invitation_is_for_members_and_says_so_to_nobody(
    service_settings: Settings, names: Names, customer: Customer
) -> None:
    async with mailed_service(evolve(service_settings, sign_up="invited"), names) as open_site:
        browser, user, stranger = await open_site.browser(PAGE), an_email(), an_email()
        await customer.query(
            """WITH made AS (
                INSERT INTO users (id, email, full_name, created_at) VALUES (%s, %s, 'A', now()) RETURNING id
            )
            INSERT INTO memberships SELECT %s, id, 'viewer', now() FROM made RETURNING user_id""",
            uuid4(), user, customer.account_id,
        )  # fmt: skip
        answers = [seen_by_others(await ask(browser, email), email) for email in (stranger, user)]
        assert answers[0] == answers[1]
        path = await open_site.mailed_path(user)
        assert open_site.mails_to(stranger) == []
        assert (await browser.post(path, page=path)).status_code == 303


async def test_closed_sign_up_is_not_there(
    service_settings: Settings, names: Names, customer: Customer
) -> None:
    async with mailed_service(service_settings, names) as open_site:
        browser = await open_site.browser("/dashboard/sign-in")
        assert (await browser.get(PAGE)).status_code == 404
        assert "sign-up" not in (await browser.get("/dashboard/sign-in")).text
        assert (await browser.post(PAGE, email=an_email(), full_name="A")).status_code == 404
        assert (await browser.post(f"{PAGE}/{'A' * 43}")).status_code == 404


def test_sign_up_needs_a_mail_server(service_settings: Settings) -> None:
    with pytest.raises(SettingsRefused, match="MEETCORE_SIGN_UP is open, which needs MEETCORE_SMTP_URL"):
        sends_mails(evolve(service_settings, sign_up="open"))
