"""The console over HTTP: who gets in, what a role may do, and what becomes of an operator's changes."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from datetime import date, datetime, timedelta
from uuid import uuid4

import pytest
import structlog
from structlog.testing import capture_logs

from meetcore.adapters.web import web_app
from meetcore.adapters.web.console.routes import PAGES
from meetcore.composition.application import Application
from meetcore.domain.errors import ActionNotAllowed
from meetcore.domain.members.roles import OPERATORS_ALLOWED, OperatorAction, OperatorRole
from meetcore.domain.money.proposals import ProposalKind
from meetcore.usecases.members.sign_in_links import Browser as BrowserIdentity
from tests.support.api_harness import BASE_URL, ApiHarness, Customer
from tests.support.console_pages import (
    CUSTOMER_SESSION,
    SESSION,
    form_key,
    logged,
    logged_of,
    path_of,
    who_is,
)
from tests.support.texts import assert_contains
from tests.support.visitors import Visitors


@pytest.mark.parametrize("role", OperatorRole)
async def test_a_page_is_open_to_the_roles_of_its_action(role: OperatorRole, visitors: Visitors) -> None:
    browser = await visitors.operator(role)
    for page in PAGES:
        path = path_of(page, uuid4())
        sent = {"amount": "1", "reason": "a", "form_key": "b"}
        answer = await (browser.get(path) if page.method == "GET" else browser.post(path, **sent))
        is_open = page.action in OPERATORS_ALLOWED[role]
        assert (answer.status_code != 403) is is_open, f"{role} {page.method} {page.path}"
        if is_open and "{id}" in page.path:
            expected = 409 if "{meeting_id}" in page.path else 404
            assert answer.status_code == expected, f"{page.method} {page.path}"


@pytest.mark.parametrize("role", OperatorRole)
async def test_the_use_cases_check_the_role_themselves(
    role: OperatorRole, customer: Customer, visitors: Visitors
) -> None:
    browser = await visitors.operator(role)
    who = await who_is(customer.application, browser)
    use, id = customer.application.console, customer.account_id
    (host, *_) = await customer.application.administration.registry.list_hosts()
    move = use.accounts.move_credits
    calls: list[tuple[OperatorAction, Callable[[], Awaitable[object]]]] = [
        (OperatorAction.VIEW_ACCOUNTS, lambda: use.accounts.search(who, None, "")),
        (OperatorAction.VIEW_ACCOUNTS, lambda: use.accounts.find(who, None, id)),
        (OperatorAction.SUSPEND_ACCOUNTS, lambda: use.accounts.suspend(who, None, id, "a")),
        (OperatorAction.SUSPEND_ACCOUNTS, lambda: use.accounts.resume(who, None, id)),
        (OperatorAction.MOVE_CREDITS, lambda: move(who, None, id, ProposalKind.TOPUP, 1, "paid", "a")),
        (OperatorAction.MOVE_CREDITS, lambda: move(who, None, id, ProposalKind.ADJUSTMENT, 1, "a slip", "b")),
        (OperatorAction.VIEW_HOSTS, lambda: use.hosts.week(who, date(2026, 12, 1))),
        (OperatorAction.MANAGE_HOSTS, lambda: use.hosts.disable(who, None, host.id)),
        (OperatorAction.MANAGE_HOSTS, lambda: use.hosts.enable(who, None, host.id)),
        (OperatorAction.IMPERSONATE, lambda: use.impersonate.begin(who, id, BrowserIdentity())),
        (OperatorAction.VIEW_AUDIT, lambda: use.audit.list_entries(who, 1, None)),
    ]
    for action, call in calls:
        if action in OPERATORS_ALLOWED[role]:
            await call()
        else:
            with pytest.raises(ActionNotAllowed):
                await call()


async def test_sessions_of_customers_and_of_operators_open_nothing_of_each_other(
    customer: Customer, visitors: Visitors
) -> None:
    operators = await visitors.operator()
    link = await customer.application.access.portal_links.for_guest(customer.account_id)
    path, customers = link.url.removeprefix(BASE_URL), visitors.stranger("/dashboard")
    assert (await customers.post(path, page=path)).status_code == 303
    assert (await operators.get("/dashboard")).headers["location"].startswith("/dashboard/sign-in")
    assert (await customers.get("/console")).headers["location"].startswith("/console/sign-in")
    stranger = visitors.stranger("/console")
    stranger.http.cookies.set(SESSION, customers.http.cookies[CUSTOMER_SESSION], domain="meetcore.test")
    stranger.http.cookies.set(CUSTOMER_SESSION, operators.http.cookies[SESSION], domain="meetcore.test")
    assert (await stranger.get("/console/accounts")).status_code == 303
    assert (await stranger.get("/dashboard")).status_code == 303


async def test_a_link_opens_its_own_area_alone_and_once(customer: Customer, visitors: Visitors) -> None:
    operator = await customer.application.access.operators.add(
        f"{uuid4().hex}@example.com", OperatorRole.SUPPORT
    )
    links = customer.application.access.portal_links
    to_console = (await links.for_operator(operator.id)).url.removeprefix(BASE_URL)
    to_dashboard = (await links.for_guest(customer.account_id)).url.removeprefix(BASE_URL)
    browser = visitors.stranger()
    for path in (to_console, to_dashboard):
        other = (
            path.replace("/console/", "/x/").replace("/dashboard/", "/console/").replace("/x/", "/dashboard/")
        )
        assert (await browser.post(other, page=other)).status_code == 410
        assert (await browser.post(path, page=path)).status_code == 303
        assert (await browser.post(path, page=path)).status_code == 410


async def test_an_operator_who_was_removed_or_signed_out_is_out(
    application: Application, visitors: Visitors
) -> None:
    browser, removed = await visitors.operator(), await visitors.operator()
    token = browser.http.cookies[SESSION]
    assert (await browser.post("/console/sign-out")).headers["location"] == "/console/sign-in"
    browser.http.cookies.set(SESSION, token, domain="meetcore.test")
    assert (await browser.get("/console/accounts")).status_code == 303
    who = await who_is(application, removed)
    await application.access.operators.remove(who.operator.id)
    assert (await removed.get("/console/accounts")).status_code == 303


async def test_suspending_an_account_stops_its_keys_and_is_logged(
    customer: Customer, visitors: Visitors, harness: ApiHarness
) -> None:
    browser = await visitors.operator()
    path = f"/console/accounts/{customer.account_id}"
    assert (await browser.post(f"{path}/suspend", reason=" ", confirmed="yes")).status_code == 422
    assert (await customer.get("/me")).status_code == 200
    asked = await browser.post(f"{path}/suspend", reason="Unpaid <bills>")
    assert_contains(asked.text, "Suspend ", "Unpaid &lt;bills&gt;", 'name="confirmed"')
    assert (await customer.get("/me")).status_code == 200
    sent = await browser.post(f"{path}/suspend", reason="Unpaid <bills>", confirmed="yes")
    assert sent.headers["location"] == f"{path}?done=account_suspended"
    assert (await customer.get("/me")).status_code == 401
    assert "Unpaid &lt;bills&gt;" in (await browser.get(path)).text
    assert "suspended" in (await browser.get(path)).text
    await browser.post(f"{path}/resume")
    assert (await customer.get("/me")).status_code == 200
    for action in ("account.suspended", "account.resumed"):
        entry = await logged_of(customer, action)
        assert [each["actor_kind"] for each in entry] == ["operator"]


async def test_a_change_by_an_operator_is_one_line(
    customer: Customer, visitors: Visitors, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The fixture of the service lets errors through only.
    all_levels = structlog.make_filtering_bound_logger(logging.INFO)
    log = structlog.wrap_logger(structlog.PrintLogger(), wrapper_class=all_levels)
    monkeypatch.setattr(web_app, "log", log)
    browser = await visitors.operator(OperatorRole.ADMIN)
    path = f"/console/accounts/{customer.account_id}/suspend"
    with capture_logs() as lines:
        await browser.post(path, reason="a", confirmed="yes")
        await browser.get(f"/console/accounts/{customer.account_id}")
        await browser.post(f"/console/accounts/{uuid4()}/suspend", reason="a", confirmed="yes")
    [line] = [each for each in lines if each["event"] == "operator action"]
    assert (line["action"], line["path"]) == (OperatorAction.SUSPEND_ACCOUNTS.value, path)
    assert line["operator"]


@pytest.mark.parametrize(
    ("kind", "action"), [("top-up", "credits.topped_up"), ("adjust", "credits.adjusted")]
)
async def test_the_same_form_moves_credits_once(
    kind: str, action: str, customer: Customer, visitors: Visitors, harness: ApiHarness
) -> None:
    browser = await visitors.operator(OperatorRole.FINANCE)
    path = f"/console/accounts/{customer.account_id}/{kind}"
    sent = {
        "amount": "250",
        "reason": "<b>a slip</b>",
        "form_key": await form_key(browser, customer.account_id),
    }
    for _ in range(2):
        assert (await browser.post(path, **sent)).status_code == 303
    assert await customer.balance() == 1250
    assert (await browser.post(path, **sent | {"amount": "5"})).status_code == 422
    assert await customer.balance() == 1250
    with_reference = sent | {"reference": f"INV-{kind}"}
    for _ in range(2):
        key = await form_key(browser, customer.account_id)
        assert (await browser.post(path, **with_reference | {"form_key": key})).status_code == 303
    assert await customer.balance() == 1500
    entries = await logged_of(customer, action)
    own = [each for each in entries if each["actor_kind"] == "operator"]
    assert len(own) == 2
    assert all("a slip" in str(each["details"]) for each in own)
    # Other tests leave entries of later instants, which would fill the first page.
    page = await browser.get(f"/console/audit?before={own[-1]['id']}")
    assert_contains(page.text, "&lt;b&gt;a slip", absent=("<b>a slip",))


async def test_a_wrong_field_is_named_and_nothing_moves(customer: Customer, visitors: Visitors) -> None:
    browser = await visitors.operator()
    for kind, wrong in (
        ("top-up", {"amount": "0"}), ("top-up", {"amount": "-5"}), ("top-up", {"amount": "1.5"}),
        ("top-up", {"amount": "1.500"}), ("adjust", {"amount": "-1.5"}),
        ("top-up", {"amount": "9" * 16}), ("top-up", {"reason": " "}), ("top-up", {"reference": "a" * 201}),
        ("top-up", {"reference": "a\0b"}), ("top-up", {"form_key": ""}), ("adjust", {"amount": "0"}),
        ("adjust", {"amount": "-1001"}), ("adjust", {"reason": "a" * 201}),
    ):  # fmt: skip
        fields = {"amount": "5", "reason": "a slip", "form_key": str(uuid4())} | wrong
        answer = await browser.post(f"/console/accounts/{customer.account_id}/{kind}", **fields)
        assert answer.status_code == 422, wrong
        assert "There is a problem" in answer.text, wrong
        assert await customer.balance() == 1000, wrong


async def test_a_host_is_disabled_and_enabled_again(
    application: Application, visitors: Visitors, harness: ApiHarness
) -> None:
    browser = await visitors.operator()
    host = await application.administration.hosts.add(f"host-{uuid4().hex}", 7)
    for change, is_active in (("disable", False), ("enable", True)):
        answer = await browser.post(f"/console/hosts/{host.id}/{change}", confirmed="yes")
        assert answer.headers["location"] == f"/console/hosts?done=host_{change}d"
        hosts = await application.administration.registry.list_hosts()
        assert [each.is_active for each in hosts if each.id == host.id] == [is_active]
        assert host.provider_user_id in (await browser.get("/console/hosts")).text
        assert "operator" in {entry["actor_kind"] for entry in await logged(harness, f"host.{change}d")}
    await application.administration.hosts.disable(host.id)


async def test_a_host_is_shown_with_its_week(customer: Customer, visitors: Visitors) -> None:
    meeting = await customer.make_meeting(title="<b>In the week</b>")
    start = datetime.fromisoformat(meeting["start_at_wib"])
    browser = await visitors.operator(OperatorRole.SUPPORT)
    page = (await browser.get(f"/console/hosts?week={start.date()}")).text
    assert_contains(page, f"{start:%H:%M}\N{EN DASH}", "&lt;b&gt;In the week", absent=("<b>In the week",))
    cell = page.partition("&lt;b&gt;In the week")[2].partition("</td>")[0]
    assert f'<a href="/console/accounts/{customer.account_id}">Sari Dewi</a>' in cell, (
        "the link says whose it is"
    )
    monday = start.date() - timedelta(days=start.weekday())
    later = (await browser.get(f"/console/hosts?week={monday + timedelta(days=7)}")).text
    assert_contains(later, f'href="/console/hosts?week={monday}">Week before<', absent=("In the week",))
    present = (await browser.get("/console/hosts")).text
    assert_contains(present, "until it has ended: past weeks are empty", absent=("Week before",))
    for text in ("x", "9999-12-31", "0001-01-01"):
        assert (await browser.get(f"/console/hosts?week={text}")).status_code == 200


async def test_the_console_speaks_indonesian(customer: Customer, visitors: Visitors) -> None:
    browser = await visitors.operator()
    browser.http.headers["Accept-Language"] = "id"
    payment = (await customer.post("/credits/topups", {"package_id": "credits-500"})).json()
    for page in PAGES:
        if page.method == "GET" and page.path != "/console" and not page.path.endswith(".csv"):
            id = payment["id"] if "/payments/" in page.path else customer.account_id
            text = (await browser.get(path_of(page, id))).text
            assert_contains(text, '<html lang="id">', "Log audit")
    assert "Sesuaikan saldo" in (await browser.get(f"/console/accounts/{customer.account_id}")).text
