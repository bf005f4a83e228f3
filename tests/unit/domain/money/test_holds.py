"""Holds and the daily cap, in any interleaving of work, round midnight in WIB."""

import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

import pytest
from attrs import define, evolve, field
from hypothesis import example, given
from hypothesis import strategies as st

from meetcore.domain.errors import CreditCapExceeded, InsufficientCredits
from meetcore.domain.meetings.schedule import cap_day, cap_day_ends_at
from meetcore.domain.money import ledger
from meetcore.domain.money.holds import CapUsage, Hold, charge, is_sufficient, refund, release, settle, take
from meetcore.domain.money.ledger import Funds, open_account, top_up
from meetcore.domain.money.transfers import Reference, Transfer, TransferKind
from meetcore.testing.strategies import money
from meetcore.testing.strategies.account_histories import (
    ACCOUNT,
    CAPS,
    FIRST_KEYS,
    AccountHistory,
    Act,
    Refusal,
    Slot,
    Step,
    account_histories,
)
from meetcore.testing.strategies.moments import TICK, near

KEY = UUID(int=1)
FULL = Funds(ACCOUNT, balance=1_000)
MIDNIGHT = datetime(2026, 12, 1, 17, tzinfo=UTC)  # 00:00 WIB of 2 December
DAY = date(2026, 12, 2)
SETTLEMENTS = {Act.SETTLE, Act.SETTLE_FOR_LESS, Act.SETTLE_FOR_MORE}

amounts = money.amounts(40)
near_midnight = near(MIDNIGHT)


@define
class Recount:
    """Plain sums over the steps of a life so far: what the state must say."""

    balance: int = 0
    open: dict[UUID, tuple[Slot, int]] = field(factory=dict)
    spent: Counter[Slot] = field(factory=Counter)
    excess: Counter[Slot] = field(factory=Counter)  # what settlements took beyond their holds
    slots: dict[UUID, Slot] = field(factory=dict)  # which key and day each charge counted for

    def held(self, slot: Slot | None = None) -> int:
        return sum(amount for at, amount in self.open.values() if slot in (None, at))

    def refusal(self, step: Step) -> type[Refusal] | None:
        """Why paid work that is asked for in this step cannot be admitted, by the sums before it."""
        slot, cap = slot_of(step), CAPS[step.key]
        if self.balance - self.held() < step.amount:
            return InsufficientCredits
        if cap is not None and self.spent[slot] + self.held(slot) + step.amount > cap:
            return CreditCapExceeded
        return None

    def add(self, step: Step) -> None:
        if step.act is Act.HOLD and step.hold is not None:
            self.open[step.hold.id] = slot_of(step), step.hold.amount
        elif step.hold is not None:
            slot, amount = self.open.pop(step.hold.id)
            if step.entry is not None:
                self.charged(slot, step)
                self.excess[slot] += max(0, step.entry.transfer.amount - amount)
        elif step.act is Act.CHARGE and step.entry is not None:
            self.charged(slot_of(step), step)
        elif step.act is Act.REFUND and step.entry is not None:
            assert step.entry.transfer.reverses is not None
            self.spent[self.slots[step.entry.transfer.reverses]] -= step.entry.transfer.amount
        self.balance += step.entry.amount if step.entry is not None else 0

    def charged(self, slot: Slot, step: Step) -> None:
        assert step.entry is not None
        self.spent[slot] += step.entry.transfer.amount
        self.slots[step.entry.transfer.id] = slot


def slot_of(step: Step) -> Slot:
    """The key whose cap counts it, and the date in WIB at which something was asked for."""
    return FIRST_KEYS.get(step.key, step.key), (step.at + timedelta(hours=7)).date()


def recounted(history: AccountHistory) -> Iterator[tuple[Step, Recount]]:
    """Each step with the sums after it."""
    sums = Recount()
    for step in history.steps:
        sums.add(step)
        yield step, sums


# In any interleaving


@given(account_histories())
def test_holds_never_outlive_settlement_or_release(history: AccountHistory) -> None:
    """What is held is what the open holds say, after every step; once all have ended, nothing is."""
    for step, sums in recounted(history):
        assert step.after.held == sums.held() >= 0
        assert step.after.available == sums.balance - sums.held()
    at = history.steps[-1].at
    while history.open_holds:
        history.play(Act.SETTLE if len(history.open_holds) % 2 else Act.RELEASE, 1, at, KEY)
    assert history.funds.held == 0
    assert all(usage.held == 0 for usage in history.usages.values())


