"""Secrets at rest: AES-256-GCM with the operator's keys, and keys derived from them.

A sealed value is::

    version (1 byte, 1) | key id (4 bytes) | nonce (12 bytes) | ciphertext and tag

The key id is the start of the key's SHA-256; only the tag authenticates. Header and context are authenticated
data, so a value cannot be moved to another record or read as another version. Nonces are random: rotate a key
before 2^32 values, when the chance of a repeated nonce reaches 2^-33.

Errors hold no part of a key and no reason why a value does not open. A key is exactly 32 bytes of base64url,
never padded, stretched or hashed.
"""

import base64
import hashlib
import os
import re
from collections.abc import Iterable, Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from meetcore.ports.runtime import CipherRefused, Entropy

KEY_BYTES = 32

_TEXT = re.compile(r"[A-Za-z0-9_-]{43}=?", re.ASCII)
_PURPOSE_PREFIX = b"meetcore/"
_HOW_TO_MAKE = """python -c 'import base64, os; print(base64.urlsafe_b64encode(os.urandom(32)).decode())'"""


def keys_from_text(text: str, setting: str = "MEETCORE_SECRETS_KEY") -> tuple[bytes, ...]:
    """Parse a setting of keys, 32 bytes of base64url each, with commas: the first seals, all open.

    Raises `ValueError` for no key, an invalid or a repeated one; it says how to make one, without parts of
    any.
    """
    if not text.strip():
        raise ValueError(f"{setting} holds no key; to make one: {_HOW_TO_MAKE}")
    parts = [part.strip() for part in text.split(",")]
    keys = tuple(
        _read(part, f"key {place} of {len(parts)} in {setting}") for place, part in enumerate(parts, start=1)
    )
    if len(set(keys)) < len(keys):
        raise ValueError(f"{setting} holds the same key twice: leave one out")
    return keys


def _read(part: str, which: str) -> bytes:
    if not part:
        raise ValueError(f"{which} is empty: take the comma away, or put the key in")
    if not _TEXT.fullmatch(part):
        raise ValueError(
            f"{which} is not base64url of {KEY_BYTES} bytes (43 characters, or 44 with the closing =); "
            f"it has {len(part)} characters. To make one: {_HOW_TO_MAKE}"
        )
    return base64.urlsafe_b64decode(part[:43] + "=")


def derive(key: bytes, purpose: str) -> bytes:
    """Derive 32 bytes for one purpose by HKDF-SHA256 from a key of 32 bytes.

    The result is deterministic and reveals neither the key nor the bytes of another purpose.
    """
    if len(key) != KEY_BYTES:
        raise ValueError(f"a key has {KEY_BYTES} bytes, not {len(key)}")
    if not purpose:
        raise ValueError("name the purpose: a key serves one use only")
    info = _PURPOSE_PREFIX + purpose.encode()
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=info).derive(key)


def text_from_keys(keys: Iterable[bytes]) -> str:
    """Format keys for `keys_from_text`."""
    return ",".join(base64.urlsafe_b64encode(key).decode("ascii") for key in keys)


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
    """Seals under the first key, opens under all: rotate by prepending a new key. Thread-safe.

    Raises `ValueError` for no key, one not of 32 bytes, or two with the same key id. Repeated nonces of the
    entropy break the encryption.
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
        """The ids of the keys in order; they reveal nothing of the keys."""
        return tuple(self._ciphers)

    def key_id_of(self, sealed: bytes) -> bytes | None:
        """Return the id of the key that sealed a value; `None` for another version or too few bytes."""
        if not sealed.startswith(_VERSION) or len(sealed) < _LEAST_BYTES:
            return None
        return sealed[len(_VERSION) : _HEADER_BYTES]

    def __repr__(self) -> str:
        return f"<AesGcmCipher with {len(self._ciphers)} keys>"

    def seal(self, plain: bytes, context: str) -> bytes:
        """Encrypt under the first key: 33 bytes longer than the plaintext, different every time."""
        header = _VERSION + self._first
        nonce = self._entropy.token_bytes(_NONCE_BYTES)
        return header + nonce + self._ciphers[self._first].encrypt(nonce, plain, _bound(header, context))

    def open(self, sealed: bytes, context: str) -> bytes:
        """Decrypt under the key that sealed a value; or raise `CipherRefused`."""
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
    # Unambiguous, since the header has a fixed length.
    return header + context.encode()
