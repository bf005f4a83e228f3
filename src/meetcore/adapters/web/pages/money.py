"""The ledger with its running balance, as a page and as CSV, and the statement of a month as PDF."""

import csv
import io
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from typing import Final
from uuid import UUID

from attrs import frozen
from starlette.responses import Response

from meetcore.adapters.api.streams import PacedResponse
from meetcore.adapters.web.formats import format_change, format_count, format_day, format_month
from meetcore.adapters.web.forms import CSV_MARK, PAGE_SIZE, DayRange, attachment, older, read_days, send_file
from meetcore.adapters.web.texts import PAGE_OF, TRANSFER_KINDS, _
from meetcore.adapters.web.visit import Page, Visit
from meetcore.domain.errors import NotFound
from meetcore.domain.ids import parse_id
from meetcore.domain.meetings.schedule import wib_text
from meetcore.domain.members.roles import Action
from meetcore.domain.money import ledger, views
from meetcore.domain.money.statements import Statement, read_month
from meetcore.domain.records.documents import Block, Document, Facts, Heading, Paragraph, Table

_PAGES: Final = {
    "meeting": ("/dashboard/meetings/{id}", _("Meeting")),
    "note": ("/dashboard/notes/{id}", _("Notes")),
}
"""The page of an entry's reference and its name, by the type of the reference."""

_FILTERS: Final = ("from", "to", "kind", "key")
_COLUMNS: Final = (
    "number",
    "time",
    "kind",
    "credits",
    "balance_after",
    "reference_type",
    "reference_id",
    "api_key_id",
)


@frozen
class _Row:
    """An entry as the page shows it; `path` leads to its reference, if that has a page."""

    entry: ledger.Entry
    kind: str
    about: str
    path: str


@Page("GET", "/dashboard/ledger", Action.VIEW_LEDGER)
async def show_ledger(visit: Visit) -> Response:
    days, by_key = read_days(visit), bool(visit.query("key"))
    found = await _find(visit, views.TransactionFilter(_read_kind(visit), days.begins_at, days.ends_at))
    shown = found.entries[:PAGE_SIZE]
    further = shown[-1].number if len(found.entries) > PAGE_SIZE else found.reached
    # A page makes four trips at most, with the count: with the keys it leaves out the statements.
    use = visit.use
    keys = await use.keys.list_use(visit.signed_in) if by_key else []
    months = [] if by_key else await use.statements.list_months(visit.signed_in, visit.now)
    return visit.page(
        "ledger.html",
        balance=visit.signed_in.account.balance,
        held=visit.signed_in.account.held,
        rows=[_row(visit, entry) for entry in shown],
        older="" if further is None else older(visit, further, *_FILTERS, path="/dashboard/ledger"),
        is_far=further is not None and len(found.entries) <= PAGE_SIZE,
        by_key=by_key,
        keys=[
            ("any", visit.text(_("all"))),
            *((str(each.key.id), f"{each.key.name} …{each.key.last_four or ''}") for each in keys),
        ],
        errors=days.errors,
        chosen={name: visit.query(name) for name in _FILTERS},
        months=months,
        kinds=visit.choices((each.value, text) for each, text in TRANSFER_KINDS.items()),
    )


@Page("GET", "/dashboard/ledger.csv", Action.VIEW_LEDGER)
async def download_ledger(visit: Visit) -> Response:
    """Stream every entry of a range as CSV (RFC 4180)."""
    days = read_days(visit)
    if days.errors:
        return await _show_problem(visit)
    wanted = views.TransactionFilter(_read_kind(visit), days.begins_at, days.ends_at)
    headers = attachment(_file_name(days))
    pages = await visit.use.reads.file_of_entries(
        visit.signed_in, visit.client_address, wanted, _read_key(visit)
    )
    return PacedResponse(_csv(pages), headers, "text/csv; charset=utf-8")


async def _find(visit: Visit, wanted: views.TransactionFilter) -> views.EntriesOfKey:
    """Read one entry more than a page shows; with a key, as far as the search reached."""
    reads, before, key_id = visit.use.reads, _read_before(visit), _read_key(visit)
    if key_id is None:
        return views.EntriesOfKey(await reads.list_entries(visit.signed_in, wanted, PAGE_SIZE + 1, before))
    return await reads.list_entries_of_key(visit.signed_in, key_id, wanted, PAGE_SIZE + 1, before)


def _read_key(visit: Visit) -> UUID | None:
    try:
        return parse_id(visit.query("key"), "key")
    except NotFound:
        return None


