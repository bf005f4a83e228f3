"""Holds and the daily cap, in any interleaving of work, round midnight in WIB."""

from collections import Counter
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from attrs import evolve
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
)

from meetcore.domain import holds
from meetcore.domain.chain import Entry, first_broken
from meetcore.domain.errors import CreditCapExceeded, InsufficientCredits
from meetcore.domain.holds import CapUsage, Hold, refund_usage, release, settle, take
from meetcore.domain.ledger import Funds, Posting, open_account, refund, top_up
from meetcore.domain.schedule import cap_day, cap_day_ends_at
from meetcore.domain.transfers import Book, Reference, Transfer, TransferKind, legs

ACCOUNT = UUID("01930000-0000-7000-8000-000000000001")
CAPS = {UUID(int=1): 50, UUID(int=2): 0, UUID(int=3): None}
KEY = UUID(int=1)
MIDNIGHT = datetime(2026, 12, 1, 17, tzinfo=UTC)  # 00:00 WIB of 2 December
DAY = date(2026, 12, 2)
TICK = timedelta(microseconds=1)

amounts = st.integers(1, 40)
keys = st.sampled_from(sorted(CAPS))
near_midnight = st.one_of(
    st.sampled_from([-TICK, timedelta(0), TICK]),
    st.timedeltas(min_value=timedelta(days=-2), max_value=timedelta(days=2)),
).map(lambda delta: MIDNIGHT + delta)

Slot = tuple[UUID, date]