@given(account_histories())
def test_a_settlement_charges_what_the_hold_was_for(history: AccountHistory) -> None:
    for step in history.steps:
        if step.act in SETTLEMENTS:
            assert step.hold is not None
            assert step.entry is not None
            hold, transfer = step.hold, step.entry.transfer
            assert (transfer.operation, transfer.kind) == (hold.operation, hold.kind)
            assert transfer.reference == hold.reference
            assert (transfer.api_key_id, transfer.cap_day) == (hold.api_key_id, hold.cap_day)


@given(account_histories())
def test_usage_is_what_was_spent_and_is_held_under_the_cap_on_the_day(history: AccountHistory) -> None:
    for step, sums in recounted(history):
        if step.usage is not None:
            slot = step.usage.cap_key_id, step.usage.day
            of_key = CapUsage(step.usage.api_key_id, slot[1], sums.spent[slot], sums.held(slot), slot[0])
            assert step.usage == of_key
            assert step.usage.used == sums.spent[slot] + sums.held(slot)
            assert min(step.usage.spent, step.usage.held) >= 0


@pytest.mark.spec("5/7")
@given(account_histories())
def test_the_daily_cap_is_never_passed_in_any_interleaving_and_at_any_instant_round_midnight_wib(
    history: AccountHistory,
) -> None:
    """Only the settlement of work already admitted may, and no further than it took beyond its hold."""
    for _, sums in recounted(history):
        for slot in {*sums.spent, *(slot for slot, _ in sums.open.values())}:
            cap = history.caps[slot[0]]
            assert cap is None or sums.spent[slot] + sums.held(slot) <= cap + sums.excess[slot]


@pytest.mark.spec("5/7")
@given(account_histories())
def test_rolled_keys_spend_under_one_cap_and_the_ledger_names_the_key_that_paid(
    history: AccountHistory,
) -> None:
    """By the transfers alone, where no settlement passed what was held: the ledger has no word of the cap."""
    spent: Counter[tuple[UUID | None, date | None]] = Counter()
    excess: Counter[date | None] = Counter()
    for step, _ in recounted(history):
        if step.entry is None:
            continue
        transfer = step.entry.transfer
        spent[transfer.api_key_id, transfer.cap_day] -= step.entry.amount
        if step.hold is not None:
            assert transfer.api_key_id == step.hold.api_key_id
            excess[transfer.cap_day] += max(0, transfer.amount - step.hold.amount)
        elif step.act is Act.CHARGE:
            assert transfer.api_key_id == step.key
    for key, first in FIRST_KEYS.items():
        cap = CAPS[first]
        assert cap is not None
        for day in {day for _, day in spent}:
            assert spent[key, day] + spent[first, day] <= cap + excess[day]


@pytest.mark.spec("5/7")
@given(account_histories())
def test_paid_work_is_admitted_exactly_while_balance_and_cap_have_room(history: AccountHistory) -> None:
    sums = Recount()
    for step in history.steps:
        if step.act in (Act.CHARGE, Act.HOLD):
            assert (None if step.refusal is None else type(step.refusal)) == sums.refusal(step)
        sums.add(step)


@pytest.mark.spec("5/7")
@given(amounts, near_midnight, near_midnight, near_midnight)
@example(10, MIDNIGHT - TICK, MIDNIGHT - TICK, MIDNIGHT)
@example(10, MIDNIGHT, MIDNIGHT, MIDNIGHT - TICK)
def test_a_refund_gives_the_cap_of_its_charges_day_back_and_no_other(
    cap: int, at: datetime, refunded_at: datetime, later: datetime
) -> None:
    """On the same day, or on another: the day of the charge has room again, and only that day."""
    history = AccountHistory(open_account(ACCOUNT), {KEY: cap})
    history.play(Act.TOP_UP, 1_000, at, KEY)
    history.play(Act.CHARGE, cap, at, KEY)
    full = history.play(Act.CHARGE, 1, at, KEY)
    assert full is not None
    assert isinstance(full.refusal, CreditCapExceeded)
    history.play(Act.REFUND, 0, refunded_at, KEY)
    assert history.usage(KEY, cap_day(at)) == CapUsage(KEY, cap_day(at))
    again = history.play(Act.CHARGE, cap, at, KEY)
    assert again is not None
    assert again.refusal is None
    history.play(Act.REFUND_AGAIN, 0, refunded_at, KEY)
    other = history.play(Act.CHARGE, cap, later, KEY)
    assert other is not None
    assert (other.refusal is None) == (cap_day(later) != cap_day(at))


