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
from uuid import UUID

from attrs import Factory, evolve, field, frozen

from meetcore.domain.errors import CreditCapExceeded, InsufficientCredits
from meetcore.domain.meetings.schedule import cap_day, cap_day_ends_at
from meetcore.domain.money.chain_keys import ChainKey
from meetcore.domain.money.ledger import Funds, Posting, post, with_held
from meetcore.domain.money.transfers import ROUTES, Reference, Transfer, TransferKind, check_amount

__all__ = [
    "CapUsage",
    "Hold",
    "Reserved",
    "Settled",
    "charge",
    "is_sufficient",
    "readmit",
    "refund_usage",
    "release",
    "settle",
    "take",
]


@frozen
class CapUsage:
    """What was spent and is held under one cap on one WIB day, in credits, less what was refunded of it.

    `api_key_id` is the key that pays. `cap_key_id` is the key that the cap is counted under: the first of
    those that were rolled, or the paying key itself.
    """

    api_key_id: UUID
    day: date
    spent: int = 0
    held: int = 0
    cap_key_id: UUID = field(default=Factory(lambda self: self.api_key_id, takes_self=True))

    @property
    def used(self) -> int:
        """What counts against the cap."""
        return self.spent + self.held


@frozen
class Hold:
    """A reservation of credits for one piece of work."""

    id: UUID
    operation: str
    kind: TransferKind
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
    """The state after a hold became a charge."""

    posting: Posting
    usage: CapUsage


def take(funds: Funds, usage: CapUsage, daily_cap: int | None, hold: Hold) -> Reserved:
    """Reserve credits for work that is about to start.

    Args:
        usage: the key's usage on the hold's cap day.

    Raises:
        InvalidAmount: see `check_amount`.
        InsufficientCredits: more than is available, or the balance is below zero.
        CreditCapExceeded: spent and held on this day leave no room under the cap.
        ValueError: the usage is another key's or another day's.
    """
    _check_usage(usage, hold.api_key_id, hold.cap_day)
    _admit(funds, usage, daily_cap, hold.amount)
    return Reserved(
        with_held(funds, funds.held + hold.amount),
        evolve(usage, held=usage.held + hold.amount),
    )


def readmit(funds: Funds, usage: CapUsage, hold: Hold) -> Reserved:
    """Reserve credits for work that was admitted and done before, and whose charge was lost.

    Neither the balance nor the cap is asked: what paid for it may be lost, too, and the balance may fall
    below zero.

    Raises:
        InvalidAmount: see `check_amount`.
        ValueError: the usage is another key's or another day's.
    """
    _check_usage(usage, hold.api_key_id, hold.cap_day)
    check_amount(hold.amount)
    return Reserved(
        with_held(funds, funds.held + hold.amount),
        evolve(usage, held=usage.held + hold.amount),
    )


def _check_usage(usage: CapUsage, api_key_id: UUID, day: date) -> None:
    # The usage of another day or key would let a spend exceed the cap undetected.
    if usage.api_key_id != api_key_id:
        raise ValueError("the usage is of another key than the spend")
    if usage.day != day:
        raise ValueError(f"the usage is of {usage.day}, the spend of {day}")


def _check_open(funds: Funds, usage: CapUsage, hold: Hold) -> None:
    _check_usage(usage, hold.api_key_id, hold.cap_day)
    if hold.amount > funds.held or hold.amount > usage.held:
        raise ValueError("a hold ends once: less is held than this one reserves")


def is_sufficient(available: int, used: int, daily_cap: int | None, amount: int) -> bool:
    """Whether `take` would admit work at this price: enough is available, and the cap has room for it.

    Args:
        available: the account's balance less what is held, in credits.
        used: what the key spent and holds on the day (`CapUsage.used`).
    """
    return amount <= available and (daily_cap is None or used + amount <= daily_cap)


def _admit(funds: Funds, usage: CapUsage, daily_cap: int | None, amount: int) -> None:
    check_amount(amount)
    available = funds.balance - funds.held
    if available < amount:
        raise InsufficientCredits(amount, available)
    if daily_cap is not None and usage.used + amount > daily_cap:
        raise CreditCapExceeded(daily_cap, usage.used, amount, cap_day_ends_at(usage.day))


def release(funds: Funds, usage: CapUsage, hold: Hold) -> Reserved:
    """Give a hold back: the work did not happen.

    Raises:
        ValueError: less is held than this hold reserves, so that it has ended already; or the usage is
            another key's or another day's.
    """
    _check_open(funds, usage, hold)
    return Reserved(
        with_held(funds, funds.held - hold.amount),
        evolve(usage, held=usage.held - hold.amount),
    )


def settle(
    funds: Funds,
    usage: CapUsage,
    hold: Hold,
    amount: int,
    transfer_id: UUID,
    at: datetime,
    key: ChainKey | None = None,
) -> Settled:
    """Turn a hold into a charge of what the work really cost.

    Args:
        usage: the key's usage on the hold's cap day.
        amount: credits; more than was held may take the balance below zero and pass the cap.

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
    kind: TransferKind = TransferKind.MEETING_CHARGE,
    key: ChainKey | None = None,
) -> Settled:
    """Admit and charge at once, for work that is certain when it is requested.

    Args:
        usage: the key's usage on the WIB day of `at`; it also names the key.
        operation: the charge's permanent name; not yet in the ledger.

    Raises:
        InvalidAmount: see `check_amount`.
        InsufficientCredits: more than is available.
        CreditCapExceeded: see `take`.
        ValueError: the usage is another day's.
    """
    _check_usage(usage, usage.api_key_id, cap_day(at))
    _admit(funds, usage, daily_cap, amount)
    transfer = _charge(transfer_id, operation, kind, amount, reference, usage.api_key_id, usage.day)
    posting = post(funds, transfer, at, key=key)
    return Settled(posting, evolve(usage, spent=usage.spent + amount))


def refund_usage(usage: CapUsage, amount: int) -> CapUsage:
    """Give a refund back to the cap of its charge's key and day."""
    return evolve(usage, spent=usage.spent - amount)


def _charge(
    id: UUID,
    operation: str,
    kind: TransferKind,
    amount: int,
    reference: Reference,
    api_key_id: UUID,
    day: date,
) -> Transfer:
    source, destination = ROUTES[kind]
    return Transfer(id, operation, kind, amount, source, destination, reference, None, api_key_id, day)
