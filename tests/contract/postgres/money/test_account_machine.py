"""A stateful machine that runs one account on PostgreSQL and proves its books after each step.

Top-ups, gifts, holds, settlements, cancellations with their refunds, and the daily cap around midnight WIB
and over rolled keys, in transactions like those of the use cases.
"""

import asyncio
from collections import defaultdict
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any, cast
from uuid import UUID

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from meetcore.adapters.postgres.pool import make_pool
from meetcore.domain.errors import DomainError
from meetcore.domain.meetings import schedule
from meetcore.domain.meetings.cancellation import ProviderMeetingState
from meetcore.domain.meetings.hosts import Host
from meetcore.domain.meetings.meetings import (
    Meeting,
    MeetingOptions,
    MeetingStatus,
    ProviderAbilities,
    Provisioned,
)
from meetcore.domain.meetings.views import CreationQuery, LeaseView
from meetcore.domain.money.holds import CapUsage
from meetcore.domain.money.ledger import Entry, TransferKind, first_broken
from meetcore.domain.money.statements import DayTotal
from meetcore.domain.requests.keys import ApiKey, Scope
from meetcore.domain.requests.views import NewAccount
from meetcore.ports.runtime import Lease
from meetcore.ports.store import Transaction
from meetcore.testing.clock import ManualClock, SeededEntropy
from meetcore.testing.ledger import LedgerMachine, Run
from meetcore.usecases.meetings.cancel_meeting import Marked, Running, end_running, start_cancelling
from meetcore.usecases.meetings.cancellation import Cleared, end_cancellation, restore
from meetcore.usecases.meetings.creation import (
    Creation,
    CreationTerms,
    abandon,
    claim,
    creation_query,
    settle,
)
from meetcore.usecases.requests.administration import Administration
from meetcore.usecases.requests.idempotency import IdempotentRequest
from meetcore.usecases.runtime import Runtime
from tests.support.fakes import FakeNotifier, PlainCipher
from tests.support.postgres_rig import PostgresRig
from tests.support.transactions import KIND, Customer, email_of, new_endpoint, register

# Two minutes before midnight WIB, where the day of the cap turns.
START = datetime(2026, 12, 1, 16, 58, 0, 123_456, tzinfo=UTC)
DAILY_CAP = 60
LOW_THRESHOLD = 40
LEASE_S = 600.0
ABILITIES = ProviderAbilities("sandbox", None)
NO_KEY = IdempotentRequest(None, b"")
REMOVED = Cleared(ProviderMeetingState.REMOVED)

which = st.integers(0, 4)
credits_ = st.integers(1, 45)
instants = st.integers(0, 2)


