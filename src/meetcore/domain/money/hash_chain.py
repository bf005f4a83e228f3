"""The hash chain of an account's entries, its keys, and the proof that a history is whole.

Each entry's hash covers what the entry says and the hash before it, so that changing, dropping, inserting or
swapping any of them shows. It is HMAC-SHA256 under a `ChainKey`, or SHA-256 in a ledger without keys. A
ledger chained under keys that its store does not hold cannot be rewritten by a writer to the store: with
these keys, no entry without one holds.
"""

import hmac
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from types import MappingProxyType
from typing import Final, NamedTuple
from uuid import UUID

from attrs import field, frozen

from meetcore.domain.money.transfers import Transfer

__all__ = [
    "GENESIS", "NO_KEYS", "ChainKey", "ChainVerifier", "Entry", "Fault", "first_broken", "secrets_of",
]  # fmt: skip

KEY_ID_BYTES: Final = 4
NO_KEYS: Final[Mapping[bytes, bytes]] = MappingProxyType({})
"""The secrets of a ledger that is chained without keys."""


@frozen
class ChainKey:
    """A key that entries are chained under. `id` names it in them and reveals nothing of the secret."""

    id: bytes
    secret: bytes = field(repr=False)

    @classmethod
    def of(cls, secret: bytes) -> "ChainKey":
        """Make the key of 32 secret bytes; ValueError for another length."""
        if len(secret) != 32:
            raise ValueError("a chain key has 32 bytes")
        return cls(sha256(b"meetcore ledger key id\n" + secret).digest()[:KEY_ID_BYTES], secret)


def secrets_of(keys: Iterable[ChainKey]) -> Mapping[bytes, bytes]:
    """Return the secrets of keys by their ids."""
    return {key.id: key.secret for key in keys}


GENESIS: Final = bytes(32)
"""The hash before an account's first entry."""


@frozen
class Entry:
    """A customer account's own leg: numbered from 1, stamped, chained.

    `amount` is the change of the balance in credits, negative for a charge. `key_id` is empty without a key.
    """

    account_id: UUID
    number: int
    transfer: Transfer
    amount: int
    balance_after: int
    at: datetime
    hash: bytes
    key_id: bytes = b""


class CanonicalEntry(NamedTuple):
    """An entry in the canonical form that its hash covers.

    Ids are 32 hexadecimal digits, instant and day are in `isoformat` in UTC, absent values are empty.
    `amount` is signed, `moved` is its transfer's. A tuple, because building a record with its ids takes
    longer than proving it.
    """

    account_id: str
    number: int
    amount: int
    balance_after: int
    at: str
    hash: bytes
    transfer_id: str
    operation: str
    kind: str
    moved: int
    source: str
    destination: str
    reference_type: str
    reference_id: str
    reverses: str
    api_key_id: str
    cap_day: str
    key_id: bytes = b""


def check_instant(at: datetime) -> None:
    """Refuse an instant without a time zone, which would be read in the machine's own."""
    if at.utcoffset() is None:
        raise ValueError("an instant in the ledger has a time zone")


def canonical_entry(entry: Entry) -> CanonicalEntry:
    """Return the canonical form of an entry."""
    check_instant(entry.at)
    transfer = entry.transfer
    return CanonicalEntry(
        entry.account_id.hex,
        entry.number,
        entry.amount,
        entry.balance_after,
        entry.at.astimezone(UTC).isoformat(),
        entry.hash,
        transfer.id.hex,
        transfer.operation,
        transfer.kind.value,
        transfer.amount,
        transfer.source.value,
        transfer.destination.value,
        transfer.reference.type,
        transfer.reference.id,
        "" if transfer.reverses is None else transfer.reverses.hex,
        "" if transfer.api_key_id is None else transfer.api_key_id.hex,
        "" if transfer.cap_day is None else transfer.cap_day.isoformat(),
        entry.key_id,
    )


def chain_hash(
    previous: bytes,
    account_id: UUID,
    number: int,
    transfer: Transfer,
    balance_after: int,
    at: datetime,
    key: ChainKey | None = None,
) -> bytes:
    """Hash the previous hash and the whole entry: under the key, or by SHA-256 without one.

    Fields of a fixed form stand first, line by line; the three texts that callers choose follow with their
    lengths, so that no two entries share one encoding. The instant is written in UTC to the microsecond: a
    store may return it in another time zone, but not rounded.
    """
    key_id = b"" if key is None else key.id
    entry = Entry(account_id, number, transfer, transfer.signed_amount, balance_after, at, GENESIS, key_id)
    return _hashed(previous, canonical_entry(entry), None if key is None else _keyed(key.secret))


