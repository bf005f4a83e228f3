"""Transfers: what moves between books, and the amounts that may.

::

    kind             from         to
    topup            topups       customer
    topup_refund     customer     topups
    meeting_charge   customer     meetings
    meeting_refund   meetings     customer
    notulen_charge   customer     notulen
    adjustment       adjustments  customer   (a gift)
    adjustment       customer     adjustments (a correction)

The kinds and books here are those of the service. A charge whose kind is a `StrEnum` member of a caller's own
moves credits into the book that is named like its kind; its refund, out of it.
"""

from collections.abc import Mapping
from datetime import date
from enum import StrEnum
from typing import Final
from uuid import UUID

from attrs import frozen

MAX_CREDITS: Final = 10**15
"""No balance or amount exceeds this: exact in a bigint and in a JSON number alike."""


MAX_TEXT: Final = 300
"""Characters of an operation, of a kind, and of both parts of a reference."""


class InvalidAmount(ValueError):
    """An amount that is not a whole number of credits from 1 to `MAX_CREDITS`."""


class Book(StrEnum):
    """The two sides of a customer's money: their own book and the system books."""

    CUSTOMER = "customer"
    TOPUPS = "topups"
    MEETINGS = "meetings"
    NOTULEN = "notulen"
    ADJUSTMENTS = "adjustments"


class TransferKind(StrEnum):
    """What a transfer is for, as `GET /credits/transactions` shows it."""

    TOPUP = "topup"
    TOPUP_REFUND = "topup_refund"
    MEETING_CHARGE = "meeting_charge"
    MEETING_REFUND = "meeting_refund"
    NOTULEN_CHARGE = "notulen_charge"
    ADJUSTMENT = "adjustment"


ROUTES: Final[Mapping[StrEnum, tuple[Book, Book]]] = {
    TransferKind.TOPUP: (Book.TOPUPS, Book.CUSTOMER),
    TransferKind.TOPUP_REFUND: (Book.CUSTOMER, Book.TOPUPS),
    TransferKind.MEETING_CHARGE: (Book.CUSTOMER, Book.MEETINGS),
    TransferKind.MEETING_REFUND: (Book.MEETINGS, Book.CUSTOMER),
    TransferKind.NOTULEN_CHARGE: (Book.CUSTOMER, Book.NOTULEN),
}


def system_book(kind: StrEnum) -> Book:
    """Return the system book that transfers of a kind of the service move credits from or to."""
    if kind is TransferKind.ADJUSTMENT:
        return Book.ADJUSTMENTS
    source, destination = ROUTES[kind]
    return destination if source is Book.CUSTOMER else source


def charge_route(kind: StrEnum) -> tuple[StrEnum, StrEnum]:
    """Return the books between which a charge of a kind moves credits; `ValueError` for what is no charge."""
    source, destination = ROUTES.get(kind, (Book.CUSTOMER, kind))
    if source is not Book.CUSTOMER or kind in (Book.CUSTOMER, TransferKind.ADJUSTMENT):
        raise ValueError(f"{kind.value!r} is no kind of charge")
    return source, destination


def refund_route(kind: StrEnum, charge: "Transfer") -> tuple[StrEnum, StrEnum]:
    """Return the books of a charge's refund; `ValueError` where this kind does not give this charge back."""
    route = (charge.destination, charge.source)
    if charge.source != Book.CUSTOMER or ROUTES.get(kind, route) != route:
        raise ValueError(f"{kind.value!r} does not give {charge.kind.value!r} back")
    return route


@frozen
class Reference:
    """The subject of a transfer: a meeting, a note or a top-up."""

    type: str
    id: str


@frozen
class Transfer:
    """One movement of a positive amount of credits between two books of one account.

    `cap_day` is the WIB day on which it counts against the key's daily cap.
    """

    id: UUID
    operation: str
    kind: StrEnum
    amount: int
    source: StrEnum
    destination: StrEnum
    reference: Reference
    reverses: UUID | None = None
    api_key_id: UUID | None = None
    cap_day: date | None = None

    @property
    def signed_amount(self) -> int:
        """The change of the customer's balance."""
        return self.amount if self.destination == Book.CUSTOMER else -self.amount


@frozen
class Leg:
    """One side of a transfer. The legs of a transfer sum to zero."""

    book: StrEnum
    amount: int


def check_amount(amount: int) -> int:
    """Return a whole number of credits; else raise `InvalidAmount`, as for a bool, a float, or zero."""
    if type(amount) is not int or not 1 <= amount <= MAX_CREDITS:
        raise InvalidAmount(f"credits are whole numbers from 1 to {MAX_CREDITS}, not {_short(amount)}")
    return amount


def check_texts(operation: str, kind: StrEnum, reference: Reference) -> None:
    """Raise `ValueError` for an empty operation, a text above `MAX_TEXT`, or a kind that is not printable."""
    texts = (operation, kind.value, reference.type, reference.id)
    if not operation or max(map(len, texts)) > MAX_TEXT:
        raise ValueError(f"a transfer has an operation, and texts of at most {MAX_TEXT} characters")
    if not kind.isprintable():
        raise ValueError("the kind of a transfer is a word")


def _short(amount: object) -> str:
    # Two numbers may look alike and differ in kind; one may have a million digits.
    shown = (
        "a longer number" if isinstance(amount, int) and abs(amount) > 10 * MAX_CREDITS else repr(amount)[:40]
    )
    return f"{shown} ({type(amount).__name__})"


def legs(transfer: Transfer) -> tuple[Leg, Leg]:
    """Return both sides of a transfer; they sum to zero."""
    return Leg(transfer.source, -transfer.amount), Leg(transfer.destination, transfer.amount)
