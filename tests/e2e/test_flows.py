"""Each flow of customers and operators once, in a browser without scripts; and a page that renews itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta

import httpx
import pytest
from attrs import frozen
from playwright.sync_api import Browser, StorageState

from meetcore.domain.meetings.schedule import WIB
from tests.e2e.filled_account import FilledAccount, fill
from tests.e2e.receiver import Receiver, receiving
from tests.support.chromium import Window, chromium, enter, window
from tests.support.mail_server import MailServer, mail_server_in_thread
from tests.support.program import Site, until


@frozen
class Stage:
    """A filled account, a browser, and receivers of webhooks and mails."""

    url: str
    account: FilledAccount
    browser: Browser
    signed_in: StorageState
    receiver: Receiver
    mails: MailServer

    def window(self, *, is_signed_in: bool = True, has_scripts: bool = False) -> Window:
        kept = self.signed_in if is_signed_in else None
        context = self.browser.new_context(locale="en", java_script_enabled=has_scripts, storage_state=kept)
        return window(context, self.url)

    def link_to(self, email: str) -> str:
        """Return the link in the next mail to an address."""

        def arrived() -> list[str]:
            texts = [each.text for each in self.mails.received() if each.recipient == email]
            return [link for text in texts for link in re.findall(r"http://\S+/sign-in/\S+", text)]

        return str(until(arrived, f"a mail to {email}")[-1])


@pytest.fixture(scope="module")
def stage(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with ExitStack() as stack:
        receiver = stack.enter_context(receiving(tmp_path_factory.mktemp("receiver")))
        mails = stack.enter_context(mail_server_in_thread())
        by_mail = {"smtp_url": f"smtp://127.0.0.1:{mails.port}", "mail_from": "Rapat <mail@meet.example>"}
        server = stack.enter_context(site.serve(payment_gateway="sandbox", **receiver.settings | by_mail))
        account = fill(site, server, receiver)
        browser = stack.enter_context(chromium())
        context = browser.new_context()
        for link in account.links():
            enter(context, link)
        yield Stage(server.url, account, browser, context.storage_state(), receiver, mails)


@pytest.fixture
def seen(stage: Stage) -> Iterator[Window]:
    window = stage.window()
    yield window
    assert window.console == []
    assert window.foreign == []
    window.close()


@pytest.mark.parametrize("area", ["dashboard", "console"])
def test_sign_in_by_mail_and_sign_out(stage: Stage, area: str) -> None:
    email = stage.account.email if area == "dashboard" else stage.account.operator_email
    stranger = stage.window(is_signed_in=False)
    stranger.open(f"/{area}/audit")
    assert stranger.path == f"/{area}/sign-in"
    stranger.page.get_by_label("E-mail address").fill(email)
    stranger.press("Send me a link")
    link = stage.link_to(email)
    other = stage.window(is_signed_in=False)
    other.page.goto(link)
    other.press("Continue")
    assert "This link does not work" in other.page.content(), "it is bound to the browser that asked"
    stranger.page.goto(link)
    stranger.press("Continue")
    assert stranger.path == f"/{area}/audit", "where the way had led at first"
    stranger.press("Sign out")
    stranger.open(f"/{area}/audit")
    assert stranger.path == f"/{area}/sign-in"
    for each in (stranger, other):
        each.close()


def test_make_and_cancel_a_meeting(seen: Window) -> None:
    page = seen.page
    seen.open("/dashboard/meetings/new")
    page.get_by_label("Title").fill("Wawancara kedua")
    page.get_by_label("Date").fill((datetime.now(WIB) + timedelta(days=90)).date().isoformat())
    page.get_by_label("Start (WIB)").fill("09:00")
    seen.press("Show the price")
    assert "10 credits will be charged" in page.content()
    with page.expect_navigation():
        page.get_by_label("Title").press("Enter")
    assert "10 credits will be charged" in page.content(), "Enter asks for the price again"
    seen.press("Create the meeting")
    assert page.get_by_role("heading", name="Wawancara kedua scheduled").is_visible()
    seen.press("Cancel the meeting")
    assert page.get_by_role("heading", name="Cancel the meeting?").is_visible()
    seen.press("Cancel the meeting")
    assert page.get_by_role("heading", name="Wawancara kedua cancelled").is_visible()


def test_the_page_of_a_meeting_follows_it(stage: Stage) -> None:
    seen = stage.window(has_scripts=True)
    page = seen.page
    seen.open("/dashboard/meetings/new")
    page.get_by_label("Title").fill("Rapat singkat")
    page.get_by_label("Date").fill((datetime.now(WIB) + timedelta(days=2)).date().isoformat())
    page.get_by_label("Start (WIB)").fill("09:00")
    seen.press("Show the price")
    seen.press("Create the meeting")
    page.get_by_text("Invitation to copy").click()
    page.evaluate("document.activeElement.blur()")
    link = str(page.locator("#join-link").get_attribute("href"))
    assert (page.get_by_text("The meeting is made.").is_visible(), "done=" in page.url) == (True, False)
    for button, state in (("start", "started"), ("end", "ended")):
        assert httpx.post(link.replace("?", f"/{button}?"), trust_env=False).status_code == 303
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        page.get_by_role("heading", name=f"Rapat singkat {state}").wait_for()
        if state == "started":
            assert page.get_by_label("Invitation").is_visible(), "what was opened is open"
            assert page.locator("[data-copy=meeting-id]").is_visible()
    assert not page.get_by_text("The meeting is made.").is_visible(), "said once"
    page.locator("[data-copy=meeting-id]").click()
    page.get_by_role("button", name="Copied").wait_for()
    assert seen.console == []
    seen.close()


def test_make_a_webhook_rotate_its_secret_and_send_a_delivery_again(stage: Stage, seen: Window) -> None:
    page = seen.page
    seen.open("/dashboard/webhooks/new")
    page.get_by_label("URL").fill(stage.receiver.url("by-hand"))
    seen.press("Register")
    secrets = []
    for button in ("Show the secret", "Rotate the secret"):
        seen.press(button)
        if page.get_by_role("link", name="No, go back").is_visible():
            seen.press(button)
        secrets.append(page.get_by_label("Signing secret").input_value())
    assert secrets[0] != secrets[1]
    seen.press("Send a test")
    until(lambda: len(stage.receiver.at("by-hand")) == 1, "the test comes")
    page.reload()
    page.get_by_role("link", name=re.compile("WIB")).click()
    seen.press("Send it again")
    first, second = until(lambda: stage.receiver.at("by-hand")[1:] and stage.receiver.at("by-hand"), "again")
    assert first.event_id == second.event_id


def test_invite_a_member_who_comes(stage: Stage, seen: Window) -> None:
    email = "rekan@example.com"
    seen.open("/dashboard/team")
    seen.page.get_by_label("E-mail address").fill(email)
    seen.page.get_by_role("radio", name="Finance").check()
    seen.press("Send an invitation")
    assert email in seen.page.content()
    invited = stage.window(is_signed_in=False)
    invited.page.goto(stage.link_to(email))
    invited.press("Accept the invitation")
    assert invited.path == "/dashboard"
    assert invited.open("/dashboard/ledger") == 200
    assert invited.open("/dashboard/webhooks") == 403
    invited.close()


def test_change_the_settings_and_the_language(seen: Window) -> None:
    seen.open("/dashboard/settings")
    seen.page.get_by_label("Threshold in credits").fill("321")
    seen.press("Save the threshold")
    assert seen.page.get_by_label("Threshold in credits").input_value() == "321"
    seen.press("Bahasa Indonesia")
    assert seen.path == "/dashboard/settings"
    assert seen.page.locator("html").get_attribute("lang") == "id"


def test_top_up_an_account_and_suspend_it_for_a_while(stage: Stage, seen: Window) -> None:
    page = seen.page
    seen.open("/console")
    page.get_by_label("Find accounts").fill(stage.account.email)
    seen.press("Search")
    page.get_by_role("link", name="PT Sinar Rapat Nusantara").click()
    form = page.locator("details", has_text="Top up")
    form.locator("summary").click()
    form.get_by_label("Credits").fill("250")
    form.get_by_label("Reason").fill("Faktur 7")
    seen.press("Add the credits")
    assert "+250" in page.content()
    for begin, state in (("Suspend the account", "suspended"), ("Resume the account", "active")):
        page.locator("summary", has_text=begin).click()
        if state == "suspended":
            page.locator("#suspend-reason").fill("Faktur 6")
            seen.press(begin)  # it asks once more
        seen.press(begin)
        assert page.locator("h1 .state").inner_text() == state
