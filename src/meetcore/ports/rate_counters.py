"""Counting requests: one number for each key, class and minute, shared by every process.

The port owns the count and nothing else: what the count means is `domain.requests.rate_window`'s business.
"""

from typing import Protocol
from uuid import UUID

from meetcore.domain.requests.rate_window import OperationClass

__all__ = ["RateCounters", "RateStoreUnavailable"]


class RateStoreUnavailable(Exception):
    """The store of the counters does not answer. Whether the hit was counted is not known.

    Not a refusal that a caller sees: requests are counted elsewhere meanwhile.
    """


class RateCounters(Protocol):
    """Counters that never lose a hit, however many callers count at once."""

    async def hit(self, key_id: UUID, operation_class: OperationClass, window_start: int) -> int:
        """Add one and return the count, this hit included (rules 8/1 and 8/5).

        No two hits of a window get the same number, and no number is left out. A window that has
        passed is kept for some minutes, so that a clock set back finds its counts again, and is
        then forgotten.

        Args:
            key_id: the API key: never the caller's address.
            operation_class: the quota that the request draws on.
            window_start: the unix second on which the minute started.

        Raises:
            RateStoreUnavailable: the store does not answer in good time.
        """
