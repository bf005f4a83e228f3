"""A payment for credits: its states, and how it follows what its gateway says.

::

    pending ── pay ────▶ paid ── refund ──▶ refunded
       │                  ▲ ◀── return ─────┘
       ├── fail ────▶ failed ── accept ──┤
       └── expire ──▶ expired ─ accept ──┘

The credits are posted in the transaction that marks the payment paid, under `topup_reference`: once, whatever
arrives twice, late, out of order, or never. A notification is only a reason to ask the gateway. Whatever the
gateway says that does not fit (another amount, a payment that had ended here, an erased account) changes no
state: it becomes a `Doubt`, which an operator settles by `accept` or `dismiss`.
"""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final
from uuid import UUID

from attrs import evolve, field, frozen

from meetcore.domain.errors import Conflict, NotFound, Unprocessable
from meetcore.domain.ids import parse_id
from meetcore.domain.machine import find_step, step
from meetcore.domain.money.ledger import OF_PAYMENTS

PAYABLE_FOR: Final = timedelta(hours=24)
"""How long a payment can be paid at its gateway."""
ASKED_FOR: Final = timedelta(days=7)
"""How long after its expiry the gateway is asked about a payment that it still calls pending."""
MAX_PENDING: Final = 20
"""Payments of an account that may be pending at once."""
FIRST_LOOK: Final = timedelta(minutes=2)
"""How long after its beginning a payment is first asked about, where no notification came."""
_PAUSES_MIN: Final = (2, 4, 8, 16, 32, 60)
"""Minutes between one look and the next; the last one repeats."""


class TooManyPending(Unprocessable):
    """An account has `MAX_PENDING` payments that wait to be paid: temporary, as each of them ends."""

    is_final = False


class PaymentStatus(StrEnum):
    """The state of a payment."""

    PENDING = "pending"
    PAID = "paid"
    FAILED = "failed"
    EXPIRED = "expired"
    REFUNDED = "refunded"


class PaymentEvent(StrEnum):
    """An event of a payment."""

    PAY = "pay"
    FAIL = "fail"
    EXPIRE = "expire"
    ACCEPT = "accept"
    REFUND = "refund"
    RETURN = "return"


TRANSITIONS: Final = {
    (PaymentStatus.PENDING, PaymentEvent.PAY): PaymentStatus.PAID,
    (PaymentStatus.PENDING, PaymentEvent.FAIL): PaymentStatus.FAILED,
    (PaymentStatus.PENDING, PaymentEvent.EXPIRE): PaymentStatus.EXPIRED,
    (PaymentStatus.PENDING, PaymentEvent.ACCEPT): PaymentStatus.PAID,
    (PaymentStatus.FAILED, PaymentEvent.ACCEPT): PaymentStatus.PAID,
    (PaymentStatus.EXPIRED, PaymentEvent.ACCEPT): PaymentStatus.PAID,
    (PaymentStatus.PAID, PaymentEvent.REFUND): PaymentStatus.REFUNDED,
    (PaymentStatus.REFUNDED, PaymentEvent.RETURN): PaymentStatus.PAID,
}
"""How a payment moves; a missing key changes nothing."""


class Doubt(StrEnum):
    """Why an operator has to look at a payment."""

    WRONG_AMOUNT = "wrong_amount"
    WRONG_CURRENCY = "wrong_currency"
    PAID_AFTER_END = "paid_after_end"
    ACCOUNT_ERASED = "account_erased"
    REVERSED = "reversed"
    REFUND_REFUSED = "refund_refused"
    REFUND_FAILED = "refund_failed"
    DISPUTED = "disputed"
    UNANSWERED = "unanswered"


ACCEPTABLE: Final = frozenset({Doubt.WRONG_AMOUNT, Doubt.WRONG_CURRENCY, Doubt.PAID_AFTER_END})
"""Doubts in which the money has arrived and an account can get its credits."""


class GatewayStatus(StrEnum):
    """The state of a payment at its gateway. `REVERSED`: the money went back, by a refund or a chargeback."""

    PENDING = "pending"
    PAID = "paid"
    FAILED = "failed"
    EXPIRED = "expired"
    REVERSED = "reversed"


@frozen
class GatewayAnswer:
    """What the gateway says of a payment; the amount in units of the currency, `method` such as `qris`.

    `transaction_id` is the gateway's id of the money's movement, where its notices of disputes name that.
    """

    status: GatewayStatus
    amount: int
    currency: str
    method: str = ""
    transaction_id: str | None = None