def hold_of(amount: int, day: date = DAY) -> Hold:
    reference = Reference("note", "9")
    return Hold(UUID(int=9), "note:9", TransferKind.NOTULEN_CHARGE, amount, reference, KEY, day)


# Up to the edge


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
    is_admitted = balance - held >= amount and (cap is None or spent + held_today + amount <= cap)
    assert is_sufficient(funds.available, usage.used, cap, amount) is is_admitted
    if balance - held < amount:
        with pytest.raises(InsufficientCredits) as refused:
            take(funds, usage, cap, hold_of(amount))
        assert refused.value.details == {"required": amount, "available": balance - held}
    elif not is_admitted:
        with pytest.raises(CreditCapExceeded) as capped:
            take(funds, usage, cap, hold_of(amount))
        assert capped.value.details["spent"] == spent + held_today
    else:
        reserved = take(funds, usage, cap, hold_of(amount))
        assert reserved.funds == evolve(funds, held=held + amount)
        assert reserved.usage == evolve(usage, held=held_today + amount)


@given(money.funds(ACCOUNT, 100), money.cap_usages(KEY, DAY), money.holds(KEY, DAY, 40))
def test_taking_and_releasing_leaves_no_trace(funds: Funds, usage: CapUsage, hold: Hold) -> None:
    if funds.available < hold.amount:
        with pytest.raises(InsufficientCredits):
            take(funds, usage, None, hold)
        return
    reserved = take(funds, usage, None, hold)
    assert reserved.funds.available == funds.available - hold.amount
    released = release(reserved.funds, reserved.usage, hold)
    assert (released.funds, released.usage) == (funds, usage)


def test_releasing_takes_the_low_mark_back() -> None:
    """Told while a hold was open; once it is gone the balance is above again, and may be told anew."""
    funds = top_up(open_account(ACCOUNT, 100), UUID(int=1), "INV-1", 150, MIDNIGHT).funds
    reserved = take(funds, CapUsage(KEY, DAY), None, hold_of(60))
    low = top_up(reserved.funds, UUID(int=2), "INV-2", 5, MIDNIGHT)
    assert (len(low.facts), low.funds.is_low) == (1, True)
    assert not release(low.funds, reserved.usage, hold_of(60)).funds.is_low
    assert not release(low.funds, reserved.usage, hold_of(5)).funds.is_low, "at the threshold it is good"
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
        take(after, CapUsage(KEY, DAY + timedelta(days=1)), None, hold_of(1, DAY + timedelta(days=1)))


def test_the_cap_error_names_the_next_midnight_in_wib_as_the_reset() -> None:
    usage = CapUsage(KEY, cap_day(MIDNIGHT - TICK), 6, 3)
    with pytest.raises(CreditCapExceeded) as refused:
        take(Funds(ACCOUNT, 100), usage, 10, hold_of(2, usage.day))
    details = {"cap": 10, "spent": 9, "required": 2, "resets_at": "2026-12-01T17:00:00Z"}
    assert refused.value.details == details
    assert cap_day_ends_at(cap_day(MIDNIGHT - TICK)) == MIDNIGHT


@given(hold=money.holds(KEY, DAY))
def test_a_hold_ends_once(hold: Hold) -> None:
    taken = take(Funds(ACCOUNT, 1_000), CapUsage(KEY, DAY), None, hold)
    released = release(taken.funds, taken.usage, hold)
    settled = settle(taken.funds, taken.usage, hold, hold.amount, UUID(int=2), MIDNIGHT)
    for funds, usage in ((released.funds, released.usage), (settled.posting.funds, settled.usage)):
        with pytest.raises(ValueError, match=r"^the hold was released or settled already$"):
            release(funds, usage, hold)
        with pytest.raises(ValueError, match=r"^the hold was released or settled already$"):
            settle(funds, usage, hold, hold.amount, UUID(int=3), MIDNIGHT)


@pytest.mark.parametrize("usage", [CapUsage(KEY, DAY, held=5), CapUsage(KEY, DAY, held=9)])
def test_a_hold_counted_only_at_the_account_or_only_at_the_key_is_not_open(usage: CapUsage) -> None:
    funds = Funds(ACCOUNT, 100, held=9 if usage.held == 5 else 5)
    with pytest.raises(ValueError, match=r"^the hold was released or settled already$"):
        release(funds, usage, hold_of(6))


