"""Prices: the coercion of recording and quotes (rules 4.1/1, 4.1/2 and 4.1/5)."""

import itertools
from datetime import UTC, datetime
from fractions import Fraction
from math import ceil
from typing import Any
from uuid import UUID

import pytest
from attrs import evolve
from hypothesis import example, given
from hypothesis import strategies as st

from meetcore.domain.errors import NotFound, Unprocessable
from meetcore.domain.meetings.hosts import PasswordRule
from meetcore.domain.meetings.meetings import ProviderAbilities, plan_meeting
from meetcore.domain.meetings.schedule import cap_day
from meetcore.domain.money import holds, pricing
from meetcore.domain.money.ledger import Funds
from meetcore.domain.money.transfers import MAX_CREDITS, InvalidAmount, Reference, TransferKind
from meetcore.testing.strategies.account_histories import ACCOUNT
from meetcore.testing.strategies.meetings import meeting_requests
from meetcore.testing.strategies.money import catalogues, recording_flags, tiers

TIER = pricing.PricingTier("standard-100", "Standard 100", 100, 60, 10, 5)

NOW = datetime(2026, 12, 1, 2, tzinfo=UTC)
ABILITIES = ProviderAbilities("sandbox", PasswordRule("0123456789"))


@pytest.mark.spec("4.1/1")
@pytest.mark.parametrize(("with_recording", "auto_notulen", "effective"), [
    (False, False, False), (True, False, True), (False, True, True), (True, True, True),
])  # fmt: skip
def test_notes_force_recording_on(with_recording: bool, auto_notulen: bool, effective: bool) -> None:
    flags = pricing.RecordingFlags(with_recording, auto_notulen)
    assert pricing.is_recording_effective(flags) is effective
    assert pricing.quote_meeting(TIER, flags).with_recording is effective


@given(tiers(), recording_flags())
def test_coercion_never_lowers_the_price(tier: pricing.PricingTier, flags: pricing.RecordingFlags) -> None:
    coerced = evolve(flags, with_recording=pricing.is_recording_effective(flags))
    assert pricing.quote_meeting(tier, coerced) == pricing.quote_meeting(tier, flags)
    requested_credits = tier.credits + tier.recording_credits * flags.with_recording
    assert pricing.quote_meeting(tier, flags).credits >= requested_credits


@pytest.mark.spec("4.1/5")
@given(st.data(), catalogues())
def test_the_estimate_equals_the_charge_for_every_request(
    data: st.DataObject, catalogue: pricing.TierCatalogue
) -> None:
    """From the quote before anything is made, by way of the plan and the hold, to the entry in the ledger."""
    request = data.draw(meeting_requests(catalogue, ABILITIES, NOW), "request")
    flags = pricing.RecordingFlags(request.options.with_recording, request.options.auto_notulen)
    estimate = pricing.quote_meeting(catalogue.find(request.pricing_tier_id), flags)
    plan = plan_meeting(request, catalogue, ABILITIES, NOW)
    assert plan.quote == estimate
    funds, usage = Funds(ACCOUNT, balance=estimate.credits), holds.CapUsage(UUID(int=1), cap_day(NOW))
    reference, kind = Reference("meeting", "7"), TransferKind.MEETING_CHARGE
    hold = holds.Hold(
        UUID(int=2), "meeting:7", kind, plan.quote.credits, reference, usage.api_key_id, usage.day
    )
    reserved = holds.take(funds, usage, estimate.credits, hold)
    settled = holds.settle(reserved.funds, reserved.usage, hold, hold.amount, UUID(int=3), NOW)
    assert settled.posting.entry is not None
    assert settled.posting.entry.amount == -estimate.credits
    assert (settled.posting.funds.balance, settled.usage.used) == (0, estimate.credits)


@given(tiers(), recording_flags())
@example(
    pricing.PricingTier("t", "T", 1, 1, pricing.MAX_PRICE, pricing.MAX_PRICE),
    pricing.RecordingFlags(with_recording=True),
)
def test_every_quote_can_be_charged(tier: pricing.PricingTier, flags: pricing.RecordingFlags) -> None:
    """A tier that costs more than the ledger moves is none: its estimate promised a charge that fails."""
    assert 1 <= pricing.quote_meeting(tier, flags).credits <= MAX_CREDITS


@pytest.mark.spec("4.1/2")
@given(tiers())
def test_forcing_recording_raises_the_cost_by_what_recording_costs(tier: pricing.PricingTier) -> None:
    forced = pricing.quote_meeting(tier, pricing.RecordingFlags(auto_notulen=True))
    plain = pricing.quote_meeting(tier, pricing.RecordingFlags())
    assert forced == pricing.quote_meeting(tier, pricing.RecordingFlags(with_recording=True))
    assert forced.credits - plain.credits == tier.recording_credits
    assert (forced.with_recording, plain.with_recording) == (True, False)


