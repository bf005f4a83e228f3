"""Tiers, catalogues and wishes. Owns no price: `meetcore.domain.money.pricing` says what one costs."""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from meetcore.domain.money.pricing import (
    MAX_CAPACITY,
    MAX_DURATION,
    MAX_PRICE,
    PricingTier,
    RecordingFlags,
    TierCatalogue,
)

__all__ = ["catalogues", "recording_flags", "tiers"]

_SLUGS = st.text("abé- 19", min_size=1, max_size=6)


def tiers(max_price: int = MAX_PRICE, is_retired: bool | None = None) -> SearchStrategy[PricingTier]:
    """Tiers that cost at most `max_price` credits, and as much again for recording; some are retired."""
    return st.builds(
        PricingTier,
        id=_SLUGS,
        name=_SLUGS,
        capacity=st.integers(1, MAX_CAPACITY),
        max_duration=st.integers(1, MAX_DURATION),
        credits=st.integers(1, max_price),
        recording_credits=st.integers(0, max_price),
        is_retired=st.booleans() if is_retired is None else st.just(is_retired),
    )


def catalogues(max_price: int = MAX_PRICE) -> SearchStrategy[TierCatalogue]:
    """Catalogues with one to five tiers on sale, up to three retired ones, and a price for notes."""
    sold = st.lists(
        tiers(max_price, is_retired=False), min_size=1, max_size=5, unique_by=lambda tier: tier.id
    )
    retired = st.lists(tiers(max_price, is_retired=True), max_size=3)
    return st.builds(_catalogue, sold, retired, st.integers(1, 100))


def _catalogue(sold: list[PricingTier], retired: list[PricingTier], per_minute: int) -> TierCatalogue:
    by_id = {tier.id: tier for tier in (*retired, *sold)}  # an id that is sold again is on sale
    return TierCatalogue.of(by_id.values(), per_minute)


def recording_flags() -> SearchStrategy[RecordingFlags]:
    """Each of the four ways to ask for recording and notes."""
    return st.builds(RecordingFlags, st.booleans(), st.booleans())
