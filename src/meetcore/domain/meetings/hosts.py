"""Licensed hosts: which one runs a meeting, and how many of a day's creations one account may use.

Owns the choice: the smallest that fits, then the least used. Does not handle concurrent requests:
the store guarantees that a host is free and stays so.
"""

from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final
from uuid import UUID

from attrs import Attribute, evolve, field, frozen

from meetcore.domain.money.pricing import PricingTier

__all__ = [
    "DEFAULT_SHARE_PERCENT",
    "DayCreations",
    "Host",
    "choose_host",
    "may_create",
    "next_creation_day",
    "tiers_without_host",
]

DEFAULT_SHARE_PERCENT: Final = 50
"""How much of the day's creations that other accounts left one account may use."""


def _at_least_one(_: object, attribute: "Attribute[Any]", value: int) -> None:
    if type(value) is not int or value < 1:
        raise ValueError(f"{attribute.name} must be a whole number of at least 1")


@frozen
class Host:
    """An account at the video provider that may run meetings.

    `capacity` is seats, `max_concurrent` how many meetings it may run at a time, `uses` how many
    it was chosen for, `creations` how many of them on the day `creations_on`, in UTC. A disabled host gets
    no new meetings, and an unavailable one none before `unavailable_until`.
    """

    id: UUID
    provider_user_id: str
    capacity: int = field(validator=_at_least_one)
    max_concurrent: int = field(default=1, validator=_at_least_one)
    uses: int = 0
    is_active: bool = True
    creations: int = 0
    creations_on: date | None = None
    unavailable_until: datetime | None = None

    def can_take(self, at: datetime, per_day: int | None = None) -> bool:
        """Whether it may be given a new meeting at an instant, whenever it takes place.

        Args:
            at: the instant; the day is its day in UTC.
            per_day: how many may be made for one host a day; `None` for any number.
        """
        if not self.is_active or (self.unavailable_until is not None and at < self.unavailable_until):
            return False
        return per_day is None or self.creations_on != at.astimezone(UTC).date() or self.creations < per_day

    def used(self, at: datetime) -> "Host":
        """The host once it was given one more meeting."""
        day = at.astimezone(UTC).date()
        creations = self.creations + 1 if self.creations_on == day else 1
        return evolve(self, uses=self.uses + 1, creations=creations, creations_on=day)

    def given_back(self, at: datetime) -> "Host":
        """The host once a meeting that it was given at an instant was not made after all."""
        is_counted = self.creations_on == at.astimezone(UTC).date() and self.creations > 0
        return evolve(self, creations=self.creations - 1) if is_counted else self

    def creations_left(self, at: datetime, per_day: int) -> int:
        """How many meetings it may still be given on the day of an instant; 0 while it cannot take one."""
        if not self.can_take(at, per_day):
            return 0
        return per_day - (self.creations if self.creations_on == at.astimezone(UTC).date() else 0)

    def next_creation_at(self, at: datetime, per_day: int | None) -> datetime | None:
        """Return the first instant from `at` on for a new meeting; `None` for a disabled host."""
        if not self.is_active:
            return None
        first = at if self.unavailable_until is None else max(at, self.unavailable_until)
        return first if self.can_take(first, per_day) else next_creation_day(first)


@frozen
class DayCreations:
    """The creations of one day (UTC) on the hosts that are large enough for a meeting.

    `used` were made for one account, whatever became of them; `left` can still be made for any account.
    """

    used: int
    left: int


def may_create(today: DayCreations, share_percent: int) -> bool:
    """Whether an account may have one more meeting made today.

    It may use `share_percent` of what the other accounts left of the day, rounded up. So the first account
    of a day leaves half to the others, the second half of that, and what is left for another account is
    never taken by those that came before. One creation is allowed wherever one is left to an account that
    had none. With 100, which is the most, an account may use everything.
    """
    return 100 * today.used < share_percent * (today.used + today.left)


def next_creation_day(at: datetime) -> datetime:
    """When creations are counted anew: the next midnight in UTC."""
    return datetime.combine(at.astimezone(UTC).date() + timedelta(days=1), time.min, UTC)


def tiers_without_host(tiers: Iterable[PricingTier], hosts: Iterable[Host]) -> tuple[PricingTier, ...]:
    """Return the tiers that no active host has the seats for; requests for them are refused."""
    seats = max((host.capacity for host in hosts if host.is_active), default=0)
    return tuple(tier for tier in tiers if tier.capacity > seats)


def choose_host(free: Iterable[Host], seats: int) -> Host | None:
    """Pick the best fit among the free hosts, or `None` when none fits (rule 4.1/3).

    Smallest sufficient capacity first, then fewest uses, then the id, so that the choice is the
    same for the same hosts in any order.
    """
    fitting = (host for host in free if host.is_active and host.capacity >= seats)
    return min(fitting, key=lambda host: (host.capacity, host.uses, host.id), default=None)