@given(tiers(), recording_flags())
def test_a_quote_is_the_sum_of_its_items(tier: pricing.PricingTier, flags: pricing.RecordingFlags) -> None:
    quote = pricing.quote_meeting(tier, flags)
    assert quote.credits == sum(item.credits for item in quote.items)
    assert quote.recording_credits == quote.credits - tier.credits
    names = [item.name for item in quote.items]
    assert names == (["meeting", "recording"] if quote.with_recording else ["meeting"])


@given(st.integers(1, 1_000), st.integers(1, 10**9))
@example(3, 1)
@example(3, 60)
@example(3, 61)
def test_notulen_cost_each_started_minute(credits_per_minute: int, duration_s: int) -> None:
    started = ceil(Fraction(duration_s, 60))
    expected = credits_per_minute * started
    assert pricing.quote_notulen(credits_per_minute, duration_s) == pricing.Quote(
        (pricing.QuoteItem("notulen", expected),), expected, True
    )


@pytest.mark.parametrize("duration_s", [0, -1, -60])
def test_a_recording_without_length_has_no_price(duration_s: int) -> None:
    with pytest.raises(ValueError, match=r"^a recording is at least one second long$"):
        pricing.quote_notulen(1, duration_s)


@pytest.mark.parametrize(("per_minute", "duration_s"), [(0, 60), (1.5, 60), (1, 61.0), (MAX_CREDITS, 61)])
def test_notes_whose_price_is_no_valid_amount_have_no_quote(per_minute: Any, duration_s: Any) -> None:
    assert pricing.quote_notulen(MAX_CREDITS, 60).credits == MAX_CREDITS
    with pytest.raises(InvalidAmount):
        pricing.quote_notulen(per_minute, duration_s)


@given(catalogues(), st.text("aé- 1", max_size=5))
def test_a_catalogue_finds_what_is_on_sale_and_nothing_else(
    catalogue: pricing.TierCatalogue, other: str
) -> None:
    on_sale = [tier for tier in catalogue.tiers.values() if not tier.is_retired]
    assert catalogue.on_sale() == tuple(on_sale)
    for tier_id in {*catalogue.tiers, other}:
        tier = catalogue.tiers.get(tier_id)
        if tier in on_sale:
            assert catalogue.find(tier_id) is tier
        else:
            with pytest.raises(NotFound) as refused:
                catalogue.find(tier_id)
            assert refused.value.details == {"pricing_tier_id": tier_id}
            message = "No pricing tier with this id. GET /pricing-tiers lists those on sale."
            assert refused.value.message == message


@given(st.lists(tiers(), max_size=6, unique_by=lambda tier: tier.id), st.integers(1, 100))
def test_a_catalogue_keeps_its_tiers_in_their_order(
    drawn: list[pricing.PricingTier], per_minute: int
) -> None:
    catalogue = pricing.TierCatalogue.of(drawn, per_minute)
    assert list(catalogue.tiers.items()) == [(tier.id, tier) for tier in drawn]
    assert catalogue.notulen_credits_per_minute == per_minute
    assert pricing.TierCatalogue.of(drawn).notulen_credits_per_minute == 1


def test_two_tiers_cannot_share_an_id() -> None:
    with pytest.raises(ValueError, match=r"^the tier id 'standard-100' is given twice$"):
        pricing.TierCatalogue.of([TIER, evolve(TIER, name="Another")])


def test_a_catalogue_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        pricing.DEFAULT_TIERS.tiers["mine"] = TIER  # type: ignore[index]


FIELDS: dict[str, Any] = {
    "id": "t",
    "name": "T",
    "capacity": 1,
    "max_duration": 1,
    "credits": 1,
    "recording_credits": 0,
}
NOT_WHOLE: tuple[Any, ...] = (-1, True, 1.0, float("nan"), "1", None)


LIMITS = {
    "capacity": (1, pricing.MAX_CAPACITY), "max_duration": (1, pricing.MAX_DURATION),
    "credits": (1, pricing.MAX_PRICE), "recording_credits": (0, pricing.MAX_PRICE),
}  # fmt: skip


@pytest.mark.parametrize("field", LIMITS)
def test_the_figures_of_a_tier_are_whole_numbers_within_their_limits(field: str) -> None:
    least, most = LIMITS[field]
    for value in (least, most):
        assert getattr(pricing.PricingTier(**{**FIELDS, field: value}), field) == value
    for wrong in (least - 1, most + 1, *NOT_WHOLE):
        with pytest.raises(ValueError, match=rf"^{field} must be a whole number from {least} to {most}$"):
            pricing.PricingTier(**{**FIELDS, field: wrong})


