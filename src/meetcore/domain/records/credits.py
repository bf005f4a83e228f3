"""The records of credits: tiers, the balance, the ledger, and what a thing would cost (spec 1, 2)."""

from typing import Annotated

from attrs import frozen

from meetcore.domain.field_info import FieldInfo
from meetcore.domain.meetings.schedule import cap_day_ends_at
from meetcore.domain.money.holds import CapUsage
from meetcore.domain.money.ledger import Entry, Funds
from meetcore.domain.money.pricing import PricingTier, Quote
from meetcore.domain.money.transfers import TransferKind
from meetcore.domain.records.fields import DURATION_UNIT, Credits, Id, Utc, in_utc, record_of

__all__ = [
    "BalanceChange",
    "CreditsRecord",
    "DailyCap",
    "Estimate",
    "EstimateItem",
    "Tier",
    "Transaction",
    "TransactionReference",
    "balance_record",
    "credits_record",
    "estimate_record",
    "tier_record",
    "transaction_record",
]


@frozen
class Tier:
    """A pricing tier: seats, minutes, credits."""

    id: str
    name: str
    capacity: int
    max_duration: int
    duration_unit: str
    credits: Credits
    recording_credits: Credits


@frozen
class DailyCap:
    """What the key may spend of a day in WIB. `spent` counts what is held, less what was refunded."""

    cap: Credits
    spent: Credits
    remaining: Credits
    resets_at: Utc


@frozen
class CreditsRecord:
    """The account's credits, and the cap of the key that asks."""

    balance: Credits
    held: Annotated[int, FieldInfo("Whole credits that work in progress reserves.")]
    available: Credits
    daily_cap: DailyCap | None = None


@frozen
class TransactionReference:
    """What a transaction is about."""

    type: Annotated[str, FieldInfo(examples=("meeting", "topup"))]
    id: str


@frozen(kw_only=True)
class Transaction:
    """One movement of credits. `amount` is negative for what was taken; a refund names what it `reverses`."""

    id: Id
    kind: Annotated[str, FieldInfo(known_values=TransferKind)]
    amount: Credits
    balance_after: Credits
    reference: TransactionReference
    reverses: Id | None = None
    api_key_id: Id | None = None
    created_at: Utc


@frozen
class BalanceChange:
    """The credits after a transaction, and the transaction."""

    balance: Annotated[int, FieldInfo("Whole credits, what is held included.")]
    held: Annotated[int, FieldInfo("Whole credits that work in progress has reserved.")]
    available: Annotated[int, FieldInfo("Whole credits that can be spent.")]
    transaction: Transaction


@frozen
class EstimateItem:
    """One line of a price."""

    name: Annotated[str, FieldInfo(examples=("meeting", "recording", "notulen"))]
    credits: Credits


@frozen
class Estimate:
    """What would be charged. `sufficient`: neither the credits nor the key's cap would refuse it now."""

    type: Annotated[str, FieldInfo(examples=("meeting", "notulen"))]
    credits: Credits
    items: tuple[EstimateItem, ...]
    with_recording: bool
    balance: Credits
    sufficient: bool


def tier_record(tier: PricingTier) -> Tier:
    """A pricing tier on sale: seats, minutes, credits."""
    return record_of(Tier, tier, duration_unit=DURATION_UNIT)


def credits_record(balance: int, held: int, daily_cap: int | None, usage: CapUsage) -> CreditsRecord:
    """The answer of `GET /credits`: the account's credits, and what is left of the key's cap today.

    Args:
        balance: what is held included.
        held: what open holds reserve of it.
        daily_cap: the key's, if it has one.
        usage: what the key spent and holds on the day of the request.
    """
    cap = None
    if daily_cap is not None:
        cap = DailyCap(
            cap=daily_cap,
            spent=usage.used,
            remaining=max(0, daily_cap - usage.used),
            resets_at=cap_day_ends_at(usage.day),
        )
    return CreditsRecord(balance=balance, held=held, available=balance - held, daily_cap=cap)


def transaction_record(entry: Entry) -> Transaction:
    """A ledger entry as `GET /credits/transactions` shows it. Amounts are signed credits.

    `api_key_id` is null where a member paid by hand, see `dashboard_key`.
    """
    transfer = entry.transfer
    is_by_hand = transfer.api_key_id in (None, entry.account_id)
    return record_of(
        Transaction,
        transfer,
        amount=entry.amount,
        balance_after=entry.balance_after,
        reference=record_of(TransactionReference, transfer.reference),
        api_key_id=None if is_by_hand else str(transfer.api_key_id),
        created_at=in_utc(entry.at),
    )


def balance_record(funds: Funds, entry: Entry) -> BalanceChange:
    """The data of `credit.low` and `credit.topup.succeeded`: the balance and the transaction."""
    return record_of(BalanceChange, funds, transaction=transaction_record(entry))


def estimate_record(kind: str, quote: Quote, balance: int, *, is_sufficient: bool) -> Estimate:
    """The answer of `POST /credits/estimate`: what would be charged, item by item."""
    items = tuple(record_of(EstimateItem, item) for item in quote.items)
    return record_of(Estimate, quote, type=kind, items=items, balance=balance, sufficient=is_sufficient)