async def _show_problem(visit: Visit) -> Response:
    assert show_ledger.handle is not None
    return await show_ledger.handle(visit)


async def _csv(pages: AsyncGenerator[Sequence[ledger.Entry], None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(pages):
        yield CSV_MARK.encode() + _lines([_COLUMNS])
        async for page in pages:
            yield _lines(map(_values, page))


def _lines(rows: Iterable[Sequence[object]]) -> bytes:
    out = io.StringIO()
    csv.writer(out).writerows(rows)
    return out.getvalue().encode()


def _values(entry: ledger.Entry) -> tuple[object, ...]:
    transfer = entry.transfer
    key_id = transfer.api_key_id
    return (
        entry.number, wib_text(entry.at), transfer.kind.value, entry.amount, entry.balance_after,
        transfer.reference.type, _harmless(transfer.reference.id),
        "" if key_id in (None, entry.account_id) else key_id,
    )  # fmt: skip


def _harmless(text: str) -> str:
    """Escape a text that a spreadsheet would take for a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def _file_name(days: DayRange) -> str:
    parts = [str(day) for day in (days.first, days.last) if day is not None]
    return "-".join(["ledger", *parts]) + ".csv"


def _row(visit: Visit, entry: ledger.Entry) -> _Row:
    transfer = entry.transfer
    kind, reference = visit.text(TRANSFER_KINDS[transfer.kind]), transfer.reference
    if (paths := _PAGES.get(reference.type)) is not None:
        path, about = paths
        return _Row(entry, kind, visit.text(about), path.format(id=reference.id))
    is_opening = reference.id == f"opening-{entry.account_id}"
    return _Row(entry, kind, visit.text(_("Opening balance")) if is_opening else reference.id, "")


def _read_kind(visit: Visit) -> ledger.TransferKind | None:
    text = visit.query("kind")
    return ledger.TransferKind(text) if text in set(ledger.TransferKind) else None


def _read_before(visit: Visit) -> int | None:
    text = visit.query("before")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


@Page("GET", "/dashboard/statements/{month}.pdf", Action.VIEW_STATEMENTS)
async def download_statement(visit: Visit) -> Response:
    """Send the statement of a past month as PDF."""
    month = read_month(visit.request.path_params["month"])
    statement = await visit.use.statements.find(visit.signed_in, month, visit.now)
    made = await visit.use.printer.print_pdf(visit.signed_in.account.id, statement_document(visit, statement))
    return send_file(made, f"statement-{month}.pdf", "application/pdf")


def statement_document(visit: Visit, statement: Statement) -> Document:
    """Build the document of a statement, in the language of the visit."""
    month, language = statement.month, visit.look.language
    title = visit.text(_("Statement of %(month)s"), month=format_month(month.first_day, language))
    return Document(
        title,
        language.value,
        month.ends_at,
        visit.text(PAGE_OF),
        [
            _statement_facts(visit, statement),
            *_by_kind(visit, statement),
            *_by_day(visit, statement),
            Paragraph(visit.text(_("Days and times are in WIB (UTC+7). Amounts are credits."))),
            Paragraph(
                visit.text(
                    _("Every single entry is in the CSV file of this month, on the page of the ledger.")
                )
            ),
        ],
    )


def _statement_facts(visit: Visit, statement: Statement) -> Facts:
    month, language, account = statement.month, visit.look.language, visit.signed_in.account
    days = f"{format_day(month.first_day, language)} \N{EN DASH} {format_day(month.last_day, language)}"
    return Facts(
        [
            (visit.text(_("Account")), account.full_name),
            (visit.text(_("Account id")), str(account.id)),
            (visit.text(_("Period")), days),
            (visit.text(_("Opening balance")), format_count(statement.opening, language)),
            (visit.text(_("Closing balance")), format_count(statement.closing, language)),
        ]
    )


def _by_kind(visit: Visit, statement: Statement) -> Sequence[Block]:
    language = visit.look.language
    heading = Heading(visit.text(_("By kind")))
    if not statement.lines:
        return [heading, Paragraph(visit.text(_("There were no entries in this month.")))]
    head = [visit.text(_("Kind")), visit.text(_("Entries")), visit.text(_("Credits"))]
    rows = [
        [visit.text(TRANSFER_KINDS[kind]), format_count(entries, language), format_change(credits, language)]
        for kind, entries, credits in statement.by_kind()
    ]
    change = format_change(statement.closing - statement.opening, language)
    total = [visit.text(_("Sum")), format_count(statement.entries, language), change]
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
    return [Heading(visit.text(_("By day"))), Table(head, rows, (3, 5, 2, 3), (2, 3))]
