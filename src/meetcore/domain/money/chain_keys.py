"""Keys of the hash chain, and which entries a history may have because of them.

An entry of version 1 is chained by SHA-256, which every writer to the store can compute. One of
version 2 is chained by HMAC-SHA256 under a key that the store does not hold. A history that begins after keys
came into use has entries of version 2 only. An older one has a `Seal`: up to its number there may be entries
of version 1, and the entry of that number has the sealed hash, under a key again. So neither a rewritten
history nor one that was put back to version 1 can be made to hold without a key.

Owns keys, seals and the rule; `hash_chain` folds histories.
"""

import hmac
from collections.abc import Iterable, Mapping
from hashlib import sha256
from types import MappingProxyType
from typing import Final
from uuid import UUID

from attrs import field, frozen

__all__ = [
    "ANY_VERSION",
    "KEY_ID_BYTES",
    "ChainKey",
    "ChainPolicy",
    "Seal",
    "policy_of",
    "seal",
    "seal_fault",
    "secrets_of",
]

KEY_ID_BYTES: Final = 4
_NO_KEYS: Final[Mapping[bytes, bytes]] = MappingProxyType({})


@frozen
class ChainKey:
    """A key that entries are chained under. `id` names it in them and reveals nothing of the secret."""

    id: bytes
    secret: bytes = field(repr=False)

    @classmethod
    def of(cls, secret: bytes) -> "ChainKey":
        """The key of 32 secret bytes.

        Raises:
            ValueError: fewer or more bytes.
        """
        if len(secret) != 32:
            raise ValueError("a chain key has 32 bytes")
        return cls(sha256(b"meetcore ledger key id\n" + secret).digest()[:KEY_ID_BYTES], secret)


@frozen
class Seal:
    """What fixes the part of a history that was written before keys came into use.

    `entries` is the number of its last entry of version 1, `last_hash` that entry's hash.
    """

    account_id: UUID
    entries: int
    last_hash: bytes
    key_id: bytes
    mac: bytes


@frozen
class ChainPolicy:
    """Which entries a history may have.

    Attributes:
        keys: secrets by the ids of their keys.
        unkeyed: the greatest number that an entry of version 1 may have; None for any.
        unkeyed_hash: the hash of the entry of that number, where it is fixed.
    """

    keys: Mapping[bytes, bytes] = field(default=_NO_KEYS, repr=False)
    unkeyed: int | None = None
    unkeyed_hash: bytes | None = None


ANY_VERSION: Final = ChainPolicy()
"""For a ledger without keys: every entry is of version 1."""


def seal(account_id: UUID, entries: int, last_hash: bytes, key: ChainKey) -> Seal:
    """Seal a history up to its last entry of version 1."""
    return Seal(
        account_id, entries, last_hash, key.id, _mac(account_id, entries, last_hash, key.id, key.secret)
    )


def seal_fault(sealed: Seal, keys: Mapping[bytes, bytes]) -> str | None:
    """Describe why a seal does not hold; None where it does."""
    secret = keys.get(sealed.key_id)
    if secret is None:
        return f"its seal is under the key {sealed.key_id.hex()}, which is not given"
    mac = _mac(sealed.account_id, sealed.entries, sealed.last_hash, sealed.key_id, secret)
    return None if hmac.compare_digest(mac, sealed.mac) else "its seal is not ours"


def secrets_of(keys: Iterable[ChainKey]) -> Mapping[bytes, bytes]:
    """The secrets of keys by their ids."""
    return {key.id: key.secret for key in keys}


def policy_of(sealed: Seal | None, secrets: Mapping[bytes, bytes]) -> ChainPolicy:
    """The rule for a history in a ledger with keys; `sealed` holds, see `seal_fault`."""
    if sealed is None:
        return ChainPolicy(secrets, 0)
    return ChainPolicy(secrets, sealed.entries, sealed.last_hash)


def _mac(account_id: UUID, entries: int, last_hash: bytes, key_id: bytes, secret: bytes) -> bytes:
    message = f"meetcore ledger seal\n{account_id.hex}\n{entries}\n{last_hash.hex()}\n{key_id.hex()}"
    return hmac.digest(secret, message.encode(), "sha256")
