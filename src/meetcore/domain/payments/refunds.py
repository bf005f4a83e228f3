"""Refunds: unspent credits are taken from the account, then their money goes back by the gateway.

The credits leave first, in one transaction with the refund's record: they cannot be spent while the gateway
works. A payment is refunded once, wholly or in part. A refund that the gateway accepted may fail later: then
a top-up of its own gives the credits back, and an operator looks at the payment, which is paid again.
"""

from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

from attrs import evolve, frozen

from meetcore.domain.errors import Conflict, InsufficientCredits
from meetcore.domain.machine import find_step, step
from meetcore.domain.money.hash_chain import ChainKey
from meetcore.domain.money.ledger import Funds, Posting, post
from meetcore.domain.money.transfers import ROUTES, Reference, Transfer, TransferKind, check_amount
from meetcore.domain.payments.payments import (
    TRANSITIONS,
    Doubt,
    Payment,
    PaymentEvent,
    opened_doubt,
    topup_reference,
)
from meetcore.domain.texts import count_of


class RefundState(StrEnum):
    """The state of a refund at its gateway. `SENT` may still become `FAILED`; `REFUSED` is not made there."""

    REFUSED = "refused"
    UNDER_WAY = "under_way"
    SENT = "sent"
    FAILED = "failed"


@frozen(kw_only=True)
class Refund:
    """Credits taken back and the money for them.

    `paid_back_at` is when the gateway had sent it, `refused_at` when it refused to, and is not asked again;
    `failed_at` is when it had failed to: the credits were given back then.
    """

    payment_id: UUID
    account_id: UUID
    credits: int
    amount: int
    reason: str
    created_at: datetime
    paid_back_at: datetime | None = None
    refused_at: datetime | None = None
    failed_at: datetime | None = None


_MULTIPLES: Final = {"BHD": 10, "JOD": 10, "KWD": 10, "OMR": 10, "TND": 10, "MGA": 100}
"""Units of a currency of which Stripe takes multiples: the last of three decimals is 0, ariary are whole."""


def refund_amount(payment: Payment, credits: int) -> int:
    """Return the money for so many of a payment's credits, tax included; a part is rounded down."""
    if credits == payment.credits:
        return payment.amount
    least = _MULTIPLES.get(payment.currency, 1)
    return payment.amount * credits // payment.credits // least * least


def refund_payment(
    payment: Payment, funds: Funds, transfer_id: UUID, credits: int, reason: str, now: datetime,
    key: ChainKey | None = None, earlier: Refund | None = None,
) -> tuple[Payment, Refund, Posting]:  # fmt: skip
    """Take so many unspent credits of a payment back.

    Raises:
        InvalidAmount: not a number of credits.
        Conflict: the payment is not paid, was for fewer credits, or has an `earlier` refund, which failed; or
            so few credits come to no money.
        InsufficientCredits: fewer credits are available.
    """
    check_amount(credits)
    status = find_step(TRANSITIONS, payment.status, PaymentEvent.REFUND)
    if status is None:
        raise Conflict(
            f"Only a paid payment can be refunded, once; this one is {payment.status}.", payment.id
        )
    if earlier is not None:
        raise Conflict(
            "The gateway failed to refund this payment. Send the money another way, and take the credits by "
            "an adjustment.",
            payment.id,
        )
    if credits > payment.credits:
        raise Conflict(f"This payment was for {count_of(payment.credits, 'credit')}.", payment.id)
    if credits > funds.available:
        raise InsufficientCredits(credits, funds.available)
    amount = refund_amount(payment, credits)
    if not amount:
        raise Conflict("So few credits come to no money.", payment.id)
    source, destination = ROUTES[TransferKind.TOPUP_REFUND]
    transfer = Transfer(
        transfer_id, refund_operation(payment.id), TransferKind.TOPUP_REFUND, credits, source, destination,
        Reference("payment", str(payment.id)),
    )  # fmt: skip
    posting = post(funds, transfer, now, key=key)
    refund = Refund(
        payment_id=payment.id, account_id=payment.account_id, credits=credits,
        amount=amount, reason=reason, created_at=now,
    )  # fmt: skip
    return evolve(payment, status=status, next_look_at=now), refund, posting


def refuse_refund(payment: Payment, refund: Refund, now: datetime) -> tuple[Payment, Refund]:
    """Return a refunded payment whose money the gateway refuses to send back: an operator sends it."""
    after = evolve(opened_doubt(payment, Doubt.REFUND_REFUSED), next_look_at=None)
    return after, evolve(refund, refused_at=now)


def fail_refund(payment: Payment, refund: Refund, now: datetime) -> tuple[Payment, Refund]:
    """Return a payment whose refund the gateway failed to send: paid again, for an operator to look at.

    The credits are due to be given back, as the top-up of `return_reference`.
    """
    status = step(TRANSITIONS, payment.status, PaymentEvent.RETURN)
    after = evolve(opened_doubt(payment, Doubt.REFUND_FAILED), status=status, next_look_at=None)
    return after, evolve(refund, failed_at=now)


def doubt_of(refund: Refund | None) -> Doubt | None:
    """Return the doubt of a refund that was not sent, before which a dispute may stand."""
    if refund is None:
        return None
    if refund.failed_at is not None:
        return Doubt.REFUND_FAILED
    return None if refund.refused_at is None else Doubt.REFUND_REFUSED


def return_reference(payment_id: UUID) -> str:
    """Return the reference of the top-up that gives the credits of a failed refund back."""
    return f"{topup_reference(payment_id)}:refund_failed"


def refund_operation(payment_id: UUID) -> str:
    """Return the permanent name of a payment's refund in the ledger."""
    return f"topup_refund:{topup_reference(payment_id)}"
