"""Spending by month, key and member, the statement of a month as page, PDF and CSV, and receipts as PDF."""

from collections.abc import Sequence
from typing import Final

from attrs import evolve, frozen
from starlette.responses import Response

from meetcore.adapters.catalogues import format_money
from meetcore.adapters.web.formats import (
    format_change,
    format_count,
    format_day,
    format_instant,
    format_month,
)
from meetcore.adapters.web.forms import send_csv, send_file
from meetcore.adapters.web.pages.credits import payment_state
from meetcore.adapters.web.pages.money import about, key_label, payer
from meetcore.adapters.web.texts import BOOKING_KINDS, BY_HAND, PAGE_OF, TRANSFER_KINDS, _
from meetcore.adapters.web.visit import Look, Page, Visit
from meetcore.domain.meetings.schedule import wib_text
from meetcore.domain.members.roles import Action
from meetcore.domain.money.spending_report import MAX_ENTRIES_SUMMED, Payer, Spent
from meetcore.domain.money.statements import Month, Statement, is_closed, read_month
from meetcore.domain.money.views import TransactionFilter
from meetcore.domain.notes.notes import Language
from meetcore.domain.payments.bookings import Booking, sum_by_currency
from meetcore.domain.payments.packages import Seller
from meetcore.domain.payments.receipts import Buyer, Receipt
from meetcore.domain.payments.views import PaymentPapers
from meetcore.domain.records.documents import Block, Document, Facts, Heading, Paragraph, Table
from meetcore.domain.records.pages import DescribedEntry, KeyName
from meetcore.usecases.mails import CREDITS_PAGE
from meetcore.usecases.money.statements import MAX_MONTHS

SPENDING: Final = "/dashboard/spending"
_COLUMNS: Final = (
    "time", "kind", "receipt", "payment_id", "credits", "currency", "price", "tax", "amount",
)  # fmt: skip
MAX_LISTED: Final = 500
"""Entries that a statement lists one by one, the newest ones."""


@frozen
class _MonthRow:
    """A month in the list; `has_statement` is for the role as well."""

    month: Month
    spent: Spent
    is_chosen: bool
    has_statement: bool


@Page("GET", SPENDING, Action.VIEW_LEDGER)
async def show_spending(visit: Visit) -> Response:
    """Show the spending of each month, and of one by key and member."""
    text = visit.query("month")
    chosen = read_month(text) if text else None
    spending, keys = await visit.use.statements.find_spending(visit.signed_in, chosen, visit.now)
    may_download = visit.may(Action.VIEW_STATEMENTS)
    payers = [(_payer_name(visit, who, keys), who, spent) for who, spent in spending.payers]
    shown, older = spending.months[:MAX_MONTHS], spending.months[MAX_MONTHS:]
    return visit.page(
        "spending.html",
        month=spending.month,
        payers=payers,
        most=max((spent.total for _name, _who, spent in payers), default=0),
        is_partial=spending.is_partial,
        most_summed=MAX_ENTRIES_SUMMED,
        months=[
            _MonthRow(month, spent, month == spending.month, may_download and is_closed(month, visit.now))
            for month, spent in shown
        ],
        most_of_months=max((spent.total for _month, spent in shown), default=0),
        older=f"{SPENDING}?month={older[0][0]}" if older else "",
    )


def _payer_name(visit: Visit, who: Payer, keys: Sequence[KeyName]) -> str:
    if who.key_id is None:
        return who.member or visit.text(BY_HAND)
    return next((key_label(key) for key in keys if key.id == who.key_id), str(who.key_id))


