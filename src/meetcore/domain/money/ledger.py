"""The credit ledger: double entry, append only, chained by hash.

Every movement is a `Transfer` of a positive amount from one book to another, so that the sum over
all books is zero at every moment. A customer account's own leg of a transfer is an `Entry`:
numbered without gaps, with the balance after it and a hash over itself and its predecessor.

An `operation` is a transfer's permanent name within its account ("topup:INV-7"). Posting an
operation that is already in the ledger changes nothing. Reservations live in `holds`.

In each decision `funds` is the account's state under its lock, `at` the request's instant, `transfer_id` the
new transfer's and `key` what its entry is chained under; by SHA-256 alone when `None`. Amounts are credits.

Owns the arithmetic of money and its history. No floats, clocks or storage: state comes in,
new state and what happened go out, and a refusal raises before anything has changed.
"""

from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

from attrs import evolve, field, frozen

from meetcore.domain.checks import whole
from meetcore.domain.errors import Conflict, InsufficientCredits
from meetcore.domain.money.hash_chain import (
    GENESIS,
    ChainKey,
    ChainVerifier,
    Entry,
    chain_hash,
    check_instant,
    first_broken,
)
from meetcore.domain.money.transfers import (
    MAX_CREDITS,
    ROUTES,
    Book,
    InvalidAmount,
    Leg,
    Reference,
    Transfer,
    TransferKind,
    check_amount,
    check_texts,
    legs,
    refund_route,
    system_book,
)
from meetcore.domain.texts import count_of

__all__ = [
    "GENESIS", "MAX_CREDITS", "MAX_REASON", "MAX_REFERENCE", "Book", "ChainKey", "ChainVerifier",
    "CreditsFellLow", "Entry", "Funds", "InvalidAmount", "InvalidReason", "InvalidReference", "Leg",
    "Posting", "Reference", "Transfer", "TransferKind", "adjust", "adjustment_about", "adjustment_operation",
    "check_amount", "check_reason", "check_reference", "first_broken", "funds_faults", "is_proven", "legs",
    "open_account", "post", "refund", "refund_operation", "system_book", "top_up", "top_up_operation",
]  # fmt: skip

MAX_REASON: Final = 200
"""Characters of an operator's reason for moving credits."""
MAX_REFERENCE: Final = 200
"""Characters of the name that an operator gives a top-up or an adjustment."""
OF_PAYMENTS: Final = "payment:"
"""The beginning of the references of top-ups that payments make."""


class InvalidReason(ValueError):
    """A text that cannot be a reason for moving credits."""


class InvalidReference(ValueError):
    """A text that cannot be the reference of a top-up or an adjustment."""


@frozen
class Funds:
    """The state of an account to decide on, always the latest under the account's lock.

    `balance` is the sum of the entries, `held` the part that open holds reserve. `is_low` means that
    `credit.low` was emitted and the balance has not recovered since.
    """

    account_id: UUID
    balance: int = field(default=0, validator=whole)
    held: int = field(default=0, validator=whole)
    low_threshold: int = field(default=100, validator=whole)
    is_low: bool = False
    entries: int = 0
    last_hash: bytes = GENESIS
    last_at: datetime | None = field(default=None)

    @last_at.validator
    def _check_last_at(self, _: object, last_at: datetime | None) -> None:
        if last_at is not None:
            check_instant(last_at)

    @property
    def available(self) -> int:
        """The credits that new work may be paid from: the balance less `held`."""
        return self.balance - self.held


@frozen
class CreditsFellLow:
    """The available balance fell below the account's threshold."""

    account_id: UUID
    available: int
    threshold: int


@frozen
class Posting:
    """The outcome of a decision: the funds after it, the entry to append, the facts.

    `entry` is `None` when the operation was already in the ledger: nothing changed.
    """

    funds: Funds
    entry: Entry | None
    facts: tuple[CreditsFellLow, ...] = ()


def open_account(account_id: UUID, low_threshold: int = 100) -> Funds:
    """Open an account without entries. For an empty one `credit.low` counts as emitted."""
    funds = Funds(account_id, low_threshold=low_threshold)
    return evolve(funds, is_low=funds.low_threshold > 0)


