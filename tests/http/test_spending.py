"""The ledger's titles and payers, and the spending of an account by month, key and member."""

from __future__ import annotations

import csv
import io
import re

from meetcore.domain.members.roles import Role
from meetcore.domain.money.statements import month_of
from tests.support.api_harness import Customer
from tests.support.pages import Browser
from tests.support.sandbox_recordings import a_note
from tests.support.texts import assert_contains
from tests.support.visitors import Visitors

LEDGER, SPENDING = "/dashboard/ledger", "/dashboard/spending"


async def make_by_hand(customer: Customer, browser: Browser, title: str) -> str:
    """Make a meeting in the dashboard; return the path of its page."""
    body = customer.body(title=title)
    fields = {name: str(body[name]) for name in ("title", "date", "start_time", "pricing_tier_id")}
    fields |= {"form_key": await browser.form_key("/dashboard/meetings/new")}
    priced = await browser.post("/dashboard/meetings", **fields)
    seen = re.search(r'name="seen_credits" value="(\d+)"', priced.text)
    assert seen is not None
    made = await browser.post("/dashboard/meetings", **fields, seen_credits=seen[1])
    assert made.status_code == 303, made.text
    return made.headers["location"].partition("?")[0]


def cells(page: str, table: int = 0) -> list[list[str]]:
    """The texts of the rows of a table."""
    tables = re.findall(r"<tbody>(.*?)</tbody>", page, re.S)
    rows = re.findall(r"<tr>(.*?)</tr>", tables[table], re.S)
    return [
        [" ".join(re.sub(r"<[^>]*>", " ", cell).split()) for cell in re.findall(r"<td.*?</td>", row, re.S)]
        for row in rows
    ]


async def email_of_owner(customer: Customer) -> str:
    [owner] = await customer.application.ports.queries.list_members(customer.account_id)
    return owner.user.email


async def test_the_ledger_names_meetings_keys_and_members(customer: Customer, visitors: Visitors) -> None:
    browser = await visitors.member(customer.account_id)
    page = await make_by_hand(customer, browser, "<i>Anggaran")
    note = await a_note(customer, title="Rapat mingguan")
    key, email = customer.key.key.name, await email_of_owner(customer)
    shown = (await browser.get(LEDGER)).text
    assert [row[1:4] for row in cells(shown)] == [
        ["Notes", "Rapat mingguan", key], ["Meeting", "Rapat mingguan", key],
        ["Meeting", "&lt;i&gt;Anggaran", email], ["Top-up", "Opening balance", "\N{EN DASH}"],
    ]  # fmt: skip
    assert_contains(shown, f'href="{page}"', f'href="/dashboard/notes/{note["id"]}"')
    file = (await browser.get(f"{LEDGER}.csv")).content.decode("utf-8-sig")
    rows = list(csv.DictReader(io.StringIO(file)))
    assert [(row["title"], row["api_key_name"], row["member"]) for row in rows] == [
        ("Rapat mingguan", key, ""), ("Rapat mingguan", key, ""), ("<i>Anggaran", "", email), ("", "", ""),
    ]  # fmt: skip
    assert rows[2]["api_key_id"] == ""


async def test_a_title_is_no_formula_of_a_spreadsheet(customer: Customer, visitors: Visitors) -> None:
    await customer.make_meeting(title="=HYPERLINK(1)")
    file = (await (await visitors.member(customer.account_id)).get(f"{LEDGER}.csv")).text
    assert ",'=HYPERLINK(1)," in file


async def test_spending_is_shown_by_key_member_and_month(customer: Customer, visitors: Visitors) -> None:
    browser = await visitors.member(customer.account_id)
    owner = await email_of_owner(customer)
    other = await customer.another_key()
    await other.make_meeting()
    cancelled = await customer.make_meeting()
    await customer.delete(f"/meetings/{cancelled['id']}")
    for title in ("A", "B"):
        await make_by_hand(customer, browser, title)
    guest = await visitors.member(customer.account_id, Role.DEVELOPER)
    await make_by_hand(customer, guest, "C")
    price = (1000 - await customer.balance()) // 4
    finance = await visitors.member(customer.account_id, Role.FINANCE)
    page = (await finance.get(SPENDING)).text
    name = f"{other.key.key.name} …{other.key.key.last_four}"
    own = f"{customer.key.key.name} …{customer.key.key.last_four}"
    assert sorted(cells(page)) == sorted(
        [
            [owner, str(2 * price), "0", str(2 * price), ""], [name, str(price), "0", str(price), ""],
            ["guest (developer)", str(price), "0", str(price), ""], [own, "0", "0", "0", ""],
        ]
    )  # fmt: skip
    assert cells(page)[0][0] == owner, "the largest sum first"
    month = month_of(customer.application.runtime.now())
    [this_month] = cells(page, 1)
    assert this_month[1:4] == [str(4 * price), "0", str(4 * price)]
    assert_contains(page, f'href="{SPENDING}?month={month}" aria-current="true"')
    for text, status in ((str(month), 200), ("2020-01", 200), ("2026-13", 404), ("x", 404)):
        assert (await finance.get(f"{SPENDING}?month={text}")).status_code == status, text
    assert "Nothing was spent in this month." in (await finance.get(f"{SPENDING}?month=2020-01")).text
    stranger = await visitors.member((await customer.harness.customer()).account_id)
    assert "Nothing was spent in this month." in (await stranger.get(SPENDING)).text