@Page("GET", "/dashboard/statements/{month}.csv", Action.VIEW_STATEMENTS)
async def download_bookings(visit: Visit) -> Response:
    """Send the purchases and refunds of a past month as CSV; money in units of its currency."""
    month = read_month(visit.request.path_params["month"])
    await visit.use.statements.find(visit.signed_in, month, visit.now)
    rows = [
        (
            wib_text(each.at), each.kind.value, each.receipt, each.payment_id, each.credits, each.currency,
            each.price, each.tax, each.amount,
        )
        for each in await visit.use.credits.list_bookings(visit.signed_in, month)
    ]  # fmt: skip
    return send_csv((_COLUMNS, *rows), f"statement-{month}.csv")


@Page("GET", "/dashboard/statements/{month}.pdf", Action.VIEW_STATEMENTS)
async def download_statement(visit: Visit) -> Response:
    """Send the statement of a past month as PDF."""
    month, document = await _document(visit)
    made = await visit.use.printer.print_pdf(visit.signed_in.account.id, document)
    return send_file(made, f"statement-{month}.pdf", "application/pdf")


@Page("GET", "/dashboard/statements/{month}", Action.VIEW_STATEMENTS)
async def show_statement(visit: Visit) -> Response:
    """Show the statement of a past month, as its PDF has it."""
    month, document = await _document(visit)
    return visit.page("statement.html", month=month, document=document)


async def _document(visit: Visit) -> tuple[Month, Document]:
    month, who = read_month(visit.request.path_params["month"]), visit.signed_in
    statement = await visit.use.statements.find(who, month, visit.now)
    bookings = await visit.use.credits.list_bookings(who, month)
    spending, keys = await visit.use.statements.find_spending(who, month, visit.now)
    wanted = TransactionFilter(None, month.begins_at, month.ends_at)
    newest = await visit.use.reads.list_entries(who, wanted, MAX_LISTED, None)
    described = await visit.use.reads.describe_entries(who, newest.entries)
    payers = [(_payer_name(visit, each, keys), spent) for each, spent in spending.payers]
    buyer = await visit.use.credits.find_buyer(who)
    document = statement_document(
        visit, statement, buyer, bookings, payers, described.entries, is_partial=spending.is_partial
    )
    return month, document


def statement_document(
    visit: Visit, statement: Statement, buyer: Buyer, bookings: Sequence[Booking],
    payers: Sequence[tuple[str, Spent]], entries: Sequence[DescribedEntry], *, is_partial: bool,
) -> Document:  # fmt: skip
    """Build the document of a statement, in the language of the visit; `is_partial` is of the payers."""
    month, language = statement.month, visit.look.language
    title = visit.text("Statement of %(month)s", month=format_month(month.first_day, language))
    return Document(
        title,
        language.value,
        month.ends_at,
        visit.text(PAGE_OF),
        [
            _statement_facts(visit, statement),
            *parties(visit.look, visit.use.credits.start.packages.seller, buyer),
            *_bookings(visit, bookings),
            *_by_kind(visit, statement),
            *_by_payer(visit, payers, is_partial=is_partial),
            *_by_day(visit, statement),
            *_by_entry(visit, entries),
            Paragraph(
                visit.text("Days and times are in WIB (UTC+7). Amounts without a currency are credits.")
            ),
            Paragraph(
                visit.text("Every single entry is in the CSV file of this month, on the page Spending.")
            ),
        ],
    )


def _statement_facts(visit: Visit, statement: Statement) -> Facts:
    month, language, account = statement.month, visit.look.language, visit.signed_in.account
    days = f"{format_day(month.first_day, language)} \N{EN DASH} {format_day(month.last_day, language)}"
    return Facts(
        [
            (visit.text("Statement number"), f"{month}-{account.id.hex[-12:]}"),
            (visit.text("Account"), account.full_name),
            (visit.text("Account id"), str(account.id)),
            (visit.text("Period"), days),
            (visit.text("Opening balance"), format_count(statement.opening, language)),
            (visit.text("Closing balance"), format_count(statement.closing, language)),
        ]
    )