def is_proven(funds: Funds, proof: ChainVerifier) -> bool:
    """Return whether stored funds equal those of a proven history."""
    return funds.account_id == proof.account_id and not funds_faults(funds, proof)


def funds_faults(funds: Funds, proof: ChainVerifier) -> tuple[str, ...]:
    """Describe where an account's stored funds differ from its proven history."""
    figures = (
        ("the stored balance", funds.balance, proof.balance),
        ("the stored number of entries", funds.entries, proof.entries),
        ("the stored last hash", funds.last_hash.hex(), proof.last_hash.hex()),
        ("the stored time of the last entry", funds.last_at, proof.last_at),
    )
    return tuple(
        f"{name} is {stored}, and its entries make {proven}"
        for name, stored, proven in figures
        if stored != proven
    )


def with_held(funds: Funds, held: int) -> Funds:
    """Return the funds with another sum of open holds; the low mark is cleared if the balance recovers."""
    is_low = funds.is_low and funds.balance - held < funds.low_threshold
    return evolve(funds, held=held, is_low=is_low)


def post(
    funds: Funds, transfer: Transfer, at: datetime, held: int | None = None, key: ChainKey | None = None
) -> Posting:
    """Append a transfer whose operation is new to an account's history, whatever it does to the balance.

    The building block of every other decision here and in `holds`, which check that the transfer may happen.
    The entry's time is the later of `at` and the previous entry's, so that time never runs backwards. `held`
    is the sum of open holds afterwards; unchanged when `None`.

    Raises:
        InvalidAmount: the amount, or the balance after it, leaves the range of credits.
        ValueError: the instant has no time zone, or see `check_texts`.
    """
    check_amount(transfer.amount)
    check_instant(at)
    check_texts(transfer.operation, transfer.kind, transfer.reference)
    amount = transfer.signed_amount
    balance = funds.balance + amount
    if not -MAX_CREDITS <= balance <= MAX_CREDITS:
        raise InvalidAmount(f"the balance would leave the range of {MAX_CREDITS} credits")
    if held is None:
        held = funds.held
    number = funds.entries + 1
    stamped = at if funds.last_at is None else max(at, funds.last_at)
    hash_ = chain_hash(funds.last_hash, funds.account_id, number, transfer, balance, stamped, key)
    available = balance - held
    is_low = available < funds.low_threshold
    after = Funds(funds.account_id, balance, held, funds.low_threshold, is_low, number, hash_, stamped)
    key_id = b"" if key is None else key.id
    entry = Entry(funds.account_id, number, transfer, amount, balance, stamped, hash_, key_id)
    if is_low and not funds.is_low:
        return Posting(after, entry, (CreditsFellLow(funds.account_id, available, funds.low_threshold),))
    return Posting(after, entry)


def top_up(
    funds: Funds,
    transfer_id: UUID,
    reference: str,
    amount: int,
    at: datetime,
    existing: Transfer | None = None,
    key: ChainKey | None = None,
) -> Posting:
    """Add paid credits once for each reference: the same one again changes nothing.

    `existing` is the transfer that the ledger holds under this reference's operation, if any.

    Raises:
        InvalidAmount: see `check_amount`.
        Conflict: the reference is taken by a top-up of another amount.
        ValueError: the existing transfer is not this reference's.
    """
    check_amount(amount)
    if existing is not None:
        if existing.operation != top_up_operation(reference):
            raise ValueError(f"{existing.operation!r} is not the top-up of {reference!r}")
        if existing.amount != amount:
            raise Conflict(
                f"The reference {reference!r} belongs to a top-up of {count_of(existing.amount, 'credit')}.",
                existing.id,
            )
        return Posting(funds, None)
    source, destination = ROUTES[TransferKind.TOPUP]
    transfer = Transfer(
        transfer_id,
        top_up_operation(reference),
        TransferKind.TOPUP,
        amount,
        source,
        destination,
        Reference("topup", reference),
    )
    return post(funds, transfer, at, key=key)


def top_up_operation(reference: str) -> str:
    """Return the permanent name of a top-up."""
    return f"topup:{reference}"


def refund_operation(charge: Transfer) -> str:
    """Return the permanent name of a charge's refund: one charge, one name, one refund."""
    return f"refund:{charge.id}"


