"""How secrets are kept at rest."""

from collections.abc import Sequence
from typing import Protocol

__all__ = ["Cipher", "CipherRefused", "KeyedCipher"]


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


class KeyedCipher(Cipher, Protocol):
    """A cipher of several keys, each of which a sealed value names by its id in the bytes 2 to 5."""

    @property
    def key_ids(self) -> Sequence[bytes]:
        """The ids of the keys, four bytes each; the first one seals."""

    def key_id_of(self, sealed: bytes) -> bytes | None:
        """Return the id of the key that a value names, given or not.

        Returns:
            `None` for bytes that do not have the form of a sealed value: they were changed, or are of a later
            release.
        """