class _Account:
    """An account with a capped key and a free one, two hosts and an endpoint, on an empty store."""

    def __init__(self, rig: PostgresRig) -> None:
        self.rig = rig
        self.clock = ManualClock(START)
        self.runtime = Runtime(self.clock, SeededEntropy(0))
        self.id = self.new_id()
        self.key_ids = [self.new_id(), self.new_id()]
        self.made: list[LeaseView] = []
        self.operator = Administration(rig.store, rig.registry, FakeNotifier(), self.runtime, "mk")

    def new_id(self) -> UUID:
        return self.runtime.new_id(self.runtime.now())

    async def open(self) -> None:
        await self.rig.reset()
        account = NewAccount(self.id, self.new_id(), email_of(self.id), "A Customer", LOW_THRESHOLD, START)
        async with self.rig.store.begin() as tx:
            await tx.registry.add_account(account)
            for key_id, cap in zip(self.key_ids, (DAILY_CAP, None), strict=True):
                key = ApiKey(key_id, self.id, tuple(Scope), cap, START)
                await tx.registry.add_key(key, self.runtime.entropy.token_bytes(32))
        await self.rig.put_hosts(*(Host(self.new_id(), f"user-{seats}", seats) for seats in (50, 100)))
        await register(self.rig, new_endpoint(Customer(self.id, self.key_ids[0], b""), KIND))

    async def roll(self, key: int, overlap_h: int) -> None:
        """Put a key in the place of another, under whose cap it spends."""
        minted, _ = await self.operator.keys.roll(self.key_ids[key % len(self.key_ids)], overlap_h)
        self.key_ids.append(minted.key.id)

    async def hold(self, key: int, credits: int, slot: int) -> None:
        """Reserve credits and a host for one of the hours: the first step of making a meeting."""
        start_at = START + timedelta(days=2, hours=slot)
        draft = Meeting(
            id=self.new_id(), account_id=self.id, api_key_id=self.key_ids[key % len(self.key_ids)],
            status=MeetingStatus.PROVISIONING, title="Rapat", description=None, start_at=start_at,
            end_at=start_at + timedelta(hours=1), duration=60, capacity=10, pricing_tier_id="small",
            credits=credits, options=MeetingOptions(), host_id=None, provider=ABILITIES.name,
            created_at=self.runtime.now(), password="pw",
        )  # fmt: skip
        query = creation_query(draft, 10, ABILITIES, None, can_wait=False)
        async with self.rig.store.begin() as tx:
            step = await claim(tx, Creation(self.runtime, draft, query, NO_KEY, CreationTerms(LEASE_S)))
        if isinstance(step, LeaseView):
            self.made.append(step)

    async def settle(self, place: int) -> None:
        """Charge what was held: the meeting is there."""
        made = self.made[place % len(self.made)]
        room = Provisioned(f"room-{made.meeting.id}", f"https://meet.example/{made.meeting.id}", "pw")
        async with self.rig.store.begin() as tx:
            view = await tx.meetings.load_leased(self.id, made.meeting.id, made.token)
            if view is not None:
                await settle(tx, self.runtime, view, room, self.runtime.now())

    async def release(self, place: int) -> None:
        """Give hold and host back: the provider refused."""
        made = self.made[place % len(self.made)]
        async with self.rig.store.begin() as tx:
            await abandon(tx, self.id, made.meeting.id, made.token)

    async def cancel(self, place: int, *, is_unavailable: bool) -> None:
        """Cancel a meeting and refund it, end one that runs, or restore one where the provider refuses."""
        meeting_id, now = self.made[place % len(self.made)].meeting.id, self.runtime.now()
        lease = Lease(self.new_id(), LEASE_S)
        async with self.rig.store.begin() as tx:
            step = await start_cancelling(tx, self.id, meeting_id, NO_KEY, lease, now)
        async with self.rig.store.begin() as tx:
            if isinstance(step, Running):
                await end_running(tx, self.runtime, step.meeting, REMOVED, NO_KEY, now)
            elif isinstance(step, Marked):
                view = await tx.meetings.load_leased(self.id, meeting_id, lease.token)
                assert view is not None
                if is_unavailable:
                    await restore(tx, view)
                else:
                    await end_cancellation(tx, self.runtime, view, REMOVED, now)

    async def prove(self) -> None:
        """Check the ledger, its totals, the holds and the cap."""
        async with self.rig.store.begin() as tx:
            funds = (await tx.postings.load_locked(self.id, [])).funds
            usage = [await self._usage(tx, key_id) for key_id in self.key_ids]
        entries = await self.rig.entries(self.id)
        assert first_broken(self.id, entries) is None, "the chain is broken"
        assert funds.balance == sum(entry.amount for entry in entries), "no fold of its entries"
        assert funds.available >= 0, "spent what was not there"
        assert funds.held == sum(await self.rig.holds(self.id)), "held is not the sum of the holds"
        assert sum(amount for _, amount in await self.rig.legs(self.id)) == 0, "credits were made or lost"
        totals = await self.rig.queries.list_day_totals(self.id, date.min, date.max)
        assert list(totals) == _day_totals(entries), "the totals are not those of its entries"
        transfers = [entry.transfer for entry in entries]
        reversed_ = [each.reverses for each in transfers if each.kind is TransferKind.MEETING_REFUND]
        assert len(set(reversed_)) == len(reversed_), "a charge was refunded twice"
        capped = [each.used for each in usage if each.cap_key_id == usage[0].api_key_id]
        assert len(set(capped)) == 1, "rolled keys see one usage"
        assert capped[0] <= DAILY_CAP, "the cap was passed"

    async def _usage(self, tx: Transaction, key_id: UUID) -> CapUsage:
        now, far = self.runtime.now(), START + timedelta(days=300)
        query = CreationQuery(
            self.id, key_id, schedule.cap_day(now), "none", None, 1, far, far + timedelta(hours=1), now
        )
        return (await tx.meetings.load_creation(query)).usage