@pytest.mark.parametrize(("field", "value"), [
    *itertools.product(("id", "name"), ("", "a\nb", "a\x00", "\ud800", 1, None, b"t")),
    *itertools.product(("is_retired",), (0, 1, None, "false")),
])  # fmt: skip
def test_the_texts_of_a_tier_are_printable_and_its_flag_is_a_bool(field: str, value: Any) -> None:
    problem = "must be true or false" if field == "is_retired" else "must be a text"
    with pytest.raises(ValueError, match=f"^{field} {problem}$"):
        pricing.PricingTier(**{**FIELDS, field: value})


@pytest.mark.parametrize("value", [0, pricing.MAX_PRICE + 1, *NOT_WHOLE])
def test_the_price_of_a_minute_is_a_whole_number(value: Any) -> None:
    with pytest.raises(ValueError, match="notulen_credits_per_minute must be a whole number"):
        pricing.TierCatalogue.of([TIER], value)


def test_the_default_tiers_are_those_of_the_contract() -> None:
    tiers = [
        (tier.id, tier.capacity, tier.max_duration, tier.credits, tier.recording_credits)
        for tier in pricing.DEFAULT_TIERS.on_sale()
    ]
    assert tiers == [
        ("standard-100", 100, 60, 10, 5),
        ("standard-100-long", 100, 240, 25, 10),
        ("plus-300", 300, 180, 40, 15),
        ("large-500", 500, 240, 80, 25),
        ("event-1000", 1000, 480, 200, 60),
    ]
    assert pricing.DEFAULT_TIERS.notulen_credits_per_minute == 1


@pytest.mark.spec("1/notes")
@given(catalogues(1000), st.integers(1, 200_000))
def test_the_estimate_of_notes_is_what_they_are_held_and_charged_at(
    catalogue: pricing.TierCatalogue, duration_s: int
) -> None:
    """From the minutes that are shown, by way of the hold, to the entry in the ledger."""
    estimate = catalogue.quote_notulen(pricing.started_minutes(duration_s) * 60)
    price = catalogue.quote_notulen(duration_s)
    assert price == estimate
    funds, usage = Funds(ACCOUNT, balance=price.credits), holds.CapUsage(UUID(int=1), cap_day(NOW))
    kind = TransferKind.NOTULEN_CHARGE
    hold = holds.Hold(
        UUID(int=2), "note:7", kind, price.credits, Reference("note", "7"), usage.api_key_id, usage.day
    )
    reserved = holds.take(funds, usage, price.credits, hold)
    settled = holds.settle(reserved.funds, reserved.usage, hold, price.credits, UUID(int=3), NOW)
    assert settled.posting.entry is not None
    assert settled.posting.entry.amount == -estimate.credits
    assert (settled.posting.funds.balance, settled.posting.funds.held) == (0, 0)


@pytest.mark.spec("1/notes")
def test_notes_by_rules_have_a_price_of_their_own_or_the_same() -> None:
    assert pricing.TierCatalogue.of([TIER], 3).notulen_credits_per_minute_by_rules == 3
    assert pricing.TierCatalogue({}, 3).notulen_credits_per_minute_by_rules == 3
    catalogue = pricing.TierCatalogue.of([TIER], 3, 2)
    assert (catalogue.notulen_credits_per_minute, catalogue.notulen_credits_per_minute_by_rules) == (3, 2)
    for is_by_rules, credits in ((True, 4), (False, 6)):
        assert catalogue.quote_notulen(61, is_by_rules=is_by_rules).credits == credits
    assert catalogue.quote_notulen(61).credits == 6
    for value in (0, pricing.MAX_PRICE + 1, *NOT_WHOLE):
        if value is not None:
            with pytest.raises(
                ValueError, match="notulen_credits_per_minute_by_rules must be a whole number"
            ):
                pricing.TierCatalogue.of([TIER], 3, value)


def test_notes_beyond_the_credit_limit_cannot_be_priced() -> None:
    catalogue = pricing.TierCatalogue.of([TIER], MAX_CREDITS // 2)
    assert catalogue.quote_notulen(120).credits == MAX_CREDITS // 2 * 2
    with pytest.raises(Unprocessable, match=r"^Notes of this length cost more than can be charged\.$"):
        catalogue.quote_notulen(181)
    with pytest.raises(ValueError, match="one second"):
        catalogue.quote_notulen(0)


@pytest.mark.parametrize("field", ["with_recording", "auto_notulen"])
@pytest.mark.parametrize("value", ["false", "", 0, 1, None])
def test_a_flag_that_costs_credits_is_true_or_false(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{field} must be true or false$"):
        pricing.RecordingFlags(**{field: value})
