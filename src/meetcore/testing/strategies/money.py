"""Tiers, catalogues, amounts, transfers, holds, and the state of an account between two decisions.

Each value is possible by itself; `account_histories` makes histories by the rules.
"""

from datetime import date
from typing import Any
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from meetcore.domain.money.holds import CapUsage, Hold
from meetcore.domain.money.ledger import Funds
from meetcore.domain.money.pricing import (
    MAX_CAPACITY,
    MAX_DURATION,
    MAX_PRICE,
    PricingTier,
    RecordingFlags,
    TierCatalogue,
)
from meetcore.domain.money.transfers import MAX_CREDITS, ROUTES, Book, Reference, Transfer, TransferKind
from meetcore.testing.strategies.moments import days

__all__ = [
    "amounts", "bad_amounts", "cap_usages", "catalogues", "funds", "holds", "recording_flags", "references",
    "tiers", "transfers",
]  # fmt: skip

_SLUGS = st.text("abé- 19", min_size=1, max_size=6)
_CHARGES = st.sampled_from([TransferKind.MEETING_CHARGE, TransferKind.NOTULEN_CHARGE])
_TEXTS = st.text("abc:09é", min_size=1, max_size=8)
_IDS, _NONE = st.uuids(version=4), st.none()


def tiers(max_price: int = MAX_PRICE, is_retired: bool | None = None) -> SearchStrategy[PricingTier]:
    """Draw a tier that costs at most `max_price` credits, and as much again for recording."""
    retired = st.booleans() if is_retired is None else st.just(is_retired)
    return st.builds(
        PricingTier, _SLUGS, _SLUGS, st.integers(1, MAX_CAPACITY), st.integers(1, MAX_DURATION),
        st.integers(1, max_price), st.integers(0, max_price), is_retired=retired,
    )  # fmt: skip


def catalogues(max_price: int = MAX_PRICE) -> SearchStrategy[TierCatalogue]:
    """Draw one to five tiers on sale, up to three retired ones, and a price for notes."""
    on_sale = tiers(max_price, is_retired=False)
    sold = st.lists(on_sale, min_size=1, max_size=5, unique_by=lambda tier: tier.id)
    retired = st.lists(tiers(max_price, is_retired=True), max_size=3)
    return st.builds(_catalogue, sold, retired, st.integers(1, 100))


def _catalogue(sold: list[PricingTier], retired: list[PricingTier], per_minute: int) -> TierCatalogue:
    by_id = {tier.id: tier for tier in (*retired, *sold)}
    return TierCatalogue.of(by_id.values(), per_minute)


def recording_flags() -> SearchStrategy[RecordingFlags]:
    """Draw one of the four ways to ask for recording and notes."""
    return st.builds(RecordingFlags, st.booleans(), st.booleans())


def amounts(max_value: int = MAX_CREDITS) -> SearchStrategy[int]:
    """Draw credits that `check_amount` accepts, up to `max_value`."""
    return st.integers(1, max_value) | st.sampled_from([1, max_value])


def bad_amounts() -> SearchStrategy[Any]:
    """Draw a value that is no amount: out of range, a bool, a float, a decimal, a text or None."""
    out_of_range = st.integers(max_value=0) | st.integers(min_value=MAX_CREDITS + 1)
    return st.one_of(out_of_range, st.booleans(), st.floats(), st.decimals(), st.text(max_size=3), _NONE)


def references() -> SearchStrategy[Reference]:
    """Draw the type and the id of the record that a transfer is about."""
    return st.builds(Reference, st.sampled_from(["meeting", "note", "topup", "ticket"]), _TEXTS)


def transfers(kind: TransferKind | None = None) -> SearchStrategy[Transfer]:
    """Draw a transfer of the kind, or of any, with the route and the fields of its kind."""
    kinds = st.sampled_from(TransferKind) if kind is None else st.just(kind)
    return kinds.flatmap(_transfers_of)


def _transfers_of(kind: TransferKind) -> SearchStrategy[Transfer]:
    grant, correction = (Book.ADJUSTMENTS, Book.CUSTOMER), (Book.CUSTOMER, Book.ADJUSTMENTS)
    by_a_key = kind not in (TransferKind.TOPUP, TransferKind.ADJUSTMENT)
    return st.builds(
        lambda route, **fields: Transfer(kind=kind, source=route[0], destination=route[1], **fields),
        route=st.sampled_from([ROUTES[kind]] if kind in ROUTES else [grant, correction]),
        id=_IDS, operation=_TEXTS, amount=amounts(), reference=references(),
        reverses=_IDS if kind is TransferKind.MEETING_REFUND else _NONE,
        api_key_id=_IDS if by_a_key else _NONE, cap_day=days() if by_a_key else _NONE,
    )  # fmt: skip


def holds(api_key_id: UUID, day: date, max_amount: int = 100) -> SearchStrategy[Hold]:
    """Draw a hold of the key on its cap day, for a meeting or for notes."""
    key, on = st.just(api_key_id), st.just(day)
    return st.builds(Hold, _IDS, _TEXTS, _CHARGES, amounts(max_amount), references(), key, on)


def funds(account_id: UUID, max_value: int = 1_000) -> SearchStrategy[Funds]:
    """Draw an account that has spent, holds and perhaps owes, with figures up to `max_value`.

    An account at or above its threshold is not marked as low, as no decision leaves it so.
    """

    def marked(balance: int, held: int, threshold: int, was_notified: bool) -> Funds:
        is_low = was_notified and balance - held < threshold
        return Funds(account_id, balance, held, threshold, is_low)

    figures = st.integers(0, max_value)
    return st.builds(marked, st.integers(-max_value, max_value), figures, figures, st.booleans())


def cap_usages(api_key_id: UUID, day: date, max_value: int = 100) -> SearchStrategy[CapUsage]:
    """Draw what a key has spent and holds on a day."""
    figures = st.integers(0, max_value)
    return st.builds(CapUsage, st.just(api_key_id), st.just(day), figures, figures)
