"""Licensed hosts: which one carries a meeting.

Owns the choice: the smallest that fits, then the least used. Refuses to know who else is asking;
that a host is free at this moment, and stays so, is the store's promise.
"""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from attrs import Attribute, field, frozen

__all__ = ["Host", "choose_host"]


def _at_least_one(_: object, attribute: "Attribute[Any]", value: int) -> None:
    if type(value) is not int or value < 1:
        raise ValueError(f"{attribute.name} must be a whole number of at least 1")


@frozen
class Host:
    """An account at the video provider that may run meetings.

    `capacity` is seats, `max_concurrent` how many meetings it may run at a time, `uses` how many
    it was chosen for. A disabled host gets no new meetings.
    """

    id: UUID
    provider_user_id: str
    capacity: int = field(validator=_at_least_one)
    max_concurrent: int = field(default=1, validator=_at_least_one)
    uses: int = 0
    is_active: bool = True


def choose_host(free: Iterable[Host], seats: int) -> Host | None:
    """Pick the best fit among the free hosts, or none when no one fits (spec 4.1 rule 3).

    Smallest sufficient capacity first, then fewest uses, then the id, so that the choice is the
    same for the same hosts in any order.
    """
    fitting = (host for host in free if host.is_active and host.capacity >= seats)
    return min(fitting, key=lambda host: (host.capacity, host.uses, host.id), default=None)
