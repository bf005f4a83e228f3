"""The hash chain of an account's entries, and the proof that a history is whole.

Each entry's hash covers what the entry says and the hash before it, so that changing, dropping,
inserting or swapping any one of them shows. It is SHA-256 in entries of version 1, and HMAC-SHA256 under
a key (`chain_keys`) in those of version 2. Owns the encoding and the fold that proves it in constant
space; `ledger.post` appends.
"""

import hmac
from collections.abc import Iterable
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final, NamedTuple
from uuid import UUID

from attrs import frozen

from meetcore.domain.money.chain_keys import ANY_VERSION, ChainKey, ChainPolicy
from meetcore.domain.money.transfers import Transfer

__all__ = [
    "GENESIS",
    "CanonicalEntry",
    "ChainVerifier",
    "Entry",
    "Fault",
    "canonical_entry",
    "chain_hash",
    "first_broken",
    "policy_faults",
]

_NO_END: Final = 1 << 63

GENESIS: Final = bytes(32)
"""The hash before an account's first entry."""


@frozen
class Entry:
    """A customer account's own leg: numbered from 1, stamped, chained.

    `amount` is the change of the balance in credits, negative for what is taken; `hash` has 32 bytes.
    `key_id` names the key that it is chained under, and is empty in entries of version 1.
    """

    account_id: UUID
    number: int
    transfer: Transfer
    amount: int
    balance_after: int
    at: datetime
    hash: bytes
    key_id: bytes = b""

    @property
    def version(self) -> int:
        """How it is chained: 1 by SHA-256, 2 by HMAC-SHA256 under a key."""
        return 2 if self.key_id else 1


class CanonicalEntry(NamedTuple):
    """An entry in the canonical form that its hash covers: for proving millions of them.

    Ids are 32 hexadecimal digits, the instant and the day are in `isoformat` in UTC; what is
    absent is empty. `amount` is signed, `moved` is its transfer's. A tuple and not a class of attrs, because
    building a record with its ids for each entry takes longer than proving it.
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


def canonical_entry(entry: Entry) -> CanonicalEntry:
    """Return the canonical form of an entry."""
    return _canonical_entry(
        entry.account_id,
        entry.number,
        entry.transfer,
        entry.balance_after,
        entry.at,
        entry.amount,
        entry.hash,
        entry.key_id,
    )


def _canonical_entry(
    account_id: UUID,
    number: int,
    transfer: Transfer,
    balance_after: int,
    at: datetime,
    amount: int = 0,
    hash_: bytes = b"",
    key_id: bytes = b"",
) -> CanonicalEntry:
    return CanonicalEntry(
        account_id.hex,
        number,
        amount,
        balance_after,
        at.astimezone(UTC).isoformat(),
        hash_,
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
        key_id,
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

    What has a fixed form stands first, line by line; the three texts that callers choose follow with
    their lengths before them, so that no two entries share one encoding. The instant is written in UTC
    to the microsecond: a store may give it back in another time zone, but not rounded.
    """
    if key is None:
        return _hashed(previous, _canonical_entry(account_id, number, transfer, balance_after, at))
    entry = _canonical_entry(account_id, number, transfer, balance_after, at, key_id=key.id)
    return _hashed(previous, entry, _keyed(key.secret))


def _keyed(secret: bytes) -> hmac.HMAC:
    """Return the state of a key before any message. To copy it takes half as long as to make it."""
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
    if keyed is None:
        return sha256(previous + encoded.encode()).digest()
    mac = keyed.copy()
    mac.update(b"2\n" + key_id + previous + encoded.encode())
    return mac.digest()


@frozen
class Fault:
    """The first entry of a history that is wrong, by the number that it should have, and what is wrong."""

    number: int
    problem: str


