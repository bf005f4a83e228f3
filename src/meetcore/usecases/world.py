"""What every use case needs of the outside: the time, unguessable bytes, new ids."""

from datetime import datetime
from uuid import UUID

from attrs import frozen

from meetcore.domain.ids import RANDOM_BYTES, uuid7
from meetcore.ports.clock import Clock
from meetcore.ports.entropy import Entropy

__all__ = ["World"]


@frozen
class World:
    """Clock and entropy, and the ids made of both."""

    clock: Clock
    entropy: Entropy

    def now(self) -> datetime:
        """The present instant, in UTC."""
        return self.clock.now()

    def new_id(self, at: datetime) -> UUID:
        """A UUIDv7 of that instant."""
        return uuid7(at, self.entropy.token_bytes(RANDOM_BYTES))

    def jitter(self) -> float:
        """A number from [0, 1)."""
        return int.from_bytes(self.entropy.token_bytes(6), "big") / (1 << 48)
