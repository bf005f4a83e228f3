"""Receipts of payments as PDF, and the names of seller and buyer on documents."""

from collections.abc import Sequence

from attrs import evolve
from starlette.responses import Response

from meetcore.adapters.catalogues import format_money
from meetcore.adapters.web.formats import format_count, format_day
from meetcore.adapters.web.forms import send_file
from meetcore.adapters.web.texts import PAGE_OF, PAYMENT_STATES, _
from meetcore.adapters.web.visit import Look, Page, Visit
from meetcore.domain.members.roles import Action
from meetcore.domain.notes.notes import Language
from meetcore.domain.payments.packages import Seller
from meetcore.domain.payments.receipts import Buyer, Receipt
from meetcore.domain.payments.views import PaymentPapers
from meetcore.domain.records.documents import Block, Document, Facts, Heading, Paragraph, Table
from meetcore.usecases.payments.start_payment import CREDITS_PAGE


@Page("GET", f"{CREDITS_PAGE}/{{id}}/receipt.pdf", Action.VIEW_STATEMENTS)
async def download_receipt(visit: Visit) -> Response:
    """Send the receipt of a payment as PDF, in the language of the page or that of `lang`."""
    found, receipt = await visit.use.credits.find_receipt(visit.signed_in, visit.path_id("receipt"))
    chosen = visit.query("lang")
    look = evolve(visit.look, language=Language(chosen)) if chosen in set(Language) else visit.look
    made = await visit.use.printer.print_pdf(
        visit.signed_in.account.id, receipt_document(look, found, receipt)
    )
    return send_file(made, f"receipt-{receipt.text}.pdf", "application/pdf")


def receipt_document(look: Look, found: PaymentPapers, receipt: Receipt) -> Document:
    """Build the document of a receipt."""
    payment, language = found.payment, look.language
    money = [format_money(each, payment.currency, language) for each in (payment.price, payment.tax)]
    total = format_money(payment.amount, payment.currency, language)
    credits = format_count(payment.credits, language)
    bought = look.text(_("%(credits)s credits"), credits=credits)
    if payment.package_id:
        package = look.text(_("package %(id)s"), id=payment.package_id)
        bought = f"{bought} ({package})"
    head = [look.text(text) for text in (_("Item"), _("Price"), _("Tax"), _("Total"))]
    facts = [
        (look.text(_("Receipt number")), receipt.text),
        (look.text(_("Date (WIB)")), format_day(receipt.issued_at, language)),
        (look.text(_("Status")), look.text(PAYMENT_STATES[payment.status][0])),
        *([(look.text(_("Method")), payment.method)] if payment.method else []),
        (look.text(_("Payment id")), str(payment.id)),
    ]
    return Document(
        look.text(_("Receipt %(number)s"), number=receipt.text),
        language.value,
        receipt.issued_at,
        look.text(PAGE_OF),
        [
            Facts(facts),
            *parties(look, receipt.seller, receipt.buyer),
            Heading(look.text(_("Credits"))),
            Table(head, [[bought, *money, total]], (6, 3, 3, 3), (1, 2, 3)),
            *_refund(look, found),
        ],
    )


def _refund(look: Look, found: PaymentPapers) -> Sequence[Block]:
    """Show the refund of a payment, unless it failed."""
    refund, language = found.refund, look.language
    if refund is None or refund.failed_at is not None:
        return ()
    sent_at = refund.paid_back_at
    facts = [
        (look.text(_("Date (WIB)")), format_day(refund.created_at, language)),
        (look.text(_("Credits")), format_count(refund.credits, language)),
        (look.text(_("Amount")), format_money(refund.amount, found.payment.currency, language)),
        (look.text(_("Sent back")), format_day(sent_at, language) if sent_at else look.text(_("not yet"))),
    ]
    return (Heading(look.text(_("Refund"))), Facts(facts))


def parties(look: Look, seller: Seller, buyer: Buyer) -> Sequence[Block]:
    """Name who sells, unless the settings name none, and who buys, each with address and tax number."""
    named: list[tuple[str, Seller | Buyer]] = [(_("Seller"), seller)] if seller.name else []
    blocks: list[Block] = []
    for heading, party in (*named, (_("Buyer"), buyer)):
        number = look.text(_("Tax number: %(number)s"), number=party.tax_number) if party.tax_number else ""
        lines = (party.name, party.address, number)
        blocks += [Heading(look.text(heading)), Paragraph("\n".join(line for line in lines if line))]
    return blocks
