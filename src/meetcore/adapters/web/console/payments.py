"""Payments for credits: the list, one payment, its doubts and its refund."""

from collections.abc import Mapping
from typing import Final

from starlette.responses import Response

from meetcore.adapters.catalogues import format_money
from meetcore.adapters.web import forms, texts
from meetcore.adapters.web.formats import format_count
from meetcore.adapters.web.pages.credits import payment_state
from meetcore.adapters.web.texts import _
from meetcore.adapters.web.visit import ConsolePage, ConsoleVisit, Question, see_other
from meetcore.domain.errors import DomainError, require_record
from meetcore.domain.members.roles import OperatorAction
from meetcore.domain.money import ledger
from meetcore.domain.money.amounts import read_amount
from meetcore.domain.money.proposals import ProposalKind
from meetcore.domain.payments.payments import Payment, PaymentStatus, is_acceptable, topup_reference
from meetcore.domain.payments.refunds import refund_amount
from meetcore.domain.payments.views import PaymentPage
from meetcore.domain.records.pages import ProposalLine
from meetcore.usecases.payments.refunds import can_be_refunded
from meetcore.usecases.requests.console import Movement

PAYMENTS: Final = "/console/payments"
_ONE: Final = f"{PAYMENTS}/{{id}}"
MAX_SHOWN: Final = 2_000
"""Characters of a gateway's message that are shown."""

_AMOUNT: Final = _("Write a whole number of credits, at most those of the payment.")
_REASON: Final = _("Write 1 to 200 characters.")
_TOO_MANY: Final = _("The balance would leave the range of credits.")
_MOVEMENTS: Final = {
    Movement.POSTED: "payment_refunded",
    Movement.REPEATED: "payment_refunded",
    Movement.PROPOSED: "credits_proposed",
}


@ConsolePage("GET", PAYMENTS, OperatorAction.VIEW_PAYMENTS)
async def list_payments(visit: ConsoleVisit) -> Response:
    """List the payments in doubt, or all of them."""
    is_all = visit.query("show") == "all"
    found = await visit.use.payments.list_payments(
        visit.signed_in, forms.PAGE_SIZE + 1, forms.read_before(visit), in_doubt=not is_all
    )
    shown, older = forms.first_page(visit, found, lambda line: line.payment.id, "show")
    return visit.page(
        "console/payments.html",
        payments=[(each, payment_state(visit.look, each), _doubt(visit, each.payment)) for each in shown],
        is_all=is_all,
        older=older,
    )


@ConsolePage("GET", _ONE, OperatorAction.VIEW_PAYMENTS)
async def show_payment(visit: ConsoleVisit) -> Response:
    return await _show(visit, {})


async def _ask_to_accept(visit: ConsoleVisit) -> Question | None:
    found = await _find(visit)
    payment = found.payment
    doubt = _doubt(visit, payment)  # such as another amount, which the outcome does not show
    if doubt is None or not is_acceptable(payment):
        return None
    outcome = visit.look.plural(
        "The account gets %(credits)s credit and a receipt of %(amount)s.",
        "The account gets %(credits)s credits and a receipt of %(amount)s.",
        payment.credits,
        credits=_count(visit, payment.credits),
        amount=_money(visit, payment, payment.amount),
    )
    return Question(
        visit.text(
            "Accept the payment %(payment)s of %(account)s?", payment=payment.id, account=found.account_name
        ),
        f"{doubt[0]}. {outcome}",
        visit.text("Accept"),
        f"{payment.status} {payment.doubt}",
    )


@ConsolePage("POST", f"{_ONE}/accept", OperatorAction.APPROVE_CREDITS, needs_fresh=True, ask=_ask_to_accept)
async def accept(visit: ConsoleVisit) -> Response:
    """Give the account the credits of a payment in doubt."""
    id = visit.path_id("payment")
    try:
        await visit.use.payments.accept(visit.signed_in, visit.client_address, id)
    except DomainError as refusal:
        return await _show(visit, forms.explain(visit.look, refusal))
    except ledger.InvalidAmount:
        return await _show(visit, {forms.FORM: visit.text(_TOO_MANY)})
    return see_other(f"{PAYMENTS}/{id}?done=payment_accepted")


async def _ask_to_dismiss(visit: ConsoleVisit) -> Question | None:
    found = await _find(visit)
    if _reason_problem(visit):
        return None
    outcome = (
        _("The payment fails. The account gets no credits for it.")
        if found.payment.status is PaymentStatus.PENDING
        else _("Nothing is moved, here or at the gateway. The same doubt does not come again.")
    )
    return Question(
        visit.text(
            "Close the doubt about the payment %(payment)s of %(account)s?",
            payment=found.payment.id, account=found.account_name,
        ),
        visit.text(outcome),
        visit.text("Close the doubt"),
        f"{found.payment.status} {found.payment.doubt}",
    )  # fmt: skip


