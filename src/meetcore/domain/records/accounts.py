"""The records of an account, its key and its credits: tiers, the ledger, estimates (spec 1, 2, 4.2)."""

from typing import Annotated

from attrs import frozen

from meetcore.domain.fields import DURATION_UNIT, Credits, FieldInfo, Id, Utc, in_utc, record_of
from meetcore.domain.meetings.schedule import cap_day_ends_at
from meetcore.domain.money import holds, ledger, pricing, transfers
from meetcore.domain.requests.keys import Scope


@frozen
class User:
    """Whose account it is."""

    id: Id
    email: str
    full_name: str


@frozen
class Balance:
    """The account's balance."""

    balance: Credits


@frozen
class Key:
    """The key that asks."""

    id: Id
    scopes: tuple[Annotated[str, FieldInfo(known_values=Scope)], ...]
    daily_credit_cap: Annotated[
        int | None, FieldInfo("Whole credits a day from 00:00 WIB; null when the key has no cap.")
    ] = None


@frozen
class Account:
    """Whose key it is, what is left, and what the key may do (rule 2.2/fields)."""

    user: User
    credits: Balance
    api_key: Key | None = None


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
    kind: Annotated[str, FieldInfo(known_values=transfers.TransferKind)]
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


def tier_record(tier: pricing.PricingTier) -> Tier:
    """Return the record of a pricing tier on sale."""
    return record_of(Tier, tier, duration_unit=DURATION_UNIT)


def credits_record(balance: int, held: int, daily_cap: int | None, usage: holds.CapUsage) -> CreditsRecord:
    """Return the result of `GET /credits`; `daily_cap` is the key's, if any, `usage` that of the day."""
    cap = None
    if daily_cap is not None:
        cap = DailyCap(
            cap=daily_cap,
            spent=usage.used,
            remaining=max(0, daily_cap - usage.used),
            resets_at=cap_day_ends_at(usage.day),
        )
    return CreditsRecord(balance=balance, held=held, available=balance - held, daily_cap=cap)


def transaction_record(entry: ledger.Entry) -> Transaction:
    """Return a ledger entry as `GET /credits/transactions` shows it. Amounts are signed credits.

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


def balance_record(funds: ledger.Funds, entry: ledger.Entry) -> BalanceChange:
    """Return the data of `credit.low` and `credit.topup.succeeded`: the balance and the transaction."""
    return record_of(BalanceChange, funds, transaction=transaction_record(entry))


def estimate_record(kind: str, quote: pricing.Quote, balance: int, *, is_sufficient: bool) -> Estimate:
    """Return the result of `POST /credits/estimate`: the charge, item by item."""
    items = tuple(record_of(EstimateItem, item) for item in quote.items)
    return record_of(Estimate, quote, type=kind, items=items, balance=balance, sufficient=is_sufficient)
