"""A bound on the memory that requests without a key may take together while they come in.

A small body is free: connections are bounded, and so are small bodies. What a body takes beyond that is
claimed from one account of bytes, so that many large ones, whose signature is not checked yet, cannot fill
the memory, and cannot keep a small one out.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from attrs import define

FREE_BYTES: Final = 64 * 1024


class MemoryTaken(Exception):
    """The bodies in memory have reached their limit; there is room again when they are answered."""


@define
class SharedMemory:
    """The bytes that large bodies share."""

    bytes_left: int

    @contextmanager
    def share(self) -> Iterator["Share"]:
        """Give one body its share, until it is answered."""
        share = Share(self)
        try:
            yield share
        finally:
            self.bytes_left += share.bytes_taken


@define
class Share:
    """The memory that one body has claimed."""

    memory: SharedMemory
    bytes_taken: int = 0

    def claim(self, size: int) -> None:
        """Claim the memory of a body of this size, in place of the earlier claim.

        Raises:
            MemoryTaken: not enough is left.
        """
        more = max(0, size - FREE_BYTES) - self.bytes_taken
        if more > self.memory.bytes_left:
            raise MemoryTaken
        self.memory.bytes_left -= more
        self.bytes_taken += more
