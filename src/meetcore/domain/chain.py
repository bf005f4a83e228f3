"""The hash chain of an account's entries, and the proof that a history is whole.

Each entry's hash covers what the entry says and the hash before it, so that changing, dropping,
inserting or swapping any one of them shows. Owns the encoding and the fold that proves it in
constant space; refuses to append: `ledger.post` does.
"""

import hashlib
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from attrs import frozen

from meetcore.domain.transfers import Transfer

__all__ = ["GENESIS", "Entry", "Proof", "chain_hash", "first_broken"]

GENESIS: Final = bytes(32)
"""The hash before an account's first entry."""


@frozen
class Entry:
    """A customer account's own leg: numbered from 1, stamped, chained.

    `amount` is the change of the balance in credits, negative for what is taken; `hash` has 32 bytes.
    """

    account_id: UUID
    number: int
    transfer: Transfer
    amount: int
    balance_after: int
    at: datetime
    hash: bytes


def chain_hash(
    previous: bytes, account_id: UUID, number: int, transfer: Transfer, balance_after: int, at: datetime
) -> bytes:
    """SHA-256 over the previous hash and everything that an entry says.

    What has a fixed form stands first, line by line; the three texts that callers choose follow with
    their lengths before them, so that no two entries share one encoding. The instant is told in UTC
    to the microsecond: a store may give it back in another time zone, but not rounded.
    """
    reference = transfer.reference
    operation, kind, name = transfer.operation, reference.type, reference.id
    told = (
        f"{account_id.int:x}\n{number}\n{transfer.id.int:x}\n{transfer.kind.value}\n{transfer.amount}\n"
        f"{transfer.source.value}\n{transfer.destination.value}\n"
        f"{'' if transfer.reverses is None else transfer.reverses.hex}\n"
        f"{'' if transfer.api_key_id is None else transfer.api_key_id.hex}\n"
        f"{'' if transfer.cap_day is None else transfer.cap_day.isoformat()}\n"
        f"{balance_after}\n{at.astimezone(UTC).isoformat()}\n"
        f"{len(operation)}:{operation}{len(kind)}:{kind}{len(name)}:{name}"
    )
    return hashlib.sha256(previous + told.encode()).digest()


@frozen
class Proof:
    """What is proven of a history so far, in constant space: fold the entries into it, one by one."""

    account_id: UUID
    entries: int = 0
    balance: int = 0
    last_hash: bytes = GENESIS
    last_at: datetime | None = None

    def extended(self, entry: Entry) -> "Proof | None":
        """The proof with one more entry; none when the entry is not the next one of this history.

        It must have the next number, its transfer's amount, the running balance, a time that does
        not go back, and the hash over all of that and its predecessor's.
        """
        number, balance = self.entries + 1, self.balance + entry.transfer.signed_amount
        if (
            (entry.account_id, entry.number, entry.balance_after) != (self.account_id, number, balance)
            or entry.amount != entry.transfer.signed_amount
            or (self.last_at is not None and entry.at < self.last_at)
        ):
            return None
        expected = chain_hash(self.last_hash, self.account_id, number, entry.transfer, balance, entry.at)
        if entry.hash != expected:
            return None
        return Proof(self.account_id, number, balance, entry.hash, entry.at)


def first_broken(account_id: UUID, entries: Iterable[Entry]) -> int | None:
    """Prove a history from its first entry on.

    Args:
        account_id: whose history it is.
        entries: every entry in the order of storage.

    Returns:
        The number that the first wrong entry should have had, or none when all are right.
    """
    proof = Proof(account_id)
    for entry in entries:
        extended = proof.extended(entry)
        if extended is None:
            return proof.entries + 1
        proof = extended
    return None
