"""Every page of the service in a browser: widths, themes, languages, accessibility.

The pages come from the routes. A new page with an id in its path needs that id in `FilledAccount.ids`, under
the preceding part of the path (`/reports/{id}` takes `ids["reports"]`). A new page without sign-in is added
to `SIGNED_OUT`, one outside of dashboard and console to `DOCS`, `SANDBOX` or `INBOX`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime, timedelta
from importlib import resources
from statistics import median
from typing import Literal

import pytest
from attrs import field, frozen
from playwright.sync_api import Browser, Page, StorageState, expect
from playwright.sync_api import Route as RequestRoute
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.testclient import TestClient

from meetcore.adapters.http.docs import PAGES as DOCS_PAGES
from meetcore.adapters.web.console.routes import PAGES as CONSOLE_PAGES
from meetcore.adapters.web.routes import PAGES
from meetcore.app import Service
from meetcore.domain.meetings.schedule import WIB
from tests.e2e.filled_account import FilledAccount, fill
from tests.e2e.receiver import Receiver, receiving
from tests.support.api_harness import settings_for, started
from tests.support.chromium import Window, chromium, enter, window
from tests.support.filled_inbox import MAIL_ID, filled_inbox
from tests.support.mail_server import mail_server_in_thread
from tests.support.program import Site, run_apart
from tests.support.visitors import BY_TOKEN

PHONE, SMALLEST, DESKTOP = 390, 320, 1400
ADDRESS_PX = 250
"""The least width of a column of addresses, of about thirty characters."""
FILES = (".csv", ".ics", ".md", ".pdf", ".zip", ".json")
"""Path endings of downloads."""

SIGNED_OUT = (
    "/", "/dashboard/sign-in", "/dashboard/sign-in?reason=fresh", "/dashboard/sign-in/{token}",
    "/dashboard/sign-up", "/dashboard/sign-up/{token}",
    "/console/sign-in", "/console/sign-in/{token}",
)  # fmt: skip
METADATA = (("authorization", "server"), ("protected", "resource"))
NO_PAGES = (
    *(f"/{area}/sign-in/oidc{end}" for area in ("dashboard", "console") for end in ("", "/callback")),
    *(f"/.well-known/oauth-{of}-{what}{end}" for of, what in METADATA for end in ("", "/mcp")),
    "/oauth/authorize", "/healthz", "/readyz", "/downloads/recordings/{recording_id}", *BY_TOKEN,
)  # fmt: skip
"""Routes to and from an OpenID provider, and those for programs."""
VIEWS = ("/dashboard/meetings?view=week",)
"""Pages of a route that look different with a query."""
NOT_THERE = (
    "/dashboard/meetings/nothing", "/console/accounts/nothing", "/dashboard/no/page", "/console/no/page",
)  # fmt: skip
DOCS = (
    "/docs", "/docs/api/create_meeting", "/docs/api/list_events", "/docs/api/on_note_completed",
    "/docs/errors", "/docs/errors/insufficient_credits", *(f"/docs/{name}" for name in DOCS_PAGES),
)  # fmt: skip
"""Pages of the documentation, which are in English."""
SANDBOX = ("/sandbox/meetings/{meeting_id}", "/sandbox/payments/{payment_id}")
"""Pages of the sandbox, in English too: `FilledAccount.sandbox` has their links."""
INBOX = ("/inbox", "/inbox/mails", f"/inbox/mails/{MAIL_ID}")
"""Pages of `meetcore dev`, in English too; a test client answers for this service, which has none."""
ASSETS = "/dashboard/assets/{digest}/{name}"

AXE = resources.files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")
AXE_OPTIONS = {
    "runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]},
    "rules": {"label-content-name-mismatch": {"enabled": True}},  # of A, but not among its default rules
    "resultTypes": ["violations"],
}
OF_COLOURS = {"runOnly": {"type": "rule", "values": ["color-contrast"]}, "resultTypes": ["violations"]}
VIOLATIONS = """async options => (await axe.run(options)).violations
    .flatMap(({id, nodes}) => nodes.map(each => `${id}: ${each.html} ${each.failureSummary}`))"""
IS_DARK = "matchMedia('(prefers-color-scheme: dark)').matches"
OPEN_ALL = "document.querySelectorAll('details').forEach(each => each.open = true)"
SUBMIT = "form => { form.noValidate = true; form.requestSubmit() }"
AT_ERROR = "[aria-invalid]:focus, fieldset:has(> .error) :focus"
SCROLLS = """() => {
    const width = document.documentElement.clientWidth
    if (document.documentElement.scrollWidth <= width) return []
    const isOut = each => each.getBoundingClientRect().right > width + 1 && !each.closest('nav, .wide, pre')
    const found = [...document.querySelectorAll('body *')].filter(isOut)
    return ['the page scrolls sideways', ...found.map(each => each.outerHTML.slice(0, 120))]
}"""


MAX_PAGE_BYTES = 100_000
LOADED = """() => ['navigation', 'resource'].flatMap(kind => performance.getEntriesByType(kind))
    .filter(each => !['img', 'audio', 'video'].includes(each.initiatorType))
    .reduce((sum, each) => sum + each.encodedBodySize, 0)"""


def signed_in_paths() -> list[str]:
    listed = [(page.method, page.path) for page in PAGES]
    listed += [(page.method, page.path) for page in CONSOLE_PAGES]
    return [path for method, path in listed if method == "GET" and not path.endswith(FILES)]


@frozen
class Form:
    """A form of a page, found by the end of its action, and what is written into it."""

    page: str
    action: str
    fields: Mapping[str, str] = field(factory=dict)

    def __str__(self) -> str:
        return f"{self.page} {self.action}"

    def send(self, seen: Window, account: FilledAccount) -> int:
        """Open the page, fill the form in and send it as a browser that checks nothing; return the status."""
        assert seen.open(path_of(self.page, account)) == 200
        seen.page.evaluate(OPEN_ALL)
        form = seen.page.locator(f"main form[method=post][action$='{self.action}']").last
        for name, text in self.fields.items():
            control = form.locator(f"[name='{name}']")
            if control.get_attribute("type") == "checkbox":
                control.set_checked(text == "on")
            else:
                control.fill(text)
        seen.clear()
        with seen.page.expect_navigation() as navigation:
            form.evaluate(SUBMIT)
        answer = navigation.value
        assert answer is not None
        return answer.status


NEXT_WEEK = f"{datetime.now(WIB) + timedelta(days=7):%Y-%m-%d}"
REFUSED = (
    Form("/dashboard/keys/new", "/keys"),
    Form("/dashboard/keys", "/cap", {"daily_cap": "many"}),
    Form("/dashboard/webhooks/new", "/webhooks", {"url": "http://a"}),
    Form("/dashboard/webhooks/{id}/edit", "/edit", {"kind:meeting.created": ""}),
    Form("/dashboard/webhooks/{id}", "/recover", {"since": ""}),
    Form("/dashboard/notes/{id}/edit", "/edit", {"summary": ""}),
    Form("/dashboard/credits", "/billing", {"name": ""}),
    Form("/dashboard/team", "/invitations", {"email": "no-address"}),
    Form("/dashboard/settings", "/threshold", {"low_threshold": "few"}),
    Form("/dashboard/settings", "/erase", {"account_id": "no"}),
    Form("/console/accounts/{id}", "/top-up", {"amount": "many"}),
    Form("/console/accounts/{id}", "/adjust", {"amount": "0"}),
    Form("/console/accounts/{id}", "/suspend"),
    Form("/console/payments/{id}", "/dismiss"),
)
"""Forms with errors, beside that of a new meeting; every other one is seen in Indonesian."""
SENT = (
    Form("/dashboard/keys/new", "/keys", {"name": "Kasir", "scope:meetings:read": "on"}),
    Form("/dashboard/meetings/new", "/meetings", {"title": "a", "date": NEXT_WEEK, "start_time": "09:00"}),
    Form("/dashboard/webhooks/{id}", "/secret"),
    Form("/dashboard/playground/{operation}", "/key"),
    Form("/dashboard/sign-in", "/sign-in", {"email": "dewi@example.com"}),
    Form("/dashboard/sign-up", "/sign-up", {"email": "dewi@example.com", "full_name": "Dewi"}),
    Form("/console/sign-in", "/sign-in", {"email": "dewi@example.com"}),
)
"""Forms whose answer is a page: a new key, a price, a secret, an answer of the API, a link that is mailed."""


@frozen
class Pages:
    """A filled account, and windows by language: the English one is light, the Indonesian one dark.

    `members` are signed in to both areas, `strangers` to none.
    """

    account: FilledAccount
    members: Sequence[tuple[str, Window]]
    strangers: Sequence[tuple[str, Window]]

    @property
    def english(self) -> Window:
        return self.strangers[0][1]


@pytest.fixture(scope="module")
def receiver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Receiver]:
    with receiving(tmp_path_factory.mktemp("receiver")) as receiver:
        yield receiver


@pytest.fixture(scope="module")
def pages(site: Site, receiver: Receiver) -> Iterator[Pages]:
    with ExitStack() as stack:
        mails = stack.enter_context(mail_server_in_thread())
        settings = receiver.settings | {
            "smtp_url": f"smtp://127.0.0.1:{mails.port}", "mail_from": "Rapat <mail@meet.example>",
            "sign_up": "open", "payment_gateway": "sandbox", "support_contact": "bantuan@meet.example",
        }  # fmt: skip
        server = stack.enter_context(site.serve(**settings))
        account = fill(site, server, receiver)
        browser = stack.enter_context(chromium())
        yield _open(browser, server.url, account)


def _open(browser: Browser, url: str, account: FilledAccount) -> Pages:
    looks: tuple[tuple[str, Literal["light", "dark"]], ...] = (("en", "light"), ("id", "dark"))

    def windows(kept: StorageState | None) -> list[tuple[str, Window]]:
        contexts = {
            language: browser.new_context(locale=language, color_scheme=theme, storage_state=kept)
            for language, theme in looks
        }
        return [(language, window(context, url)) for language, context in contexts.items()]

    context = browser.new_context(locale="en")
    for link in account.links():
        enter(context, link)
    first = window(context, url)
    first.open("/dashboard/team")
    first.page.get_by_label("E-mail address").fill("anggota.baru@example.com")
    first.press("Send an invitation")
    return Pages(account, windows(context.storage_state()), windows(None))


@pytest.mark.parametrize("route", [*signed_in_paths(), *VIEWS])
def test_a_page_suits_every_screen_theme_language_and_reader(pages: Pages, route: str) -> None:
    path = path_of(route, pages.account)
    for language, seen in pages.members:
        seen.clear()
        assert seen.open(path) == 200
        check_page(seen, language)


def test_the_address_of_a_webhook_has_room_in_its_list(pages: Pages) -> None:
    for _, seen in pages.members:
        seen.open("/dashboard/webhooks")
        seen.page.set_viewport_size({"width": DESKTOP, "height": 900})
        box = seen.page.locator("tbody td").first.bounding_box()
        assert box is not None
        assert box["width"] >= ADDRESS_PX


@pytest.mark.parametrize("path", SIGNED_OUT)
def test_a_page_of_the_sign_in_suits_them_too(pages: Pages, path: str) -> None:
    for language, seen in pages.strangers:
        seen.clear()
        assert seen.open(path.replace("{token}", "A" * 43)) == 200
        check_page(seen, language)


@pytest.mark.parametrize("path", DOCS)
def test_a_page_of_the_documentation_suits_them_too(pages: Pages, path: str) -> None:
    check_english_page(pages, path)


@pytest.mark.parametrize("route", SANDBOX)
def test_the_pages_of_the_sandbox_suit_them_too(pages: Pages, route: str) -> None:
    for link in pages.account.sandbox[route]:
        check_english_page(pages, link)


@pytest.mark.parametrize("path", INBOX)
def test_the_inboxes_suit_them_too(pages: Pages, path: str) -> None:
    with TestClient(Starlette(routes=filled_inbox()), "http://127.0.0.1") as inbox:

        def answer(asked: RequestRoute) -> None:
            found = inbox.get(path)
            asked.fulfill(status=found.status_code, headers=dict(found.headers), body=found.content)

        pages.english.page.route(f"**{path}", answer)
        check_english_page(pages, path)


@pytest.mark.parametrize("path", NOT_THERE)
def test_a_page_that_is_not_there_suits_them_too(pages: Pages, path: str) -> None:
    for language, seen in pages.members:
        seen.clear()
        assert seen.open(path) == 404
        check_page(seen, language, logged="404 (Not Found)")


def test_a_question_suits_them_too(pages: Pages) -> None:
    path = f"/dashboard/webhooks/{pages.account.ids['webhooks']}"
    for language, seen in pages.members:
        seen.open(path)
        seen.clear()
        with seen.page.expect_navigation():
            seen.page.locator("form[action$='/remove'] button").click()
        check_page(seen, language)
        with seen.page.expect_navigation():
            seen.page.locator("main a.button").click()
        assert seen.path == path


def test_a_form_with_errors_suits_them_too(pages: Pages) -> None:
    for language, seen in pages.members:
        seen.open("/dashboard/meetings/new")
        seen.page.locator("#f-title").fill("Rapat")
        seen.page.locator("#f-date").fill("2020-01-01")
        seen.page.locator("#f-start_time").fill("09:00")
        seen.page.locator("#f-password").fill("ab")
        seen.clear()
        with seen.page.expect_navigation():
            seen.page.locator("main .actions button").click()
        assert seen.page.locator("#f-password[aria-invalid]").count() == 1
        expect(seen.page.locator("#f-start_time")).to_be_focused()
        check_page(seen, language, logged="422 (Unprocessable")


@pytest.mark.parametrize("form", REFUSED, ids=str)
def test_a_refused_form_suits_them_and_leads_to_its_error(pages: Pages, form: Form) -> None:
    language, seen = pages.members[REFUSED.index(form) % 2]
    assert form.send(seen, pages.account) == 422
    assert seen.page.title().startswith("Error:" if language == "en" else "Galat:")
    expect(seen.page.locator(AT_ERROR)).to_have_count(1)  # a page has its focus a while after it has loaded
    check_page(seen, language, logged="422 (Unprocessable")


@pytest.mark.parametrize("form", SENT, ids=str)
def test_the_answer_to_a_form_suits_them_too(pages: Pages, form: Form) -> None:
    readers = pages.strangers if form.page in SIGNED_OUT else pages.members
    language, seen = readers[SENT.index(form) % 2]
    assert form.send(seen, pages.account) == 200
    check_page(seen, language)


def test_a_phone_has_a_menu_for_thumbs_and_short_rows(pages: Pages) -> None:
    heights = "all => all.map(each => each.getBoundingClientRect().height)"
    for _, seen in pages.members:
        page = seen.page
        page.set_viewport_size({"width": PHONE, "height": 844})
        seen.open("/dashboard/ledger")
        rows = page.locator(".rows tbody tr").evaluate_all(heights)
        assert median(rows) < 95, "a title, an amount, and two lines of small print"
        menu = page.locator("nav.menu")
        assert not menu.is_visible()
        page.locator("header .menu-button").click()
        links = menu.locator("a")
        assert min(links.evaluate_all(heights)) >= 44
        page.evaluate(AXE)
        assert page.evaluate(VIOLATIONS, AXE_OPTIONS) == []
        with page.expect_navigation():
            links.last.click()
        assert seen.path == "/dashboard/audit"
        page.set_viewport_size({"width": DESKTOP, "height": 900})
        assert menu.is_visible()


def test_every_page_of_the_routes_is_looked_at(site: Site) -> None:
    signed_out = (path.partition("?")[0] for path in SIGNED_OUT)
    looked_at = (*signed_in_paths(), *signed_out, *NOT_THERE, *DOCS, *SANDBOX, *INBOX)
    routes = run_apart(served(site))
    seen = {next(route.path for route in routes if route.path_regex.match(path)) for path in looked_at}
    pages = {route.path for route in routes if not route.path.endswith(FILES)}
    assert seen | {ASSETS, *NO_PAGES} == pages


async def served(site: Site) -> list[Route]:
    """Return the routes of GET in their order, those of `meetcore dev` included."""
    service = Service(settings_for(site.database_url), extra_routes=lambda _: filled_inbox())
    async with started(service):
        routes = [each for each in service._pages.routes if isinstance(each, Route)]
    return [each for each in routes if "GET" in (each.methods or ())]


def path_of(route: str, account: FilledAccount) -> str:
    """Return the route's path with the account's ids."""
    return re.sub(r"/([a-z-]+)/\{\w+\}", lambda found: f"/{found[1]}/{account.ids[found[1]]}", route)


def check_english_page(pages: Pages, path: str) -> None:
    """Check a page that is in English for every reader, at both widths at once."""
    seen = pages.english
    seen.clear()
    assert seen.open(path) == 200
    check_page(seen, "en", read_at=(PHONE, DESKTOP))


def check_page(seen: Window, language: str, *, logged: str = "", read_at: Sequence[int] = ()) -> None:
    """Check a newly opened page: size, width on each screen, axe's findings in both themes, its requests.

    `logged` is part of the browser's own log of the page. Axe reads it at the widths of `read_at`, if given.
    """
    page = seen.page
    assert page.locator("html").get_attribute("lang") == language
    assert 0 < page.evaluate(LOADED) <= MAX_PAGE_BYTES
    page.evaluate(OPEN_ALL)
    page.evaluate(AXE)
    # Each rule once at each width: which elements are there depends on the width, not on the language.
    read_at = read_at or (PHONE if language == "en" else DESKTOP,)
    for width in (SMALLEST, PHONE, DESKTOP):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate(SCROLLS) == [], f"wider than {width} px"
        if width in read_at:
            assert page.evaluate(VIOLATIONS, AXE_OPTIONS) == [], f"{width} px"
            check_other_theme(page)
    assert [each for each in seen.console if not logged or logged not in each] == []
    assert seen.foreign == []


def check_other_theme(page: Page) -> None:
    """Check the colours of the page's other theme."""
    own: Literal["light", "dark"]
    other: Literal["light", "dark"]
    own, other = ("dark", "light") if page.evaluate(IS_DARK) else ("light", "dark")
    # Else the colours change over a while.
    page.emulate_media(color_scheme=other, reduced_motion="reduce")
    assert page.evaluate(VIOLATIONS, OF_COLOURS) == [], other
    page.emulate_media(color_scheme=own)
