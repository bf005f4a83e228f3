"""Holds and the daily cap, in any interleaving of work, round midnight in WIB."""

from collections import Counter
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from attrs import evolve, frozen
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from meetcore.domain import holds
from meetcore.domain.errors import CreditCapExceeded, InsufficientCredits
from meetcore.domain.holds import CapUsage, Hold, refund_usage, release, settle, take
from meetcore.domain.ledger import (
    Book,
    Entry,
    Funds,
    Posting,
    Reference,
    Transfer,
    TransferKind,
    first_broken,
    legs,
    open_account,
    refund,
    refund_operation,
    top_up,
)
from meetcore.domain.schedule import cap_day, cap_day_ends_at

ACCOUNT = UUID("01930000-0000-7000-8000-000000000001")
CAPS = {UUID(int=1): 50, UUID(int=2): 0, UUID(int=3): None}
KEY = UUID(int=1)
MIDNIGHT = datetime(2026, 12, 1, 17, tzinfo=UTC)  # 00:00 WIB of 2 December
DAY = date(2026, 12, 2)
TICK = timedelta(microseconds=1)

amounts = st.integers(1, 40)
keys = st.sampled_from(sorted(CAPS, key=lambda key: key.int))
near_midnight = st.one_of(
    st.sampled_from([-TICK, timedelta(0), TICK]),
    st.timedeltas(min_value=timedelta(days=-2), max_value=timedelta(days=2)),
).map(lambda delta: MIDNIGHT + delta)


@frozen
class Charged:
    """A charge, and what its settlement took beyond the hold."""

    transfer: Transfer
    excess: int


class Bank(RuleBasedStateMachine):
    """One account, three keys, a clock that jumps; beside it the plain sums that must come out."""

    open_holds: Bundle[Hold] = Bundle("open_holds")
    charges: Bundle[Charged] = Bundle("charges")

    @initialize(threshold=st.sampled_from([0, 20, 60]), credits=st.integers(1, 200))
    def open(self, threshold: int, credits: int) -> None:
        self.ids = 100
        self.funds = open_account(ACCOUNT, threshold)
        self.usages: dict[tuple[UUID, date], CapUsage] = {}
        self.history: list[Entry] = []
        self.held: Counter[tuple[UUID, date]] = Counter()
        self.spent: Counter[tuple[UUID, date]] = Counter()
        self.excess = 0
        self.excess_of: Counter[tuple[UUID, date]] = Counter()
        self.is_armed = threshold == 0
        self.top_up(credits, MIDNIGHT)

    def new_id(self) -> UUID:
        self.ids += 1
        return UUID(int=self.ids)

    def usage(self, key: UUID, day: date) -> CapUsage:
        return self.usages.get((key, day), CapUsage(key, day))

    def keep(self, funds: Funds, usage: CapUsage | None) -> None:
        self.funds = funds
        if usage is not None:
            self.usages[usage.api_key_id, usage.day] = usage
        self.is_armed |= funds.available >= funds.low_threshold

    def book(self, posting: Posting, usage: CapUsage | None) -> None:
        assert posting.entry is not None
        self.history.append(posting.entry)
        is_below = posting.funds.available < posting.funds.low_threshold
        assert bool(posting.facts) == (is_below and self.is_armed)
        self.is_armed &= not posting.facts
        self.keep(posting.funds, usage)

    def is_admitted(self, key: UUID, day: date, amount: int) -> bool:
        cap, used = CAPS[key], self.spent[key, day] + self.held[key, day]
        return amount <= self.funds.available and (cap is None or used + amount <= cap)

    @rule(amount=amounts, at=near_midnight)
    def top_up(self, amount: int, at: datetime) -> None:
        id_ = self.new_id()
        self.book(top_up(self.funds, id_, f"INV-{id_.int}", amount, at), None)

    @rule(target=open_holds, key=keys, amount=amounts, at=near_midnight)
    def take(self, key: UUID, amount: int, at: datetime) -> Any:
        id_, day, usage = self.new_id(), cap_day(at), self.usage(key, cap_day(at))
        kind, reference = TransferKind.NOTULEN_CHARGE, Reference("note", str(id_.int))
        hold = Hold(id_, f"note:{id_.int}", kind, amount, reference, key, day)
        if not self.is_admitted(key, day, amount):
            with pytest.raises((InsufficientCredits, CreditCapExceeded)):
                take(self.funds, usage, CAPS[key], hold)
            return st.nothing() if False else _none()
        reserved = take(self.funds, usage, CAPS[key], hold)
        self.held[key, day] += amount
        self.keep(reserved.funds, reserved.usage)
        return hold
