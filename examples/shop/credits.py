"""Credits in a shop: paid in advance, reserved for an order, charged when it is shipped, given back.

Each function is one transaction that locks the account, asks `meetcore.domain` and saves what came back. A
refusal raises before anything has changed. A module to import; its tests use all of it::

    make .venv/.dev.stamp && .venv/bin/pytest tests/examples/test_shop_credits.py
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import date, datetime
from enum import StrEnum
from uuid import UUID, uuid4

from attrs import asdict, frozen
from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Connection,
    Date,
    Engine,
    ForeignKey,
    LargeBinary,
    String,
    Table,
    UniqueConstraint,
    Uuid,
    delete,
    insert,
    select,
    update,
)

from examples.shop.tables import Instant, metadata, never_changes
from meetcore.domain.errors import Conflict, NotFound
from meetcore.domain.meetings.schedule import cap_day
from meetcore.domain.money import hash_chain, holds, ledger
from meetcore.domain.money.rows import from_row, to_row

__all__ = ["Credits", "ShopKind"]


class ShopKind(StrEnum):
    """What credits are moved for in this shop, beside top-ups and adjustments."""

    ORDER = "order"
    RETURN = "return"


# The fields of `Funds`. The row is the account's lock.
accounts = Table(
    "accounts",
    metadata,
    Column("account_id", Uuid, primary_key=True),
    Column("balance", BigInteger, nullable=False),
    Column("held", BigInteger, CheckConstraint("held >= 0"), nullable=False),
    Column("low_threshold", BigInteger, nullable=False),
    Column("is_low", Boolean, nullable=False),
    Column("entries", BigInteger, nullable=False),
    Column("last_hash", LargeBinary(32), nullable=False),
    Column("last_at", Instant),
)

# The columns of `EntryRow`. The unique keys have the last word, should a lock ever be missing.
entries = Table(
    "entries",
    metadata,
    Column("account_id", Uuid, ForeignKey(accounts.c.account_id), primary_key=True),
    Column("number", BigInteger, primary_key=True),
    Column("transfer_id", Uuid, nullable=False),
    Column("operation", String(300), nullable=False),
    Column("kind", String(32), nullable=False),
    Column("amount", BigInteger, CheckConstraint("amount >= 1"), nullable=False),
    Column("source", String(32), nullable=False),
    Column("destination", String(32), CheckConstraint("source <> destination"), nullable=False),
    Column("reference_type", String(300), nullable=False),
    Column("reference_id", String(300), nullable=False),
    Column("reverses", Uuid),
    Column("api_key_id", Uuid),
    Column("cap_day", Date),
    Column("balance_after", BigInteger, nullable=False),
    Column("at", Instant, nullable=False),
    Column("hash", LargeBinary(32), nullable=False),
    Column("key_id", LargeBinary(4), nullable=False),
    UniqueConstraint("account_id", "transfer_id"),
    UniqueConstraint("account_id", "operation"),
    UniqueConstraint("account_id", "reverses"),
)
never_changes(entries)

# What is reserved for orders that are not shipped. The other fields of `Hold` follow from the order.
open_holds = Table(
    "open_holds",
    metadata,
    Column("account_id", Uuid, ForeignKey(accounts.c.account_id), primary_key=True),
    Column("order_name", String(200), primary_key=True),
    Column("id", Uuid, nullable=False),
    Column("amount", BigInteger, CheckConstraint("amount >= 1"), nullable=False),
    Column("cap_day", Date, nullable=False),
)


def order_operation(order: str) -> str:
    """Return the permanent name of an order's charge: what was charged under it is not charged again."""
    return f"order:{order}"


def report_nothing(connection: Connection, entry: ledger.Entry) -> None:
    """Report no entry to others."""