@ConsolePage("POST", f"{_ONE}/dismiss", OperatorAction.APPROVE_CREDITS, needs_fresh=True, ask=_ask_to_dismiss)
async def dismiss(visit: ConsoleVisit) -> Response:
    """Close a doubt that was settled elsewhere."""
    id = visit.path_id("payment")
    try:
        await visit.use.payments.dismiss(visit.signed_in, visit.client_address, id, _reason(visit))
    except ledger.InvalidReason:
        return await _show(visit, _reason_problem(visit))
    except DomainError as refusal:
        return await _show(visit, forms.explain(visit.look, refusal))
    return see_other(f"{PAYMENTS}/{id}?done=doubt_closed")


async def _ask_to_refund(visit: ConsoleVisit) -> Question | None:
    found = await _find(visit)
    payment = found.payment
    credits = _read_credits(visit, payment)
    if credits is None or _reason_problem(visit) or payment.status is not PaymentStatus.PAID:
        return None
    values = {
        "credits": _count(visit, credits),
        "amount": _money(visit, payment, refund_amount(payment, credits)),
    }
    outcome = (
        visit.look.plural(
            "Proposed to another operator, who approves it: %(credits)s credit for %(amount)s.",
            "Proposed to another operator, who approves it: %(credits)s credits for %(amount)s.",
            credits, **values,
        )
        if visit.use.proposals.needs_two(-credits)
        else visit.look.plural(
            "%(credits)s credit leaves the account at once. Then the gateway sends %(amount)s back.",
            "%(credits)s credits leave the account at once. Then the gateway sends %(amount)s back.",
            credits, **values,
        )
    )  # fmt: skip
    return Question(
        visit.text(
            "Refund the payment %(payment)s of %(account)s?", payment=payment.id, account=found.account_name
        ),
        outcome,
        visit.text("Refund the payment"),
    )


@ConsolePage("POST", f"{_ONE}/refund", OperatorAction.MOVE_CREDITS, needs_fresh=True, ask=_ask_to_refund)
async def refund(visit: ConsoleVisit) -> Response:
    """Take unspent credits back, and have their money sent back; above the limit, propose it."""
    payment = (await _find(visit)).payment
    credits = _read_credits(visit, payment)
    wrong = {"amount": visit.text(_AMOUNT)} if credits is None else {}
    wrong |= _reason_problem(visit)
    if credits is None or wrong:
        return await _show(visit, wrong)
    try:
        movement = await visit.use.accounts.move_credits(
            visit.signed_in, visit.client_address, payment.account_id, ProposalKind.REFUND, -credits,
            _reason(visit), topup_reference(payment.id),
        )  # fmt: skip
    except DomainError as refusal:
        return await _show(visit, forms.explain(visit.look, refusal))
    return see_other(f"{PAYMENTS}/{payment.id}?done={_MOVEMENTS[movement]}")


async def _find(visit: ConsoleVisit) -> PaymentPage:
    return require_record(await visit.use.payments.find(visit.signed_in, visit.path_id("payment")), "payment")


def _read_credits(visit: ConsoleVisit, payment: Payment) -> int | None:
    """Read how many credits are refunded; `None` for a text that is no number of the payment's."""
    try:
        text = visit.form.get("amount", "")
        return read_amount(text, visit.look.language, least=1, most=payment.credits)
    except ledger.InvalidAmount:
        return None


def _reason(visit: ConsoleVisit) -> str:
    return visit.form.get("reason", "").strip()


def _reason_problem(visit: ConsoleVisit) -> dict[str, str]:
    try:
        ledger.check_reason(_reason(visit))
    except ledger.InvalidReason:
        return {"reason": visit.text(_REASON)}
    return {}


async def _show(visit: ConsoleVisit, errors: Mapping[str, str]) -> Response:
    found = await _find(visit)
    payment = found.payment
    return visit.form_page(
        "console/payment.html",
        errors,
        found=found,
        payment=payment,
        state=payment_state(visit.look, found),
        doubt=_doubt(visit, payment),
        closed_doubt=visit.text(texts.PAYMENT_DOUBTS[payment.doubt][0]) if payment.doubt else "",
        can_accept=is_acceptable(payment),
        can_be_refunded=can_be_refunded(payment),
        messages=[
            (each, visit.text(texts.MESSAGE_SOURCES[each.source]), each.body[:MAX_SHOWN])
            for each in found.messages
        ],
        proposal=await _find_proposal(visit, payment),
        above=visit.use.proposals.above,
    )


async def _find_proposal(visit: ConsoleVisit, payment: Payment) -> ProposalLine | None:
    """Return the proposal to refund a payment that waits for another operator, if any."""
    if payment.status is not PaymentStatus.PAID or not visit.may(OperatorAction.APPROVE_CREDITS):
        return None
    reference = topup_reference(payment.id)
    pending = await visit.use.proposals.list_pending(visit.signed_in)
    return next((each for each in pending if each.proposal.reference == reference), None)


def _doubt(visit: ConsoleVisit, payment: Payment) -> tuple[str, str] | None:
    """Return an open doubt in words, and what to do."""
    if payment.doubt is None or not payment.is_doubtful:
        return None
    name, advice = texts.PAYMENT_DOUBTS[payment.doubt]
    return visit.text(name), visit.text(advice)


def _money(visit: ConsoleVisit, payment: Payment, amount: int) -> str:
    return format_money(amount, payment.currency, visit.look.language)


def _count(visit: ConsoleVisit, number: int) -> str:
    return format_count(number, visit.look.language)
