"""The operator's keys: how the setting is read, and how keys for other uses come from them.

No error text holds any part of a key, and nothing is guessed: anything but exactly 32 bytes of base64url is
an error, never padded, stretched or hashed into shape.
"""

import base64
import re
from collections.abc import Iterable

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

KEY_BYTES = 32

_TEXT = re.compile(r"[A-Za-z0-9_-]{43}=?", re.ASCII)
_PURPOSE_PREFIX = b"meetcore/"
_HOW_TO_MAKE = """python -c 'import base64, os; print(base64.urlsafe_b64encode(os.urandom(32)).decode())'"""


def keys_from_text(text: str, setting: str = "MEETCORE_SECRETS_KEY") -> tuple[bytes, ...]:
    """Read a setting of keys: base64url of 32 bytes; several, separated by commas.

    Returns:
        The keys in the order of the text: the first seals, all open.

    Raises:
        ValueError: there is none, one of them is not 32 bytes, or one is there twice. The message describes
            the fault and how to make a valid key; it holds no part of a key.
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
    """Derive 32 bytes for one purpose from a key, by HKDF-SHA256.

    The same key and purpose give the same bytes; they reveal neither the key nor the bytes of another
    purpose.

    Raises:
        ValueError: the key is not 32 bytes, or the purpose is empty.
    """
    if len(key) != KEY_BYTES:
        raise ValueError(f"a key has {KEY_BYTES} bytes, not {len(key)}")
    if not purpose:
        raise ValueError("name the purpose: a key serves one use only")
    info = _PURPOSE_PREFIX + purpose.encode()
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=info).derive(key)


def text_from_keys(keys: Iterable[bytes]) -> str:
    """Write keys as `keys_from_text` reads them."""
    return ",".join(base64.urlsafe_b64encode(key).decode("ascii") for key in keys)
