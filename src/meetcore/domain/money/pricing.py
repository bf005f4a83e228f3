"""Prices: tiers, the coercion of recording, and quotes (rules 4.1/1, 4.1/2 and 4.1/5).

A quote is what is held, and what `holds.settle` then charges: no second place computes a price. Credits and
minutes are whole.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import Attribute, Factory, field, frozen

from meetcore.domain.checks import flag, whole
from meetcore.domain.errors import NotFound, Unprocessable
from meetcore.domain.money.transfers import MAX_CREDITS, InvalidAmount, check_amount

__all__ = [
    "DEFAULT_TIERS", "PricingTier", "Quote", "QuoteItem", "RecordingFlags", "TierCatalogue",
    "is_recording_effective", "quote_meeting", "quote_notulen",
]  # fmt: skip

MAX_CAPACITY: Final = 1_000_000
"""Seats. No tier has more."""
MAX_DURATION: Final = 525_600
"""Minutes: a year. No tier lasts longer, so that the end of a meeting is always a date that exists."""
MAX_PRICE: Final = MAX_CREDITS // 2
"""Credits. No tier costs more, nor does its recording, so that both together can be charged."""


def _text(_: object, attribute: "Attribute[Any]", value: Any) -> None:
    if not isinstance(value, str) or not value or not value.isprintable():
        raise ValueError(f"{attribute.name} must be a text")


@frozen
class PricingTier:
    """Seats, minutes and credits of a meeting that is sold.

    `recording_credits` are added when the effective recording is on. A retired tier prices old meetings and
    sells no new one.
    """

    id: str = field(validator=_text)
    name: str = field(validator=_text)
    capacity: int = field(validator=whole, metadata={"range": (1, MAX_CAPACITY)})
    max_duration: int = field(validator=whole, metadata={"range": (1, MAX_DURATION)})
    credits: int = field(validator=whole, metadata={"range": (1, MAX_PRICE)})
    recording_credits: int = field(validator=whole, metadata={"range": (0, MAX_PRICE)})
    is_retired: bool = field(default=False, validator=flag)


@frozen
class RecordingFlags:
    """The requested flags; `is_recording_effective` applies the coercion."""

    with_recording: bool = field(default=False, validator=flag)
    auto_notulen: bool = field(default=False, validator=flag)


RECORDING_ITEM: Final = "recording"
"""The item of a quote that is the surcharge for the recording."""


@frozen
class QuoteItem:
    """One item of a quote, in credits."""

    name: str
    credits: int


@frozen
class Quote:
    """A price, item by item; `credits` is the sum and what will be charged."""

    items: tuple[QuoteItem, ...]
    credits: int
    with_recording: bool

    @property
    def recording_credits(self) -> int:
        """The surcharge for the recording."""
        return sum(item.credits for item in self.items if item.name == RECORDING_ITEM)


@frozen
class TierCatalogue:
    """The tiers on sale and the prices of a started minute of notulen.

    Notes written by rules have a price of their own, the same unless it is given.
    """

    tiers: Mapping[str, PricingTier]
    notulen_credits_per_minute: int = field(default=1, validator=whole, metadata={"range": (1, MAX_PRICE)})
    notulen_credits_per_minute_by_rules: int = field(
        default=Factory(lambda self: self.notulen_credits_per_minute, takes_self=True),
        validator=whole,
        metadata={"range": (1, MAX_PRICE)},
    )

    @classmethod
    def of(
        cls,
        tiers: Iterable[PricingTier],
        notulen_credits_per_minute: int = 1,
        notulen_credits_per_minute_by_rules: int | None = None,
    ) -> "TierCatalogue":
        """Build a catalogue; raise `ValueError` where two tiers share an id."""
        by_id: dict[str, PricingTier] = {}
        for tier in tiers:
            if tier.id in by_id:
                raise ValueError(f"the tier id {tier.id!r} is given twice")
            by_id[tier.id] = tier
        per_minute, by_rules = notulen_credits_per_minute, notulen_credits_per_minute_by_rules
        return cls(MappingProxyType(by_id), per_minute, per_minute if by_rules is None else by_rules)

    def quote_notulen(self, duration_s: int, *, is_by_rules: bool = False) -> "Quote":
        """Price notes on a recording of so many seconds, by who writes them; see `quote_notulen`.

        Raises `Unprocessable` where they cost more than the largest possible balance.
        """
        per_minute = (
            self.notulen_credits_per_minute_by_rules if is_by_rules else self.notulen_credits_per_minute
        )
        try:
            return quote_notulen(per_minute, duration_s)
        except InvalidAmount as error:
            raise Unprocessable("Notes of this length cost more than can be charged.") from error

    def on_sale(self) -> tuple[PricingTier, ...]:
        """Return the tiers that are not retired, in the catalogue's order."""
        return tuple(tier for tier in self.tiers.values() if not tier.is_retired)

    def find(self, tier_id: str) -> PricingTier:
        """Return the tier that is sold under this id (rule 4.1/tier); NotFound if unknown or retired."""
        tier = self.tiers.get(tier_id)
        if tier is None or tier.is_retired:
            raise NotFound(
                "No pricing tier with this id. GET /pricing-tiers lists those on sale.",
                {"pricing_tier_id": tier_id},
            )
        return tier


def is_recording_effective(flags: RecordingFlags) -> bool:
    """Coerce the recording flag: notes need a recording, so `auto_notulen` forces it on (rule 4.1/1)."""
    return flags.with_recording or flags.auto_notulen


def quote_meeting(tier: PricingTier, flags: RecordingFlags) -> Quote:
    """Price a meeting item by item; flags are coerced by rule 4.1/1, the sum is the charge (4.1/2, 4.1/5)."""
    base = QuoteItem("meeting", tier.credits)
    if not is_recording_effective(flags):
        return Quote((base,), tier.credits, False)
    extra = QuoteItem(RECORDING_ITEM, tier.recording_credits)
    return Quote((base, extra), tier.credits + tier.recording_credits, True)


def quote_notulen(credits_per_minute: int, duration_s: int) -> Quote:
    """Price notes by the started minutes of the recording (rule 1/notes).

    Raises `ValueError` for a length below one second, `InvalidAmount` for a price that cannot be charged.
    """
    if duration_s < 1:
        raise ValueError("a recording is at least one second long")
    credits_ = check_amount(credits_per_minute * started_minutes(duration_s))
    return Quote((QuoteItem("notulen", credits_),), credits_, True)


def started_minutes(duration_s: int) -> int:
    """Return the minutes that are shown and paid for: every one that was begun (rule 1/notes)."""
    return -(-duration_s // 60)


DEFAULT_TIERS = TierCatalogue.of(
    (
        PricingTier("standard-100", "Standard 100", 100, 60, 10, 5),
        PricingTier("standard-100-long", "Standard 100 long", 100, 240, 25, 10),
        PricingTier("plus-300", "Plus 300", 300, 180, 40, 15),
        PricingTier("large-500", "Large 500", 500, 240, 80, 25),
        PricingTier("event-1000", "Event 1000", 1000, 480, 200, 60),
    )
)
"""The tiers that are sold unless a file replaces them."""
