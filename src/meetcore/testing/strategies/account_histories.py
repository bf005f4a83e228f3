"""The life of an account: one decision of the domain after another, in any order, at any instant.

::

    @given(account_histories())
    def test_my_ledger_agrees(life: AccountHistory) -> None:
        for step in life.steps:
            my_books.write(step.entry)
        assert my_books.balance() == life.funds.balance

A life has keys with a daily cap, one of them rolled from another, and one without a cap; holds stay open
across other work; the clock jumps about midnight in WIB. What the domain refuses is a step too, and
changes nothing. Owns the bookkeeping that a store would do between two decisions, and no rule.
"""

from collections.abc import Mapping
from datetime import date, datetime
from enum import StrEnum
from itertools import chain
from typing import Final, TypeAlias, TypeVar
from uuid import UUID

from attrs import define, evolve, field, frozen
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from meetcore.domain.errors import CreditCapExceeded, InsufficientCredits
from meetcore.domain.meetings.schedule import cap_day
from meetcore.domain.money import holds
from meetcore.domain.money.hash_chain import Entry
from meetcore.domain.money.holds import CapUsage, Hold, Reserved
from meetcore.domain.money.ledger import (
    CreditsFellLow,
    Funds,
    Posting,
    adjust,
    open_account,
    refund,
    refund_operation,
    top_up,
)
from meetcore.domain.money.transfers import Reference, Transfer, TransferKind
from meetcore.testing.strategies.moments import near_midnight_wib

__all__ = [
    "ACCOUNT",
    "CAPS",
    "DAY",
    "FIRST_KEYS",
    "AccountHistory",
    "Act",
    "Refusal",
    "Slot",
    "Step",
    "account_histories",
]

ACCOUNT: Final = UUID("01930000-0000-7000-8000-000000000001")
"""The account whose life it is."""
DAY: Final = date(2028, 2, 28)
"""The WIB day around whose end a history takes place: the next one is a leap day."""
CAPS: Final[Mapping[UUID, int | None]] = {
    UUID(int=1): 80,
    UUID(int=2): 25,
    UUID(int=3): None,
    UUID(int=4): 25,
}
"""The account's keys, and what each may spend on a day."""
FIRST_KEYS: Final[Mapping[UUID, UUID]] = {UUID(int=4): UUID(int=2)}
"""The keys that were rolled from another, whose cap they share."""

Slot: TypeAlias = tuple[UUID, date]
"""A key that a cap is counted under, and a day."""
Refusal: TypeAlias = InsufficientCredits | CreditCapExceeded
"""The two ways in which paid work is not admitted."""

_Found = TypeVar("_Found")
_Decision: TypeAlias = tuple[tuple["Act", UUID], int, datetime]
_MAX_AMOUNT: Final = 60
_BURST: Final = 10


class Act(StrEnum):
    """What can happen to an account. What needs an earlier act takes any one that fits."""

    TOP_UP = "top_up"
    TOP_UP_AGAIN = "top_up_again"
    GIVE = "give"
    CORRECT = "correct"
    CHARGE = "charge"
    HOLD = "hold"
    SETTLE = "settle"
    SETTLE_FOR_LESS = "settle_for_less"
    SETTLE_FOR_MORE = "settle_for_more"
    RELEASE = "release"
    REFUND = "refund"
    REFUND_AGAIN = "refund_again"


_OFTEN: Final = (Act.CHARGE, Act.HOLD, Act.HOLD, Act.SETTLE_FOR_MORE)  # what other acts need before them


@frozen
class Step:
    """One decision: what was asked, the state that it met, and what came of it.

    `usage` is that of the cap and day it counts for, afterwards; none where no cap is touched. `hold` was
    taken, settled or released. Without an entry and a refusal the operation was in the ledger already,
    or it was one that leaves no entry.
    """

    act: Act
    amount: int
    at: datetime
    key: UUID
    before: Funds
    after: Funds
    usage: CapUsage | None = None
    hold: Hold | None = None
    entry: Entry | None = None
    facts: tuple[CreditsFellLow, ...] = ()
    refusal: Refusal | None = None


