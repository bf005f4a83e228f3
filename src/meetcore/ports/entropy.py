"""Where unguessable bytes come from."""

from typing import Protocol

__all__ = ["Entropy"]


class Entropy(Protocol):
    """A source of random bytes fit for keys and secrets."""

    def token_bytes(self, count: int) -> bytes:
        """Draw `count` unpredictable bytes."""