@frozen(kw_only=True)
class Payment:
    """A payment for credits; `price` is without tax, money in units of the currency.

    `reference` is the gateway's id of it, and `payment_url` the page on which it is paid; both are `None`
    until the gateway has answered. `transaction_id` is that of `GatewayAnswer`. `next_look_at` is when the
    gateway is asked next, `None` when it need not be. A doubt stands open until `doubt_closed_at`. `ended_at`
    is when it was paid, failed or expired.
    """

    id: UUID
    account_id: UUID
    gateway: str
    credits: int
    price: int
    tax: int
    currency: str
    created_at: datetime
    expires_at: datetime
    package_id: str | None = None
    api_key_id: UUID | None = None
    status: PaymentStatus = PaymentStatus.PENDING
    reference: str | None = None
    payment_url: str | None = field(default=None, repr=False)
    method: str = ""
    transaction_id: str | None = None
    ended_at: datetime | None = None
    next_look_at: datetime | None = None
    looks: int = 0
    doubt: Doubt | None = None
    doubt_closed_at: datetime | None = None

    @property
    def amount(self) -> int:
        """What is to be paid."""
        return self.price + self.tax

    @property
    def is_doubtful(self) -> bool:
        """Whether an operator has to look at it."""
        return self.doubt is not None and self.doubt_closed_at is None


def topup_reference(payment_id: UUID) -> str:
    """Return the reference of the top-up: its operation in the ledger is `topup:payment:<id>`."""
    return f"{OF_PAYMENTS}{payment_id}"


def payment_of(reference: str) -> UUID:
    """Return the payment of a `topup_reference`; raise `NotFound` for another text."""
    # Of one without its beginning, a refund could be proposed a second time: a proposal holds its reference.
    if not reference.startswith(OF_PAYMENTS):
        raise NotFound("No payment with this id.")
    return parse_id(reference.removeprefix(OF_PAYMENTS), "payment")


def payment_in(reference: str) -> UUID | None:
    """Return the payment that a top-up's reference names, also that of a refund which failed; else `None`."""
    try:
        return payment_of(":".join(reference.split(":")[:2]))
    except NotFound:
        return None


def opened(payment: Payment, reference: str, payment_url: str, now: datetime) -> Payment:
    """Return a pending payment with its page at the gateway."""
    return evolve(
        payment, reference=reference, payment_url=payment_url, next_look_at=_next_look(payment, now)
    )


def failed(payment: Payment, now: datetime) -> Payment:
    """Return a pending payment as failed: its gateway refused it, so that nothing can be paid."""
    return _ended(payment, step(TRANSITIONS, payment.status, PaymentEvent.FAIL), now)


def looked(payment: Payment, now: datetime) -> Payment:
    """Return a payment after a look that brought no news; long after its expiry it becomes a doubt."""
    if payment.status is not PaymentStatus.PENDING:
        return evolve(payment, next_look_at=None)
    if now >= payment.expires_at + ASKED_FOR:
        return _doubted(payment, Doubt.UNANSWERED)
    return asked_again(payment, now)


def unknown(payment: Payment, now: datetime) -> Payment:
    """Return a payment that its gateway does not know: without a page, nothing can be paid, and it fails."""
    # By its reference: the erasure of an account removes the address of a page that is still open.
    is_lost = payment.status is PaymentStatus.PENDING and payment.reference is None
    return failed(payment, now) if is_lost else looked(payment, now)


def of_another_gateway(payment: Payment, now: datetime) -> Payment:
    """Return a payment whose money a gateway was to send back that is not set any more: an operator asks."""
    return _doubted(payment, Doubt.UNANSWERED)


def asked_again(payment: Payment, now: datetime) -> Payment:
    """Return a payment whose gateway is asked again later, whatever its state."""
    looks = payment.looks + 1
    return evolve(payment, looks=looks, next_look_at=_next_look(evolve(payment, looks=looks), now))


def _next_look(payment: Payment, now: datetime) -> datetime:
    return now + timedelta(minutes=_PAUSES_MIN[min(payment.looks, len(_PAUSES_MIN) - 1)])


def follow(payment: Payment, answer: GatewayAnswer, now: datetime, *, is_erased: bool = False) -> Payment:
    """Return a payment as its gateway's answer makes it; a status that becomes PAID is to be posted.

    `is_erased` is whether its account was erased.
    """
    if answer.status is GatewayStatus.PAID:
        return _follow_paid(payment, answer, now, is_erased=is_erased)
    if answer.status is GatewayStatus.PENDING:
        return looked(payment, now)
    # Of a pending payment, too: a part may have gone back, or a dispute may be won.
    is_reversed = answer.status is GatewayStatus.REVERSED and payment.status in _REVERSIBLE
    if is_reversed or is_acceptable(payment):  # what had arrived is not there any more
        return _doubted(payment, Doubt.REVERSED)
    status = find_step(TRANSITIONS, payment.status, _ENDED[answer.status])
    return evolve(payment, next_look_at=None) if status is None else _ended(payment, status, now)


