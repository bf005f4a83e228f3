"""Documents of the dashboard: statements of months, notes on paper."""

from __future__ import annotations

import csv
import html
import io
import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

import pytest
from attrs import evolve

from meetcore.composition.application import Application
from meetcore.domain.members.audit import SERVICE
from meetcore.domain.members.members import Membership, User
from meetcore.domain.members.roles import Role
from meetcore.domain.money import ledger
from meetcore.domain.money.statements import month_of, months_since
from meetcore.domain.money.transfers import Book, Reference, Transfer, TransferKind
from meetcore.ports.runtime import PrinterBusy
from meetcore.usecases.mails import MailQueue
from meetcore.usecases.money.statements import MailStatements
from meetcore.usecases.payments.refunds import refund_within
from tests.support.api_harness import ApiHarness, Customer
from tests.support.paid_payments import a_paid_payment
from tests.support.past_credits import last_month, move_credits
from tests.support.sandbox_recordings import a_note, a_recording, note_in
from tests.support.texts import assert_contains
from tests.support.transactions import append_one
from tests.support.visitors import SignIn

NBSP = "\N{NO-BREAK SPACE}"

pypdf = pytest.importorskip("pypdf")


def text_of(pdf: bytes) -> str:
    return "\n".join(page.extract_text() for page in pypdf.PdfReader(io.BytesIO(pdf)).pages)


async def an_account(
    application: Application, harness: ApiHarness, moves: Sequence[tuple[datetime, int]]
) -> UUID:
    """An account whose credits were moved at these instants."""
    account = (await harness.customer(credits=0)).account_id
    for at, amount in moves:
        await move_credits(application, account, at, amount)
    return account


async def test_a_statement_leads_from_one_balance_to_the_other(
    application: Application, harness: ApiHarness, sign_in: SignIn
) -> None:
    month = last_month(application)
    before, begin = month.begins_at - timedelta(seconds=1), month.begins_at
    moves = [
        (before, 100_000), (begin, 500), (begin + timedelta(hours=1), -20),
        (begin + timedelta(days=3), -30_000), (month.ends_at - timedelta(seconds=1), 5), (month.ends_at, 7),
    ]  # fmt: skip
    account_id = await an_account(application, harness, moves)
    browser = await sign_in(account_id, Role.FINANCE)
    answer = await browser.get(f"/dashboard/statements/{month}.pdf")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/pdf"
    assert answer.headers["content-disposition"] == f'attachment; filename="statement-{month}.pdf"'
    text = text_of(answer.content)
    lines = [" ".join(line.split()) for line in text.splitlines()]
    for line in (
        "Account Sari Dewi", "Seller", "PT Rapat Daring", "Jl. Melati 1, Bandung", "Buyer", "Sari Dewi",
        "Opening balance 100,000", "Closing balance 70,485",
        "Adjustment 4 \N{MINUS SIGN}29,515", "Sum 4 \N{MINUS SIGN}29,515",
    ):  # fmt: skip
        assert line in lines, text
    days = [line for line in lines if line.endswith(("Adjustment 2 +480", "Adjustment 1 +5"))]
    assert len(days) == 2, text
    assert "WIB" in text
    browser.http.headers["Accept-Language"] = "id"
    indonesian = text_of((await browser.get(f"/dashboard/statements/{month}.pdf")).content)
    assert_contains(indonesian, "Saldo awal", "\N{MINUS SIGN}29.515")


