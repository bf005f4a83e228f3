"""Sealing: AES-256-GCM with the keys of the operator.

A sealed value is::

    version (1 byte, 1) | key id (4 bytes) | nonce (12 bytes) | ciphertext and tag

The key id is the beginning of the key's SHA-256: it finds the key and proves nothing, the tag does.
Header and context are authenticated with the text, so that a value cannot be moved to another record, nor be
read as another version. Nonces are random: one key may seal 2^32 values before the chance of a repeated nonce
reaches 2^-33, so rotate it before that.

The error does not contain why a value does not open: an attacker must not learn from it.
"""

import hashlib
import os
from collections.abc import Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from meetcore.adapters.secrets.keys import KEY_BYTES
from meetcore.ports.cipher import CipherRefused
from meetcore.ports.entropy import Entropy

_VERSION = b"\x01"
_KEY_ID_BYTES = 4
_NONCE_BYTES = 12
_TAG_BYTES = 16
_HEADER_BYTES = len(_VERSION) + _KEY_ID_BYTES
_LEAST_BYTES = _HEADER_BYTES + _NONCE_BYTES + _TAG_BYTES


class _OsEntropy:
    def token_bytes(self, count: int) -> bytes:
        return os.urandom(count)


class AesGcmCipher:
    """Seals under the first key, opens under all: rotate by putting a new key in front.

    Safe to share between threads.

    Args:
        keys: 32 bytes each, at least one.
        entropy: where nonces come from. A source that repeats itself breaks the encryption.

    Raises:
        ValueError: no key, one of another length, or two with the same key id.
    """

    __slots__ = ("_ciphers", "_entropy", "_first")

    def __init__(self, keys: Sequence[bytes], entropy: Entropy | None = None) -> None:
        if not keys:
            raise ValueError("a cipher needs at least one key")
        if any(len(key) != KEY_BYTES for key in keys):
            raise ValueError(f"every key has {KEY_BYTES} bytes")
        self._ciphers = {_key_id(key): AESGCM(key) for key in keys}
        if len(self._ciphers) < len(keys):
            raise ValueError("two keys are the same or share their id: replace one of them")
        self._first = _key_id(keys[0])
        self._entropy = _OsEntropy() if entropy is None else entropy

    @property
    def key_ids(self) -> tuple[bytes, ...]:
        """The ids of the keys, the first one first; they reveal nothing of the keys."""
        return tuple(self._ciphers)

    def key_id_of(self, sealed: bytes) -> bytes | None:
        """Return the id of the key that a value names; `None` for another version, or too few bytes."""
        if not sealed.startswith(_VERSION) or len(sealed) < _LEAST_BYTES:
            return None
        return sealed[len(_VERSION) : _HEADER_BYTES]

    def __repr__(self) -> str:
        return f"<AesGcmCipher with {len(self._ciphers)} keys>"

    def seal(self, plain: bytes, context: str) -> bytes:
        """Encrypt under the first key, 33 bytes longer than the plain text and different every time."""
        header = _VERSION + self._first
        nonce = self._entropy.token_bytes(_NONCE_BYTES)
        return header + nonce + self._ciphers[self._first].encrypt(nonce, plain, _bound(header, context))

    def open(self, sealed: bytes, context: str) -> bytes:
        """Decrypt under whichever key sealed it.

        Raises:
            CipherRefused: sealed under a key that is not here, for another context, or changed.
        """
        header, body = sealed[:_HEADER_BYTES], sealed[_HEADER_BYTES:]
        key_id = self.key_id_of(sealed)
        cipher = None if key_id is None else self._ciphers.get(key_id)
        if cipher is None:
            raise CipherRefused("the value does not open")
        try:
            return cipher.decrypt(body[:_NONCE_BYTES], body[_NONCE_BYTES:], _bound(header, context))
        except InvalidTag:
            raise CipherRefused("the value does not open") from None


def _key_id(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()[:_KEY_ID_BYTES]


def _bound(header: bytes, context: str) -> bytes:
    # The header has a fixed length, so no two pairs of header and context read alike.
    return header + context.encode()