class AccountMachine(RuleBasedStateMachine):
    """One account. `run` runs each step on the loop that the store's connections belong to."""

    def __init__(self, run: Run, rig: PostgresRig) -> None:
        super().__init__()
        self._run = run
        self._account = _Account(rig)

    @initialize(opening=st.integers(0, 120))
    def open(self, opening: int) -> None:
        """Open the account, with credits or without."""
        self._play(self._account.open())
        if opening:
            self.top_up(opening, "opening")

    @rule(amount=credits_, reference=st.sampled_from(("INV-1", "INV-2", "INV-3", "INV-4")))
    def top_up(self, amount: int, reference: str) -> None:
        """Pay in; a reference that was paid before changes nothing or is a conflict."""
        self._play(self._account.operator.top_up(self._account.id, amount, reference))

    @rule(amount=st.integers(-30, 30).filter(bool))
    def adjust(self, amount: int) -> None:
        """Give or take by hand."""
        self._play(self._account.operator.adjust(self._account.id, amount, "by hand"))

    @rule(key=which, credits=credits_, slot=instants)
    def hold(self, key: int, credits: int, slot: int) -> None:
        """Reserve, within balance, cap and hosts."""
        self._play(self._account.hold(key, credits, slot))

    @rule(key=which, credits=credits_, slot=instants)
    def create(self, key: int, credits: int, slot: int) -> None:
        """Reserve and settle: a meeting as it is mostly made."""
        before = len(self._account.made)
        self.hold(key, credits, slot)
        if len(self._account.made) > before:
            self.settle(before)

    @rule(key=which, overlap_h=st.sampled_from((0, 1, 24)))
    def roll(self, key: int, overlap_h: int) -> None:
        """Roll a key; one that is revoked or expired is refused."""
        self._play(self._account.roll(key, overlap_h))

    @precondition(lambda self: self._account.made)
    @rule(place=which)
    def settle(self, place: int) -> None:
        """Charge what was held."""
        self._play(self._account.settle(place))

    @precondition(lambda self: self._account.made)
    @rule(place=which)
    def release(self, place: int) -> None:
        """Give a hold back."""
        self._play(self._account.release(place))

    @precondition(lambda self: self._account.made)
    @rule(place=which, is_unavailable=st.booleans())
    def cancel(self, place: int, is_unavailable: bool) -> None:
        """Cancel with the refund of the whole charge, or fail to."""
        self._play(self._account.cancel(place, is_unavailable=is_unavailable))

    @rule(seconds=st.sampled_from((-60, 30, 119, 3_600, 86_400)))
    def let_time_pass(self, seconds: int) -> None:
        """Move the clock, over midnight WIB and back."""
        self._account.clock.advance(seconds)

    def _play(self, action: Coroutine[Any, Any, object]) -> None:
        self._run(_played(action))
        self._run(self._account.prove())


async def _played(action: Coroutine[Any, Any, object]) -> None:
    try:
        await action
    except DomainError:  # a refusal changes nothing, which is proven next
        return


def _day_totals(entries: list[Entry]) -> list[DayTotal]:
    by_day = defaultdict(list)
    for entry in entries:
        by_day[schedule.cap_day(entry.at), TransferKind(entry.transfer.kind)].append(entry.amount)
    return [DayTotal(day, kind, sum(found), len(found)) for (day, kind), found in sorted(by_day.items())]


# A run is some thirty transactions on a real database: a few dozen of them find what a rule does not.
RUNS = max(12, settings().max_examples // 5)


@contextmanager
def _rig(database_url: str) -> Iterator[tuple[Run, PostgresRig]]:
    with asyncio.Runner() as runner:
        pool = make_pool(database_url, min_size=1, max_size=2)
        runner.run(pool.open())
        rig = PostgresRig(pool, PlainCipher())
        try:
            yield runner.run, rig
        finally:
            runner.run(rig.reset())
            runner.run(pool.close())


@pytest.mark.hypothesis
def test_the_ledger_behaves_as_the_model_does(store_database: str) -> None:
    with _rig(store_database) as made:
        machine = cast(Any, partial(LedgerMachine, *made))
        run_state_machine_as_test(machine, settings=settings(max_examples=RUNS, deadline=None))


@pytest.mark.hypothesis
def test_the_books_of_an_account_hold_whatever_happens_to_it(store_database: str) -> None:
    with _rig(store_database) as made:
        machine = cast(Any, partial(AccountMachine, *made))
        run_state_machine_as_test(machine, settings=settings(max_examples=RUNS, stateful_step_count=30))
