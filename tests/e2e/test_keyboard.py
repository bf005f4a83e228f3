"""The dashboard by keyboard alone, from the sign-in page on: buying, keys, meetings, deliveries."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from attrs import frozen
from playwright.sync_api import Browser, expect

from meetcore.domain.meetings.schedule import WIB
from tests.e2e.customers import Customer, client, customer
from tests.e2e.receiver import Receiver, receiving
from tests.support.chromium import chromium, window
from tests.support.keyboard import Focused, Keyboard, keyboard
from tests.support.mail_server import MailServer, mail_server_in_thread
from tests.support.program import Running, Site, until

CREDITS = 100


@frozen
class Stage:
    """A running service that mails links, a browser, and a receiver of webhooks."""

    site: Site
    server: Running
    browser: Browser
    mails: MailServer
    receiver: Receiver


@frozen
class Seat:
    """A customer who sits at a keyboard."""

    customer: Customer
    keys: Keyboard

    @property
    def path(self) -> str:
        return self.keys.window.path

    @property
    def text(self) -> str:
        return self.keys.window.page.inner_text("main")

    def open_menu(self, name: str) -> None:
        """Open a page of the menu."""
        self.keys.tab_to(name, "link")
        assert self.keys.follow().ok

    def check_refused(self, focused: Focused) -> None:
        """Check the page of a form with errors: its title, and the focus on the first wrong field."""
        assert self.keys.window.page.title().startswith("Error:")
        until(lambda: self.keys.focused() == focused, f"the focus is at {focused}")


@pytest.fixture(scope="module")
def stage(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with ExitStack() as stack:
        receiver = stack.enter_context(receiving(tmp_path_factory.mktemp("receiver")))
        mails = stack.enter_context(mail_server_in_thread())
        settings = receiver.settings | {
            "smtp_url": f"smtp://127.0.0.1:{mails.port}", "mail_from": "Rapat <mail@meet.example>",
            "payment_gateway": "sandbox", "webhook_retry_schedule": "",
        }  # fmt: skip
        server = stack.enter_context(site.serve(**settings))
        yield Stage(site, server, stack.enter_context(chromium()), mails, receiver)


@pytest.fixture
def seat(stage: Stage) -> Iterator[Seat]:
    """A new customer, signed in by keys and by the link of a mail."""
    with customer(stage.site, stage.server, CREDITS) as who:
        seen = window(stage.browser.new_context(locale="en"), stage.server.url)
        keys = keyboard(seen)
        email = who.api.me().user.email
        seen.open("/dashboard/sign-in")
        keys.tab_to("E-mail address", "textbox")
        keys.type(email)
        assert keys.follow().ok
        seen.page.goto(_mailed_link(stage.mails, email))
        keys.tab_to("Continue", "button")
        assert keys.follow().ok
        assert seen.path == "/dashboard"
        yield Seat(who, keys)
        assert seen.console == [each for each in seen.console if "422 (Unprocessable" in each]
        seen.close()


def _mailed_link(mails: MailServer, email: str) -> str:
    found = until(
        lambda: [mail for mail in mails.received() if mail.recipient == email], "the link is mailed"
    )
    link = re.search(r"http://\S+/sign-in/\S+", found[-1].text)
    assert link is not None
    return link[0]


def test_credits_are_bought(seat: Seat, tmp_path: Path) -> None:
    keys = seat.keys
    keys.skip_to_content()
    keys.tab_to("Credits", "link", key="Shift+Tab")
    assert keys.follow().ok
    keys.skip_to_content()
    keys.tab_to("Name", "textbox")
    keys.replace("PT Sinar Rapat")
    assert keys.follow().ok
    assert list(seat.customer.api.credits.topups()) == [], "Enter saved the name and started no payment"
    keys.tab_to("Buy 500 credits", "button")
    assert keys.follow().ok
    keys.skip_to_content()
    keys.tab_to("Pay now", "link")
    assert keys.follow().ok
    assert seat.path.startswith("/sandbox/payments/")
    keys.tab_to("Pay", "button")
    assert keys.follow().ok
    assert seat.path.startswith("/dashboard/credits/"), "the gateway leads back"
    # The page renews itself until the gateway's notification is processed.
    expect(keys.window.page.locator("main")).to_contain_text("500 credits were added.")
    assert seat.customer.api.me().credits.balance == CREDITS + 500
    keys.tab_to("Receipt (PDF)", "link")
    with keys.window.page.expect_download() as download:
        keys.press("Enter")
    download.value.save_as(tmp_path / "receipt.pdf")
    assert (tmp_path / "receipt.pdf").read_bytes().startswith(b"%PDF-")


def test_a_key_is_made(seat: Seat) -> None:
    keys = seat.keys
    seat.open_menu("API keys")
    keys.skip_to_content()
    keys.tab_to("Create a key", "link")
    assert keys.follow().ok
    keys.tab_to("Name", "textbox")
    keys.type("Kasir")
    assert keys.follow().status == 422
    seat.check_refused(Focused("checkbox", "meetings:read read meetings"))
    keys.press("Space")
    keys.tab_to("The key works", "combobox")
    keys.press("ArrowDown")
    keys.tab_to("Create the key", "button")
    assert keys.follow().ok
    keys.skip_to_content()
    keys.tab_to("API key", "textbox")
    key = keys.window.page.evaluate("document.activeElement.value")
    with client(keys.window.url, key) as api:
        assert api.get("/me").json()["api_key"]["scopes"] == ["meetings:read"]


def test_a_meeting_is_made_and_only_by_its_button(seat: Seat) -> None:
    keys, start = seat.keys, datetime.now(WIB) + timedelta(days=7)
    seat.open_menu("Meetings")
    keys.skip_to_content()
    keys.tab_to("Create a meeting", "link")
    assert keys.follow().ok
    keys.tab_to("Title", "textbox")
    keys.type("Rapat")
    keys.tab_to("Date", "Date")
    keys.type(f"{start:%m%d}{start.year - 1}")
    keys.tab_to("Start (WIB)", "InputTime")
    keys.type("0900AM")
    assert keys.follow().status == 422
    seat.check_refused(Focused("InputTime", "Start (WIB)"))
    keys.tab_to("Date", "Date", key="Shift+Tab")
    keys.press("Shift+Tab")  # from its button to its year
    keys.type(f"{start.year}")
    assert keys.follow().ok
    assert "10 credits will be charged" in seat.text
    keys.tab_to("Title", "textbox", key="Shift+Tab")
    keys.replace("Rapat tim produk")
    assert keys.follow().ok
    assert list(seat.customer.api.meetings.list()) == [], "Enter asked for the price again"
    keys.tab_to("Description", "textbox", key="Shift+Tab")
    larger = keys.tab()
    assert larger.role == "radio"
    keys.press("ArrowDown")
    assert keys.focused() not in (larger, Focused("radio", ""))
    keys.press("ArrowUp")
    assert keys.focused() == larger
    keys.tab_to("Create the meeting", "button")
    assert keys.follow("Space").ok
    [made] = seat.customer.api.meetings.list()
    assert seat.path == f"/dashboard/meetings/{made.id}"
    assert (made.title, f"{made.start_at_wib:%Y-%m-%d %H:%M}") == (
        "Rapat tim produk",
        f"{start:%Y-%m-%d} 09:00",
    )


def test_a_delivery_is_sent_again(seat: Seat, stage: Stage) -> None:
    keys, receiver, path = seat.keys, stage.receiver, "again"
    receiver.status = 500
    hook = seat.customer.hook(receiver.url(path))
    seat.customer.api.webhooks.test(hook.id)

    def statuses() -> list[str]:
        return [each.status for each in seat.customer.api.webhooks.deliveries(hook.id)]

    until(lambda: statuses() == ["failed"], "the first attempt fails")
    receiver.status = 200
    seat.open_menu("Webhooks")
    keys.tab_to(receiver.url(path), "link")
    assert keys.follow().ok
    keys.tab_to(keys.window.page.inner_text("tbody a"), "link")
    assert keys.follow().ok
    keys.tab_to("Send it again", "button")
    assert keys.follow("Space").ok
    until(lambda: len(receiver.at(path)) == 2, "it is posted again")
    until(lambda: sorted(statuses()) == ["failed", "succeeded"], "its success is recorded")
