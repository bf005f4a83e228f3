"""Prices: the coercion of recording and quotes (spec 4.1 rules 1, 2 and 5)."""

import itertools
from fractions import Fraction
from math import ceil
from typing import Any

import pytest
from attrs import evolve
from hypothesis import example, given
from hypothesis import strategies as st

from meetcore.domain.errors import NotFound
from meetcore.domain.pricing import (
    DEFAULT_TIERS,
    PricingTier,
    Quote,
    QuoteItem,
    RecordingWish,
    TierCatalogue,
    is_recording_effective,
    quote_meeting,
    quote_notulen,
)

TIER = PricingTier("standard-100", "Standard 100", 100, 60, 10, 5)

positive = st.integers(1, 10**6)
labels = st.text("aé- 1", min_size=1, max_size=5)
tiers = st.builds(
    PricingTier,
    id=labels,
    name=labels,
    capacity=positive,
    max_duration=positive,
    credits=positive,
    recording_credits=st.integers(0, 10**6),
    is_retired=st.booleans(),
)
wishes = st.builds(RecordingWish, st.booleans(), st.booleans())
catalogues = st.lists(tiers, max_size=6, unique_by=lambda tier: tier.id)


@pytest.mark.spec("4.1/1")
@pytest.mark.parametrize(
    ("with_recording", "auto_notulen", "effective"),
    [(False, False, False), (True, False, True), (False, True, True), (True, True, True)],
)
def test_notes_force_recording_on(with_recording: bool, auto_notulen: bool, effective: bool) -> None:
    wish = RecordingWish(with_recording, auto_notulen)
    assert is_recording_effective(wish) is effective
    assert quote_meeting(TIER, wish).with_recording is effective


@given(tiers, wishes)
def test_coercion_is_idempotent_and_never_lowers_the_price(tier: PricingTier, wish: RecordingWish) -> None:
    coerced = evolve(wish, with_recording=is_recording_effective(wish))
    assert is_recording_effective(coerced) == coerced.with_recording
    assert quote_meeting(tier, coerced) == quote_meeting(tier, wish)
    uncoerced = tier.credits + tier.recording_credits * wish.with_recording
    assert quote_meeting(tier, wish).credits >= uncoerced


@pytest.mark.spec("4.1/2")
@given(tiers)
def test_forcing_recording_raises_the_cost_by_what_recording_costs(tier: PricingTier) -> None:
    forced = quote_meeting(tier, RecordingWish(auto_notulen=True))
    plain = quote_meeting(tier, RecordingWish())
    assert forced == quote_meeting(tier, RecordingWish(with_recording=True))
    assert forced.credits - plain.credits == tier.recording_credits
    assert (forced.with_recording, plain.with_recording) == (True, False)


@given(tiers, wishes)
def test_a_quote_is_the_sum_of_its_items(tier: PricingTier, wish: RecordingWish) -> None:
    quote = quote_meeting(tier, wish)
    assert quote.credits == sum(item.credits for item in quote.items)
    names = [item.name for item in quote.items]
    assert names == (["meeting", "recording"] if quote.with_recording else ["meeting"])


@given(st.integers(1, 1_000), st.integers(1, 10**9))
@example(3, 1)
@example(3, 60)
@example(3, 61)
def test_notulen_cost_each_started_minute(credits_per_minute: int, duration_s: int) -> None:
    started = ceil(Fraction(duration_s, 60))
    expected = credits_per_minute * started
    assert quote_notulen(credits_per_minute, duration_s) == Quote(
        (QuoteItem("notulen", expected),), expected, True
    )


@pytest.mark.parametrize("duration_s", [0, -1, -60])
def test_a_recording_without_length_has_no_price(duration_s: int) -> None:
    with pytest.raises(ValueError, match="one second"):
        quote_notulen(1, duration_s)


@given(catalogues, st.text("aé- 1", max_size=5))
def test_a_catalogue_finds_what_is_on_sale_and_nothing_else(
    given_tiers: list[PricingTier], other: str
) -> None:
    catalogue = TierCatalogue.of(given_tiers)
    by_id = {tier.id: tier for tier in given_tiers}
    assert catalogue.on_sale() == tuple(tier for tier in given_tiers if not tier.is_retired)
    for tier_id in [*by_id, other]:
        tier = by_id.get(tier_id)
        if tier is not None and not tier.is_retired:
            assert catalogue.find(tier_id) is tier
        else:
            with pytest.raises(NotFound) as refused:
                catalogue.find(tier_id)
            assert refused.value.details == {"pricing_tier_id": tier_id}


def test_a_retired_tier_is_answered_like_an_unknown_one() -> None:
    catalogue = TierCatalogue.of([evolve(TIER, is_retired=True)])
    told = []
    for tier_id in (TIER.id, "no-such-tier"):
        with pytest.raises(NotFound) as refused:
            catalogue.find(tier_id)
        told.append(refused.value.message)
    assert told[0] == told[1]


def test_two_tiers_cannot_share_an_id() -> None:
    with pytest.raises(ValueError, match="'standard-100' is given twice"):
        TierCatalogue.of([TIER, evolve(TIER, name="Another")])


def test_a_catalogue_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        DEFAULT_TIERS.tiers["mine"] = TIER  # type: ignore[index]


FIELDS = {"id": "t", "name": "T", "capacity": 1, "max_duration": 1, "credits": 1, "recording_credits": 0}
NOT_WHOLE: tuple[Any, ...] = (-1, True, 1.0, float("nan"), "1", None)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *itertools.product(("capacity", "max_duration", "credits"), (0, *NOT_WHOLE)),
        *itertools.product(("recording_credits",), NOT_WHOLE),
    ],
)
def test_the_figures_of_a_tier_are_whole_numbers(field: str, value: Any) -> None:
    PricingTier(**FIELDS)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=f"{field} must be a whole number"):
        PricingTier(**{**FIELDS, field: value})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *itertools.product(("id", "name"), ("", "a\nb", "a\x00", "\ud800", 1, None, b"t")),
        *itertools.product(("is_retired",), (0, 1, None, "false")),
    ],
)
def test_the_words_of_a_tier_are_printable_and_its_flag_is_one(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{field} must be"):
        PricingTier(**{**FIELDS, field: value})


@pytest.mark.parametrize("value", [0, *NOT_WHOLE])
def test_the_price_of_a_minute_is_a_whole_number(value: Any) -> None:
    with pytest.raises(ValueError, match="notulen_credits_per_minute must be a whole number"):
        TierCatalogue.of([TIER], value)


def test_the_default_tiers_are_those_of_the_contract() -> None:
    told = [
        (tier.id, tier.capacity, tier.max_duration, tier.credits, tier.recording_credits)
        for tier in DEFAULT_TIERS.on_sale()
    ]
    assert told == [
        ("standard-100", 100, 60, 10, 5),
        ("standard-100-long", 100, 240, 25, 10),
        ("plus-300", 300, 180, 40, 15),
        ("large-500", 500, 240, 80, 25),
        ("event-1000", 1000, 480, 200, 60),
    ]
    assert DEFAULT_TIERS.notulen_credits_per_minute == 1
