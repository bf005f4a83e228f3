"""Every link and form of every page, as each role sees it: none leads to a refusal."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from html.parser import HTMLParser
from urllib.parse import parse_qs, urljoin, urlsplit

import pytest
from attrs import define, field
from starlette.routing import Match, Route

from meetcore.adapters.web.console.routes import PAGES as CONSOLE_PAGES
from meetcore.adapters.web.routes import PAGES
from meetcore.app import Service
from meetcore.domain.members.roles import OPERATORS_ALLOWED, OperatorRole, Role, is_allowed
from meetcore.usecases.requests.grants import CONSENT_PAGE
from tests.http.test_web_security import ids_of
from tests.support.api_harness import ALL_SCOPES, BASE_URL, ApiHarness, Customer
from tests.support.pages import Browser
from tests.support.paid_payments import a_paid_payment
from tests.support.past_credits import last_month, move_credits
from tests.support.visitors import Visitors, root_of

SEEN_OF_A_KIND = 3
"""How often links are followed that differ in the values of their query alone, as those to the next week."""
OF_EVERYONE = re.compile(r"/(dashboard|console)/(sign-out|language)")


class _Reader(HTMLParser):
    """Collects the links and the forms of a page: method and address."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, str]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "a" and values.get("href"):
            self.found.append(("GET", str(values["href"])))
        elif tag == "form":
            self.found.append((str(values.get("method", "get")).upper(), str(values["action"])))


@define
class Crawl:
    """What a browser has found from the pages it began with."""

    browser: Browser
    opened: set[str] = field(factory=set)
    forms: set[str] = field(factory=set)
    refused: list[str] = field(factory=list)
    _kinds: Counter[tuple[str, ...]] = field(factory=Counter)

    async def follow(self, *begin: str) -> None:
        """Open pages and what they link to, until nothing is new."""
        waiting = [(path, "") for path in begin]
        while waiting:
            path, by = waiting.pop()
            if path in self.opened or not self._is_new_kind(path):
                continue
            self.opened.add(path)
            answer = await self.browser.get(path)
            if answer.is_redirect and answer.headers["location"].startswith("/"):
                waiting.append((answer.headers["location"], path))
            elif not answer.is_success:
                self.refused.append(f"{answer.status_code} {path} on {by}")
            elif path.startswith(("/dashboard", "/console")) and "html" in answer.headers["content-type"]:
                waiting += [(each, path) for each in self._read(path, answer.text)]

    def _is_new_kind(self, path: str) -> bool:
        names = sorted(parse_qs(urlsplit(path).query))
        if not names:
            return True
        kind = (urlsplit(path).path, *names)
        self._kinds[kind] += 1
        return self._kinds[kind] <= SEEN_OF_A_KIND

    def _read(self, path: str, page: str) -> list[str]:
        """Note the forms of a page; return the addresses of its links here, without fragments."""
        links = []
        for method, address in _Reader(page).found:
            target = urlsplit(urljoin(f"{BASE_URL}{path}", address))
            if f"{target.scheme}://{target.netloc}" != BASE_URL:
                continue
            if method == "GET":
                links.append(target._replace(scheme="", netloc="", fragment="").geturl())
            else:
                self.forms.add(target.path)
        return links


@pytest.fixture(scope="module")
async def account(harness: ApiHarness, service: Service) -> Customer:
    """An account with something of each kind, and credits since the last month, which no crawl changes."""
    visitors = Visitors(service, harness.application)
    customer, application = await harness.customer(credits=0, scopes=ALL_SCOPES), harness.application
    await move_credits(application, customer.account_id, last_month(application).begins_at, 1000)
    browser = await visitors.member(customer.account_id)
    await ids_of(customer, browser)
    await browser.http.aclose()
    await a_paid_payment(customer)
    cancelled = await customer.make_meeting()
    assert (await customer.delete(f"/meetings/{cancelled['id']}")).status_code == 200
    return customer


def _forbidden(forms: set[str], routes: Sequence[tuple[Route, bool]]) -> set[str]:
    """Return the forms that the role of `routes` may not send."""

    def is_open(path: str) -> bool:
        scope = {"type": "http", "method": "POST", "path": path, "root_path": ""}
        return next((may for route, may in routes if route.matches(scope)[0] is Match.FULL), False)

    return {path for path in forms if not OF_EVERYONE.fullmatch(path) and not is_open(path)}


async def _nowhere(*_: object) -> None:
    """Stand for the endpoint of a route that is only matched."""


@pytest.mark.parametrize("role", Role)
async def test_a_member_is_led_to_nothing_that_is_refused(
    role: Role, account: Customer, visitors: Visitors
) -> None:
    browser = await visitors.member(account.account_id)
    changed = "UPDATE memberships SET role = %s WHERE account_id = %s RETURNING role"
    assert await account.query(changed, role.value, account.account_id)
    crawl = Crawl(browser)
    await crawl.follow("/dashboard")
    assert crawl.refused == []
    routes = [
        (Route(page.path, _nowhere, methods=[page.method]), is_allowed(role, page.action)) for page in PAGES
    ]
    assert _forbidden(crawl.forms, routes) == set()
    reached = {route.path for path in crawl.opened for route, _ in routes if _is_at(route, path)}
    open_pages = {page.path for page in PAGES if page.method == "GET" and is_allowed(role, page.action)}
    assert reached >= open_pages - {f"{CONSENT_PAGE}/{{id}}"}, "a program's authorization leads to consent"


def _is_at(route: Route, path: str) -> bool:
    return "GET" in (route.methods or ()) and route.path_regex.match(urlsplit(path).path) is not None


@pytest.mark.parametrize("role", OperatorRole)
async def test_an_operator_is_led_to_nothing_that_is_refused(
    role: OperatorRole, account: Customer, visitors: Visitors
) -> None:
    crawl = Crawl(await visitors.operator(role))
    await crawl.follow("/console", f"/console/accounts/{account.account_id}")
    assert [each for each in crawl.refused if root_of(each.split()[1]) == "/console"] == []
    allowed = OPERATORS_ALLOWED[role]
    routes = [
        (Route(page.path, _nowhere, methods=[page.method]), page.action in allowed) for page in CONSOLE_PAGES
    ]
    assert _forbidden(crawl.forms, routes) == set()
    reached = {route.path for path in crawl.opened for route, _ in routes if _is_at(route, path)}
    assert reached >= {page.path for page in CONSOLE_PAGES if page.method == "GET" and page.action in allowed}