class Bank(RuleBasedStateMachine):
    """One account, three keys, a clock that jumps; beside it the plain sums that must come out."""

    open_holds: Bundle[Hold] = Bundle("open_holds")
    charges: Bundle[Transfer] = Bundle("charges")

    @initialize(threshold=st.sampled_from([0, 20, 60]), credits=st.integers(1, 200))
    def open(self, threshold: int, credits: int) -> None:
        self.ids = 100
        self.funds = open_account(ACCOUNT, threshold)
        self.usages: dict[Slot, CapUsage] = {}
        self.history: list[Entry] = []
        self.held: Counter[Slot] = Counter()
        self.spent: Counter[Slot] = Counter()
        self.excess: Counter[Slot] = Counter()  # what settlements took beyond their holds
        self.refunds: dict[UUID, Transfer] = {}
        self.is_armed = threshold == 0
        self.top_up(credits, MIDNIGHT)

    def new_id(self) -> UUID:
        self.ids += 1
        return UUID(int=self.ids)

    def usage(self, key: UUID, day: date) -> CapUsage:
        return self.usages.get((key, day), CapUsage(key, day))

    def available(self) -> int:
        return sum(entry.amount for entry in self.history) - self.held.total()

    def is_admitted(self, key: UUID, day: date, amount: int) -> bool:
        cap, used = CAPS[key], self.spent[key, day] + self.held[key, day]
        return amount <= self.available() and (cap is None or used + amount <= cap)

    def keep(self, funds: Funds, usage: CapUsage) -> None:
        self.funds, self.usages[usage.api_key_id, usage.day] = funds, usage
        self.is_armed |= funds.available >= funds.low_threshold

    def book(self, posting: Posting) -> Transfer:
        assert posting.entry is not None
        is_below = posting.funds.available < posting.funds.low_threshold
        assert len(posting.facts) == (is_below and self.is_armed)
        self.is_armed = not is_below
        self.history.append(posting.entry)
        self.funds = posting.funds
        return posting.entry.transfer

    @rule(amount=amounts, at=near_midnight)
    def top_up(self, amount: int, at: datetime) -> None:
        id_ = self.new_id()
        self.book(top_up(self.funds, id_, f"INV-{id_.int}", amount, at))

    @rule(target=open_holds, key=keys, amount=amounts, at=near_midnight, kind=st.sampled_from(
        [TransferKind.MEETING_CHARGE, TransferKind.NOTULEN_CHARGE]))  # fmt: skip
    def take(self, key: UUID, amount: int, at: datetime, kind: TransferKind) -> Any:
        id_, day = self.new_id(), cap_day(at)
        hold = Hold(id_, f"work:{id_.int}", kind, amount, Reference("work", str(id_.int)), key, day)
        if not self.is_admitted(key, day, amount):
            with pytest.raises((InsufficientCredits, CreditCapExceeded)):
                take(self.funds, self.usage(key, day), CAPS[key], hold)
            return multiple()
        reserved = take(self.funds, self.usage(key, day), CAPS[key], hold)
        self.keep(reserved.funds, reserved.usage)
        self.held[key, day] += amount
        return hold

    @rule(hold=consumes(open_holds))
    def release(self, hold: Hold) -> None:
        slot = hold.api_key_id, hold.cap_day
        before = self.available()
        self.held[slot] -= hold.amount
        released = release(self.funds, self.usage(*slot), hold)
        self.keep(released.funds, released.usage)
        assert self.available() == before + hold.amount

    @rule(target=charges, hold=consumes(open_holds), share=st.sampled_from([1, 2, 2, 2, 3]), at=near_midnight)
    def settle(self, hold: Hold, share: int, at: datetime) -> Transfer:
        """Half of what was held, all of it, or half as much again; on whatever day it happens."""
        slot = hold.api_key_id, hold.cap_day
        amount = -(-hold.amount * share // 2)
        settled = settle(self.funds, self.usage(*slot), hold, amount, self.new_id(), at)
        self.held[slot] -= hold.amount
        self.spent[slot] += amount
        self.excess[slot] += max(0, amount - hold.amount)
        transfer = self.book(settled.posting)
        self.keep(settled.posting.funds, settled.usage)
        assert (transfer.operation, transfer.kind, transfer.amount) == (hold.operation, hold.kind, amount)
        assert (transfer.api_key_id, transfer.cap_day) == slot
        assert transfer.reference == hold.reference
        return transfer

    @rule(target=charges, key=keys, amount=amounts, at=near_midnight)
    def charge(self, key: UUID, amount: int, at: datetime) -> Any:
        id_, day = self.new_id(), cap_day(at)
        usage, reference = self.usage(key, day), Reference("meeting", str(id_.int))

        def admit() -> holds.Settled:
            return holds.charge(
                self.funds, usage, CAPS[key], id_, f"meeting:{id_.int}", amount, reference, at
            )

        if not self.is_admitted(key, day, amount):
            with pytest.raises((InsufficientCredits, CreditCapExceeded)):
                admit()
            return multiple()
        settled = admit()
        self.spent[key, day] += amount
        transfer = self.book(settled.posting)
        self.keep(settled.posting.funds, settled.usage)
        assert (transfer.id, transfer.kind, transfer.amount) == (id_, TransferKind.MEETING_CHARGE, amount)
        assert (transfer.api_key_id, transfer.cap_day) == (key, day)
        return transfer

    @rule(charge=charges, at=near_midnight)
    def refund(self, charge: Transfer, at: datetime) -> None:
        """On any day, and again and again; it counts for the day of its charge."""
        before = self.refunds.get(charge.id)
        if charge.kind is not TransferKind.MEETING_CHARGE:
            with pytest.raises(ValueError, match="only a meeting's charge"):
                refund(self.funds, charge, self.new_id(), at, before)
            return
        posting = refund(self.funds, charge, self.new_id(), at, before)
        if before is not None:
            assert posting == Posting(self.funds, None)
            return
        assert charge.api_key_id is not None
        assert charge.cap_day is not None
        slot = charge.api_key_id, charge.cap_day
        self.refunds[charge.id] = self.book(posting)
        self.spent[slot] -= charge.amount
        self.keep(posting.funds, refund_usage(self.usage(*slot), charge.amount))
        assert (self.refunds[charge.id].api_key_id, self.refunds[charge.id].cap_day) == slot

    @invariant()
    def the_open_holds_are_what_is_held(self) -> None:
        assert self.funds.held == self.held.total() >= 0
        assert self.funds.available == self.available()

    @invariant()
    def usage_is_what_the_key_spent_and_holds_on_the_day(self) -> None:
        for slot, usage in self.usages.items():
            assert (usage.spent, usage.held) == (self.spent[slot], self.held[slot])
            assert usage.used == usage.spent + usage.held
            assert usage.held >= 0
            assert usage.spent >= 0

    @invariant()
    def only_settlements_pass_the_balance_and_the_cap_and_no_further_than_their_excess(self) -> None:
        assert self.funds.available >= -self.excess.total()
        for (key, day), usage in self.usages.items():
            cap = CAPS[key]
            assert cap is None or usage.used <= cap + self.excess[key, day]

    @invariant()
    def the_low_mark_remembers_what_was_told(self) -> None:
        assert self.funds.is_low == (not self.is_armed)

    @invariant()
    def nothing_is_made_or_lost(self) -> None:
        books: Counter[Book] = Counter()
        for entry in self.history:
            for leg in legs(entry.transfer):
                books[leg.book] += leg.amount
        assert books.total() == 0
        assert books[Book.CUSTOMER] == self.funds.balance == self.history[-1].balance_after

    def teardown(self) -> None:
        if hasattr(self, "history"):
            assert first_broken(ACCOUNT, self.history) is None


TestBank = Bank.TestCase
TestBank.settings = settings(stateful_step_count=30)


def hold_of(amount: int, day: date = DAY) -> Hold:
    reference = Reference("note", "9")
    return Hold(UUID(int=9), "note:9", TransferKind.NOTULEN_CHARGE, amount, reference, KEY, day)


@pytest.mark.spec("5/7")
@given(st.lists(st.tuples(near_midnight, amounts, st.booleans()), max_size=40))
@example([(MIDNIGHT - TICK, 40, False), (MIDNIGHT, 40, False), (MIDNIGHT + TICK, 10, True)])
def test_no_day_in_wib_sees_more_spent_than_the_cap(work: list[tuple[datetime, int, bool]]) -> None:
    """Charges at any instants round midnight; a refund of the same day gives back what it took."""
    cap, funds = 50, Funds(ACCOUNT, balance=10_000)
    usages: dict[date, CapUsage] = {}
    spent: Counter[date] = Counter()
    for number, (at, amount, is_cancelled) in enumerate(work):
        day = (at + timedelta(hours=7)).date()
        usage, name = usages.get(day, CapUsage(KEY, day)), f"meeting:{number}"
        args = (funds, usage, cap, UUID(int=number), name, amount, Reference("meeting", name), at)
        if spent[day] + amount > cap:
            with pytest.raises(CreditCapExceeded) as refused:
                holds.charge(*args)
            told = {"cap": cap, "spent": spent[day], "required": amount, "resets_at": f"{day}T17:00:00Z"}
            assert refused.value.details == told
            continue
        settled = holds.charge(*args)
        funds, usages[day] = settled.posting.funds, settled.usage
        if is_cancelled:
            usages[day] = refund_usage(usages[day], amount)
        else:
            spent[day] += amount
        assert usages[day] == CapUsage(KEY, day, spent[day])


@pytest.mark.spec("5/7")
@given(
    st.integers(-20, 60), st.integers(0, 20), st.integers(0, 30), st.integers(0, 30),
    st.one_of(st.none(), st.integers(0, 60)), st.integers(1, 60),
)  # fmt: skip
@example(10, 0, 0, 0, 10, 10)
@example(10, 1, 0, 0, None, 10)
@example(100, 0, 20, 20, 50, 10)
@example(100, 0, 20, 20, 50, 11)
def test_work_is_admitted_up_to_the_balance_and_the_cap_and_not_a_credit_further(
    balance: int, held: int, spent: int, held_today: int, cap: int | None, amount: int
) -> None:
    funds, usage = Funds(ACCOUNT, balance, held), CapUsage(KEY, DAY, spent, held_today)
    if balance - held < amount:
        with pytest.raises(InsufficientCredits) as poor:
            take(funds, usage, cap, hold_of(amount))
        assert poor.value.details == {"required": amount, "available": balance - held}
    elif cap is not None and spent + held_today + amount > cap:
        with pytest.raises(CreditCapExceeded) as capped:
            take(funds, usage, cap, hold_of(amount))
        assert capped.value.details["spent"] == spent + held_today
    else:
        reserved = take(funds, usage, cap, hold_of(amount))
        assert reserved.funds == evolve(funds, held=held + amount)
        assert reserved.usage == evolve(usage, held=held_today + amount)


@given(st.integers(0, 500), st.integers(0, 30), amounts, near_midnight)
def test_taking_and_releasing_leaves_no_trace(balance: int, spent: int, amount: int, at: datetime) -> None:
    funds = top_up(open_account(ACCOUNT), UUID(int=1), "INV-1", balance + amount, at).funds
    usage, hold = CapUsage(KEY, cap_day(at), spent), hold_of(amount, cap_day(at))
    reserved = take(funds, usage, None, hold)
    released = release(reserved.funds, reserved.usage, hold)
    assert (released.funds, released.usage) == (funds, usage)


def test_releasing_takes_the_low_mark_back() -> None:
    """Told while a hold was open; once it is gone the balance is above again, and may be told anew."""
    funds = top_up(open_account(ACCOUNT, 100), UUID(int=1), "INV-1", 150, MIDNIGHT).funds
    reserved = take(funds, CapUsage(KEY, DAY), None, hold_of(60))
    low = top_up(reserved.funds, UUID(int=2), "INV-2", 5, MIDNIGHT)
    assert (len(low.facts), low.funds.is_low) == (1, True)
    assert not release(low.funds, reserved.usage, hold_of(60)).funds.is_low
    still = release(low.funds, reserved.usage, hold_of(4)).funds
    assert (still.available, still.is_low) == (99, True)


@given(amounts, st.integers(0, 100))
def test_after_a_settlement_below_zero_no_paid_work_starts(held: int, excess: int) -> None:
    funds = Funds(ACCOUNT, balance=held)
    reserved = take(funds, CapUsage(KEY, DAY), held, hold_of(held))
    settled = settle(reserved.funds, reserved.usage, hold_of(held), held + excess, UUID(int=2), MIDNIGHT)
    after = settled.posting.funds
    assert (after.balance, after.held, settled.usage) == (-excess, 0, CapUsage(KEY, DAY, held + excess))
    with pytest.raises(InsufficientCredits):
        take(after, CapUsage(KEY, DAY + timedelta(days=1)), None, hold_of(1))


@pytest.mark.parametrize("at", [MIDNIGHT - TICK, MIDNIGHT, MIDNIGHT + timedelta(hours=30)])
def test_a_settlement_counts_for_the_day_of_its_hold_whenever_it_happens(at: datetime) -> None:
    day = cap_day(MIDNIGHT - TICK)
    reserved = take(Funds(ACCOUNT, 100), CapUsage(KEY, day), 50, hold_of(30, day))
    settled = settle(reserved.funds, reserved.usage, hold_of(30, day), 20, UUID(int=2), at)
    assert settled.posting.entry is not None
    assert settled.posting.entry.transfer.cap_day == day
    assert settled.usage == CapUsage(KEY, day, spent=20)


def test_credit_low_is_told_at_the_charge_and_not_at_the_hold() -> None:
    funds = top_up(open_account(ACCOUNT, 100), UUID(int=1), "INV-1", 120, MIDNIGHT).funds
    reserved = take(funds, CapUsage(KEY, DAY), None, hold_of(30))
    assert not reserved.funds.is_low
    settled = settle(reserved.funds, reserved.usage, hold_of(30), 30, UUID(int=2), MIDNIGHT)
    (fact,) = settled.posting.facts
    assert (fact.account_id, fact.available, fact.threshold) == (ACCOUNT, 90, 100)


def test_the_cap_is_told_to_reset_at_the_next_midnight_in_wib() -> None:
    with pytest.raises(CreditCapExceeded) as refused:
        take(Funds(ACCOUNT, 100), CapUsage(KEY, cap_day(MIDNIGHT - TICK)), 0, hold_of(1))
    assert refused.value.details["resets_at"] == "2026-12-01T17:00:00Z"
    assert cap_day_ends_at(cap_day(MIDNIGHT - TICK)) == MIDNIGHT