def refund(
    funds: Funds,
    charge: Transfer,
    transfer_id: UUID,
    at: datetime,
    existing: Transfer | None = None,
    key: ChainKey | None = None,
    amount: int | None = None,
    kind: StrEnum = TransferKind.MEETING_REFUND,
) -> Posting:
    """Give a charge back, once (rule 3/cancel-before); it counts for the cap day of its charge.

    `amount` is the part of it that is given back, the whole unless it is given. `existing` is the refund that
    the ledger already holds for this charge, if any: then there is no entry. `kind` is the refund's: of a
    caller's own for a charge that is no meeting's. Raises `ValueError` where the kind does not give this
    charge back, the existing one is not its refund, or the amount is more than the charge.
    """
    if kind == TransferKind.MEETING_REFUND and charge.kind != TransferKind.MEETING_CHARGE:
        raise ValueError("only a meeting's charge is refunded")
    source, destination = refund_route(kind, charge)
    given_back = charge.amount if amount is None else amount
    if given_back > charge.amount:
        raise ValueError("a refund is not more than its charge")
    if existing is not None:
        if existing.reverses != charge.id:
            raise ValueError("the existing transfer does not reverse this charge")
        return Posting(funds, None)
    transfer = Transfer(
        transfer_id,
        refund_operation(charge),
        kind,
        given_back,
        source,
        destination,
        charge.reference,
        reverses=charge.id,
        api_key_id=charge.api_key_id,
        cap_day=charge.cap_day,
    )
    return post(funds, transfer, at, key=key)


def adjustment_operation(reference: str) -> str:
    """Return the permanent name of an adjustment."""
    return f"adjustment:{reference}"


def check_reason(reason: str) -> str:
    """Return a reason; raise `InvalidReason` if blank, above `MAX_REASON` or with control characters."""
    if not reason.strip() or len(reason) > MAX_REASON or not reason.isprintable():
        raise InvalidReason(f"a reason is 1 to {MAX_REASON} characters without control characters, not blank")
    return reason


def check_reference(reference: str) -> str:
    """Return a reference; `InvalidReference` if blank, over `MAX_REFERENCE` or with control characters.

    One that begins with `payment:` names the top-up of a payment, which operators cannot make.
    """
    if reference.startswith(OF_PAYMENTS):
        raise InvalidReference(f"a reference does not begin with {OF_PAYMENTS}, as those of payments do")
    if not reference.strip() or len(reference) > MAX_REFERENCE or not reference.isprintable():
        raise InvalidReference(f"a reference is 1 to {MAX_REFERENCE} characters without control characters")
    return reference


def adjustment_about(reason: str) -> Reference:
    """Return the reference of an adjustment: its reason, of `check_reason`, which the customer reads."""
    return Reference("adjustment", check_reason(reason))


def adjust(
    funds: Funds,
    transfer_id: UUID,
    operation: str,
    signed_amount: int,
    reference: Reference,
    at: datetime,
    existing: Transfer | None = None,
    key: ChainKey | None = None,
) -> Posting:
    """Correct a balance by hand: a positive amount gives, a negative one takes.

    `operation` is its permanent name: the same one again, which is `existing`, changes nothing.

    Raises:
        InvalidAmount: zero or out of range.
        InsufficientCredits: it would take more than is available.
        Conflict: the operation is taken by an adjustment of another amount.
        ValueError: the existing transfer has another operation.
    """
    amount = check_amount(abs(signed_amount) if type(signed_amount) is int else signed_amount)
    if existing is not None:
        if existing.operation != operation:
            raise ValueError(f"{existing.operation!r} is not {operation!r}")
        if existing.signed_amount != signed_amount:
            known = count_of(existing.signed_amount, "credit")
            raise Conflict(f"This reference belongs to an adjustment of {known}.", existing.id)
        return Posting(funds, None)
    gives = signed_amount == amount
    if not gives and funds.available < amount:
        raise InsufficientCredits(amount, funds.available)
    source, destination = (Book.ADJUSTMENTS, Book.CUSTOMER) if gives else (Book.CUSTOMER, Book.ADJUSTMENTS)
    kind = TransferKind.ADJUSTMENT
    transfer = Transfer(transfer_id, operation, kind, amount, source, destination, reference)
    return post(funds, transfer, at, key=key)