@pytest.mark.spec("5/7")
@pytest.mark.parametrize(
    "usage", [CapUsage(KEY, DAY - timedelta(days=1), held=5), CapUsage(UUID(int=99), DAY, held=5)]
)
def test_the_usage_of_another_day_or_key_is_refused_because_it_would_bypass_the_cap(usage: CapUsage) -> None:
    funds, hold = Funds(ACCOUNT, 100, held=5), hold_of(5)
    for decide in (
        lambda: take(funds, usage, None, hold),
        lambda: release(funds, usage, hold),
        lambda: settle(funds, usage, hold, 5, UUID(int=2), MIDNIGHT),
    ):
        message = "another key than the spend" if usage.day == DAY else "2026-12-01, the spend of 2026-12-02"
        with pytest.raises(ValueError, match=f"^the usage is of {message}$"):
            decide()


def test_a_charge_takes_the_usage_of_its_own_day() -> None:
    usage = CapUsage(KEY, cap_day(MIDNIGHT - TICK))
    reference = Reference("meeting", "7")
    charge(Funds(ACCOUNT, 100), usage, None, UUID(int=2), "meeting:7", 5, reference, MIDNIGHT - TICK)
    with pytest.raises(ValueError, match="the usage is of"):
        charge(Funds(ACCOUNT, 100), usage, None, UUID(int=2), "meeting:7", 5, reference, MIDNIGHT)


CHARGED = charge(
    Funds(ACCOUNT, 100), CapUsage(KEY, DAY), 80, UUID(int=5), "order:1", 60, Reference("order", "1"), MIDNIGHT
)


def paid() -> Transfer:
    assert CHARGED.posting.entry is not None
    return CHARGED.posting.entry.transfer


def test_a_refund_gives_the_credits_and_the_cap_back_together() -> None:
    done = refund(CHARGED.posting.funds, CHARGED.usage, paid(), UUID(int=6), MIDNIGHT)
    assert done.posting == ledger.refund(CHARGED.posting.funds, paid(), UUID(int=6), MIDNIGHT)
    assert (done.posting.funds.balance, done.usage) == (100, CapUsage(KEY, DAY))
    assert done.posting.entry is not None
    again = refund(
        done.posting.funds, done.usage, paid(), UUID(int=7), MIDNIGHT, existing=done.posting.entry.transfer
    )
    assert (again.posting.entry, again.posting.funds, again.usage) == (None, done.posting.funds, done.usage)


@pytest.mark.parametrize(("usage", "changes", "problem"), [
    (CapUsage(UUID(int=99), DAY, 60), {}, "the usage is of another key than the spend"),
    (CapUsage(KEY, date(2026, 12, 1), 60), {}, f"the usage is of 2026-12-01, the spend of {DAY}"),
    (CapUsage(KEY, DAY, 59), {}, "less was spent on this day than is given back"),
    (CHARGED.usage, {"kind": TransferKind.NOTULEN_CHARGE}, "only a meeting's charge is refunded"),
    (CHARGED.usage, {"kind": TransferKind.TOPUP}, "only a meeting's charge is refunded"),
    (CapUsage(KEY, DAY, 60), {"api_key_id": None}, "the usage is of another key than the spend"),
    (CapUsage(KEY, DAY, 60), {"cap_day": None}, f"the usage is of {DAY}, the spend of None"),
])  # fmt: skip
def test_a_refund_that_does_not_belong_to_its_usage_is_refused(
    usage: CapUsage, changes: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(problem)}$"):
        refund(CHARGED.posting.funds, usage, evolve(paid(), **changes), UUID(int=6), MIDNIGHT)


