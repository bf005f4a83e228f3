"""Passkeys in a browser, with the virtual authenticator of its DevTools protocol."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import psycopg
import pytest
from attrs import frozen
from playwright.sync_api import Browser, CDPSession, expect

from tests.e2e.test_pages import check_page
from tests.support.chromium import Window, chromium, window
from tests.support.program import Site, free_port

PROBLEM = "form[data-passkey] [role=alert]"


@frozen
class Stage:
    """A running service under a host name, and a browser."""

    site: Site
    url: str
    browser: Browser

    def link(self, area: str) -> str:
        """Return a sign-in link for a new member or operator."""
        where: dict[str, Any] = {"base_url": self.url}
        email = f"{secrets.token_hex(6)}@example.com"
        if area == "console":
            operator = self.site.cli("operator", "add", "--email", email, "--role", "support", **where)
            return str(self.site.cli("operator", "link", operator["id"], **where)["url"])
        account = self.site.cli("account", "create", "--email", email, "--full-name", "Dewi", **where)
        made = self.site.cli("portal", "link", "--account", account["id"], "--email", email, **where)
        with psycopg.connect(self.site.database_url) as connection:  # as if the member had signed in
            connection.execute("UPDATE sign_in_links SET is_pinned = false")
        return str(made["url"])


@pytest.fixture(scope="module")
def stage(site: Site) -> Iterator[Stage]:
    with ExitStack() as stack:
        port = free_port()
        url = f"http://localhost:{port}"
        stack.enter_context(site.serve(port, base_url=url))
        yield Stage(site, url, stack.enter_context(chromium()))


@frozen
class Device:
    """The virtual authenticator of a window."""

    protocol: CDPSession
    id: str

    def credentials(self) -> list[dict[str, Any]]:
        found = self.protocol.send("WebAuthn.getCredentials", {"authenticatorId": self.id})
        return list(found["credentials"])

    def replace(self, credential: dict[str, Any], **changes: object) -> None:
        self.forget()
        self.protocol.send(
            "WebAuthn.addCredential", {"authenticatorId": self.id, "credential": credential | changes}
        )

    def forget(self) -> None:
        self.protocol.send("WebAuthn.clearCredentials", {"authenticatorId": self.id})

    def verify_user(self, is_verified: bool) -> None:
        self.protocol.send(
            "WebAuthn.setUserVerified", {"authenticatorId": self.id, "isUserVerified": is_verified}
        )


@contextmanager
def seen(stage: Stage, **options: Any) -> Iterator[tuple[Window, Device]]:
    """Open a window with a virtual authenticator."""
    context = stage.browser.new_context(**{"locale": "en"} | options)
    shown = window(context, stage.url)
    protocol = shown.page.context.new_cdp_session(shown.page)
    protocol.send("WebAuthn.enable")
    made = protocol.send(
        "WebAuthn.addVirtualAuthenticator",
        {
            "options": {
                "protocol": "ctap2", "transport": "internal", "hasResidentKey": True,
                "hasUserVerification": True, "isUserVerified": True, "automaticPresenceSimulation": True,
            }
        },
    )  # fmt: skip
    yield shown, Device(protocol, made["authenticatorId"])
    assert shown.foreign == []
    shown.close()


def sign_in_by_link(stage: Stage, shown: Window, area: str) -> None:
    shown.page.goto(stage.link(area))
    shown.press("Continue")


def add(shown: Window, area: str, name: str) -> None:
    shown.open(f"/{area}/passkeys")
    shown.page.get_by_label("Name").fill(name)
    shown.press("Add a passkey")


@pytest.mark.parametrize("area", ["dashboard", "console"])
def test_a_passkey_is_added_signs_in_and_is_removed(stage: Stage, area: str) -> None:
    with seen(stage) as (shown, device):
        sign_in_by_link(stage, shown, area)
        add(shown, area, "Dewi's laptop")
        assert "The passkey is added" in shown.page.inner_text("main")
        assert "Dewi's laptop" in shown.page.inner_text("table")
        (credential,) = device.credentials()
        assert credential["rpId"] == "localhost"
        assert credential["isResidentCredential"]
        shown.press("Sign out")
        shown.open(f"/{area}/passkeys")
        assert shown.path == f"/{area}/sign-in"
        shown.press("Sign in with a passkey")
        assert shown.path == f"/{area}/passkeys", "where it was asked for"
        assert "never" not in shown.page.inner_text("table")
        shown.press("Remove Dewi's laptop")
        shown.press("Remove the passkey")
        assert "You have no passkey" in shown.page.inner_text("main")
        shown.press("Sign out")
        shown.press("Sign in with a passkey")
        assert shown.path == f"/{area}/sign-in/passkey"
        assert "was not accepted" in shown.page.inner_text("main")
        assert [each for each in shown.console if "422" not in each] == []


def test_a_device_that_has_a_passkey_makes_no_second_one(stage: Stage) -> None:
    with seen(stage) as (shown, device):
        sign_in_by_link(stage, shown, "dashboard")
        add(shown, "dashboard", "First")
        shown.page.get_by_label("Name").fill("Second")
        shown.page.get_by_role("button", name="Add a passkey").click()
        expect(shown.page.locator(PROBLEM)).to_contain_text("has a passkey for this site already")
        assert len(device.credentials()) == 1
        assert shown.console == []


def test_who_is_not_recognised_by_the_device_does_not_get_in(stage: Stage) -> None:
    with seen(stage) as (shown, device):
        sign_in_by_link(stage, shown, "dashboard")
        add(shown, "dashboard", "Laptop")
        shown.press("Sign out")
        device.verify_user(False)
        shown.page.get_by_role("button", name="Sign in with a passkey").click()
        expect(shown.page.locator(PROBLEM)).to_contain_text("That did not work")
        device.verify_user(True)
        shown.press("Sign in with a passkey")
        assert shown.path == "/dashboard"


@pytest.mark.parametrize(("language", "theme"), [("en", "light"), ("id", "dark")])
@pytest.mark.parametrize("area", ["dashboard", "console"])
def test_the_pages_suit_every_screen_theme_language_and_reader(
    stage: Stage, area: str, language: str, theme: str
) -> None:
    with seen(stage, locale=language, color_scheme=theme) as (shown, _):
        shown.open(f"/{area}/sign-in")
        assert shown.page.locator("form[data-passkey]").is_visible()
        check_page(shown, language)
        shown.page.goto(stage.link(area))
        with shown.page.expect_navigation():
            shown.page.locator("main button").click()
        shown.open(f"/{area}/passkeys")
        check_page(shown, language)
        form = shown.page.locator("form[data-passkey]")
        form.locator("input[name=name]").fill("Laptop " + "x" * 53)
        with shown.page.expect_navigation():
            form.locator("button").click()
        check_page(shown, language)


def test_without_a_script_the_pages_offer_no_passkey(stage: Stage) -> None:
    context = stage.browser.new_context(locale="en", java_script_enabled=False)
    shown = window(context, stage.url)
    shown.open("/dashboard/sign-in")
    assert not shown.page.get_by_role("button", name="Sign in with a passkey").is_visible()
    sign_in_by_link(stage, shown, "dashboard")
    shown.open("/dashboard/passkeys")
    assert not shown.page.get_by_label("Name").is_visible()
    assert "runs no script" in shown.page.inner_text("main")
    shown.close()
