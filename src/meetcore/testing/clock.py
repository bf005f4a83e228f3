"""Time and randomness under a test's control."""

import random
from datetime import datetime, timedelta


class ManualClock:
    """A `ports.runtime.Clock` that stands still until it is moved; its instants are aware, in UTC."""

    def __init__(self, start: datetime) -> None:
        self._now = start
        self._uptime = 0.0

    def now(self) -> datetime:
        """Return the current instant."""
        return self._now

    def uptime(self) -> float:
        """Return how many seconds it has been moved forward."""
        return self._uptime

    def advance(self, seconds: float) -> None:
        """Move by so many seconds; a negative number sets the clock back."""
        self.set(self._now + timedelta(seconds=seconds))

    def set(self, at: datetime) -> None:
        """Set the instant."""
        self._uptime += max(0.0, (at - self._now).total_seconds())
        self._now = at


class SeededEntropy:
    """A `ports.runtime.Entropy` whose bytes repeat with its seed: never for a key or a secret."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def token_bytes(self, count: int) -> bytes:
        """Return the next bytes of the sequence."""
        return self._random.randbytes(count)
