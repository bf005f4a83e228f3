"""The console over HTTP: who gets in, what a role may do, and what becomes of an operator's changes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import httpx
import pytest

from meetcore.adapters.web.console.page import ConsolePage
from meetcore.adapters.web.console.routes import PAGES
from meetcore.app import Service
from meetcore.composition.application import Application
from meetcore.domain.errors import ActionNotAllowed
from meetcore.domain.members.roles import OPERATORS_ALLOWED, OperatorAction, OperatorRole
from tests.support.api_harness import BASE_URL, ApiHarness, Customer
from tests.support.pages import FORM_KEY, TOKEN, Browser

SESSION = "__Host-meetcore-console"
CUSTOMER_SESSION = "__Host-meetcore"

SignIn = Callable[..., Awaitable[Browser]]


@pytest.fixture
async def browsers(service: Service) -> AsyncIterator[Callable[[str], Browser]]:
    opened: list[httpx.AsyncClient] = []

    def browser(home: str = "/console/audit") -> Browser:
        opened.append(httpx.AsyncClient(transport=httpx.ASGITransport(service), base_url=BASE_URL))
        return Browser(opened[-1], home)

    yield browser
    for each in opened:
        await each.aclose()


@pytest.fixture
def sign_in(application: Application, browsers: Callable[[], Browser]) -> SignIn:
    async def signed_in(role: OperatorRole = OperatorRole.ADMIN) -> Browser:
        """A new browser with a session of a new operator of a role."""
        operator = await application.access.operators.add(f"{uuid4().hex}@example.com", role)
        path = (await application.access.portal_links.for_operator(operator.id)).url.removeprefix(BASE_URL)
        browser = browsers()
        entered = await browser.post(path, page=path)
        assert entered.status_code == 303, entered.text
        return browser

    return signed_in


def path_of(page: ConsolePage, id: object) -> str:
    return page.path.replace("{id}", str(id))


async def form_key(browser: Browser, account_id: UUID) -> str:
    found = FORM_KEY.search((await browser.get(f"/console/accounts/{account_id}")).text)
    assert found is not None
    return found[1]


async def logged(harness: ApiHarness, action: str) -> list[dict[str, object]]:
    return await harness.query(
        "SELECT account_id, actor_kind, actor_name, details FROM audit_log WHERE action = %s ORDER BY id",
        action,
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.method} {page.path}")
async def test_without_a_session_every_page_leads_to_the_sign_in(
    page: ConsolePage, browsers: Callable[[], Browser]
) -> None:
    answer = await browsers().http.request(page.method, path_of(page, uuid4()), headers={"Origin": BASE_URL})
    assert answer.status_code == 303
    assert answer.headers["location"].startswith("/console/sign-in?next=/console")


@pytest.mark.parametrize("role", OperatorRole)
async def test_a_page_is_open_to_the_roles_of_its_action(role: OperatorRole, sign_in: SignIn) -> None:
    browser = await sign_in(role)
    for page in PAGES:
        path = path_of(page, uuid4())
        sent = {"amount": "1", "reason": "a", "form_key": "b"}
        answer = await (browser.get(path) if page.method == "GET" else browser.post(path, **sent))
        is_open = page.action in OPERATORS_ALLOWED[role]
        assert (answer.status_code != 403) is is_open, f"{role} {page.method} {page.path}"
        if is_open and "{id}" in page.path:
            assert answer.status_code == 404, f"{page.method} {page.path}"


@pytest.mark.parametrize("role", OperatorRole)
async def test_the_use_cases_check_the_role_themselves(
    role: OperatorRole, application: Application, customer: Customer, sign_in: SignIn, harness: ApiHarness
) -> None:
    browser = await sign_in(role)
    who = await application.console.sessions.find_operator(browser.http.cookies[SESSION])
    assert who is not None
    use, id = application.console, customer.account_id
    (host, *_) = await application.administration.registry.list_hosts()
    calls: list[tuple[OperatorAction, Callable[[], Awaitable[object]]]] = [
        (OperatorAction.VIEW_ACCOUNTS, lambda: use.accounts.search(who, "")),
        (OperatorAction.VIEW_ACCOUNTS, lambda: use.accounts.find(who, id)),
        (OperatorAction.SUSPEND_ACCOUNTS, lambda: use.accounts.suspend(who, None, id)),
        (OperatorAction.SUSPEND_ACCOUNTS, lambda: use.accounts.resume(who, None, id)),
        (OperatorAction.MOVE_CREDITS, lambda: use.accounts.top_up(who, None, id, 1, "paid", "a")),
        (OperatorAction.MOVE_CREDITS, lambda: use.accounts.adjust(who, None, id, 1, "a slip", "b")),
        (OperatorAction.VIEW_HOSTS, lambda: use.hosts.list_hosts(who)),
        (OperatorAction.MANAGE_HOSTS, lambda: use.hosts.disable(who, None, host.id)),
        (OperatorAction.MANAGE_HOSTS, lambda: use.hosts.enable(who, None, host.id)),
        (OperatorAction.VIEW_AUDIT, lambda: use.audit.list_entries(who, 1, None)),
    ]
    for action, call in calls:
        if action in OPERATORS_ALLOWED[role]:
            await call()
        else:
            with pytest.raises(ActionNotAllowed):
                await call()


async def test_sessions_of_customers_and_of_operators_open_nothing_of_each_other(
    application: Application, customer: Customer, sign_in: SignIn, browsers: Callable[[str], Browser]
) -> None:
    operators = await sign_in()
    link = await application.access.portal_links.for_guest(customer.account_id)
    path, customers = link.url.removeprefix(BASE_URL), browsers("/dashboard")
    assert (await customers.post(path, page=path)).status_code == 303
    assert (await operators.get("/dashboard")).headers["location"].startswith("/dashboard/sign-in")
    assert (await customers.get("/console")).headers["location"].startswith("/console/sign-in")
    stranger = browsers("/console")
    stranger.http.cookies.set(SESSION, customers.http.cookies[CUSTOMER_SESSION], domain="meetcore.test")
    stranger.http.cookies.set(CUSTOMER_SESSION, operators.http.cookies[SESSION], domain="meetcore.test")
    assert (await stranger.get("/console/accounts")).status_code == 303
    assert (await stranger.get("/dashboard")).status_code == 303


async def test_a_link_opens_its_own_area_alone_and_once(
    application: Application, customer: Customer, browsers: Callable[[], Browser]
) -> None:
    operator = await application.access.operators.add(f"{uuid4().hex}@example.com", OperatorRole.SUPPORT)
    links = application.access.portal_links
    to_console = (await links.for_operator(operator.id)).url.removeprefix(BASE_URL)
    to_dashboard = (await links.for_guest(customer.account_id)).url.removeprefix(BASE_URL)
    browser = browsers()
    for path in (to_console, to_dashboard):
        other = (
            path.replace("/console/", "/x/").replace("/dashboard/", "/console/").replace("/x/", "/dashboard/")
        )
        assert (await browser.post(other, page=other)).status_code == 410
        assert (await browser.post(path, page=path)).status_code == 303
        assert (await browser.post(path, page=path)).status_code == 410


async def test_an_operator_who_was_removed_or_signed_out_is_out(
    application: Application, sign_in: SignIn
) -> None:
    browser, removed = await sign_in(), await sign_in()
    token = browser.http.cookies[SESSION]
    assert (await browser.post("/console/sign-out")).headers["location"] == "/console/sign-in"
    browser.http.cookies.set(SESSION, token, domain="meetcore.test")
    assert (await browser.get("/console/accounts")).status_code == 303
    who = await application.console.sessions.find_operator(removed.http.cookies[SESSION])
    assert who is not None
    await application.access.operators.remove(who.operator.id)
    assert (await removed.get("/console/accounts")).status_code == 303


@pytest.mark.parametrize(
    ("headers", "token"),
    [
        ({"Origin": BASE_URL}, "wrong"),
        ({"Origin": "https://evil.example"}, "right"),
        ({"Origin": BASE_URL, "Sec-Fetch-Site": "cross-site"}, "right"),
        ({}, "right"),
    ],
)
async def test_a_form_of_another_site_changes_nothing(
    headers: dict[str, str], token: str, customer: Customer, sign_in: SignIn
) -> None:
    browser = await sign_in()
    right = TOKEN.search((await browser.get("/console/audit")).text)
    assert right is not None
    sent = {
        "form_token": right[1] if token == "right" else token,
        "amount": "7",
        "reason": "a",
        "form_key": "b",
    }
    for change in ("suspend", "top-up", "adjust"):
        path = f"/console/accounts/{customer.account_id}/{change}"
        assert (await browser.http.post(path, data=sent, headers=headers)).status_code == 403
    assert await customer.balance() == 1000


async def test_suspending_an_account_stops_its_keys_and_is_logged(
    customer: Customer, sign_in: SignIn, harness: ApiHarness
) -> None:
    browser = await sign_in()
    path = f"/console/accounts/{customer.account_id}"
    assert (await browser.post(f"{path}/suspend")).headers["location"] == f"{path}?done=account_suspended"
    assert (await customer.get("/me")).status_code == 401
    assert "suspended" in (await browser.get(path)).text
    await browser.post(f"{path}/resume")
    assert (await customer.get("/me")).status_code == 200
    for action in ("account.suspended", "account.resumed"):
        entry = [each for each in await logged(harness, action) if each["account_id"] == customer.account_id]
        assert [each["actor_kind"] for each in entry] == ["operator"]


@pytest.mark.parametrize(
    ("kind", "action"), [("top-up", "credits.topped_up"), ("adjust", "credits.adjusted")]
)
async def test_the_same_form_moves_credits_once(
    kind: str, action: str, customer: Customer, sign_in: SignIn, harness: ApiHarness
) -> None:
    browser = await sign_in(OperatorRole.FINANCE)
    path = f"/console/accounts/{customer.account_id}/{kind}"
    sent = {
        "amount": "250",
        "reason": "<b>a slip</b>",
        "form_key": await form_key(browser, customer.account_id),
    }
    for _ in range(2):
        assert (await browser.post(path, **sent)).status_code == 303
    assert await customer.balance() == 1250
    another_amount = await browser.post(path, **sent | {"amount": "5"})
    assert another_amount.status_code == 422
    assert await customer.balance() == 1250
    with_reference = sent | {"reference": f"INV-{kind}"}
    for _ in range(2):
        key = await form_key(browser, customer.account_id)
        assert (await browser.post(path, **with_reference | {"form_key": key})).status_code == 303
    assert await customer.balance() == 1500
    entries = [each for each in await logged(harness, action) if each["account_id"] == customer.account_id]
    own = [each for each in entries if each["actor_kind"] == "operator"]
    assert len(own) == 2
    assert all("a slip" in str(each["details"]) for each in own)
    page = await browser.get("/console/audit")
    assert "&lt;b&gt;a slip" in page.text
    assert "<b>a slip" not in page.text


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        ("top-up", {"amount": "0"}),
        ("top-up", {"amount": "-5"}),
        ("top-up", {"amount": "1.5"}),
        ("top-up", {"amount": "9" * 16}),
        ("top-up", {"reason": " "}),
        ("top-up", {"reference": "a" * 201}),
        ("top-up", {"reference": "a\0b"}),
        ("top-up", {"form_key": ""}),
        ("adjust", {"amount": "0"}),
        ("adjust", {"amount": "-1001"}),
        ("adjust", {"reason": "a" * 201}),
    ],
)
async def test_a_wrong_field_is_named_and_nothing_moves(
    kind: str, wrong: dict[str, str], customer: Customer, sign_in: SignIn
) -> None:
    browser = await sign_in()
    fields = {"amount": "5", "reason": "a slip", "form_key": str(uuid4())} | wrong
    answer = await browser.post(f"/console/accounts/{customer.account_id}/{kind}", **fields)
    assert answer.status_code == 422
    assert "There is a problem" in answer.text
    assert await customer.balance() == 1000


async def test_money_asks_for_a_sign_in_of_the_last_minutes(
    customer: Customer, sign_in: SignIn, harness: ApiHarness, application: Application
) -> None:
    browser = await sign_in()
    who = await application.console.sessions.find_operator(browser.http.cookies[SESSION])
    assert who is not None
    long_ago = datetime.now(UTC) - timedelta(minutes=16)
    await harness.query(
        "UPDATE operator_sessions SET authenticated_at = %s WHERE id = %s RETURNING id",
        long_ago,
        who.session.id,
    )
    account = f"/console/accounts/{customer.account_id}"
    browser.http.headers["Referer"] = f"{BASE_URL}{account}?done=credits_moved"
    for change in ("top-up", "adjust", "suspend", "resume"):
        answer = await browser.post(f"{account}/{change}", amount="5", reason="a", form_key="b")
        assert answer.headers["location"] == f"/console/sign-in?next={account}&reason=fresh"
    assert await customer.balance() == 1000
    assert (await browser.get(account)).status_code == 200


async def test_accounts_are_found_by_email_and_by_id(
    application: Application, customer: Customer, sign_in: SignIn
) -> None:
    browser = await sign_in(OperatorRole.SUPPORT)
    account = await application.administration.registry.find_account(customer.account_id)
    link = f'href="/console/accounts/{account.id}"'
    for text in (account.email.upper(), str(account.id)):
        found = await browser.http.get("/console/accounts", params={"q": text})
        assert found.text.count("/console/accounts/0") == 1
        assert link in found.text
    for text in (str(uuid4()), "nobody@example.com", "a\0b", "x" * 300):
        answer = await browser.http.get("/console/accounts", params={"q": text})
        assert answer.status_code == 200
        assert link not in answer.text
    assert link in (await browser.get("/console/accounts")).text


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


async def test_a_host_is_disabled_and_enabled_again(
    application: Application, sign_in: SignIn, harness: ApiHarness
) -> None:
    browser = await sign_in()
    host = await application.administration.add_host(f"host-{uuid4().hex}", 7)
    for change, is_active in (("disable", False), ("enable", True)):
        answer = await browser.post(f"/console/hosts/{host.id}/{change}")
        assert answer.headers["location"] == f"/console/hosts?done=host_{change}d"
        hosts = await application.administration.registry.list_hosts()
        assert [each.is_active for each in hosts if each.id == host.id] == [is_active]
        assert host.provider_user_id in (await browser.get("/console/hosts")).text
        assert "operator" in {entry["actor_kind"] for entry in await logged(harness, f"host.{change}d")}
    await application.administration.disable_host(host.id)


async def test_the_console_speaks_indonesian(customer: Customer, sign_in: SignIn) -> None:
    browser = await sign_in()
    browser.http.headers["Accept-Language"] = "id"
    for page in PAGES:
        if page.method == "GET" and page.path != "/console":
            text = (await browser.get(path_of(page, customer.account_id))).text
            assert '<html lang="id">' in text
            assert "Log audit" in text
    assert "Sesuaikan saldo" in (await browser.get(f"/console/accounts/{customer.account_id}")).text
