"""`POST /console/portal-links` over HTTP: who may ask, what is refused, and where the link leads."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest

from meetcore.composition.application import Application
from meetcore.domain.members.roles import OPERATORS_ALLOWED, OperatorAction, OperatorRole
from meetcore.usecases.operator_tokens import REQUESTS_PER_MINUTE
from tests.support.api_harness import BASE_URL, ApiHarness, Customer
from tests.support.console_pages import logged
from tests.support.pages import Browser

PATH = "/console/portal-links"
Browsers = Callable[[str], Browser]


async def ask(browser: Browser, token: str, **body: Any) -> httpx.Response:
    return await browser.http.post(PATH, json=body, headers={"Authorization": f"Bearer {token}"})


async def token_of(application: Application, role: OperatorRole = OperatorRole.SUPPORT) -> str:
    return (await application.access.operator_tokens.create(role, "backend")).text


def refusal(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/json")
    error: dict[str, Any] = answer.json()["error"]
    assert error["code"] == code
    assert error["request_id"] == answer.headers["X-Request-Id"]
    assert answer.headers["Cache-Control"] == "no-store"
    return error


async def test_a_backend_makes_a_link_that_signs_a_guest_in_once(
    application: Application, customer: Customer, browsers: Browsers, harness: ApiHarness
) -> None:
    minted = await application.access.operator_tokens.create(OperatorRole.SUPPORT, "backend")
    browser = browsers("/dashboard")
    answer = await ask(browser, minted.text, account_id=str(customer.account_id), role="developer", minutes=5)
    assert answer.status_code == 201
    assert set(answer.json()) == {"url", "expires_at"}
    expires_at = datetime.fromisoformat(answer.json()["expires_at"])
    assert timedelta(minutes=4) < expires_at - datetime.now(UTC) <= timedelta(minutes=5)
    path = answer.json()["url"].removeprefix(BASE_URL)
    assert (await browser.post(path, page=path)).status_code == 303
    assert (await browser.get("/dashboard/keys/new")).status_code == 200, "a developer makes keys"
    assert (await browser.get("/dashboard/team")).status_code == 200
    again = browsers("/dashboard")
    assert (await again.post(path, page=path)).status_code == 410
    entry = [
        each
        for each in await logged(harness, "portal_link.created")
        if each["account_id"] == customer.account_id
    ][-1]
    assert (entry["actor_kind"], entry["actor_name"]) == ("operator", "token backend")
    assert minted.text not in str(await harness.query("SELECT * FROM audit_log"))
    assert minted.text not in str(await harness.query("SELECT * FROM operator_tokens"))


async def test_a_backend_makes_a_link_for_a_member_by_email(
    application: Application, customer: Customer, browsers: Browsers
) -> None:
    account = await application.administration.registry.find_account(customer.account_id)
    token, browser = await token_of(application, OperatorRole.ADMIN), browsers("/dashboard")
    answer = await ask(browser, token, account_id=str(account.id), email=account.email.upper())
    assert answer.status_code == 201
    path = answer.json()["url"].removeprefix(BASE_URL)
    assert (await browser.post(path, page=path)).status_code == 303
    assert (await browser.get("/dashboard/audit")).status_code == 200, "the member is an owner"
    made = await browser.post("/dashboard/keys", page="/dashboard/keys", name="A", form_key="k")
    assert "reason=fresh" in made.headers["location"], "the member has not signed in"


@pytest.mark.parametrize("body", [{"role": "owner"}, {"email": "a@example.com"}])
async def test_support_makes_no_link_of_an_owner_or_a_member(
    body: dict[str, str], application: Application, customer: Customer, browsers: Browsers
) -> None:
    answer = await ask(browsers(""), await token_of(application), account_id=str(customer.account_id), **body)
    assert refusal(answer, 403, "insufficient_scope")["details"]["role"] == "support"


@pytest.mark.parametrize("role", OperatorRole)
async def test_the_role_of_the_token_decides(
    role: OperatorRole, application: Application, customer: Customer, browsers: Browsers
) -> None:
    token = await token_of(application, role)
    answer = await ask(browsers(""), token, account_id=str(customer.account_id))
    if OperatorAction.MAKE_PORTAL_LINKS in OPERATORS_ALLOWED[role]:
        assert answer.status_code == 201
    else:
        assert refusal(answer, 403, "insufficient_scope")["details"]["role"] == role


async def test_without_a_valid_token_nothing_is_answered(
    application: Application, customer: Customer, browsers: Browsers, harness: ApiHarness
) -> None:
    browser, tokens, id = browsers(""), application.access.operator_tokens, str(customer.account_id)
    revoked, expired = [await tokens.create(OperatorRole.ADMIN) for _ in range(2)]
    assert (await ask(browser, revoked.text, account_id=id)).status_code == 201
    await tokens.revoke(revoked.token.id)
    await harness.query(
        "UPDATE operator_tokens SET expires_at = now() WHERE id = %s RETURNING id", expired.token.id
    )
    unknown = "mk_operator_" + "A" * 43
    for token in (revoked.text, expired.text, unknown, unknown, "mk_operator_x", customer.key.text, ""):
        answer = await ask(browser, token, account_id=id)
        refusal(answer, 401, "invalid_api_key")
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    refusal(await browser.http.post(PATH, json={}), 401, "invalid_api_key")
    assert {each["action"] for each in await harness.query("SELECT action FROM audit_log")} >= {
        "operator_token.created",
        "operator_token.revoked",
    }


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "account_id"),
        ({"account_id": 7}, "account_id"),
        ({"role": "admin"}, "role"),
        ({"role": "owner", "email": "a@example.com"}, "role"),
        ({"minutes": 0}, "minutes"),
        ({"minutes": 61}, "minutes"),
        ({"minutes": "5"}, "minutes"),
        ({"email": ""}, "email"),
        ({"acount_id": "x"}, "acount_id"),
    ],
)
async def test_a_wrong_field_is_named(
    body: dict[str, Any], field: str, application: Application, customer: Customer, browsers: Browsers
) -> None:
    sent = {"account_id": str(customer.account_id)} | body if body else {}
    answer = await ask(browsers(""), await token_of(application), **sent)
    assert field in refusal(answer, 400, "invalid_request")["details"]["fields"]


async def test_what_is_not_there_and_what_is_no_json(
    application: Application, customer: Customer, browsers: Browsers
) -> None:
    browser, id = browsers(""), str(customer.account_id)
    token = await token_of(application, OperatorRole.ADMIN)
    for body in ({"account_id": str(uuid4())}, {"account_id": "x"}):
        refusal(await ask(browser, token, **body), 404, "not_found")
    refusal(await ask(browser, token, account_id=id, email="nobody@example.com"), 404, "not_found")
    headers = {"Authorization": f"Bearer {token}"}
    refusal(await browser.http.post(PATH, data={"account_id": id}, headers=headers), 415, "invalid_request")
    json = headers | {"Content-Type": "application/json"}
    refusal(await browser.http.post(PATH, content=b"{", headers=json), 400, "invalid_request")
    refusal(await browser.http.post(PATH, content=b"x" * 70_000, headers=json), 413, "invalid_request")
    wrong_method = await browser.http.get(PATH, headers=headers)
    refusal(wrong_method, 405, "invalid_request")
    assert wrong_method.headers["Allow"] == "POST"


async def test_a_token_makes_so_many_requests_in_a_minute(
    application: Application, customer: Customer, browsers: Browsers
) -> None:
    browser, token = browsers(""), await token_of(application)
    admitted = 0
    # The minute may turn once meanwhile.
    while (answer := await ask(browser, token, account_id=str(uuid4()))).status_code == 404:
        admitted += 1
        assert admitted <= 2 * REQUESTS_PER_MINUTE
    refusal(answer, 429, "rate_limited")
    assert 1 <= int(answer.headers["Retry-After"]) <= 60
    assert admitted >= REQUESTS_PER_MINUTE
    other = await token_of(application)
    assert (await ask(browser, other, account_id=str(customer.account_id))).status_code == 201