@frozen
class Credits:
    """The accounts of a shop. `key` is kept outside of the database: without it no entry can be forged.

    `report` is called in the transaction of each new entry, such as to publish an event.
    """

    engine: Engine
    key: ledger.ChainKey
    report: Callable[[Connection, ledger.Entry], None] = report_nothing

    def open_account(self, account_id: UUID, low_threshold: int = 20) -> None:
        """Make an empty account."""
        with self.engine.begin() as connection:
            connection.execute(
                insert(accounts).values(asdict(ledger.open_account(account_id, low_threshold)))
            )

    def top_up(self, account_id: UUID, reference: str, amount: int, at: datetime) -> ledger.Posting:
        """Add paid credits once for each reference; `Conflict` where it has another amount."""
        with self._locked(account_id) as (connection, funds):
            existing = _find(connection, account_id, operation=ledger.top_up_operation(reference))
            posting = ledger.top_up(funds, uuid4(), reference, amount, at, existing, self.key)
            return self._save(connection, posting)

    def reserve(self, account_id: UUID, order: str, price: int, at: datetime) -> ledger.Funds:
        """Reserve credits for an order, once; `InsufficientCredits` where less is available."""
        with self._locked(account_id) as (connection, funds):
            found = select(open_holds.c.amount).filter_by(account_id=account_id, order_name=order)
            open_amount = connection.execute(found).scalar_one_or_none()
            if open_amount == price:
                return funds
            is_paid = _find(connection, account_id, operation=order_operation(order)) is not None
            if is_paid or open_amount is not None:
                raise Conflict(f"The order {order!r} is paid, or has another price.", account_id)
            hold = _hold(account_id, order, uuid4(), price, cap_day(at))
            # No daily caps here: the account stands in for a key, and its usage is not kept.
            reserved = holds.take(funds, holds.CapUsage(account_id, hold.cap_day), None, hold)
            row = {"id": hold.id, "amount": price, "cap_day": hold.cap_day}
            connection.execute(insert(open_holds).values(account_id=account_id, order_name=order, **row))
            _save_funds(connection, reserved.funds)
            return reserved.funds

    def ship(self, account_id: UUID, order: str, cost: int, at: datetime) -> ledger.Posting:
        """Charge what an order cost in the end, which may be more than was reserved; once."""
        with self._locked(account_id) as (connection, funds):
            hold = _end_hold(connection, account_id, order)
            if hold is None:
                if _find(connection, account_id, operation=order_operation(order)) is None:
                    raise NotFound(f"Nothing is reserved for the order {order!r}.")
                return ledger.Posting(funds, None)
            usage = holds.CapUsage(account_id, hold.cap_day, held=hold.amount)
            settled = holds.settle(funds, usage, hold, cost, uuid4(), at, self.key)
            return self._save(connection, settled.posting)

    def cancel(self, account_id: UUID, order: str) -> ledger.Funds:
        """Give back what is reserved for an order; nothing changes where nothing is."""
        with self._locked(account_id) as (connection, funds):
            hold = _end_hold(connection, account_id, order)
            if hold is None:
                return funds
            usage = holds.CapUsage(account_id, hold.cap_day, held=hold.amount)
            released = holds.release(funds, usage, hold)
            _save_funds(connection, released.funds)
            return released.funds

    def take_back(self, account_id: UUID, order: str, at: datetime) -> ledger.Posting:
        """Give the credits of a shipped order back, whole and once."""
        with self._locked(account_id) as (connection, funds):
            charge = _find(connection, account_id, operation=order_operation(order))
            if charge is None:
                raise NotFound(f"The order {order!r} was never paid.")
            existing = _find(connection, account_id, reverses=charge.id)
            posting = ledger.refund(funds, charge, uuid4(), at, existing, self.key, kind=ShopKind.RETURN)
            return self._save(connection, posting)

    def faults(self, account_id: UUID) -> tuple[str, ...]:
        """Prove an account: describe entries or funds that were changed since they were written."""
        # Under the lock: a posting between the two reads would look like tampering.
        with self._locked(account_id) as (connection, funds):
            proof, secrets = ledger.ChainVerifier(account_id), hash_chain.secrets_of([self.key])
            history = select(entries).where(entries.c.account_id == account_id).order_by(entries.c.number)
            for row in connection.execute(history).mappings():
                extended = proof.extended(from_row(row, ShopKind), secrets)
                if extended is None:
                    return (f"entry {proof.entries + 1} is not what was written",)
                proof = extended
            return () if ledger.is_proven(funds, proof) else ledger.funds_faults(funds, proof)

    @contextmanager
    def _locked(self, account_id: UUID) -> Generator[tuple[Connection, ledger.Funds], None, None]:
        """Begin a transaction with the account's lock. Everything else is to be read under it."""
        with self.engine.begin() as connection:
            found = select(accounts).where(accounts.c.account_id == account_id).with_for_update()
            row = connection.execute(found).mappings().one_or_none()
            if row is None:
                raise NotFound("No account with this id.")
            yield connection, ledger.Funds(**row)

    def _save(self, connection: Connection, posting: ledger.Posting) -> ledger.Posting:
        if posting.entry is not None:
            connection.execute(insert(entries).values(**to_row(posting.entry)))
            _save_funds(connection, posting.funds)
            self.report(connection, posting.entry)
        return posting


def _save_funds(connection: Connection, funds: ledger.Funds) -> None:
    saved = update(accounts).where(accounts.c.account_id == funds.account_id).values(asdict(funds))
    connection.execute(saved)


def _find(connection: Connection, account_id: UUID, **named: object) -> ledger.Transfer | None:
    found = select(entries).filter_by(account_id=account_id, **named)
    row = connection.execute(found).mappings().one_or_none()
    return None if row is None else from_row(row, ShopKind).transfer


def _end_hold(connection: Connection, account_id: UUID, order: str) -> holds.Hold | None:
    """Delete the hold's row and return the hold: `None` where it has ended already, so that it ends once."""
    ended = delete(open_holds).filter_by(account_id=account_id, order_name=order).returning(open_holds)
    row = connection.execute(ended).mappings().one_or_none()
    return None if row is None else _hold(account_id, order, row["id"], row["amount"], row["cap_day"])


def _hold(account_id: UUID, order: str, id: UUID, amount: int, day: date) -> holds.Hold:
    about = ledger.Reference("order", order)
    return holds.Hold(id, order_operation(order), ShopKind.ORDER, amount, about, account_id, day)
