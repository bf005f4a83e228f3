"""The view of a ledger for suites: its transactions as use cases write them, and a machine that checks it.

`LedgerRig` is the interface that the author of a ledger implements for `contracts.LedgerContract` and for
`LedgerMachine`: transactions, and a look at the stored entries. A transaction loads under the account's lock,
decides and appends. The machine draws top-ups, corrections, repeated references, rollbacks and decisions on
changed funds with Hypothesis; after each step the ledger must have the funds and entries of the model::

    def test_my_ledger_behaves_as_the_rules_say():
        with asyncio.Runner() as runner:

            class Machine(LedgerMachine):
                def __init__(self):
                    super().__init__(runner.run, MyRig())

            run_state_machine_as_test(Machine)
"""

import os
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager, suppress
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, Protocol, TypeVar
from uuid import UUID

from attrs import frozen
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from meetcore.domain.errors import DomainError
from meetcore.domain.ids import uuid7
from meetcore.domain.money import hash_chain, ledger, views
from meetcore.domain.money.ledger import Entry, Funds, Posting, Reference
from meetcore.domain.requests.views import NewAccount
from meetcore.domain.webhooks.events import Event
from meetcore.ports.money import PostingRepository

AT = datetime(2026, 12, 1, 3, 0, 0, 123_456, tzinfo=UTC)
"""The instant of every transaction; with microseconds, so that a store that loses them fails."""

# Ids rise from run to run: accounts of earlier runs may still be in the store.
_IDS_FROM = datetime.now(UTC)
_ids = count()


@frozen
class Customer:
    """An account with a key."""

    account_id: UUID
    key_id: UUID
    digest: bytes


class AccountRegistry(Protocol):
    """The one operation of `ports.requests.RegistryRepository` that a ledger needs."""

    async def add_account(self, account: NewAccount) -> None:
        """Open an active account with empty funds."""


class LedgerTransaction(Protocol):
    """The part of `ports.store.Transaction` that a ledger needs."""

    @property
    def registry(self) -> AccountRegistry:
        """The accounts."""

    @property
    def postings(self) -> PostingRepository:
        """The postings."""


class LedgerStore(Protocol):
    """The part of `ports.store.Store` that a ledger needs."""

    def begin(self) -> AbstractAsyncContextManager[LedgerTransaction]:
        """Open a transaction: a clean exit commits, an exception rolls back."""


class LedgerAccess(Protocol):
    """A ledger."""

    @property
    def store(self) -> LedgerStore:
        """The transactions under test."""


class LedgerRig(LedgerAccess, Protocol):
    """A ledger, with a look behind its port.

    The fixture `rig` gives each test exclusive use of a store; accounts of earlier tests may stay. The suite
    races up to twenty transactions: a pool may queue them, and must not refuse them.
    """

    @property
    def refusal(self) -> type[Exception]:
        """The error of a broken constraint, such as a second entry of one number; no domain error."""

    async def until_lock_contended(self) -> None:
        """Poll until another transaction waits for a lock of the caller's, or before it begins."""

    async def entries(self, account_id: UUID) -> list[Entry]:
        """Read an account's committed entries as they are stored, by number."""

    async def legs(self, account_id: UUID) -> list[tuple[str, int]]:
        """Read both legs of each of an account's transfers, in any order: book and signed credits."""

    async def holds(self, account_id: UUID) -> list[int]:
        """Read the credits of an account's open holds; empty where a store keeps no holds."""


def new_id() -> UUID:
    """Return an id greater than every one before it."""
    return uuid7(_IDS_FROM + timedelta(milliseconds=next(_ids)), os.urandom(10))


def email_of(account_id: UUID) -> str:
    """Return the e-mail address of an account of the suites."""
    return f"{account_id.hex}@example.com"


async def open_account(rig: LedgerAccess, credits: int = 0, *, low_threshold: int = 0) -> Customer:
    """Open an account with these credits. Its key is not stored."""
    customer = Customer(new_id(), new_id(), os.urandom(32))
    id_ = customer.account_id
    account = NewAccount(id_, new_id(), email_of(id_), "A Customer", low_threshold, AT)
    async with rig.store.begin() as tx:
        await tx.registry.add_account(account)
    if credits:
        await top_up(rig, customer, credits, "opening")
    return customer


async def append_one(tx: LedgerTransaction, before: Funds, posting: Posting, *events: Event) -> int | None:
    """Append the entry of a posting decided on `before`; return the due deliveries, `None` if not written."""
    assert posting.entry is not None
    postings = views.AccountPostings(before, posting.funds, [posting.entry], events)
    return (await tx.postings.append_if_unchanged([postings])).get(before.account_id)


async def funds_of(rig: LedgerAccess, customer: Customer) -> Funds:
    """Load a customer's funds."""
    async with rig.store.begin() as tx:
        return (await tx.postings.load_locked(customer.account_id, [])).funds