async def test_a_statement_names_parties_meetings_and_who_spent(
    customer: Customer, sign_in: SignIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    application, title = customer.application, "Rapat anggaran tahunan " * 8
    meeting, month = await customer.make_meeting(title=title.strip()), last_month(application)
    customer = await customer.harness.customer(credits=0)
    await customer.query(
        "INSERT INTO meetings SELECT (r).* FROM (SELECT jsonb_populate_record(m, jsonb_build_object("
        "'account_id', %s::uuid, 'api_key_id', %s::uuid, 'status', 'ended')) AS r "
        "FROM meetings m WHERE id = %s) AS x RETURNING id",
        customer.account_id, customer.key.key.id, meeting["id"],
    )  # fmt: skip
    async with application.ports.store.begin() as tx:
        view = await tx.postings.load_locked(customer.account_id, [])
        charge = Transfer(
            application.runtime.new_id(month.begins_at), "charge", TransferKind.MEETING_CHARGE, 40,
            Book.CUSTOMER, Book.MEETINGS, Reference("meeting", meeting["id"]), None, customer.key.key.id,
        )  # fmt: skip
        assert await append_one(tx, view.funds, ledger.post(view.funds, charge, month.begins_at)) is not None
    browser = await sign_in(customer.account_id, Role.FINANCE)
    billing = {"name": "PT Sinar Rapat", "address": "Jl. Mawar 2", "tax_number": "09.876"}
    assert (await browser.post("/dashboard/credits/billing", **billing)).status_code == 303
    answer = await browser.get(f"/dashboard/statements/{month}.pdf")
    assert answer.status_code == 200, answer.text
    text = " ".join(text_of(answer.content).split())
    name = customer.key.key.name
    assert_contains(
        text, f"Spending by key and member Key or member Meetings Notes Sum {name} …", " 40 0 40 ",
        "Meeting: Rapat anggaran tahunan Rapat anggaran", f"{name} \N{MINUS SIGN}40",
        "PT Rapat Daring", "01.234.567.8-901.000", *billing.values(),
    )  # fmt: skip
    assert text.count("anggaran") == 8, "a long title is broken into lines, not cut"
    partly = "Of the newest 20,000 entries of the month."
    assert partly not in text
    monkeypatch.setattr("meetcore.domain.money.spending_report.MAX_ENTRIES_SUMMED", 1)
    assert partly in (await browser.get(f"/dashboard/statements/{month}")).text


async def test_a_statement_has_the_purchases_and_refunds_of_its_month(
    customer: Customer, sign_in: SignIn
) -> None:
    customer = await customer.harness.customer(credits=0)
    month, application = last_month(customer.application), customer.application
    await move_credits(application, customer.account_id, month.begins_at, 1)  # so that it has a statement
    first, second = await a_paid_payment(customer), await a_paid_payment(customer)
    at = month.begins_at + timedelta(days=2)
    async with application.ports.store.begin() as tx:
        await refund_within(tx, application.runtime, SERVICE, at, UUID(second), 100, "asked for")
    await customer.query("UPDATE receipts SET issued_at = %s WHERE payment_id = %s", at, first)
    [receipt] = await customer.query("SELECT year, number FROM receipts WHERE payment_id = %s", first)
    number = f"{receipt['year']}-{receipt['number']:06d}"
    browser, path = await sign_in(customer.account_id, Role.FINANCE), f"/dashboard/statements/{month}"
    page = html.unescape((await browser.get(path)).text)
    text = " ".join(text_of((await browser.get(f"{path}.pdf")).content).split())
    for shown in (page.replace(NBSP, " "), text):
        assert_contains(
            shown, f"{month}-{customer.account_id.hex[-12:]}", "PT Rapat Daring", "Tax number", number,
            "Purchase of credits", "IDR 500,000", "IDR 55,000", "IDR 555,000", "Refund of a payment",
            "\N{MINUS SIGN}IDR 111,000", "IDR 444,000", "+400",
        )  # fmt: skip
    assert_contains(page, f'href="{path}.pdf"', f'href="{path}.csv"')
    rows = list(csv.reader(io.StringIO((await browser.get(f"{path}.csv")).text.removeprefix("\ufeff"))))
    assert [row[1:2] + row[4:] for row in rows] == [
        ["kind", "credits", "currency", "price", "tax", "amount"],
        ["purchase", "500", "IDR", "500000", "55000", "555000"],
        ["refund", "-100", "IDR", "-100000", "-11000", "-111000"],
    ]
    assert rows[1][2:4] == [number, first]


async def test_only_months_that_are_over_have_a_statement(
    application: Application, harness: ApiHarness, sign_in: SignIn
) -> None:
    month, now = last_month(application), application.runtime.now()
    account_id = await an_account(application, harness, [(month.begins_at, 1000)])
    browser = await sign_in(account_id)
    spending_page = (await browser.get("/dashboard/spending")).text
    assert_contains(
        spending_page, f"/dashboard/statements/{month}.pdf", f"from={month.first_day}&amp;to={month.last_day}"
    )
    earlier = month_of(month.begins_at - timedelta(days=1))
    for text in (month_of(now), earlier, "2026-13", "x", "9999-12"):
        assert f"/dashboard/statements/{text}.pdf" not in spending_page
        assert (await browser.get(f"/dashboard/statements/{text}.pdf")).status_code == 404, text
    empty = await sign_in((await harness.customer()).account_id)
    assert "/dashboard/statements/" not in (await empty.get("/dashboard/spending")).text


async def test_the_months_of_many_years_are_listed_page_by_page(
    application: Application, harness: ApiHarness, sign_in: SignIn
) -> None:
    month = last_month(application)
    first = evolve(month, year=month.year - 4)
    account_id = await an_account(application, harness, [(first.begins_at, 100), (month.begins_at, -1)])
    browser, path, found = await sign_in(account_id), "/dashboard/spending", list[str]()
    while path:
        page = (await browser.get(path)).text
        listed = re.findall(r'<a href="/dashboard/spending\?month=([0-9-]+)"(?! rel)', page)
        assert len(listed) <= 36
        found += listed
        older = re.search(r'<a href="([^"]+)" rel="next">Older</a>', page)
        path = older[1] if older else ""
    months = months_since(first.begins_at, application.runtime.now(), 100)
    assert found == [str(each) for each in months]
    assert (await browser.get("/dashboard/spending?month=0002-01")).status_code == 200


async def test_owners_and_finance_are_mailed_once_when_a_statement_is_ready(
    application: Application, harness: ApiHarness, sign_in: SignIn
) -> None:
    month = last_month(application)
    account_id = await an_account(application, harness, [(month.begins_at, 1000)])
    browser, path = await sign_in(account_id, Role.FINANCE), "/dashboard/settings/statement-mails"
    runtime, ports = application.runtime, application.ports
    queue = MailQueue(runtime, "https://meetcore.test", is_on=True)
    mail_statements = MailStatements(ports.store, ports.queries, queue, ports.notifier, runtime)
    count = "SELECT count(*) AS mails FROM mails WHERE account_id = %s AND kind = 'statement_ready'"

    async def mails() -> int:
        await mail_statements()
        return int((await harness.query(count, account_id))[0]["mails"])

    assert await mails() == 0, "nobody asked"
    for _ in range(2):
        assert (await browser.post(path, statement_mails="on")).status_code == 303
    assert 'name="statement_mails" checked' in (await browser.get("/dashboard/settings")).text
    assert await mails() == 0, "from the present month on"
    await harness.query(
        "UPDATE accounts SET statements_mailed = statements_mailed - interval '1 month' WHERE id = %s",
        account_id,
    )
    assert await mails() == 1
    assert await mails() == 1, "once"
    await browser.post(path)
    assert "checked" not in (await browser.get("/dashboard/settings")).text
    log = await ports.queries.list_audit_entries(account_id, 10, None)
    changes = [entry for entry in log if entry.action == "account.statement_mails_changed"]
    assert [entry.details["after"] for entry in changes] == [False, True]


async def test_a_member_of_many_accounts_is_mailed_about_the_statement_of_each(
    application: Application, harness: ApiHarness
) -> None:
    month, runtime, ports = last_month(application), application.runtime, application.ports
    accounts = [await an_account(application, harness, [(month.begins_at, 1)]) for _ in range(11)]
    async with ports.store.begin() as tx:
        one = User(runtime.new_id(runtime.now()), f"{accounts[0]}@example.com", "A", runtime.now())
        user = await tx.members.ensure_user(one)
        for each in accounts:
            await tx.members.add_membership(Membership(each, user.id, Role.FINANCE, runtime.now()))
            await tx.registry.set_statements_mailed(each, month.first_day - timedelta(days=1))
    queue = MailQueue(runtime, "https://meetcore.test", is_on=True)
    await MailStatements(ports.store, ports.queries, queue, ports.notifier, runtime)()
    [row] = await harness.query("SELECT count(*) AS mails FROM mails WHERE recipient = %s", user.email)
    assert row["mails"] == len(accounts)


async def test_a_note_comes_as_pdf_and_as_markdown(customer: Customer, sign_in: SignIn) -> None:
    recording = await a_recording(customer)
    queued = (await customer.post("/notes", {"recording_id": recording["id"]})).json()
    browser = await sign_in(customer.account_id, Role.VIEWER)
    path = f"/dashboard/notes/{queued['id']}"
    note = await note_in(customer, queued["id"], "completed")
    page = (await browser.get(path)).text
    assert_contains(page, f"{path}.pdf", f"{path}.md")
    answer = await browser.get(f"{path}.pdf")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/pdf"
    text = " ".join(text_of(answer.content).split())
    for heading in ("Draf otomatis (tanpa AI)", "Ringkasan", "Keputusan", "Transkrip"):
        assert heading in text, "in the language of the note"
    items = text.partition("Keputusan")[2].partition("Transkrip")[0]
    for one in (*note["decisions"], *note["action_items"]):
        assert items.count(" ".join(one["quote"].split())) == 1
    last = note["transcript"][-1]
    assert " ".join(last["text"].split()) in text
    meeting = (await customer.get(f"/meetings/{recording['meeting_id']}")).json()
    written = (await browser.get(f"{path}.md")).text
    day = meeting["start_at_wib"][:10]
    assert written.startswith(
        f"# Notulen: {meeting['title']}\n\nRapat: {day}\n\n*Draf otomatis (tanpa AI)*\n\n"
    )
    other = await sign_in((await customer.harness.customer()).account_id)
    for kind in ("pdf", "md"):
        assert (await other.get(f"{path}.{kind}")).status_code == 404


async def test_a_printer_that_is_busy_says_when_to_come_back(
    customer: Customer, sign_in: SignIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    queued = await a_note(customer)
    browser = await sign_in(customer.account_id)

    async def busy(*_: object) -> bytes:
        raise PrinterBusy("others wait")

    monkeypatch.setattr("meetcore.adapters.pdf.printer.PdfPrinter.print_pdf", busy)
    answer = await browser.get(f"/dashboard/notes/{queued['id']}.pdf")
    assert answer.status_code == 503
    assert "Try again in a few seconds" in answer.text