def _bookings(visit: Visit, bookings: Sequence[Booking]) -> Sequence[Block]:
    """Build the table of purchases and refunds, with a sum of each currency."""
    heading, language = Heading(visit.text("Purchases and refunds")), visit.look.language
    if not bookings:
        return [heading, Paragraph(visit.text("Nothing was bought or refunded in this month."))]
    head = [
        visit.text(text)
        for text in (_("Date"), _("For"), _("Receipt"), _("Credits"), _("Price"), _("Tax"), _("Total"))
    ]

    def row(day: str, name: str, receipt: str, credits: int, *money: int, currency: str) -> list[str]:
        shown = [format_money(each, currency, language) for each in money]
        return [day, name, receipt, format_change(credits, language), *shown]

    rows = [
        row(
            format_day(each.at, language), visit.text(BOOKING_KINDS[each.kind]), each.receipt, each.credits,
            each.price, each.tax, each.amount, currency=each.currency,
        )
        for each in bookings
    ]  # fmt: skip
    sums = [
        row(visit.text("Sum"), "", "", credits, price, tax, price + tax, currency=currency)
        for currency, (credits, price, tax) in sum_by_currency(bookings).items()
    ]
    return [heading, Table(head, [*rows, *sums[:-1]], (3, 4, 3, 2, 3, 3, 3), (3, 4, 5, 6), sums[-1])]


def _by_kind(visit: Visit, statement: Statement) -> Sequence[Block]:
    language = visit.look.language
    heading = Heading(visit.text("By kind"))
    if not statement.lines:
        return [heading, Paragraph(visit.text("There were no entries in this month."))]
    head = [visit.text("Kind"), visit.text("Entries"), visit.text("Credits")]
    rows = [
        [visit.text(TRANSFER_KINDS[kind]), format_count(entries, language), format_change(credits, language)]
        for kind, entries, credits in statement.by_kind()
    ]
    change = format_change(statement.closing - statement.opening, language)
    total = [visit.text("Sum"), format_count(statement.entries, language), change]
    return [heading, Table(head, rows, (6, 2, 3), (1, 2), total)]


def _by_day(visit: Visit, statement: Statement) -> Sequence[Block]:
    if not statement.lines:
        return []
    language = visit.look.language
    head = [visit.text(text) for text in (_("Day"), _("Kind"), _("Entries"), _("Credits"))]
    rows = [
        [
            format_day(line.day, language),
            visit.text(TRANSFER_KINDS[line.kind]),
            format_count(line.entries, language),
            format_change(line.credits, language),
        ]
        for line in statement.lines
    ]
    return [Heading(visit.text("By day")), Table(head, rows, (3, 5, 2, 3), (2, 3))]


def _by_payer(visit: Visit, payers: Sequence[tuple[str, Spent]], *, is_partial: bool) -> Sequence[Block]:
    """Build the table of spending, in which a charge is positive."""
    if not payers:
        return []
    language = visit.look.language
    head = [visit.text(text) for text in (_("Key or member"), _("Meetings"), _("Notes"), _("Sum"))]
    rows = [
        [name, *(format_count(credits, language) for credits in (spent.meetings, spent.notes, spent.total))]
        for name, spent in payers
    ]
    text = _("Of the newest %(entries)s entries of the month. The CSV file has them all.")
    most = format_count(MAX_ENTRIES_SUMMED, language)
    note = [Paragraph(visit.text(text, entries=most))] if is_partial else []
    heading = Heading(visit.text("Spending by key and member"))
    return [heading, *note, Table(head, rows, (6, 2, 2, 2), (1, 2, 3))]


def _by_entry(visit: Visit, entries: Sequence[DescribedEntry]) -> Sequence[Block]:
    if not entries:
        return []
    language = visit.look.language
    head = [visit.text(text) for text in (_("Time"), _("For"), _("By"), _("Credits"))]
    rows = [
        [
            format_instant(each.entry.at, language),
            f"{visit.text(TRANSFER_KINDS[each.entry.transfer.kind])}: {about(visit, each)}",
            payer(visit, each),
            format_change(each.entry.amount, language),
        ]
        for each in reversed(entries)
    ]
    last = visit.text("The last %(entries)s entries", entries=format_count(MAX_LISTED, language))
    heading = visit.text("Entries") if len(entries) < MAX_LISTED else last
    return [Heading(heading), Table(head, rows, (4, 6, 4, 2), (3,))]


