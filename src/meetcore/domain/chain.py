"""The hash chain of an account's entries, and the proof that a history is whole.

Each entry's hash covers what the entry says and the hash before it, so that changing, dropping,
inserting or swapping any one of them shows. Owns the encoding and the fold that proves it in
constant space; refuses to append: `ledger.post` does.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final, NamedTuple
from uuid import UUID

from attrs import frozen

from meetcore.domain.transfers import Transfer

__all__ = ["GENESIS", "Entry", "EntryLine", "Fault", "Proof", "chain_hash", "first_broken", "line_of"]

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


class EntryLine(NamedTuple):
    """An entry in the words that its hash covers: for proving millions of them.

    Ids are 32 hexadecimal digits, the instant and the day are as `isoformat` tells them in UTC; what is
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


def line_of(entry: Entry) -> EntryLine:
    """The entry in the words of its hash."""
    return _line(
        entry.account_id,
        entry.number,
        entry.transfer,
        entry.balance_after,
        entry.at,
        entry.amount,
        entry.hash,
    )


def _line(
    account_id: UUID,
    number: int,
    transfer: Transfer,
    balance_after: int,
    at: datetime,
    amount: int = 0,
    hash_: bytes = b"",
) -> EntryLine:
    return EntryLine(
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
    )


def chain_hash(
    previous: bytes, account_id: UUID, number: int, transfer: Transfer, balance_after: int, at: datetime
) -> bytes:
    """SHA-256 over the previous hash and everything that an entry says.

    What has a fixed form stands first, line by line; the three texts that callers choose follow with
    their lengths before them, so that no two entries share one encoding. The instant is told in UTC
    to the microsecond: a store may give it back in another time zone, but not rounded.
    """
    return _hashed(previous, _line(account_id, number, transfer, balance_after, at))


def _hashed(previous: bytes, line: EntryLine) -> bytes:
    (account, number, _, balance, at, _, transfer, operation, kind, moved, source, destination, about, name,
     reverses, key, day) = line  # fmt: skip
    # Two ids are told as numbers, without the zeros in front.
    told = (
        f"{account.lstrip('0') or 0}\n{number}\n{transfer.lstrip('0') or 0}\n{kind}\n{moved}\n"
        f"{source}\n{destination}\n{reverses}\n{key}\n{day}\n{balance}\n{at}\n"
        f"{len(operation)}:{operation}{len(about)}:{about}{len(name)}:{name}"
    )
    return sha256(previous + told.encode()).digest()


@frozen
class Fault:
    """The first entry of a history that is wrong, by the number that it should have, and what is wrong."""

    number: int
    problem: str


@frozen
class Proof:
    """What is proven of a history so far, in constant space: fold the entries into it."""

    account_id: UUID
    entries: int = 0
    balance: int = 0
    last_hash: bytes = GENESIS
    last_stamp: str = ""

    @property
    def last_at(self) -> datetime | None:
        """The time of the last entry."""
        return datetime.fromisoformat(self.last_stamp) if self.last_stamp else None

    def extended(self, entry: Entry) -> "Proof | None":
        """The proof with one more entry; none when the entry is not the next one of this history.

        It must have the next number, its transfer's amount, the running balance, a time that does
        not go back, and the hash over all of that and its predecessor's.
        """
        proof, fault = self.over([line_of(entry)])
        return proof if fault is None else None

    def over(self, lines: Iterable[EntryLine]) -> "tuple[Proof, Fault | None]":
        """The proof with all of these entries, or up to the first that is not the next one, and why not."""
        account = self.account_id.hex
        number, balance, last_hash, stamp = self.entries, self.balance, self.last_hash, self.last_stamp
        fault = None
        for line in lines:
            of, has, amount, after, at, hash_ = line[:6]
            moved, destination = line[9], line[11]
            due = balance + (moved if destination == "customer" else -moved)
            if (
                has != number + 1
                or after != due
                or amount != due - balance
                or at < stamp
                or of != account
                or _hashed(last_hash, line) != hash_
            ):
                fault = Fault(number + 1, _problem(line, account, number + 1, balance, due, stamp))
                break
            number, balance, last_hash, stamp = has, after, hash_, at
        return Proof(self.account_id, number, balance, last_hash, stamp), fault


def _problem(line: EntryLine, account: str, number: int, balance: int, due: int, stamp: str) -> str:
    if line.account_id != account:
        return "it is another account's"
    if line.number != number:
        return f"entry {line.number} stands in its place"
    if line.amount != due - balance:
        return f"its amount is {line.amount}, and its transfer moves {due - balance}"
    if line.balance_after != due:
        return f"its balance_after is {line.balance_after}, and the entries make {due}"
    if line.at < stamp:
        return "its time is before that of the entry before it"
    return "its hash is not that of what it says and of the entry before it"


def first_broken(account_id: UUID, entries: Iterable[Entry]) -> int | None:
    """Prove a history from its first entry on.

    Args:
        account_id: whose history it is.
        entries: every entry in the order of storage.

    Returns:
        The number that the first wrong entry should have had, or none when all are right.
    """
    _, fault = Proof(account_id).over(map(line_of, entries))
    return None if fault is None else fault.number
