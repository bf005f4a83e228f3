"""Refunds: unspent credits back, and the money for them; and the numbers of receipts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from uuid import UUID

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from meetcore.domain.errors import Conflict, InsufficientCredits, InvalidRequest, NotFound
from meetcore.domain.machine import IllegalStep
from meetcore.domain.money.ledger import (
    Book,
    ChainKey,
    Funds,
    InvalidAmount,
    InvalidReference,
    Reference,
    TransferKind,
    check_reference,
)
from meetcore.domain.money.transfers import legs, system_book
from meetcore.domain.payments.packages import Seller
from meetcore.domain.payments.payments import (
    Doubt,
    Payment,
    PaymentStatus,
    dismiss,
    disputed,
    payment_in,
    payment_of,
    topup_reference,
)
from meetcore.domain.payments.receipts import Buyer, Receipt, check_buyer, read_receipt_number, receipt_year
from meetcore.domain.payments.refunds import (
    Refund,
    doubt_of,
    fail_refund,
    refund_amount,
    refund_payment,
    refuse_refund,
    return_reference,
)
from tests.unit.domain.payments.test_payments import AT, LATER, PENDING

PAID = evolve(PENDING, status=PaymentStatus.PAID, ended_at=AT)
FUNDS = Funds(PAID.account_id, balance=450, held=50)
TRANSFER = UUID(int=9)


def test_unspent_credits_are_taken_back_with_their_money() -> None:
    key = ChainKey.of(bytes(32))
    after, refund, posting = refund_payment(PAID, FUNDS, TRANSFER, 400, "asked for", AT, key)
    assert (after.status, after.next_look_at) == (PaymentStatus.REFUNDED, AT)
    assert refund == Refund(
        payment_id=PAID.id, account_id=PAID.account_id, credits=400, amount=444_000, reason="asked for",
        created_at=AT,
    )  # fmt: skip
    assert posting.funds.balance == 50
    entry = posting.entry
    assert entry is not None
    assert (entry.transfer.kind, entry.amount, entry.key_id) == (TransferKind.TOPUP_REFUND, -400, key.id)
    assert (entry.transfer.id, entry.transfer.operation) == (TRANSFER, f"topup_refund:payment:{PAID.id}")
    assert entry.transfer.reference == Reference("payment", str(PAID.id))
    assert [leg.book for leg in legs(entry.transfer)] == [Book.CUSTOMER, Book.TOPUPS]
    assert system_book(TransferKind.TOPUP_REFUND) is Book.TOPUPS


@pytest.mark.parametrize("credits", [401, 450])
def test_no_more_than_is_available_is_taken_back(credits: int) -> None:
    with pytest.raises(InsufficientCredits) as refusal:
        refund_payment(PAID, FUNDS, TRANSFER, credits, "asked for", AT)
    assert refusal.value.details == {"required": credits, "available": 400}


def test_no_more_than_was_bought_is_taken_back() -> None:
    rich = evolve(FUNDS, balance=1_000)
    with pytest.raises(Conflict, match="This payment was for 500 credits") as refusal:
        refund_payment(PAID, rich, TRANSFER, 501, "asked for", AT)
    assert refusal.value.details == {"id": str(PAID.id)}
    assert refund_payment(PAID, rich, TRANSFER, 500, "asked for", AT)[1].amount == 555_000


@pytest.mark.parametrize("status", [each for each in PaymentStatus if each is not PaymentStatus.PAID])
def test_only_a_paid_payment_is_refunded_and_once(status: PaymentStatus) -> None:
    with pytest.raises(
        Conflict, match=f"Only a paid payment can be refunded, once; this one is {status}"
    ) as no:
        refund_payment(evolve(PAID, status=status), FUNDS, TRANSFER, 1, "asked for", AT)
    assert no.value.details == {"id": str(PAID.id)}


def test_a_refund_that_failed_leaves_a_paid_payment_for_an_operator() -> None:
    refunded, refund, _ = refund_payment(PAID, FUNDS, TRANSFER, 400, "asked for", AT)
    closed = evolve(refunded, doubt=Doubt.REFUND_FAILED, doubt_closed_at=AT)
    for before in (refunded, closed):
        after, failed = fail_refund(before, refund, LATER)
        assert after == evolve(PAID, doubt=Doubt.REFUND_FAILED, next_look_at=None)
        assert failed == evolve(refund, failed_at=LATER)
    with pytest.raises(IllegalStep):
        fail_refund(PAID, refund, LATER)
    assert return_reference(PAID.id) == f"payment:{PAID.id}:refund_failed"
    with pytest.raises(InvalidReference):
        check_reference(return_reference(PAID.id))


def test_a_payment_whose_refund_failed_is_refunded_by_no_gateway_again() -> None:
    _, refund, _ = refund_payment(PAID, FUNDS, TRANSFER, 400, "asked for", AT)
    text = (
        "The gateway failed to refund this payment. Send the money another way, and take the credits by an "
        "adjustment."
    )
    with pytest.raises(Conflict, match=f"^{text}$") as refusal:
        refund_payment(PAID, FUNDS, TRANSFER, 1, "asked for", AT, earlier=refund)
    assert refusal.value.details == {"id": str(PAID.id)}


def test_a_refund_that_the_gateway_refuses_is_the_operators() -> None:
    refunded, refund, _ = refund_payment(PAID, FUNDS, TRANSFER, 400, "asked for", AT)
    closed = evolve(refunded, doubt=Doubt.REVERSED, doubt_closed_at=AT)
    for before in (refunded, closed):
        after, refused = refuse_refund(before, refund, LATER)
        assert after == evolve(refunded, doubt=Doubt.REFUND_REFUSED, doubt_closed_at=None, next_look_at=None)
        assert after.is_doubtful
        assert refused == evolve(refund, refused_at=LATER)


@pytest.mark.parametrize("end", [refuse_refund, fail_refund])
def test_a_refund_that_is_not_sent_leaves_an_open_dispute_open(
    end: Callable[[Payment, Refund, datetime], tuple[Payment, Refund]],
) -> None:
    """In another doubt an operator would send the money, which the bank may take back, too."""
    refunded, refund, _ = refund_payment(PAID, FUNDS, TRANSFER, 400, "asked for", AT)
    after, ended = end(disputed(refunded), refund, LATER)
    assert (after.doubt, after.is_doubtful, after.next_look_at) == (Doubt.DISPUTED, True, None)
    behind = end(refunded, refund, LATER)[0].doubt
    assert doubt_of(ended) is behind
    shown = dismiss(after, LATER, behind=behind)
    assert shown == evolve(after, doubt=behind, next_look_at=LATER)
    assert dismiss(shown, LATER, behind=behind) == evolve(shown, doubt_closed_at=LATER)


@pytest.mark.parametrize("paid_back_at", [None, LATER])
def test_a_refund_that_is_under_way_or_sent_is_in_no_doubt(paid_back_at: datetime | None) -> None:
    refunded, refund, _ = refund_payment(PAID, FUNDS, TRANSFER, 400, "asked for", AT)
    assert doubt_of(evolve(refund, paid_back_at=paid_back_at)) is doubt_of(None) is None
    assert dismiss(disputed(refunded), LATER).doubt is Doubt.DISPUTED


def test_credits_that_come_to_no_money_are_not_taken_back() -> None:
    cheap = evolve(PAID, price=499, tax=0)
    with pytest.raises(Conflict, match=r"^So few credits come to no money\.$") as refusal:
        refund_payment(cheap, FUNDS, TRANSFER, 1, "asked for", AT)
    assert refusal.value.details == {"id": str(PAID.id)}
    assert refund_payment(cheap, FUNDS, TRANSFER, 2, "asked for", AT)[1].amount == 1


@pytest.mark.parametrize("credits", [0, -1])
def test_a_refund_is_of_at_least_one_credit(credits: int) -> None:
    with pytest.raises(InvalidAmount):
        refund_payment(PAID, FUNDS, TRANSFER, credits, "asked for", AT)


@given(st.integers(1, 10**6), st.integers(1, 10**12), st.data())
def test_money_back_is_in_proportion_and_never_more(credits: int, price: int, data: st.DataObject) -> None:
    payment = evolve(PAID, credits=credits, price=price, tax=0)
    part = data.draw(st.integers(1, credits))
    amount = refund_amount(payment, part)
    assert 0 <= price * part - amount * credits < credits
    assert refund_amount(payment, credits) == price


@pytest.mark.parametrize(("currency", "amount"), [("KWD", 3_330), ("MGA", 3_300), ("USD", 3_333)])
def test_a_part_is_of_an_amount_that_a_gateway_sends(currency: str, amount: int) -> None:
    payment = evolve(PAID, credits=3, price=10_000, tax=0, currency=currency)
    assert (refund_amount(payment, 1), refund_amount(payment, 3)) == (amount, 10_000)
    assert refund_amount(evolve(payment, price=10_001), 3) == 10_001


def test_a_part_of_a_large_amount_is_counted_exactly() -> None:
    payment = evolve(PAID, credits=10**6, price=10**11 + 1, tax=0)
    assert refund_amount(payment, 10**6 - 1) == 99_999_900_000


def test_the_year_of_a_receipt_begins_at_midnight_in_wib() -> None:
    assert receipt_year(datetime(2026, 12, 31, 16, 59, tzinfo=UTC)) == 2026
    assert receipt_year(datetime(2026, 12, 31, 17, tzinfo=UTC)) == 2027


def test_the_number_of_a_receipt_is_printed_with_its_year() -> None:
    receipt = Receipt(
        payment_id=PAID.id, account_id=PAID.account_id, year=2026, number=42, issued_at=AT, seller=Seller(),
        buyer=Buyer("A"),
    )  # fmt: skip
    assert receipt.text == "2026-000042"
    assert read_receipt_number(receipt.text) == (2026, 42)
    assert read_receipt_number("2026-123456789") == (2026, 123_456_789)
    for other in (
        "2026-00042",
        "2026-1234567890",
        "26-000042",
        "2026-000042 ",
        "x2026-000042",
        "2026-00004²",
    ):
        assert read_receipt_number(other) is None


@pytest.mark.parametrize(("changes", "problems"), [
    ({"name": "x" * 201}, {"name": ["must have at most 200 characters"]}),
    ({"name": " "}, {"name": ["must not be empty"]}),
    ({"address": "x" * 501, "tax_number": "1" * 51}, {
        "address": ["must have at most 500 characters"],
        "tax_number": ["must have at most 50 characters"],
    }),
    ({"tax_number": "1\x07"}, {
        "tax_number": ["must be at most 50 characters without control characters"],
    }),
    ({"name": "PT\tSinar"}, {"name": ["must be at most 200 characters without control characters"]}),
])  # fmt: skip
def test_a_buyer_whose_receipt_could_not_be_printed_is_refused(
    changes: dict[str, str], problems: dict[str, list[str]]
) -> None:
    buyer = Buyer("x" * 200, "Jl. Melati 1\n\nBandung" + "x" * 479, "1" * 50)
    assert check_buyer(buyer) == buyer
    with pytest.raises(InvalidRequest) as refusal:
        check_buyer(evolve(buyer, **changes))
    assert refusal.value.details == {"fields": problems}


def test_the_reference_of_a_payments_top_up_names_it() -> None:
    assert payment_of(topup_reference(PAID.id)) == PAID.id
    for other in ("INV-7", "payment:", "payment:x", str(PAID.id)):
        with pytest.raises(NotFound, match=r"^No payment with this id\.$"):
            payment_of(other)


def test_the_references_of_a_payments_top_ups_lead_to_it() -> None:
    for reference in (topup_reference(PAID.id), return_reference(PAID.id)):
        assert payment_in(reference) == PAID.id
    for other in ("INV-7", "payment:", "payment:x", str(PAID.id), f"x:payment:{PAID.id}"):
        assert payment_in(other) is None


def test_operators_name_no_payment_as_their_reference() -> None:
    with pytest.raises(InvalidReference, match="does not begin with payment:, as those of payments do"):
        check_reference(topup_reference(PAID.id))
    assert check_reference("a payment: cash") == "a payment: cash"