_REVERSIBLE: Final = frozenset({PaymentStatus.PENDING, PaymentStatus.PAID})
_ENDED: Final = {
    GatewayStatus.FAILED: PaymentEvent.FAIL,
    GatewayStatus.EXPIRED: PaymentEvent.EXPIRE,
    GatewayStatus.REVERSED: PaymentEvent.FAIL,
}


def _follow_paid(payment: Payment, answer: GatewayAnswer, now: datetime, *, is_erased: bool) -> Payment:
    other = _other_money(payment, answer)
    if payment.status in (PaymentStatus.PAID, PaymentStatus.REFUNDED):
        # The dispute had taken the place of the doubt in which the payment was accepted.
        is_over = payment.doubt is Doubt.DISPUTED and not payment.is_doubtful
        return evolve(payment, next_look_at=None, doubt=other if is_over and other else payment.doubt)
    said = evolve(payment, method=answer.method, transaction_id=answer.transaction_id)
    if other is not None:
        return _doubted(said, other)
    if is_erased:
        return _doubted(said, Doubt.ACCOUNT_ERASED)
    status = find_step(TRANSITIONS, payment.status, PaymentEvent.PAY)
    return _doubted(said, Doubt.PAID_AFTER_END) if status is None else _ended(said, status, now)


def _other_money(payment: Payment, answer: GatewayAnswer) -> Doubt | None:
    if answer.currency != payment.currency:
        return Doubt.WRONG_CURRENCY
    return None if answer.amount == payment.amount else Doubt.WRONG_AMOUNT


def _ended(payment: Payment, status: PaymentStatus, now: datetime) -> Payment:
    ended = evolve(payment, status=status, ended_at=now, next_look_at=None)
    is_arrived = status is PaymentStatus.PAID and payment.doubt is not Doubt.DISPUTED
    is_settled = is_arrived or payment.doubt is Doubt.UNANSWERED
    return evolve(ended, doubt_closed_at=now) if payment.is_doubtful and is_settled else ended


def _doubted(payment: Payment, doubt: Doubt) -> Payment:
    """Return a payment in doubt; one that was closed is not opened by the same words again."""
    return evolve(payment if payment.doubt is doubt else opened_doubt(payment, doubt), next_look_at=None)


def opened_doubt(payment: Payment, doubt: Doubt) -> Payment:
    """Return a payment in doubt, and one in an open dispute as it is: its money may still go back.

    In any other doubt an operator could accept it, or send the money of a refund another way.
    """
    is_disputed = payment.is_doubtful and payment.doubt is Doubt.DISPUTED
    return payment if is_disputed else evolve(payment, doubt=doubt, doubt_closed_at=None)


def is_acceptable(payment: Payment) -> bool:
    """Return whether a payment is in a doubt in which its money has arrived."""
    return payment.is_doubtful and payment.doubt in ACCEPTABLE


def disputed(payment: Payment) -> Payment:
    """Return a payment that its payer disputes with a bank; no state changes. It stays due where it was."""
    return evolve(_doubted(payment, Doubt.DISPUTED), next_look_at=payment.next_look_at)


def accept(payment: Payment, now: datetime, *, is_erased: bool = False) -> Payment:
    """Return a payment in doubt as paid: the account gets its credits.

    The gateway is asked once more: a notification that the money went back may have been lost. Raises
    `Conflict`: it is in no doubt in which its money has arrived, or its account was erased.
    """
    if is_erased:
        raise Conflict(
            "The account was erased. Send the money back at the gateway, and close the doubt.", payment.id
        )
    if not is_acceptable(payment):
        raise Conflict(
            "Only a payment whose money arrived, and that is in doubt, can be accepted.", payment.id
        )
    status = step(TRANSITIONS, payment.status, PaymentEvent.ACCEPT)
    return evolve(_ended(payment, status, now), next_look_at=now)


def dismiss(payment: Payment, now: datetime, *, behind: Doubt | None = None) -> Payment:
    """Return a payment whose doubt was settled elsewhere; the one `behind` a dispute is open from then on.

    After a dispute the gateway is asked once more: no other doubt was opened while it stood, whether the
    money went back, or has arrived for a payment that had ended.
    Raises `Conflict`: it is in no doubt.
    """
    if not payment.is_doubtful:
        raise Conflict("This payment is not in doubt.", payment.id)
    is_pending = payment.status is PaymentStatus.PENDING
    ended = failed(payment, now) if is_pending else payment
    closed = evolve(ended, doubt_closed_at=now)
    if payment.doubt is not Doubt.DISPUTED:
        return closed
    looked_at = evolve(closed, next_look_at=now)
    return looked_at if behind is None else opened_doubt(looked_at, behind)
