"""Mails as members choose them: their language, that of the browser at first, and their topics."""

from __future__ import annotations

from meetcore.composition.application import Application
from meetcore.domain.mails.mails import Recipient
from meetcore.domain.mails.topics import MailTopic
from meetcore.domain.members.roles import Role
from meetcore.domain.notes.notes import Language
from tests.support.api_harness import BASE_URL, Customer
from tests.support.pages import Browser
from tests.support.texts import assert_contains
from tests.support.visitors import Visitors

SETTINGS = "/dashboard/settings"


async def signed_in(
    customer: Customer, visitors: Visitors, accepted: str, cookie: str = ""
) -> tuple[Browser, Language]:
    """A browser of the account's owner that accepts a language, and the language of mails after that."""
    link = await customer.application.access.portal_links.for_member(customer.account_id, customer.email)
    browser, path = visitors.stranger(), link.url.removeprefix(BASE_URL)
    browser.http.headers["Accept-Language"] = accepted
    if cookie:
        await browser.post("/dashboard/language", language=cookie)
    entered = await browser.post(path, page=path)
    assert entered.status_code == 303, entered.text
    return browser, await language_of(customer)


async def language_of(customer: Customer) -> Language:
    async with customer.application.ports.store.begin() as tx:
        [recipient] = await tx.mails.find_recipients(customer.account_id)
    assert recipient == Recipient(customer.email, recipient.language)
    return recipient.language


async def test_the_first_sign_in_sets_the_language_and_settings_change_it(
    customer: Customer, visitors: Visitors
) -> None:
    assert await language_of(customer) is Language.INDONESIAN  # before the first sign-in
    browser, first = await signed_in(customer, visitors, "en-GB,id;q=0.5")
    assert first is Language.ENGLISH
    _, second = await signed_in(customer, visitors, "id")
    assert second is Language.ENGLISH
    assert '<option value="en" selected>' in (await browser.get(SETTINGS)).text
    changed = await browser.post(f"{SETTINGS}/language", page=SETTINGS, mail_language="id")
    assert changed.headers["location"] == f"{SETTINGS}?done=settings_changed"
    assert await language_of(customer) is Language.INDONESIAN
    await browser.post(f"{SETTINGS}/language", page=SETTINGS, mail_language="xx")
    assert await language_of(customer) is Language.INDONESIAN
    assert '<option value="id" selected>' in (await browser.get(SETTINGS)).text


async def test_the_language_that_was_chosen_for_the_pages_comes_before_the_browsers(
    customer: Customer, visitors: Visitors
) -> None:
    _, language = await signed_in(customer, visitors, "en", cookie="id")
    assert language is Language.INDONESIAN
    [row] = await customer.query("SELECT language FROM users WHERE id = %s", customer.user_id)
    assert row == {"language": "id"}


async def test_guests_have_no_language_of_mails(
    customer: Customer, visitors: Visitors, application: Application
) -> None:
    guest = await visitors.member(customer.account_id, Role.VIEWER)
    assert "mail_language" not in (await guest.get(SETTINGS)).text
    await guest.post(f"{SETTINGS}/language", page=SETTINGS, mail_language="en")
    [row] = await customer.query("SELECT language FROM users WHERE id = %s", customer.user_id)
    assert row == {"language": None}


async def test_members_choose_their_mails_under_settings(customer: Customer, visitors: Visitors) -> None:
    browser, _ = await signed_in(customer, visitors, "en")
    page = (await browser.get(SETTINGS)).text
    for topic in MailTopic:
        assert f'name="{topic}" checked' in page
    changed = await browser.post(f"{SETTINGS}/mails", page=SETTINGS, webhooks="on", statements="on")
    assert changed.headers["location"] == f"{SETTINGS}?done=settings_changed"
    page = (await browser.get(SETTINGS)).text
    assert_contains(
        page, 'name="webhooks" checked', 'name="statements" checked', 'name="payments">',
        absent=('name="payments" checked', 'name="credits" checked'),
    )  # fmt: skip
    async with customer.application.ports.store.begin() as tx:
        assert await tx.mails.find_recipients(customer.account_id, MailTopic.PAYMENTS) == []


async def test_a_member_changes_the_name_that_others_see(customer: Customer, visitors: Visitors) -> None:
    browser, _ = await signed_in(customer, visitors, "en")
    changed = await browser.post(f"{SETTINGS}/name", page=SETTINGS, full_name=" Sari  Wulandari ")
    assert changed.headers["location"] == f"{SETTINGS}?done=settings_changed"
    assert "Sari  Wulandari" in (await browser.get("/dashboard/team")).text
    refused = await browser.post(f"{SETTINGS}/name", page=SETTINGS, full_name="see evil.example")
    assert_contains(refused.text, 'value="see evil.example"', "without a web or e-mail address")
    assert "evil.example" not in (await browser.get("/dashboard/team")).text
