"""Licensed hosts: which one carries a meeting.

Owns the choice: the smallest that fits, then the least used. Refuses to know who else is asking;
that a host is free at this moment, and stays so, is the store's promise.
"""

from collections.abc import Iterable
from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

from attrs import Attribute, evolve, field, frozen

from meetcore.domain.pricing import PricingTier

__all__ = ["Host", "choose_host", "tiers_without_host"]


def _at_least_one(_: object, attribute: "Attribute[Any]", value: int) -> None:
    if type(value) is not int or value < 1:
        raise ValueError(f"{attribute.name} must be a whole number of at least 1")


@frozen
class Host:
    """An account at the video provider that may run meetings.

    `capacity` is seats, `max_concurrent` how many meetings it may run at a time, `uses` how many
    it was chosen for, `creations` how many of them on the day `creations_on`, in UTC. A disabled host gets
    no new meetings, and one that rests none before `rests_until`.
    """

    id: UUID
    provider_user_id: str
    capacity: int = field(validator=_at_least_one)
    max_concurrent: int = field(default=1, validator=_at_least_one)
    uses: int = 0
    is_active: bool = True
    creations: int = 0
    creations_on: date | None = None
    rests_until: datetime | None = None

    def can_take(self, at: datetime, per_day: int | None = None) -> bool:
        """Whether it may be given a new meeting at an instant, whenever that takes place.

        Args:
            at: the instant; the day is its day in UTC.
            per_day: how many may be made for one host a day; none for any number.
        """
        if not self.is_active or (self.rests_until is not None and at < self.rests_until):
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


def tiers_without_host(tiers: Iterable[PricingTier], hosts: Iterable[Host]) -> tuple[PricingTier, ...]:
    """The tiers that no active host has the seats for: whoever asks for one is told that no host is free."""
    seats = max((host.capacity for host in hosts if host.is_active), default=0)
    return tuple(tier for tier in tiers if tier.capacity > seats)


def choose_host(free: Iterable[Host], seats: int) -> Host | None:
    """Pick the best fit among the free hosts, or none when no one fits (spec 4.1 rule 3).

    Smallest sufficient capacity first, then fewest uses, then the id, so that the choice is the
    same for the same hosts in any order.
    """
    fitting = (host for host in free if host.is_active and host.capacity >= seats)
    return min(fitting, key=lambda host: (host.capacity, host.uses, host.id), default=None)
