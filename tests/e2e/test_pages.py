"""Every page of dashboard and console in a browser: widths, themes, languages, accessibility.

The pages come from the routes. A new page with an id in its path needs that id in `FilledAccount.ids`, under
the preceding part of the path (`/reports/{id}` takes `ids["reports"]`). A new page without sign-in is added
to `SIGNED_OUT`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from importlib import resources
from typing import Literal

import pytest
from attrs import frozen
from playwright.sync_api import Browser, Page, StorageState
from starlette.routing import Route

from meetcore.adapters.http.docs import PAGES as DOCS_PAGES
from meetcore.adapters.web.console.routes import PAGES as CONSOLE_PAGES
from meetcore.adapters.web.routes import PAGES
from meetcore.composition.application import Application
from tests.e2e.filled_account import FilledAccount, fill, with_application
from tests.e2e.receiver import Receiver, receiving
from tests.support.api_harness import BASE_URL
from tests.support.chromium import Window, chromium, enter, window
from tests.support.mail_server import mail_server_in_thread
from tests.support.program import Site
from tests.support.visitors import BY_TOKEN, web_routes

PHONE, SMALLEST, DESKTOP = 390, 360, 1400
FILES = (".csv", ".ics", ".md", ".pdf", ".zip", ".json")
"""Path endings of downloads."""

SIGNED_OUT = (
    "/", "/dashboard/sign-in", "/dashboard/sign-in?reason=fresh", "/dashboard/sign-in/{token}",
    "/dashboard/sign-up", "/dashboard/sign-up/{token}",
    "/console/sign-in", "/console/sign-in/{token}",
)  # fmt: skip
NO_PAGES = tuple(
    f"/{area}/sign-in/oidc{end}" for area in ("dashboard", "console") for end in ("", "/callback")
)
"""Routes to and from an OpenID provider."""
VIEWS = ("/dashboard/meetings?view=week",)
"""Pages of a route that look different with a query."""
UNKNOWN = ("/dashboard/{rest:path}", "/console/{rest:path}")
"""Answers all other addresses; covered by `test_a_page_that_is_not_there_suits_them_too`."""
DOCS = (
    "/docs", "/docs/api/create_meeting", "/docs/api/list_events", "/docs/api/on_note_completed",
    "/docs/errors", "/docs/errors/insufficient_credits", *(f"/docs/{name}" for name in DOCS_PAGES),
)  # fmt: skip
"""Pages of the documentation, which are in English."""
ASSETS = "/dashboard/assets/{digest}/{name}"

AXE = resources.files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")
AXE_OPTIONS = {
    "runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]},
    "resultTypes": ["violations"],
}
OF_COLOURS = {"runOnly": {"type": "rule", "values": ["color-contrast"]}, "resultTypes": ["violations"]}
VIOLATIONS = """async options => (await axe.run(options)).violations
    .flatMap(({id, nodes}) => nodes.map(each => `${id}: ${each.html} ${each.failureSummary}`))"""
IS_DARK = "matchMedia('(prefers-color-scheme: dark)').matches"
OPEN_ALL = "document.querySelectorAll('details').forEach(each => each.open = true)"
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
class Pages:
    """A filled account, and windows by language: the English one is light, the Indonesian one dark.

    `members` are signed in to both areas, `strangers` to none.
    """

    account: FilledAccount
    members: Sequence[tuple[str, Window]]
    strangers: Sequence[tuple[str, Window]]


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
            "sign_up": "open", "gateway": "sandbox", "support_contact": "bantuan@meet.example",
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


@pytest.mark.parametrize("path", SIGNED_OUT)
def test_a_page_of_the_sign_in_suits_them_too(pages: Pages, path: str) -> None:
    for language, seen in pages.strangers:
        seen.clear()
        assert seen.open(path.replace("{token}", "A" * 43)) == 200
        check_page(seen, language)


@pytest.mark.parametrize("path", DOCS)
def test_a_page_of_the_documentation_suits_them_too(pages: Pages, path: str) -> None:
    for browser, seen in pages.strangers:
        seen.clear()
        assert seen.open(path) == 200
        check_page(seen, "en", read_at=PHONE if browser == "en" else DESKTOP)


@pytest.mark.parametrize(
    "path",
    ["/dashboard/meetings/nothing", "/console/accounts/nothing", "/dashboard/no/page", "/console/no/page"],
)
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
        assert seen.page.evaluate("document.activeElement.id") == "f-start_time"
        check_page(seen, language, logged="422 (Unprocessable")


def test_every_page_of_the_routes_is_looked_at(site: Site) -> None:
    signed_out = (path.partition("?")[0] for path in SIGNED_OUT)
    looked_at = {*signed_in_paths(), *signed_out, ASSETS, *NO_PAGES, *UNKNOWN}
    shown = {
        route.path
        for route in with_application(site, BASE_URL, routes)
        if "GET" in (route.methods or ()) and not route.path.endswith(FILES)
    }
    assert shown == looked_at


async def routes(application: Application) -> list[Route]:
    return [each for each in web_routes(application) if each.path not in BY_TOKEN]


def path_of(route: str, account: FilledAccount) -> str:
    """Return the route's path with the account's ids."""
    return re.sub(r"/([a-z-]+)/\{\w+\}", lambda found: f"/{found[1]}/{account.ids[found[1]]}", route)


def check_page(seen: Window, language: str, *, logged: str = "", read_at: int = 0) -> None:
    """Check a newly opened page: size, width on each screen, axe's findings, its requests.

    `logged` is part of the browser's own log of the page. Axe reads it at `read_at` px, if given.
    """
    page = seen.page
    assert page.locator("html").get_attribute("lang") == language
    assert 0 < page.evaluate(LOADED) <= MAX_PAGE_BYTES
    page.evaluate(AXE)
    page.evaluate(OPEN_ALL)
    # Each rule once at each width: which elements are there depends on the width, not on the language.
    read_at = read_at or (PHONE if language == "en" else DESKTOP)
    for width in (SMALLEST, PHONE, DESKTOP):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate(SCROLLS) == [], f"wider than {width} px"
        if width == read_at:
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