@frozen
class _StepInput:
    """The input of one action that becomes a step."""

    act: Act
    amount: int
    at: datetime
    key: UUID
    before: Funds

    def one_of(self, found: list[_Found]) -> _Found | None:
        return found[self.amount % len(found)] if found else None

    def posted(self, posting: Posting, usage: CapUsage | None = None, hold: Hold | None = None) -> Step:
        inputs = (self.act, self.amount, self.at, self.key, self.before)
        return Step(*inputs, posting.funds, usage, hold, posting.entry, posting.facts)

    def reserved(self, reserved: Reserved, hold: Hold) -> Step:
        inputs = (self.act, self.amount, self.at, self.key, self.before)
        return Step(*inputs, reserved.funds, reserved.usage, hold)

    def refused(self, refusal: Refusal) -> Step:
        inputs = (self.act, self.amount, self.at, self.key, self.before)
        return Step(*inputs, self.before, refusal=refusal)


@define(repr=False)
class AccountHistory:
    """An account that takes one decision after another and records every step."""

    funds: Funds
    caps: Mapping[UUID, int | None] = CAPS
    steps: list[Step] = field(factory=list)
    usages: dict[Slot, CapUsage] = field(factory=dict)
    open_holds: list[Hold] = field(factory=list)
    _ids: int = field(default=100, init=False)

    def __repr__(self) -> str:
        """What was asked and what became of the available balance, in a few words for each step."""
        steps = (
            f"{step.act} {step.amount} at {step.at:%dT%H:%M:%S.%f} "
            + (f"-> {step.after.available}" if step.refusal is None else f"refused ({step.refusal.code})")
            for step in self.steps
        )
        return f"<Life of {len(self.steps)} steps: {', '.join(steps)}>"

    @property
    def entries(self) -> list[Entry]:
        """The account's history."""
        return [step.entry for step in self.steps if step.entry is not None]

    def transfers(self, kind: TransferKind) -> list[Transfer]:
        """The transfers of a kind, in the order of the history."""
        return [entry.transfer for entry in self.entries if entry.transfer.kind is kind]

    def usage(self, key: UUID, day: date) -> CapUsage:
        """The usage of the key's cap on the day."""
        first = FIRST_KEYS.get(key, key)
        return evolve(self.usages.get((first, day), CapUsage(first, day)), api_key_id=key)

    def new_id(self) -> UUID:
        """An id that this life has not used."""
        self._ids += 1
        return UUID(int=self._ids)

    def play(self, act: Act, amount: int, at: datetime, key: UUID) -> Step | None:
        """Take one decision and record it; return `None` where it does not apply.

        Args:
            amount: credits; for an act that needs an earlier one, which of those it takes, and how much more
                or less a settlement charges than was held.
        """
        inputs = _StepInput(act, amount, at, key, self.funds)
        try:
            step: Step | None = getattr(self, f"_{act}")(inputs)
        except (InsufficientCredits, CreditCapExceeded) as refusal:
            step = inputs.refused(refusal)
        if step is not None:
            self.funds = step.after
            self.steps.append(step)
            if step.usage is not None:
                self.usages[step.usage.cap_key_id, step.usage.day] = step.usage
        return step

    def _top_up(self, inputs: _StepInput) -> Step:
        id_ = self.new_id()
        return inputs.posted(top_up(self.funds, id_, f"INV-{id_.int}", inputs.amount, inputs.at))

    def _top_up_again(self, inputs: _StepInput) -> Step | None:
        earlier = inputs.one_of(self.transfers(TransferKind.TOPUP))
        if earlier is None:
            return None
        name, amount = earlier.reference.id, earlier.amount
        return inputs.posted(top_up(self.funds, self.new_id(), name, amount, inputs.at, earlier))

    def _give(self, inputs: _StepInput, sign: int = 1) -> Step:
        id_ = self.new_id()
        reference = Reference("ticket", str(id_.int))
        return inputs.posted(
            adjust(self.funds, id_, f"ticket:{id_.int}", sign * inputs.amount, reference, inputs.at)
        )

    def _correct(self, inputs: _StepInput) -> Step:
        return self._give(inputs, -1)

    def _charge(self, inputs: _StepInput) -> Step:
        id_, usage = self.new_id(), self.usage(inputs.key, cap_day(inputs.at))
        settled = holds.charge(
            self.funds, usage, self.caps[inputs.key], id_, f"meeting:{id_.int}", inputs.amount,
            Reference("meeting", str(id_.int)), inputs.at,
        )  # fmt: skip
        return inputs.posted(settled.posting, settled.usage)

    def _hold(self, inputs: _StepInput) -> Step:
        id_, day = self.new_id(), cap_day(inputs.at)
        kind = TransferKind.NOTULEN_CHARGE if inputs.amount % 2 else TransferKind.MEETING_CHARGE
        reference = Reference("work", str(id_.int))
        hold = Hold(id_, f"work:{id_.int}", kind, inputs.amount, reference, inputs.key, day)
        reserved = holds.take(self.funds, self.usage(inputs.key, day), self.caps[inputs.key], hold)
        self.open_holds.append(hold)
        return inputs.reserved(reserved, hold)

    def _release(self, inputs: _StepInput) -> Step | None:
        hold = inputs.one_of(self.open_holds)
        if hold is None:
            return None
        self.open_holds.remove(hold)
        usage = self.usage(hold.api_key_id, hold.cap_day)
        return inputs.reserved(holds.release(self.funds, usage, hold), hold)

    def _settle(self, inputs: _StepInput, more: int = 0) -> Step | None:
        hold = inputs.one_of(self.open_holds)
        if hold is None:
            return None
        self.open_holds.remove(hold)
        amount = max(1, hold.amount + more)
        usage = self.usage(hold.api_key_id, hold.cap_day)
        settled = holds.settle(self.funds, usage, hold, amount, self.new_id(), inputs.at)
        return inputs.posted(settled.posting, settled.usage, hold)

    def _settle_for_less(self, inputs: _StepInput) -> Step | None:
        return self._settle(inputs, -inputs.amount)

    def _settle_for_more(self, inputs: _StepInput) -> Step | None:
        # Half of the time by more than the account has left, so that it owes.
        left = max(0, self.funds.available) if inputs.amount % 2 else 0
        return self._settle(inputs, left + inputs.amount)

    def _refund(self, inputs: _StepInput) -> Step | None:
        charge = inputs.one_of(self.transfers(TransferKind.MEETING_CHARGE))
        if charge is None:
            return None
        name, refunds = refund_operation(charge), self.transfers(TransferKind.MEETING_REFUND)
        before = next((one for one in refunds if one.operation == name), None)
        posting = refund(self.funds, charge, self.new_id(), inputs.at, before)
        if posting.entry is None:
            return inputs.posted(posting)
        assert charge.api_key_id is not None
        assert charge.cap_day is not None
        usage = self.usage(charge.api_key_id, charge.cap_day)
        return inputs.posted(posting, holds.refund_usage(usage, charge.amount))

    def _refund_again(self, inputs: _StepInput) -> Step | None:
        before = inputs.one_of(self.transfers(TransferKind.MEETING_REFUND))
        if before is None:
            return None
        charges = self.transfers(TransferKind.MEETING_CHARGE)
        charge = next(charge for charge in charges if charge.id == before.reverses)
        return inputs.posted(refund(self.funds, charge, self.new_id(), inputs.at, before))


