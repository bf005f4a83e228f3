"""How secrets are kept at rest."""

from typing import Protocol

__all__ = ["Cipher", "CipherRefused"]


class CipherRefused(Exception):
    """A sealed value does not open: another key, another context, or it was changed."""


class Cipher(Protocol):
    """Authenticated encryption, bound to the place a value belongs to."""

    def seal(self, plain: bytes, context: str) -> bytes:
        """Encrypt under the first key. `context` names account and record, and is authenticated."""

    def open(self, sealed: bytes, context: str) -> bytes:
        """Decrypt under whichever key sealed it.

        Raises:
            CipherRefused: see the class.
        """
