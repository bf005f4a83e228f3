"""Bytes that look random and repeat with their seed: for tests only, never for a key or a secret."""

import random


class SeededEntropy:
    """The same bytes in the same order for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311  (repeatable on purpose)

    def token_bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)
