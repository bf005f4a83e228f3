"""Secrets at rest: authenticated encryption and the keys that others are derived from.

`keys` reads the operator's keys and derives more from them, `cipher` seals and opens. Where sealed
values are kept, and what a context is made of, is decided by the code that stores them.
"""

from meetcore.adapters.secrets.cipher import AesGcmCipher
from meetcore.adapters.secrets.keys import KEY_BYTES, derive, keys_from_text, text_from_keys

__all__ = ["KEY_BYTES", "AesGcmCipher", "derive", "keys_from_text", "text_from_keys"]
