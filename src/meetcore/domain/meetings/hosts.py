"""Licensed hosts: which one runs a meeting, its share of a day's creations, its key; meeting passwords.

The smallest host that fits is chosen, then the least used; the store guarantees that it is free and stays
so (constraint `host_reservations_no_overlap`). Passwords and keys are drawn from random bytes (rule
4.1/password).
"""

from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta
from typing import Final
from uuid import UUID

from attrs import evolve, field, frozen

from meetcore.domain.checks import whole
from meetcore.domain.money.pricing import PricingTier

DEFAULT_SHARE_PERCENT: Final = 50
"""How much of the day's creations that other accounts left one account may use."""


MAX_CONCURRENT: Final = 100
"""The meetings that a host may run at a time: providers allow 1 or 2, and each is a slot to look at."""


@frozen
class Host:
    """An account at the video provider that may run meetings.

    `capacity` is seats, `max_concurrent` the meetings that it may run at a time, `uses` how often it was
    chosen, `creations` how often on the day `creations_on`, in UTC. A disabled host gets no new meetings, an
    unavailable one none before `unavailable_until`.
    """

    id: UUID
    provider_user_id: str
    capacity: int = field(validator=whole, metadata={"range": (1, None)})
    max_concurrent: int = field(default=1, validator=whole, metadata={"range": (1, MAX_CONCURRENT)})
    uses: int = 0
    is_active: bool = True
    creations: int = 0
    creations_on: date | None = None
    unavailable_until: datetime | None = None

    def can_take(self, at: datetime, per_day: int | None = None) -> bool:
        """Return whether it may be given a new meeting at an instant, `per_day` at most in UTC."""
        if not self.is_active or (self.unavailable_until is not None and at < self.unavailable_until):
            return False
        return per_day is None or self.creations_on != at.astimezone(UTC).date() or self.creations < per_day

    def used(self, at: datetime) -> "Host":
        """Return the host with one more meeting; one that was asked for before midnight counts after it."""
        day = at.astimezone(UTC).date()
        if self.creations_on is None or self.creations_on < day:
            return evolve(self, uses=self.uses + 1, creations=1, creations_on=day)
        return evolve(self, uses=self.uses + 1, creations=self.creations + 1)

    def given_back(self, at: datetime) -> "Host":
        """Return the host without a meeting that it was given at an instant and that was not made."""
        is_counted = self.creations_on == at.astimezone(UTC).date() and self.creations > 0
        return evolve(self, creations=self.creations - 1) if is_counted else self

    def next_creation_at(self, at: datetime, per_day: int | None) -> datetime | None:
        """Return the first instant from `at` on for a new meeting; `None` for a disabled host."""
        if not self.is_active:
            return None
        first = at if self.unavailable_until is None else max(at, self.unavailable_until)
        return first if self.can_take(first, per_day) else next_creation_day(first)


@frozen
class DayCreations:
    """The creations of a day (UTC) on large enough hosts: `used` for one account, `left` for any."""

    used: int
    left: int


def may_create(today: DayCreations, share_percent: int) -> bool:
    """Return whether an account may have one more meeting made today.

    It may use `share_percent` of the creations that other accounts left of the day, rounded up: the first
    account of a day leaves half to the others, the second half of that, and one creation is allowed wherever
    one is left to an account that had none. With 100, the most, an account may use everything.
    """
    return 100 * today.used < share_percent * (today.used + today.left)


def next_creation_day(at: datetime) -> datetime:
    """Return the next midnight in UTC, when creations are counted anew."""
    return datetime.combine(at.astimezone(UTC).date() + timedelta(days=1), time.min, UTC)


def tiers_without_host(tiers: Iterable[PricingTier], hosts: Iterable[Host]) -> tuple[PricingTier, ...]:
    """Return the tiers that no active host has the seats for; requests for them are refused."""
    seats = max((host.capacity for host in hosts if host.is_active), default=0)
    return tuple(tier for tier in tiers if tier.capacity > seats)


def choose_host(free: Iterable[Host], seats: int) -> Host | None:
    """Pick the best fit among the free hosts, or `None` (rule 4.1/3): by capacity, then uses, then id."""
    fitting = (host for host in free if host.is_active and host.capacity >= seats)
    return min(fitting, key=lambda host: (host.capacity, host.uses, host.id), default=None)


MIN_PASSWORD_LENGTH: Final = 4
MAX_PASSWORD_LENGTH: Final = 10
PASSWORD_RANDOM_BYTES: Final = 16


@frozen
class PasswordRule:
    """The passwords that a provider accepts."""

    alphabet: str
    min_length: int = MIN_PASSWORD_LENGTH
    max_length: int = MAX_PASSWORD_LENGTH


def generate_password(rule: PasswordRule, random: bytes) -> str:
    """Draw a password of the greatest length that the provider accepts.

    Raises `ValueError` for fewer than 16 random bytes: with 16 the bias of the remainder is below 2^-60.
    """
    if len(random) < PASSWORD_RANDOM_BYTES:
        raise ValueError(f"a password needs {PASSWORD_RANDOM_BYTES} random bytes, got {len(random)}")
    number = int.from_bytes(random)
    size = len(rule.alphabet)
    drawn = []
    for _ in range(rule.max_length):
        number, index = divmod(number, size)
        drawn.append(rule.alphabet[index])
    return "".join(drawn)


def generate_host_key(digits: int, random: bytes) -> str:
    """Draw a host's key of so many digits; `random` as for `generate_password`."""
    return generate_password(PasswordRule("0123456789", max_length=digits), random)
