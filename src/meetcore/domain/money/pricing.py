"""Prices: tiers, the coercion of recording, and quotes (rules 4.1/1, 4.1/2 and 4.1/5).

Owns what a meeting and its notes cost. A quote is what `charge` deducts: there is no second
place that computes a price. Credits are whole numbers, durations whole minutes.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import Attribute, field, frozen

from meetcore.domain.errors import NotFound, Unprocessable
from meetcore.domain.money.transfers import MAX_CREDITS, InvalidAmount, check_amount

__all__ = [
    "DEFAULT_TIERS",
    "MAX_CAPACITY",
    "MAX_DURATION",
    "MAX_PRICE",
    "PricingTier",
    "Quote",
    "QuoteItem",
    "RecordingFlags",
    "TierCatalogue",
    "is_recording_effective",
    "quote_meeting",
    "quote_notulen",
    "started_minutes",
]

MAX_CAPACITY: Final = 1_000_000
"""Seats. No tier has more."""
MAX_DURATION: Final = 525_600
"""Minutes: a year. No tier lasts longer, so that the end of a meeting is always a date that exists."""
MAX_PRICE: Final = MAX_CREDITS // 2
"""Credits. No tier costs more, nor does its recording, so that both together can be charged."""


def _text(_: object, attribute: "Attribute[Any]", value: Any) -> None:
    if not isinstance(value, str) or not value or not value.isprintable():
        raise ValueError(f"{attribute.name} must be a text")


def _flag(_: object, attribute: "Attribute[Any]", value: Any) -> None:
    if value is not True and value is not False:
        raise ValueError(f"{attribute.name} must be true or false")


def _whole(_: object, attribute: "Attribute[Any]", value: int) -> None:
    least, most = attribute.metadata["range"]
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{attribute.name} must be a whole number from {least} to {most}")


@frozen
class PricingTier:
    """How many seats, how many minutes, how many credits.

    `recording_credits` come on top when the effective recording is on. A retired tier prices old
    meetings and sells no new one.
    """

    id: str = field(validator=_text)
    name: str = field(validator=_text)
    capacity: int = field(validator=_whole, metadata={"range": (1, MAX_CAPACITY)})
    max_duration: int = field(validator=_whole, metadata={"range": (1, MAX_DURATION)})
    credits: int = field(validator=_whole, metadata={"range": (1, MAX_PRICE)})
    recording_credits: int = field(validator=_whole, metadata={"range": (0, MAX_PRICE)})
    is_retired: bool = field(default=False, validator=_flag)


@frozen
class RecordingFlags:
    """The requested flags; `is_recording_effective` applies the coercion."""

    with_recording: bool = False
    auto_notulen: bool = False


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


@frozen
class TierCatalogue:
    """The tiers on sale and the price of a started minute of notulen."""

    tiers: Mapping[str, PricingTier]
    notulen_credits_per_minute: int = field(default=1, validator=_whole, metadata={"range": (1, MAX_PRICE)})

    @classmethod
    def of(cls, tiers: Iterable[PricingTier], notulen_credits_per_minute: int = 1) -> "TierCatalogue":
        """Build a catalogue.

        Raises:
            ValueError: two tiers share an id.
        """
        by_id: dict[str, PricingTier] = {}
        for tier in tiers:
            if tier.id in by_id:
                raise ValueError(f"the tier id {tier.id!r} is given twice")
            by_id[tier.id] = tier
        return cls(MappingProxyType(by_id), notulen_credits_per_minute)

    def quote_notulen(self, duration_s: int) -> "Quote":
        """Price notes on a recording of so many seconds; see `quote_notulen`.

        Raises:
            Unprocessable: they cost more than the largest possible balance.
            ValueError: a length below one second.
        """
        try:
            return quote_notulen(self.notulen_credits_per_minute, duration_s)
        except InvalidAmount as error:
            raise Unprocessable("Notes of this length cost more than can be charged.") from error

    def on_sale(self) -> tuple[PricingTier, ...]:
        """The tiers that can be bought, in the catalogue's order."""
        return tuple(tier for tier in self.tiers.values() if not tier.is_retired)

    def find(self, tier_id: str) -> PricingTier:
        """The tier that is sold under this id (rule 4.1/tier).

        Raises:
            NotFound: unknown or retired.
        """
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
    """Price a meeting before it is made.

    Args:
        tier: the tier whose capacity and duration apply.
        flags: as requested; coerced by rule 4.1/1.

    Returns:
        The credits, item by item. The sum is what is charged (rules 4.1/2 and 4.1/5).
    """
    base = QuoteItem("meeting", tier.credits)
    if not is_recording_effective(flags):
        return Quote((base,), tier.credits, False)
    extra = QuoteItem("recording", tier.recording_credits)
    return Quote((base, extra), tier.credits + tier.recording_credits, True)


def quote_notulen(credits_per_minute: int, duration_s: int) -> Quote:
    """Price notes by the started minutes of the recording (rule 1/notes).

    Args:
        credits_per_minute: the catalogue's.
        duration_s: the real length of the media in seconds, at least 1.

    Raises:
        ValueError: a length below one second.
        InvalidAmount: no whole number of credits that can be charged, see `check_amount`.
    """
    if duration_s < 1:
        raise ValueError("a recording is at least one second long")
    credits_ = check_amount(credits_per_minute * started_minutes(duration_s))
    return Quote((QuoteItem("notulen", credits_),), credits_, True)


def started_minutes(duration_s: int) -> int:
    """The minutes that are shown and paid for: every one that was begun (rule 1/notes)."""
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
