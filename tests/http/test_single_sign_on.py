"""Single sign-on over HTTP: a browser goes to an OpenID provider and comes back, itself and once."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import httpx
import pytest
from attrs import evolve, frozen

from meetcore.adapters.settings import SecretStr, Settings, SettingsRefused
from meetcore.composition.application import Application
from meetcore.domain.errors import NotFound
from meetcore.domain.members.passkeys import ATTEMPTS_PER_ADDRESS
from meetcore.domain.members.roles import OperatorRole
from meetcore.testing.stand_in import Reply
from tests.support.api_harness import BASE_URL, ApiHarness, Customer
from tests.support.mailed_service import MailedService, mailed_service
from tests.support.names import Names
from tests.support.openid_provider import OpenIdProvider, openid_provider
from tests.support.pages import Browser
from tests.support.texts import assert_contains

COOKIES = {"/dashboard": "__Host-meetcore", "/console": "__Host-meetcore-console"}


@frozen
class Stage:
    """A service, and the provider of its members and of its operators."""

    site: MailedService
    members: OpenIdProvider
    operators: OpenIdProvider

    def at(self, area: str) -> OpenIdProvider:
        """The provider of an area."""
        return self.operators if area == "/console" else self.members


def with_providers(settings: Settings, members: OpenIdProvider, operators: OpenIdProvider) -> Settings:
    given: dict[str, Any] = {}
    for prefix, provider in (("oidc", members), ("console_oidc", operators)):
        given |= {f"{prefix}_{name}": value for name, value in provider.settings.items()}
        given[f"{prefix}_client_secret"] = SecretStr(given[f"{prefix}_client_secret"])
    return evolve(settings, **given)


@pytest.fixture(scope="module")
async def stage(service_settings: Settings, names: Names) -> AsyncIterator[Stage]:
    async with openid_provider() as members, openid_provider() as operators:
        settings = with_providers(service_settings, members, operators)
        async with mailed_service(settings, names) as site:
            yield Stage(site, members, operators)


@pytest.fixture(autouse=True)
async def plain_providers(no_attempts: None, stage: Stage) -> None:
    """Tests share the providers."""
    for provider in (stage.members, stage.operators):
        provider.claims, provider.person = {}, {}
        provider.answers.clear()


async def leave(browser: Browser, area: str = "/dashboard", query: str = "") -> str:
    """Go to the provider; return the address there."""
    answer = await browser.get(f"{area}/sign-in/oidc{query}")
    assert answer.status_code == 303, answer.text
    return answer.headers["location"]


async def come_back(browser: Browser, query: dict[str, str], area: str = "/dashboard") -> httpx.Response:
    return await browser.http.get(f"{area}/sign-in/oidc/callback", params=query)


def person(email: str, **claims: Any) -> dict[str, Any]:
    return {"email": email, "email_verified": True, "name": "Dewi Ayu"} | claims


async def test_a_member_signs_in_and_goes_on(stage: Stage, customer: Customer) -> None:
    browser = await stage.site.browser()
    page = (await browser.get("/dashboard/sign-in?next=/dashboard/ledger")).text
    assert 'href="/dashboard/sign-in/oidc?next=/dashboard/ledger"' in page
    browser.http.cookies.set(COOKIES["/dashboard"], "A" * 43, domain="meetcore.test")
    stage.members.person = person(customer.email.upper())
    url = await leave(browser, query="?next=/dashboard/ledger")
    assert parse_qs(urlsplit(url).query)["redirect_uri"] == [f"{BASE_URL}/dashboard/sign-in/oidc/callback"]
    entered = await come_back(browser, stage.members.approve(url))
    assert (entered.status_code, entered.headers["location"]) == (303, "/dashboard/ledger")
    cookies = entered.headers.get_list("set-cookie")
    (session,) = [each for each in cookies if each.startswith("__Host-meetcore=")]
    assert "A" * 43 not in session
    assert all(part in session for part in ("HttpOnly", "Secure", "SameSite=lax", "Path=/"))
    browser.http.cookies.clear()
    browser.http.cookies.set(
        COOKIES["/dashboard"], entered.cookies[COOKIES["/dashboard"]], domain="meetcore.test"
    )
    assert str(customer.account_id) in (await browser.get("/dashboard/settings")).text


async def test_an_operator_signs_in_to_the_console_alone(stage: Stage, customer: Customer) -> None:
    email = f"{uuid4().hex}@example.com"
    await customer.application.access.operators.add(email, OperatorRole.FINANCE)
    browser = await stage.site.browser("/console/audit")
    stage.operators.person = person(email)
    entered = await come_back(browser, stage.operators.approve(await leave(browser, "/console")), "/console")
    assert (entered.status_code, entered.headers["location"]) == (303, "/console")
    assert (await browser.get("/console/audit")).status_code == 200
    assert (await browser.get("/dashboard")).status_code == 303
    stage.operators.person = person(customer.email)
    refused = await come_back(browser, stage.operators.approve(await leave(browser, "/console")), "/console")
    assert refused.status_code == 422, "a member is no operator"
    stage.members.person = person(email)
    refused = await come_back(browser, stage.members.approve(await leave(browser)))
    assert refused.status_code == 422, "an operator is no member"


@pytest.mark.parametrize("area", COOKIES)
async def test_whoever_gets_an_address_later_is_another_person_until_an_operator_says_otherwise(
    area: str, stage: Stage, customer: Customer
) -> None:
    email, person_id, application = customer.email, customer.user_id, customer.application
    if area == "/console":
        email = f"{uuid4().hex}@example.com"
        person_id = (await application.access.operators.add(email, OperatorRole.FINANCE)).id

    async def enter(subject: str) -> httpx.Response:
        browser = await stage.site.browser()
        stage.at(area).person = person(email, sub=subject)
        return await come_back(browser, stage.at(area).approve(await leave(browser, area)), area)

    assert [(await enter(subject)).status_code for subject in ("one", "one")] == [303, 303]
    refused = await enter("another")
    assert refused.status_code == 422
    assert_contains(refused.text, "another person by this e-mail address", "Ask the operator")
    assert not [
        each for each in refused.headers.get_list("set-cookie") if each.startswith(f"{COOKIES[area]}=")
    ]
    account_id = customer.account_id if area == "/dashboard" else None
    entries = await application.ports.queries.list_audit_entries(account_id, 1000, None)
    found = [
        (each.action, each.details["how"])
        for each in entries
        if each.target_id == str(person_id) and each.action == "session.refused"
    ]
    assert found == [("session.refused", "single_sign_on")]
    assert await application.access.forget_identities(email) == 1
    assert [(await enter(subject)).status_code for subject in ("another", "one")] == [303, 422]
    with pytest.raises(NotFound):
        await application.access.forget_identities("nobody@example.com")


async def test_an_account_that_a_sign_on_opens_is_of_that_person(
    names: Names, service_settings: Settings
) -> None:
    async with openid_provider() as provider, openid_provider() as operators:
        settings = evolve(with_providers(service_settings, provider, operators), sign_up="open")
        async with mailed_service(settings, names) as site:
            email, statuses = f"{uuid4().hex}@example.com", []
            for subject in ("one", "one", "another"):
                browser = await site.browser()
                provider.person = person(email, sub=subject)
                statuses.append(
                    (await come_back(browser, provider.approve(await leave(browser)))).status_code
                )
    assert statuses == [303, 303, 422]


async def test_answer_is_of_the_browser_that_asked_and_works_once(stage: Stage, customer: Customer) -> None:
    stage.members.person = person(customer.email)
    one, two = await stage.site.browser(), await stage.site.browser()
    answer = stage.members.approve(await leave(one))
    for changes in ({"code": None}, {}, {"state": ""}, {"state": "é"}):
        own = stage.members.approve(await leave(two))
        query = own | answer | changes if changes else own | {"code": answer["code"]}
        refused = await come_back(two, {name: value for name, value in query.items() if value is not None})
        assert refused.status_code == 422
        assert not [
            each for each in refused.headers.get_list("set-cookie") if each.startswith("__Host-meetcore=")
        ]
    assert (await come_back(await stage.site.browser(), answer)).status_code == 422, (
        "a browser that did not ask"
    )
    assert (await come_back(one, answer)).status_code == 422, "the code was used up by the other browser"
    answer = stage.members.approve(await leave(one))
    assert (await come_back(one, answer)).status_code == 303
    assert (await come_back(one, answer)).status_code == 422, "replayed"


async def test_a_callback_of_the_other_area_is_refused(stage: Stage, customer: Customer) -> None:
    stage.members.person = person(customer.email)
    browser = await stage.site.browser()
    answer = stage.members.approve(await leave(browser))
    await leave(browser, "/console")
    assert (await come_back(browser, answer, "/console")).status_code == 422
    assert (await come_back(browser, answer)).status_code == 303


async def test_who_is_no_member_does_not_get_in_while_sign_up_is_closed(
    stage: Stage, harness: ApiHarness
) -> None:
    email, browser = f"{uuid4().hex}@example.com", await stage.site.browser()
    stage.members.person = person(email)
    assert (await come_back(browser, stage.members.approve(await leave(browser)))).status_code == 422
    assert await harness.query("SELECT id FROM users WHERE email = %s", email) == []


async def test_who_is_no_member_gets_an_account_where_sign_up_is_open(
    stage: Stage, service_settings: Settings, names: Names, harness: ApiHarness
) -> None:
    settings = with_providers(evolve(service_settings, sign_up="open"), stage.members, stage.operators)
    async with mailed_service(settings, names) as site:
        email, browser = f"{uuid4().hex}@example.com", await site.browser()
        stage.members.person = person(email, name="Dewi\n<b>Ayu</b> " + "x" * 200)
        assert (await come_back(browser, stage.members.approve(await leave(browser)))).status_code == 303
        (account,) = await harness.query("SELECT full_name, balance FROM accounts WHERE email = %s", email)
        assert account["balance"] == 0
        assert account["full_name"].startswith("Dewi<b>Ayu</b> xxx")
        assert len(account["full_name"]) == 120


async def test_a_refusal_or_silence_of_the_provider_is_a_page(stage: Stage, customer: Customer) -> None:
    stage.members.person = person(customer.email)
    browser = await stage.site.browser()
    state = parse_qs(urlsplit(await leave(browser)).query)["state"][0]
    refused = await come_back(
        browser, {"error": "access_denied", "error_description": "<b>no", "state": state}
    )
    assert refused.status_code == 422
    assert "<b>no" not in refused.text
    answer = stage.members.approve(await leave(browser))
    stage.members.answers["/token"] = lambda: Reply(503)
    refused = await come_back(browser, answer)
    assert refused.status_code == 422
    assert stage.members.url not in refused.text


@pytest.mark.parametrize("target", ["https://evil.example", "//evil.example", "/\\evil.example", "/console"])
async def test_nothing_but_our_own_pages_comes_after(target: str, stage: Stage, customer: Customer) -> None:
    stage.members.person = person(customer.email)
    browser = await stage.site.browser()
    gone = await browser.http.get("/dashboard/sign-in/oidc", params={"next": target})
    assert gone.headers["location"].startswith(f"{stage.members.url}/authorize?")
    entered = await come_back(browser, stage.members.approve(gone.headers["location"]))
    assert entered.headers["location"] == "/dashboard"


async def test_a_fresh_sign_in_is_one_at_the_provider_too(stage: Stage) -> None:
    browser = await stage.site.browser()
    page = (await browser.get("/dashboard/sign-in?reason=fresh")).text
    assert "reason=fresh" in page.partition("/sign-in/oidc")[2].partition('"')[0]
    again = await leave(browser, query="?reason=fresh")
    assert_contains(again, "prompt=login", "max_age=0")
    assert "prompt" not in await leave(browser)


@pytest.mark.parametrize(
    ("query", "claims", "is_fresh"),
    [
        ("?reason=fresh", {}, True),
        ("?reason=fresh", {"auth_time": None}, False),
        ("?reason=fresh", {"auth_time": -3600}, False),
        ("?reason=fresh", {"auth_time": 86_400}, False),
        ("?reason=fresh", {"auth_time": "now"}, False),
        ("", {}, False),
        ("", {"auth_time": 0}, True),
    ],
)
async def test_a_session_is_as_fresh_as_the_provider_proves(
    query: str, claims: dict[str, Any], is_fresh: bool, stage: Stage, customer: Customer
) -> None:
    """A number of `auth_time` is in seconds from now."""
    at = claims.get("auth_time")
    stage.members.claims = claims | ({"auth_time": int(time.time()) + at} if isinstance(at, int) else {})
    stage.members.person = person(customer.email)
    browser = await stage.site.browser()
    assert (
        await come_back(browser, stage.members.approve(await leave(browser, query=query)))
    ).status_code == 303
    answer = await browser.post("/dashboard/keys", page="/dashboard/keys", name="A", form_key="k")
    assert ("reason=fresh" not in answer.headers.get("location", "")) == is_fresh


async def test_an_operators_session_is_as_fresh_as_the_provider_proves(
    stage: Stage, application: Application, harness: ApiHarness
) -> None:
    email = f"{uuid4().hex}@example.com"
    operator = await application.access.operators.add(email, OperatorRole.FINANCE)
    stage.operators.person = person(email)
    for query in ("", "?reason=fresh"):
        browser = await stage.site.browser("/console/audit")
        answer = stage.operators.approve(await leave(browser, "/console", query))
        assert (await come_back(browser, answer, "/console")).status_code == 303
    found = await harness.query(
        "SELECT authenticated_at > now() - interval '14 minutes' AS is_fresh FROM operator_sessions "
        "WHERE operator_id = %s ORDER BY id",
        operator.id,
    )
    assert [each["is_fresh"] for each in found] == [False, True]


async def test_attempts_are_limited(stage: Stage) -> None:
    browser = await stage.site.browser()
    for _ in range(ATTEMPTS_PER_ADDRESS):
        assert (await come_back(browser, {"code": "a", "state": "b"})).status_code == 422
    assert (await come_back(browser, {"code": "a", "state": "b"})).status_code == 429
    assert (await browser.get("/dashboard/sign-in/oidc")).status_code == 429


async def test_without_provider_there_is_no_single_sign_on(service_settings: Settings, names: Names) -> None:
    async with mailed_service(service_settings, names) as site:
        browser = await site.browser()
        for area in COOKIES:
            assert "/oidc" not in (await browser.get(f"{area}/sign-in")).text
            assert (await browser.get(f"{area}/sign-in/oidc")).status_code == 404
            assert (await browser.get(f"{area}/sign-in/oidc/callback?code=a&state=b")).status_code == 404


def test_a_provider_is_set_as_a_whole(service_settings: Settings) -> None:
    lacking = evolve(service_settings, console_oidc_issuer="https://issuer.example")
    with pytest.raises(
        SettingsRefused, match="MEETCORE_CONSOLE_OIDC_CLIENT_ID, MEETCORE_CONSOLE_OIDC_CLIENT_SEC"
    ):
        lacking.require_oidc()
    service_settings.require_oidc()
    for issuer in ("http://issuer.example", "issuer.example", "https://user@issuer.example"):
        with pytest.raises(ValueError, match="MEETCORE_OIDC_ISSUER must be an https:// address"):
            evolve(service_settings, oidc_issuer=issuer)
