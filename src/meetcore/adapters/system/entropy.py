"""The random bytes of the operating system. It cannot be seeded."""

import os


class SystemEntropy:
    """Draws from the kernel's generator, fit for keys."""

    def token_bytes(self, count: int) -> bytes:
        return os.urandom(count)