@pytest.mark.parametrize("field", ["spent", "held"])
@pytest.mark.parametrize("value", [1.0, True, None])
def test_a_usage_is_in_whole_credits(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{field} must be a whole number$"):
        CapUsage(KEY, DAY, **{field: value})


@pytest.mark.spec("5/7")
@pytest.mark.parametrize("cap", [float("nan"), 20.0, True, "20"])
def test_a_cap_that_is_no_whole_number_admits_nothing(cap: Any) -> None:
    """No comparison with NaN is true, so that no spend would exceed it."""
    usage, reference = CapUsage(KEY, cap_day(MIDNIGHT)), Reference("meeting", "7")
    for admit in (
        lambda: take(FULL, usage, cap, hold_of(1)),
        lambda: charge(FULL, usage, cap, UUID(int=2), "meeting:7", 1, reference, MIDNIGHT),
    ):
        with pytest.raises(ValueError, match=r"^a daily cap is a whole number of credits$"):
            admit()


@pytest.mark.spec("5/7")
def test_an_instant_is_no_cap_day_because_each_would_have_a_cap_of_its_own() -> None:
    with pytest.raises(
        TypeError, match=r"^a cap counts for a day, and 2026-12-01 17:00:00\+00:00 is an instant$"
    ):
        take(FULL, CapUsage(KEY, MIDNIGHT), 20, hold_of(5, MIDNIGHT))


@pytest.mark.parametrize("amount", [-5, 0, True])
def test_a_hold_that_take_would_refuse_is_neither_released_nor_settled(amount: Any) -> None:
    funds, usage, hold = Funds(ACCOUNT, 100, held=5), CapUsage(KEY, DAY, held=5), hold_of(amount)
    with pytest.raises(ledger.InvalidAmount):
        release(funds, usage, hold)
    with pytest.raises(ledger.InvalidAmount):
        settle(funds, usage, hold, 5, UUID(int=2), MIDNIGHT)


class ShopKind(StrEnum):
    """The words of an embedder."""

    ORDER = "order"
    RETURN = "return"


def test_work_of_a_callers_own_kind_is_held_settled_and_given_back() -> None:
    usage = CapUsage(KEY, DAY)
    hold = Hold(UUID(int=3), "order:1", ShopKind.ORDER, 60, Reference("order", "1"), KEY, DAY)
    reserved = take(FULL, usage, None, hold)
    settled = settle(reserved.funds, reserved.usage, hold, 55, UUID(int=4), MIDNIGHT)
    assert settled.posting.entry is not None
    charged = settled.posting.entry.transfer
    assert (charged.kind, charged.source, charged.destination) == (ShopKind.ORDER, "customer", "order")
    with pytest.raises(ValueError, match=r"^only a meeting's charge is refunded$"):
        refund(settled.posting.funds, settled.usage, charged, UUID(int=5), MIDNIGHT)
    with pytest.raises(ValueError, match=r"^'topup' does not give 'order' back$"):
        refund(settled.posting.funds, settled.usage, charged, UUID(int=5), MIDNIGHT, kind=TransferKind.TOPUP)
    back = refund(settled.posting.funds, settled.usage, charged, UUID(int=5), MIDNIGHT, kind=ShopKind.RETURN)
    assert back.posting.entry is not None
    returned = back.posting.entry.transfer
    assert (returned.kind, returned.source, returned.destination) == (ShopKind.RETURN, "order", "customer")
    assert (back.posting.funds.balance, back.usage.used) == (FULL.balance, 0)


@pytest.mark.parametrize("kind", [TransferKind.TOPUP, TransferKind.MEETING_REFUND, TransferKind.ADJUSTMENT])
def test_what_is_no_charge_is_neither_held_nor_charged(kind: TransferKind) -> None:
    usage, about = CapUsage(KEY, DAY), Reference("order", "1")
    with pytest.raises(ValueError, match=r"is no kind of charge$"):
        take(FULL, usage, None, Hold(UUID(int=3), "order:1", kind, 60, about, KEY, DAY))
    with pytest.raises(ValueError, match=r"is no kind of charge$"):
        charge(FULL, usage, None, UUID(int=3), "order:1", 60, about, MIDNIGHT, kind)


def test_a_kind_that_would_blur_the_hashed_text_is_refused() -> None:
    class Blurred(StrEnum):
        KIND = "order\n9"

    with pytest.raises(ValueError, match=r"^the kind of a transfer is a word$"):
        charge(
            FULL, CapUsage(KEY, DAY), None, UUID(int=3), "order:1", 60, Reference("order", "1"), MIDNIGHT,
            Blurred.KIND,
        )  # fmt: skip


@pytest.mark.parametrize(("operation", "reference"), [
    ("", Reference("order", "1")),
    ("o" * 301, Reference("order", "1")),
    ("order:1", Reference("o" * 301, "1")),
    ("order:1", Reference("order", "1" * 301)),
])  # fmt: skip
def test_a_charge_that_no_row_could_hold_is_refused_before_the_work(
    operation: str, reference: Reference
) -> None:
    usage, hold = CapUsage(KEY, DAY), evolve(hold_of(60), operation=operation, reference=reference)
    problem = "^a transfer has an operation, and texts of at most 300 characters$"
    with pytest.raises(ValueError, match=problem):
        take(FULL, usage, None, hold)
    with pytest.raises(ValueError, match=problem):
        charge(FULL, usage, None, UUID(int=3), operation, 60, reference, MIDNIGHT)
    longest = evolve(hold, operation="o" * 300, reference=Reference("r" * 300, "i" * 300))
    assert take(FULL, usage, None, longest).funds.held == 60
