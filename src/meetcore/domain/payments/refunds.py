"""Refunds: unspent credits are taken from the account, then their money goes back by the gateway.

The credits leave first, in one transaction with the refund's record: they cannot be spent while the gateway
works. A payment is refunded once, wholly or in part.
"""

from datetime import datetime
from uuid import UUID

from attrs import evolve, frozen

from meetcore.domain.errors import Conflict, InsufficientCredits
from meetcore.domain.machine import find_step
from meetcore.domain.money.hash_chain import ChainKey
from meetcore.domain.money.ledger import Funds, Posting, post
from meetcore.domain.money.transfers import ROUTES, Reference, Transfer, TransferKind, check_amount
from meetcore.domain.payments.payments import TRANSITIONS, Payment, PaymentEvent, topup_reference


@frozen(kw_only=True)
class Refund:
    """Credits taken back and the money for them; `paid_back_at` is when the gateway had done it."""

    payment_id: UUID
    account_id: UUID
    credits: int
    amount: int
    reason: str
    created_at: datetime
    paid_back_at: datetime | None = None


def refund_amount(payment: Payment, credits: int) -> int:
    """Return the money for so many of a payment's credits, tax included, rounded down."""
    return payment.amount * credits // payment.credits


def refund_payment(
    payment: Payment, funds: Funds, transfer_id: UUID, credits: int, reason: str, now: datetime,
    key: ChainKey | None = None,
) -> tuple[Payment, Refund, Posting]:  # fmt: skip
    """Take so many unspent credits of a payment back.

    Raises:
        InvalidAmount: not a number of credits.
        Conflict: the payment is not paid, was refunded before, or was for fewer credits.
        InsufficientCredits: fewer credits are available.
    """
    check_amount(credits)
    status = find_step(TRANSITIONS, payment.status, PaymentEvent.REFUND)
    if status is None:
        raise Conflict(
            f"Only a paid payment can be refunded, once; this one is {payment.status}.", payment.id
        )
    if credits > payment.credits:
        raise Conflict(f"This payment was for {payment.credits} credits.", payment.id)
    if credits > funds.available:
        raise InsufficientCredits(credits, funds.available)
    source, destination = ROUTES[TransferKind.TOPUP_REFUND]
    transfer = Transfer(
        transfer_id, refund_operation(payment.id), TransferKind.TOPUP_REFUND, credits, source, destination,
        Reference("payment", str(payment.id)),
    )  # fmt: skip
    posting = post(funds, transfer, now, key=key)
    refund = Refund(
        payment_id=payment.id, account_id=payment.account_id, credits=credits,
        amount=refund_amount(payment, credits), reason=reason, created_at=now,
    )  # fmt: skip
    return evolve(payment, status=status, next_look_at=now), refund, posting


def refund_operation(payment_id: UUID) -> str:
    """Return the permanent name of a payment's refund in the ledger."""
    return f"topup_refund:{topup_reference(payment_id)}"