def _keyed(secret: bytes) -> hmac.HMAC:
    """Return the state of a key before any message: copying it takes half as long as making it."""
    return hmac.new(secret, digestmod="sha256")


def _hashed(previous: bytes, entry: CanonicalEntry, keyed: hmac.HMAC | None = None) -> bytes:
    (account, number, _, balance, at, _, transfer, operation, kind, moved, source, destination, about, name,
     reverses, key, day, key_id) = entry  # fmt: skip
    # Two ids are written as numbers, without leading zeros.
    encoded = (
        f"{account.lstrip('0') or 0}\n{number}\n{transfer.lstrip('0') or 0}\n{kind}\n{moved}\n"
        f"{source}\n{destination}\n{reverses}\n{key}\n{day}\n{balance}\n{at}\n"
        f"{len(operation)}:{operation}{len(about)}:{about}{len(name)}:{name}"
    )
    message = key_id + previous + encoded.encode()
    if keyed is None:
        return sha256(message).digest()
    mac = keyed.copy()
    mac.update(message)
    return mac.digest()


@frozen
class Fault:
    """The first wrong entry of a history, by the number that it should have, and the problem."""

    number: int
    problem: str


@frozen
class ChainVerifier:
    """The proven part of a history, in constant space: fold the entries into it."""

    account_id: UUID
    entries: int = 0
    balance: int = 0
    last_hash: bytes = GENESIS
    last_stamp: str = ""

    @property
    def last_at(self) -> datetime | None:
        """The time of the last entry."""
        return datetime.fromisoformat(self.last_stamp) if self.last_stamp else None

    def extended(self, entry: Entry, keys: Mapping[bytes, bytes] = NO_KEYS) -> "ChainVerifier | None":
        """Extend the proof by one entry; `None` when it is not the next one of this history.

        It needs the next number, its transfer's amount, the running balance, a time that does not go back,
        and the hash over all of that and its predecessor's: under one of the keys, or without one where there
        are none.
        """
        proof, fault = self.over([canonical_entry(entry)], keys)
        return proof if fault is None else None

    def over(
        self, entries: Iterable[CanonicalEntry], keys: Mapping[bytes, bytes] = NO_KEYS
    ) -> "tuple[ChainVerifier, Fault | None]":
        """Extend the proof by these entries, up to the first that is not the next one, and its fault."""
        account = self.account_id.hex
        states: dict[bytes, hmac.HMAC | None] = {key_id: _keyed(secret) for key_id, secret in keys.items()}
        if not states:
            states[b""] = None
        number, balance, last_hash, stamp = self.entries, self.balance, self.last_hash, self.last_stamp
        fault = None
        for entry in entries:
            of, has, amount, after, at, hash_ = entry[:6]
            moved, destination, key_id = entry[9], entry[11], entry[17]
            due = balance + (moved if destination == "customer" else -moved)
            if (
                has != number + 1
                or after != due
                or amount != due - balance
                or at < stamp
                or of != account
                or key_id not in states
                or _hashed(last_hash, entry, states[key_id]) != hash_
            ):
                fault = Fault(number + 1, _problem(entry, account, number + 1, balance, due, stamp, keys))
                break
            number, balance, last_hash, stamp = has, after, hash_, at
        return ChainVerifier(self.account_id, number, balance, last_hash, stamp), fault


def _problem(
    entry: CanonicalEntry, account: str, number: int, balance: int, due: int, stamp: str,
    keys: Mapping[bytes, bytes],
) -> str:  # fmt: skip
    if entry.account_id != account:
        return "it is another account's"
    if entry.number != number:
        return f"entry {entry.number} stands in its place"
    if entry.amount != due - balance:
        return f"its amount is {entry.amount}, and its transfer moves {due - balance}"
    if entry.balance_after != due:
        return f"its balance_after is {entry.balance_after}, and the entries make {due}"
    if entry.at < stamp:
        return "its time is before that of the entry before it"
    if entry.key_id and entry.key_id not in keys:
        return f"it is chained under the key {entry.key_id.hex()}, which is not given"
    if keys and not entry.key_id:
        return "it is chained without a key"
    return "its hash is not that of what it says and of the entry before it"


def first_broken(
    account_id: UUID, entries: Iterable[Entry], keys: Mapping[bytes, bytes] = NO_KEYS
) -> int | None:
    """Return the number that the first wrong entry of a whole history should have; `None` when all are right.

    Without `keys`, the secrets by key id, only entries without a key hold.
    """
    _, fault = ChainVerifier(account_id).over(map(canonical_entry, entries), keys)
    return None if fault is None else fault.number
