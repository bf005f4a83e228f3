"""Credits: what is on sale, payments, and one payment, to which customers come back from the gateway."""

from collections.abc import Container, Mapping
from typing import Final

from attrs import frozen
from starlette.responses import Response

from meetcore.adapters.web.formats import format_count
from meetcore.adapters.web.forms import FORM, PAGE_SIZE, explain, first_page, read_before
from meetcore.adapters.web.texts import LOOKED_INTO, PARTLY_REFUNDED, PAYMENT_STATES, _
from meetcore.adapters.web.visit import Look, Page, Visit, see_other
from meetcore.domain.errors import DomainError, InvalidRequest, NotFound, UpstreamError
from meetcore.domain.members.roles import Action
from meetcore.domain.money.amounts import read_amount
from meetcore.domain.money.transfers import InvalidAmount
from meetcore.domain.payments.packages import WHOLE, CreditOrder, CreditPackage, FreeAmount
from meetcore.domain.payments.payments import MAX_PENDING, Payment, PaymentStatus, TooManyPending
from meetcore.domain.payments.receipts import MAX_BUYER, Buyer
from meetcore.domain.payments.views import PaymentPapers
from meetcore.usecases.mails import CREDITS_PAGE as ROOT
from meetcore.usecases.requests.idempotency import Refusal

_RENEWED_AFTER_S: Final = (1, 1, 2, 3, 5)
_RETURNS: Final = frozenset(map(str, range(1, 61)))
"""Renewals after a return from the gateway, some five minutes."""
_WITH_RECEIPT: Final = (PaymentStatus.PAID, PaymentStatus.REFUNDED)


@frozen
class Hint:
    """Something that needs attention, with the page where it is dealt with; `kind` is that of a notice."""

    text: str
    path: str
    link: str
    kind: str = "warn"


def buy_hint(visit: Visit, text: str, kind: str = "warn") -> Hint:
    """Add to a translated text how credits are got: to those who cannot buy them, whom to ask."""
    if not visit.may(Action.BUY_CREDITS):
        ask = visit.text("An owner of the account, or a member with the role Finance, can buy credits.")
        return Hint(f"{text} {ask}", ROOT, visit.text("Credits"), kind)
    is_open = visit.use.credits.show_shop(visit.signed_in, visit.now).is_open
    link = _("Buy credits") if is_open else _("How to get credits")
    return Hint(text, ROOT, visit.text(link), kind)


@frozen
class _Offer:
    """A package with its order, and the key of its form."""

    package: CreditPackage
    order: CreditOrder
    form_key: str


@frozen
class _Row:
    """A payment as pages show it; `pay_url` is where it can be paid, for those who may."""

    payment: Payment
    state: tuple[str, str]
    pay_url: str
    has_receipt: bool


@frozen
class _Renewal:
    """After how many seconds the page of a payment is renewed, 0 for never.

    `path` is its next address while the gateway's confirmation is awaited, else empty.
    """

    after_s: int = 0
    path: str = ""


@Page("GET", ROOT, Action.VIEW_LEDGER)
async def show_credits(visit: Visit) -> Response:
    """Show what is on sale, and the payments of the account."""
    return await _show(visit, {})


@Page("POST", ROOT, Action.BUY_CREDITS)
async def buy_credits(visit: Visit) -> Response:
    """Start a payment; its page has the link to the gateway, for no form may lead to another site."""
    use, who, package_id = visit.use.credits, visit.signed_in, visit.form.get("package_id") or None
    try:
        credits = None if package_id else _read_credits(visit, use.show_shop(who, visit.now).free)
        outcome = await use.buy(who, package_id, credits, visit.sent_form(), visit.look.language.value)
    except InvalidAmount:
        text = visit.text("Write a whole number of credits within the bounds.")
        return await _show(visit, {"credits": text})
    except DomainError as refusal:
        return await _show(visit, _explain(visit, refusal))
    if outcome.refusal is not None:
        return await _show(visit, _explain(visit, outcome.refusal))
    return see_other(f"{ROOT}/{(outcome.record or {})['id']}")


def _read_credits(visit: Visit, free: FreeAmount | None) -> int:
    if free is None:
        raise NotFound("No package was chosen.")
    text, language = visit.form.get("credits", ""), visit.look.language
    return read_amount(text, language, least=free.credits_from, most=free.credits_to)


def _explain(visit: Visit, refusal: DomainError | Refusal) -> dict[str, str]:
    if refusal.code == NotFound.code:
        return {FORM: visit.text("This is not on sale any more. Choose another package.")}
    if isinstance(refusal, UpstreamError):
        text = _("The payment gateway did not answer. Nothing was paid. Try again in a minute.")
        return {FORM: visit.text(text)}
    if isinstance(refusal, TooManyPending):
        text = _("%(payments)s payments wait to be paid. Pay one of them below, or let one expire.")
        return {FORM: visit.text(text, payments=MAX_PENDING)}
    return explain(visit.look, refusal)


