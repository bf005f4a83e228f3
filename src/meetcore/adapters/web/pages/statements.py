"""The statement of a month as PDF: balances, sums by kind and by day."""

from collections.abc import Sequence

from starlette.responses import Response

from meetcore.adapters.web.files import send_file
from meetcore.adapters.web.formats import format_change, format_count, format_day, format_month
from meetcore.adapters.web.page import Page
from meetcore.adapters.web.texts import PAGE_OF, TRANSFER_KINDS, _
from meetcore.adapters.web.visit import Visit
from meetcore.domain.members.roles import Action
from meetcore.domain.money.statements import Statement, read_month
from meetcore.ports.document_printer import Block, Document, Facts, Heading, Paragraph, Table


@Page("GET", "/dashboard/statements/{month}.pdf", Action.VIEW_STATEMENTS)
async def download_statement(visit: Visit) -> Response:
    """The statement of a month that is over."""
    month = read_month(visit.request.path_params["month"])
    statement = await visit.use.statements.find(visit.signed_in, month, visit.now)
    made = await visit.use.printer.print_pdf(visit.signed_in.account.id, statement_document(visit, statement))
    return send_file(made, f"statement-{month}.pdf", "application/pdf")


def statement_document(visit: Visit, statement: Statement) -> Document:
    """What a statement says, in the language of the visit."""
    month, language = statement.month, visit.look.language
    title = visit.text(_("Statement of %(month)s"), month=format_month(month.first_day, language))
    return Document(
        title,
        language.value,
        month.ends_at,
        visit.text(PAGE_OF),
        [
            _facts(visit, statement),
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


def _facts(visit: Visit, statement: Statement) -> Facts:
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
        [
            visit.text(TRANSFER_KINDS[kind]),
            format_count(entries, language),
            format_change(credits, language),
        ]
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