@frozen
class ChainVerifier:
    """What is proven of a history so far, in constant space: fold the entries into it.

    `unkeyed` is the number of the last entry of version 1, 0 for none, and `unkeyed_hash` that entry's hash.
    """

    account_id: UUID
    entries: int = 0
    balance: int = 0
    last_hash: bytes = GENESIS
    last_stamp: str = ""
    unkeyed: int = 0
    unkeyed_hash: bytes = GENESIS

    @property
    def last_at(self) -> datetime | None:
        """The time of the last entry."""
        return datetime.fromisoformat(self.last_stamp) if self.last_stamp else None

    def extended(self, entry: Entry, policy: ChainPolicy = ANY_VERSION) -> "ChainVerifier | None":
        """Extend the proof by one entry; `None` when it is not the next one of this history.

        It must have the next number, its transfer's amount, the running balance, a time that does
        not go back, a version that the policy allows, and the hash over all of that and its predecessor's.
        """
        proof, fault = self.over([canonical_entry(entry)], policy)
        return proof if fault is None else None

    def over(
        self, entries: Iterable[CanonicalEntry], policy: ChainPolicy = ANY_VERSION
    ) -> "tuple[ChainVerifier, Fault | None]":
        """The proof with all of these entries, or up to the first that is not the next one, and why not."""
        account = self.account_id.hex
        states = {key_id: _keyed(secret) for key_id, secret in policy.keys.items()}
        number, balance, last_hash, stamp = self.entries, self.balance, self.last_hash, self.last_stamp
        unkeyed, unkeyed_hash = self.unkeyed, self.unkeyed_hash
        unkeyed_most = _NO_END if policy.unkeyed is None else policy.unkeyed
        sealed_at = _NO_END if policy.unkeyed_hash is None else unkeyed_most
        fault = None
        for entry in entries:
            of, has, amount, after, at, hash_ = entry[:6]
            moved, destination, key_id = entry[9], entry[11], entry[17]
            keyed = states.get(key_id)
            due = balance + (moved if destination == "customer" else -moved)
            if (
                has != number + 1
                or after != due
                or amount != due - balance
                or at < stamp
                or of != account
                or (key_id and keyed is None)
                or _hashed(last_hash, entry, keyed) != hash_
                or (has > unkeyed_most and not key_id)
                or (has == sealed_at and hash_ != policy.unkeyed_hash)
            ):
                fault = Fault(number + 1, _problem(entry, account, number + 1, balance, due, stamp, policy))
                break
            number, balance, last_hash, stamp = has, after, hash_, at
            if not key_id:
                unkeyed, unkeyed_hash = has, hash_
        return ChainVerifier(self.account_id, number, balance, last_hash, stamp, unkeyed, unkeyed_hash), fault


def policy_faults(proof: ChainVerifier, policy: ChainPolicy) -> tuple[str, ...]:
    """Describe what a whole proven history lacks of what is sealed."""
    if policy.unkeyed is None or proof.entries >= policy.unkeyed:
        return ()
    return (f"its seal is over {policy.unkeyed} entries, and it has {proof.entries}",)


def _problem(
    entry: CanonicalEntry, account: str, number: int, balance: int, due: int, stamp: str, policy: ChainPolicy
) -> str:
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
    if entry.key_id and entry.key_id not in policy.keys:
        return f"it is chained under the key {entry.key_id.hex()}, which is not given"
    if policy.unkeyed is not None and number > policy.unkeyed and not entry.key_id:
        return "it is chained without a key, behind what is sealed"
    if number == policy.unkeyed and policy.unkeyed_hash not in (None, entry.hash):
        return "its hash is not the sealed one"
    return "its hash is not that of what it says and of the entry before it"


def first_broken(account_id: UUID, entries: Iterable[Entry], policy: ChainPolicy = ANY_VERSION) -> int | None:
    """Prove a history from its first entry on.

    Args:
        account_id: whose history it is.
        entries: every entry in the order of storage.
        policy: the keys, and which versions may be where.

    Returns:
        The number that the first wrong entry should have had, or `None` when all are right.
    """
    _, fault = ChainVerifier(account_id).over(map(canonical_entry, entries), policy)
    return None if fault is None else fault.number