@Page("GET", f"{CREDITS_PAGE}/{{id}}/receipt.pdf", Action.VIEW_STATEMENTS)
async def download_receipt(visit: Visit) -> Response:
    """Send the receipt of a payment as PDF, in the language of the page or that of `lang`."""
    found, receipt = await visit.use.credits.find_receipt(visit.signed_in, visit.path_id("receipt"))
    chosen = visit.query("lang")
    look = evolve(visit.look, language=Language(chosen)) if chosen in set(Language) else visit.look
    made = await visit.use.printer.print_pdf(
        visit.signed_in.account.id, receipt_document(look, found, receipt)
    )
    return send_file(made, f"{look.text('Receipt').lower()}-{receipt.text}.pdf", "application/pdf")


def receipt_document(look: Look, found: PaymentPapers, receipt: Receipt) -> Document:
    """Build the document of a receipt."""
    payment, language = found.payment, look.language
    money = [format_money(each, payment.currency, language) for each in (payment.price, payment.tax)]
    total = format_money(payment.amount, payment.currency, language)
    credits = format_count(payment.credits, language)
    bought = look.plural("%(credits)s credit", "%(credits)s credits", payment.credits, credits=credits)
    if payment.package_id:
        package = look.text("package %(id)s", id=payment.package_id)
        bought = f"{bought} ({package})"
    head = [look.text(text) for text in (_("Item"), _("Price"), _("Tax"), _("Total"))]
    facts = [
        (look.text("Receipt number"), receipt.text),
        (look.text("Date (WIB)"), format_day(receipt.issued_at, language)),
        (look.text("Status"), payment_state(look, found)[0]),
        *([(look.text("Method"), payment.method)] if payment.method else []),
        (look.text("Payment id"), str(payment.id)),
    ]
    return Document(
        look.text("Receipt %(number)s", number=receipt.text),
        language.value,
        receipt.issued_at,
        look.text(PAGE_OF),
        [
            Facts(facts),
            *parties(look, receipt.seller, receipt.buyer),
            Heading(look.text("Credits")),
            Table(head, [[bought, *money, total]], (6, 3, 3, 3), (1, 2, 3)),
            *_refund(look, found),
        ],
    )


def _refund(look: Look, found: PaymentPapers) -> Sequence[Block]:
    """Show the refund of a payment, unless it failed."""
    refund, language = found.standing_refund, look.language
    if refund is None:
        return ()
    sent_at = refund.paid_back_at
    unsent = look.text(_("not yet") if refund.refused_at is None else _("by the operator, in another way"))
    facts = [
        (look.text("Date (WIB)"), format_day(refund.created_at, language)),
        (look.text("Credits"), format_count(refund.credits, language)),
        (look.text("Amount"), format_money(refund.amount, found.payment.currency, language)),
        (look.text("Sent back"), format_day(sent_at, language) if sent_at else unsent),
    ]
    return (Heading(look.text("Refund")), Facts(facts))


def parties(look: Look, seller: Seller, buyer: Buyer) -> Sequence[Block]:
    """Name who sells, unless the settings name none, and who buys, each with address and tax number."""
    named: list[tuple[str, Seller | Buyer]] = [(_("Seller"), seller)] if seller.name else []
    blocks: list[Block] = []
    for heading, party in (*named, (_("Buyer"), buyer)):
        number = look.text("Tax number: %(number)s", number=party.tax_number) if party.tax_number else ""
        lines = (party.name, party.address, number)
        blocks += [Heading(look.text(heading)), Paragraph("\n".join(line for line in lines if line))]
    return blocks