def account_histories(
    max_steps: int = 60, min_entries: int = 1, caps: Mapping[UUID, int | None] = CAPS
) -> SearchStrategy[AccountHistory]:
    """Histories of an account around the end of `DAY`.

    Args:
        max_steps: decisions after the first top-ups, at most; some find nothing to do and are left out.
        min_entries: top-ups that every life begins with, so that its history has as many entries.
        caps: the account's keys, and what each may spend on a day.
    """
    moments, keys = near_midnight_wib(DAY), sorted(caps)
    acts = st.sampled_from([(act, key) for act in (*Act, *_OFTEN) for key in keys])
    decisions = st.tuples(acts, st.integers(1, _MAX_AMOUNT), moments)
    top_ups = st.tuples(st.just((Act.TOP_UP, keys[0])), st.integers(1, 2 * _MAX_AMOUNT), moments)
    # A list of lists is longer on the average than one list, and gets as short when it is made simple.
    bursts = st.lists(st.lists(decisions, max_size=_BURST), max_size=max_steps // _BURST)

    def played(drawn: tuple[int, list[_Decision], list[list[_Decision]]]) -> AccountHistory:
        threshold, first, later = drawn
        history = AccountHistory(open_account(ACCOUNT, threshold), caps)
        for (act, key), amount, at in chain(first, *later):
            history.play(act, amount, at, key)
        return history

    opening = st.lists(top_ups, min_size=min_entries, max_size=min_entries + 2)
    return st.tuples(st.sampled_from([0, 30, 60]), opening, bursts).map(played)
