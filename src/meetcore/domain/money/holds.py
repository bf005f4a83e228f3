"""Holds and the daily cap: credits are reserved before paid work, and charged when it is certain.

::

    take ──> open hold ──settle──> a charge in the ledger
                       └─release─> nothing: a released hold leaves no entry

A hold reserves part of the available balance and of its key's daily cap (rule 5/7), which the keys that were
rolled from it share. It ends once, by settlement or by release. Its cap day comes from the request's instant
and stays with it: a settlement or refund counts for that same day, whenever it happens.

`funds`, `at`, `transfer_id` and `key` are those of `ledger`; `daily_cap` is the key's cap in credits a day,
if it has one.

Owns the admission of paid work. No new work may exceed the available balance or the cap;
only the settlement of work already admitted may, because its real size is known last.
"""

from datetime import date, datetime
from enum import StrEnum
from uuid import UUID

from attrs import Factory, evolve, field, frozen

from meetcore.domain.checks import whole
from meetcore.domain.errors import CreditCapExceeded, InsufficientCredits
from meetcore.domain.meetings.schedule import cap_day, cap_day_ends_at
from meetcore.domain.money import ledger
from meetcore.domain.money.hash_chain import ChainKey
from meetcore.domain.money.ledger import Funds, Posting, post, with_held
from meetcore.domain.money.transfers import (
    Reference,
    Transfer,
    TransferKind,
    charge_route,
    check_amount,
    check_texts,
)

__all__ = [
    "CapUsage", "Hold", "Reserved", "Settled", "charge", "is_sufficient", "refund", "release", "settle",
    "take",
]  # fmt: skip


@frozen
class CapUsage:
    """Credits spent and held under one cap on one WIB day, less refunds.

    `api_key_id` is the key that pays, `cap_key_id` the one that the cap is counted under: the first of those
    that were rolled, or the paying key itself.
    """

    api_key_id: UUID
    day: date
    spent: int = field(default=0, validator=whole)
    held: int = field(default=0, validator=whole)
    cap_key_id: UUID = field(default=Factory(lambda self: self.api_key_id, takes_self=True))

    @property
    def used(self) -> int:
        """The credits that count against the cap."""
        return self.spent + self.held


@frozen
class Hold:
    """A reservation of credits for one piece of work."""

    id: UUID
    operation: str
    kind: StrEnum
    amount: int
    reference: Reference
    api_key_id: UUID
    cap_day: date


@frozen
class Reserved:
    """The state after a hold was taken or released."""

    funds: Funds
    usage: CapUsage


@frozen
class Settled:
    """The state after a hold became a charge, or a charge was given back."""

    posting: Posting
    usage: CapUsage


def take(funds: Funds, usage: CapUsage, daily_cap: int | None, hold: Hold) -> Reserved:
    """Reserve credits for work that is about to start. `usage` is the key's on the hold's cap day.

    Raises:
        InvalidAmount: see `check_amount`.
        InsufficientCredits: more than is available, or the balance is below zero.
        CreditCapExceeded: spent and held on this day leave no room under the cap.
        ValueError: the usage is another key's or another day's, the cap is no whole number, or the kind is
            no charge's; or see `check_texts`, which the charge at the end would be refused by.
    """
    charge_route(hold.kind)
    check_texts(hold.operation, hold.kind, hold.reference)
    _check_usage(usage, hold.api_key_id, hold.cap_day)
    _admit(funds, usage, daily_cap, hold.amount)
    return Reserved(with_held(funds, funds.held + hold.amount), evolve(usage, held=usage.held + hold.amount))


def _check_usage(usage: CapUsage, api_key_id: UUID | None, day: date | None) -> None:
    # The usage of another day or key would let a spend exceed the cap undetected.
    if usage.api_key_id != api_key_id:
        raise ValueError("the usage is of another key than the spend")
    if usage.day != day:
        raise ValueError(f"the usage is of {usage.day}, the spend of {day}")
    if isinstance(day, datetime):  # which is a date to Python and to type checkers, too
        raise TypeError(f"a cap counts for a day, and {day} is an instant")


def _check_open(funds: Funds, usage: CapUsage, hold: Hold) -> None:
    check_amount(hold.amount)
    _check_usage(usage, hold.api_key_id, hold.cap_day)
    if hold.amount > funds.held or hold.amount > usage.held:
        raise ValueError("the hold was released or settled already")


