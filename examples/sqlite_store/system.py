"""The clock and the randomness of this machine: all that a store needs of the world beside its file."""

import os
from datetime import UTC, datetime

__all__ = ["SystemClock", "SystemEntropy"]


class SystemClock:
    """The machine's wall clock. Fills `meetcore.ports.clock.Clock`."""

    def now(self) -> datetime:
        """The present instant, aware, in UTC."""
        return datetime.now(UTC)


class SystemEntropy:
    """The kernel's generator, fit for keys. Fills `meetcore.ports.entropy.Entropy`."""

    def token_bytes(self, count: int) -> bytes:
        """Draw `count` bytes that cannot be predicted."""
        return os.urandom(count)