async def _show(visit: Visit, errors: Mapping[str, str]) -> Response:
    use, who = visit.use.credits, visit.signed_in
    shop = use.show_shop(who, visit.now)
    found = await use.list_payments(who, PAGE_SIZE + 1, read_before(visit))
    shown, older = first_page(visit, found, lambda one: one.payment.id)
    return visit.form_page(
        "credits.html",
        errors,
        available=who.account.balance - who.account.held,
        account_id=who.account.id,
        is_open=shop.is_open,
        offers=[_Offer(package, order, _form_key(visit, package.id)) for package, order in shop.packages],
        free=shop.free,
        free_key=_form_key(visit, ""),
        tax_share=use.start.packages.tax_basis_points / WHOLE,
        typed=visit.form.get("credits", ""),
        rows=[_row(visit, each) for each in shown],
        older=older,
        buyer=await _buyer(visit),
    )


def _form_key(visit: Visit, package_id: str) -> str:
    """Return the key of a form: of the one that was refused its own, so that a retry is the same payment."""
    is_sent = visit.form.get("package_id", "") == package_id
    return (visit.form.get("form_key") if is_sent else None) or visit.new_form_key()


def payment_state(look: Look, papers: PaymentPapers) -> tuple[str, str]:
    """Return how a payment stands: the text, and the kind of its mark."""
    payment, refund = papers.payment, papers.standing_refund
    text, kind = PAYMENT_STATES[payment.status]
    if refund is None or not papers.is_partly_refunded:
        return look.text(text), kind
    part, credits = (format_count(each, look.language) for each in (refund.credits, payment.credits))
    return look.text(PARTLY_REFUNDED, part=part, credits=credits), kind


def _row(visit: Visit, papers: PaymentPapers) -> _Row:
    payment = papers.payment
    can_pay = (
        payment.status is PaymentStatus.PENDING
        and not payment.is_doubtful
        and visit.now < payment.expires_at
        and visit.may(Action.BUY_CREDITS)
        and not visit.is_view
    )
    return _Row(
        payment,
        visit.mark(LOOKED_INTO) if payment.is_doubtful else payment_state(visit.look, papers),
        (payment.payment_url or "") if can_pay else "",
        payment.status in _WITH_RECEIPT and visit.may(Action.VIEW_STATEMENTS),
    )


@Page("GET", f"{ROOT}/{{id}}", Action.VIEW_LEDGER)
async def show_payment(visit: Visit) -> Response:
    """Show one payment; while it is to be paid, the page renews itself."""
    found = await visit.use.credits.find(visit.signed_in, visit.path_id("payment"))
    payment = found.payment
    return visit.page(
        "payment.html",
        payment=payment,
        refund=found.standing_refund,
        is_partly_refunded=found.is_partly_refunded,
        row=_row(visit, found),
        buyer=await _buyer(visit) if payment.status is PaymentStatus.PENDING else None,
        balance=await _balance(visit) if payment.status is PaymentStatus.PAID else None,
        renewal=_renewal(visit, payment),
    )


def _renewal(visit: Visit, payment: Payment) -> _Renewal:
    """Return when a payment under way is shown again: sooner at first after a return from the gateway.

    The address counts the times, also where no script runs. A customer who is back without having paid is
    asked to pay again after the last of them.
    """
    if payment.status is not PaymentStatus.PENDING or payment.is_doubtful:
        return _Renewal()
    text = visit.query("returned")
    times = int(text) if text in _RETURNS else 0
    if not times:
        return _Renewal(_RENEWED_AFTER_S[-1])
    after_s = _RENEWED_AFTER_S[min(times, len(_RENEWED_AFTER_S)) - 1]
    return _Renewal(after_s, f"{ROOT}/{payment.id}?returned={times + 1}")


async def _balance(visit: Visit) -> int:
    """Read the balance after the payment: that of the visit may be from before it was paid."""
    again = await visit.area.find(visit.cookies.read(visit.request, visit.cookies.session))
    return (again or visit.signed_in).account.balance


@Page("POST", f"{ROOT}/billing", Action.BUY_CREDITS)
async def change_billing(visit: Visit) -> Response:
    """Change whom later receipts and statements are made out to."""
    fields = {name: _lines(visit.form.get(name, "")) for name in MAX_BUYER}
    try:
        await visit.use.credits.save_buyer(visit.signed_in, Buyer(**fields), visit.sent_form())
    except InvalidRequest as refusal:
        return await _show(visit, _billing_errors(visit, explain(visit.look, refusal)))
    except DomainError as refusal:
        return await _show(visit, explain(visit.look, refusal))
    return see_other(f"{ROOT}?done=billing_changed")


def _billing_errors(visit: Visit, wrong: Container[str]) -> dict[str, str]:
    """Explain the fields of the billing details that are wrong, in the order of the form."""
    texts = {"name": _("Write 1 to %(most)s characters.")}
    other = _("Write at most %(most)s characters.")
    return {
        f"buyer_{name}": visit.text(texts.get(name, other), most=most)
        for name, most in MAX_BUYER.items()
        if name in wrong
    }


def _lines(text: str) -> str:
    """Return a text without blank lines and the spaces around its lines."""
    return "\n".join(line for each in text.splitlines() if (line := each.strip()))


async def _buyer(visit: Visit) -> Buyer | None:
    """Return whom receipts are made out to, as it is or as it was typed; `None` where the role sees none."""
    if not visit.may(Action.VIEW_STATEMENTS):
        return None
    typed = visit.typed(f"{ROOT}/billing")
    if typed:
        return Buyer(**{name: typed.get(name, "") for name in MAX_BUYER})
    return await visit.use.credits.find_buyer(visit.signed_in)