def is_sufficient(available: int, used: int, daily_cap: int | None, amount: int) -> bool:
    """Return whether `take` would admit work at this price; `used` is `CapUsage.used`."""
    return amount <= available and (daily_cap is None or used + amount <= daily_cap)


def _admit(funds: Funds, usage: CapUsage, daily_cap: int | None, amount: int) -> None:
    check_amount(amount)
    if daily_cap is not None and type(daily_cap) is not int:  # nothing exceeds NaN
        raise ValueError("a daily cap is a whole number of credits")
    available = funds.balance - funds.held
    if available < amount:
        raise InsufficientCredits(amount, available)
    if daily_cap is not None and usage.used + amount > daily_cap:
        raise CreditCapExceeded(daily_cap, usage.used, amount, cap_day_ends_at(usage.day))


def release(funds: Funds, usage: CapUsage, hold: Hold) -> Reserved:
    """Give a hold back: the work did not happen. It must be found, and deleted, under the account's lock.

    Raises `ValueError` where it was released or settled already, `take` would refuse its amount, or the usage
    is another key's or day's.
    """
    _check_open(funds, usage, hold)
    return Reserved(with_held(funds, funds.held - hold.amount), evolve(usage, held=usage.held - hold.amount))


def settle(
    funds: Funds,
    usage: CapUsage,
    hold: Hold,
    amount: int,
    transfer_id: UUID,
    at: datetime,
    key: ChainKey | None = None,
) -> Settled:
    """Turn a hold into a charge of the real cost, which may take the balance below zero and pass the cap.

    Raises:
        InvalidAmount: see `check_amount`.
        ValueError: see `release`.
    """
    _check_open(funds, usage, hold)
    transfer = _charge(
        transfer_id, hold.operation, hold.kind, amount, hold.reference, hold.api_key_id, hold.cap_day
    )
    posting = post(funds, transfer, at, held=funds.held - hold.amount, key=key)
    return Settled(posting, evolve(usage, spent=usage.spent + amount, held=usage.held - hold.amount))


def charge(
    funds: Funds,
    usage: CapUsage,
    daily_cap: int | None,
    transfer_id: UUID,
    operation: str,
    amount: int,
    reference: Reference,
    at: datetime,
    kind: StrEnum = TransferKind.MEETING_CHARGE,
    key: ChainKey | None = None,
) -> Settled:
    """Admit and charge at once, for work that is certain when it is requested.

    `usage` is the key's on the WIB day of `at`, and names the key; `operation` is the charge's permanent
    name.

    Raises:
        InvalidAmount: see `check_amount`.
        InsufficientCredits: more than is available.
        CreditCapExceeded: see `take`.
        ValueError: the usage is another day's, the cap is no whole number, or the kind is no charge's.
    """
    _check_usage(usage, usage.api_key_id, cap_day(at))
    _admit(funds, usage, daily_cap, amount)
    transfer = _charge(transfer_id, operation, kind, amount, reference, usage.api_key_id, usage.day)
    posting = post(funds, transfer, at, key=key)
    return Settled(posting, evolve(usage, spent=usage.spent + amount))


def refund(
    funds: Funds,
    usage: CapUsage,
    charge: Transfer,
    transfer_id: UUID,
    at: datetime,
    existing: Transfer | None = None,
    key: ChainKey | None = None,
    amount: int | None = None,
    kind: StrEnum = TransferKind.MEETING_REFUND,
) -> Settled:
    """Give a charge or a part of it back, and the cap of its key and day with it; see `ledger.refund`.

    With an `existing` refund nothing changes: there is no entry, and the usage stays. Raises `ValueError`
    where the usage is another key's or day's, or less was spent than is given back.
    """
    posting = ledger.refund(funds, charge, transfer_id, at, existing, key, amount, kind)
    _check_usage(usage, charge.api_key_id, charge.cap_day)
    if posting.entry is None:
        return Settled(posting, usage)
    given_back = posting.entry.transfer.amount
    if usage.spent < given_back:
        raise ValueError("less was spent on this day than is given back")
    return Settled(posting, evolve(usage, spent=usage.spent - given_back))


def _charge(
    id: UUID,
    operation: str,
    kind: StrEnum,
    amount: int,
    reference: Reference,
    api_key_id: UUID,
    day: date,
) -> Transfer:
    source, destination = charge_route(kind)
    return Transfer(id, operation, kind, amount, source, destination, reference, None, api_key_id, day)