async def top_up(
    rig: LedgerAccess,
    customer: Customer,
    amount: int,
    reference: str,
    *events: Event,
    key: hash_chain.ChainKey | None = None,
) -> int:
    """Top up once for each reference, chained under a key if given; return the number of due deliveries."""
    async with rig.store.begin() as tx:
        view = await tx.postings.load_locked(customer.account_id, [ledger.top_up_operation(reference)])
        known = next((each.transfer for each in view.entries.values()), None)
        posting = ledger.top_up(view.funds, new_id(), reference, amount, AT, known, key)
        if posting.entry is None:
            return 0
        due = await append_one(tx, view.funds, posting, *events)
    assert due is not None
    return due


async def adjust(
    rig: LedgerAccess, customer: Customer, amount: int, operation: str, at: datetime = AT
) -> Entry | None:
    """Adjust the balance once for each operation."""
    async with rig.store.begin() as tx:
        view = await tx.postings.load_locked(customer.account_id, [operation])
        if operation in view.entries:
            return None
        reference = Reference("ticket", operation)
        posting = ledger.adjust(view.funds, new_id(), operation, amount, reference, at)
        assert await append_one(tx, view.funds, posting) is not None
        return posting.entry


T = TypeVar("T")

_amounts = st.integers(1, 60)
_names = st.sampled_from(("INV-1", "INV-2", "INV-3"))


class Run(Protocol):
    """Runs coroutines on one event loop: `asyncio.Runner().run`."""

    def __call__(self, coro: Coroutine[Any, Any, T], /) -> T:
        """Return the result of a coroutine."""


class _RolledBack(Exception):
    """Ends a transaction without a commit."""


class LedgerMachine(RuleBasedStateMachine):
    """One account on a ledger and on the model. The ledger's connections must belong to the loop of `run`."""

    def __init__(self, run: Run, rig: LedgerRig) -> None:
        super().__init__()
        self._run, self._rig = run, rig
        self._entries: list[Entry] = []

    @initialize(threshold=st.integers(0, 50))
    def open(self, threshold: int) -> None:
        """Open the account."""
        customer = self._run(open_account(self._rig, low_threshold=threshold))
        self._funds = ledger.open_account(customer.account_id, threshold)
        self._stale = self._funds

    @rule(amount=_amounts, reference=_names)
    def top_up(self, amount: int, reference: str) -> None:
        """Top up; a known reference changes nothing or is a conflict."""
        operation, transfer_id = ledger.top_up_operation(reference), new_id()

        def decide(funds: Funds, known: Entry | None) -> Posting:
            return ledger.top_up(funds, transfer_id, reference, amount, AT, known.transfer if known else None)

        self._apply(operation, decide)

    @rule(amount=st.integers(-60, 60).filter(bool), name=_names)
    def adjust(self, amount: int, name: str) -> None:
        """Adjust within the balance, once for each name."""
        transfer_id = new_id()

        def decide(funds: Funds, known: Entry | None) -> Posting:
            if known is not None:
                return Posting(funds, None, ())
            return ledger.adjust(funds, transfer_id, name, amount, Reference("ticket", name), AT)

        self._apply(name, decide)

    @rule(amount=_amounts)
    def roll_back(self, amount: int) -> None:
        """Append and roll back."""

        async def fail() -> None:
            async with self._rig.store.begin() as tx:
                posting = ledger.top_up(self._funds, new_id(), f"lost-{new_id()}", amount, AT)
                assert await append_one(tx, self._funds, posting) is not None
                raise _RolledBack

        with suppress(_RolledBack):
            self._run(fail())
        self._compare()

    @rule(amount=_amounts)
    def append_to_changed_funds(self, amount: int) -> None:
        """Append a decision on outdated funds: nothing is written."""
        if self._stale == self._funds:
            return
        posting = ledger.top_up(self._stale, new_id(), f"stale-{new_id()}", amount, AT)

        async def append() -> int | None:
            async with self._rig.store.begin() as tx:
                return await append_one(tx, self._stale, posting)

        assert self._run(append()) is None
        self._compare()

    def _apply(self, operation: str, decide: Any) -> None:
        known = next((each for each in self._entries if each.transfer.operation == operation), None)
        expected: Posting | None = None
        with suppress(DomainError):
            expected = decide(self._funds, known)

        async def post() -> None:
            async with self._rig.store.begin() as tx:
                view = await tx.postings.load_locked(self._funds.account_id, [operation])
                assert view.entries == ({} if known is None else {operation: known})
                assert view.funds == self._funds
                if expected is not None and expected.entry is not None:
                    assert await append_one(tx, view.funds, expected) is not None

        self._run(post())
        if expected is not None and expected.entry is not None:
            self._stale, self._funds = self._funds, expected.funds
            self._entries.append(expected.entry)
        self._compare()

    def _compare(self) -> None:
        account_id = self._funds.account_id
        entries = self._run(self._rig.entries(account_id))
        legs = self._run(self._rig.legs(account_id))
        assert entries == self._entries
        assert ledger.first_broken(account_id, entries) is None
        expected = [(leg.book.value, leg.amount) for each in entries for leg in ledger.legs(each.transfer)]
        assert sorted(legs) == sorted(expected)
        assert sum(amount for _, amount in legs) == 0
        assert self._funds.held == sum(self._run(self._rig.holds(account_id)))
