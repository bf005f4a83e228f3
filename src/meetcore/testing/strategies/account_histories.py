"""Histories of an account: one decision of the domain after another, in any order, at any instant.

A history has keys with a daily cap, one of them rolled from another, and a key without a cap; holds stay open
across other work; the instants lie around midnight in WIB. A refusal of the domain is a step too, without a
change. The module does the bookkeeping of a store between two decisions, and has no rule.
"""

from collections.abc import Mapping
from datetime import date, datetime
from enum import StrEnum
from itertools import chain
from typing import Any, Final, TypeAlias, TypeVar
from uuid import UUID

from attrs import define, evolve, field, frozen
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from meetcore.domain.errors import CreditCapExceeded, InsufficientCredits
from meetcore.domain.meetings.schedule import cap_day
from meetcore.domain.money import holds, ledger
from meetcore.domain.money.hash_chain import Entry
from meetcore.domain.money.holds import CapUsage, Hold
from meetcore.domain.money.ledger import CreditsFellLow, Funds, Posting, Reference, Transfer, TransferKind
from meetcore.testing.strategies.moments import near_midnight_wib

__all__ = [
    "ACCOUNT", "CAPS", "DAY", "FIRST_KEYS", "AccountHistory", "Act", "Refusal", "Slot", "Step",
    "account_histories",
]  # fmt: skip

ACCOUNT: Final = UUID("01930000-0000-7000-8000-000000000001")
"""The account of every history."""
DAY: Final = date(2028, 2, 28)
"""The WIB day around whose end a history takes place; the next day is a leap day."""
CAPS: Final[Mapping[UUID, int | None]] = {
    UUID(int=key): cap for key, cap in ((1, 80), (2, 25), (3, None), (4, 25))
}
"""The account's keys, and their daily caps."""
FIRST_KEYS: Final[Mapping[UUID, UUID]] = {UUID(int=4): UUID(int=2)}
"""The keys that were rolled from another, and share its cap."""

Slot: TypeAlias = tuple[UUID, date]
"""The first key of a cap, and a day."""
Refusal: TypeAlias = InsufficientCredits | CreditCapExceeded
"""The refusals of paid work."""

_Found = TypeVar("_Found")
_Result: TypeAlias = dict[str, Any] | None
_Decision: TypeAlias = tuple[tuple["Act", UUID], int, datetime]
_MAX_AMOUNT: Final = 60
_BURST: Final = 10


class Act(StrEnum):
    """The actions on an account. One that needs an earlier one takes any that fits."""

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


_OFTEN: Final = (Act.CHARGE, Act.HOLD, Act.HOLD, Act.SETTLE_FOR_MORE)  # other acts need these before them


@frozen
class Step:
    """One decision: the action, the state before it, and its result.

    `usage` is that of the affected cap and day after the step. `hold` was taken, settled or released. Without
    an entry and a refusal the operation is known to the ledger, or leaves no entry.
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


@define(repr=False)
class AccountHistory:
    """An account that takes decisions and records every step."""

    funds: Funds
    caps: Mapping[UUID, int | None] = CAPS
    steps: list[Step] = field(factory=list)
    usages: dict[Slot, CapUsage] = field(factory=dict)
    open_holds: list[Hold] = field(factory=list)
    _ids: int = field(default=100, init=False)

    def __repr__(self) -> str:
        steps = (
            f"{step.act} {step.amount} at {step.at:%dT%H:%M:%S.%f} "
            + (f"-> {step.after.available}" if step.refusal is None else f"refused ({step.refusal.code})")
            for step in self.steps
        )
        return f"<AccountHistory of {len(self.steps)} steps: {', '.join(steps)}>"

    @property
    def entries(self) -> list[Entry]:
        """The account's entries."""
        return [step.entry for step in self.steps if step.entry is not None]

    def transfers(self, kind: TransferKind) -> list[Transfer]:
        """List the transfers of a kind."""
        return [entry.transfer for entry in self.entries if entry.transfer.kind is kind]

    def usage(self, key: UUID, day: date) -> CapUsage:
        """Return the usage of a key's cap on a day."""
        first = FIRST_KEYS.get(key, key)
        return evolve(self.usages.get((first, day), CapUsage(first, day)), api_key_id=key)

    def new_id(self) -> UUID:
        """Return an unused id."""
        self._ids += 1
        return UUID(int=self._ids)

    def play(self, act: Act, amount: int, at: datetime, key: UUID) -> Step | None:
        """Take one decision and record it; return `None` where it does not apply.

        The credits of `amount` also pick the earlier act, and are the difference that a settlement charges.
        """
        before = self.funds
        try:
            result: _Result = getattr(self, f"_{act}")(amount, at, key)
        except (InsufficientCredits, CreditCapExceeded) as refusal:
            result = {"after": before, "refusal": refusal}
        if result is None:
            return None
        step = Step(act, amount, at, key, before, **result)
        self.funds = step.after
        self.steps.append(step)
        if step.usage is not None:
            self.usages[step.usage.cap_key_id, step.usage.day] = step.usage
        return step

    def _top_up(self, amount: int, at: datetime, _: UUID) -> _Result:
        id_ = self.new_id()
        return _posted(ledger.top_up(self.funds, id_, f"INV-{id_.int}", amount, at))

    def _top_up_again(self, pick: int, at: datetime, _: UUID) -> _Result:
        earlier = _one_of(self.transfers(TransferKind.TOPUP), pick)
        if earlier is None:
            return None
        name, amount = earlier.reference.id, earlier.amount
        return _posted(ledger.top_up(self.funds, self.new_id(), name, amount, at, earlier))

    def _give(self, amount: int, at: datetime, _: UUID) -> _Result:
        id_ = self.new_id()
        about = Reference("ticket", str(id_.int))
        return _posted(ledger.adjust(self.funds, id_, f"ticket:{id_.int}", amount, about, at))

    def _correct(self, amount: int, at: datetime, key: UUID) -> _Result:
        return self._give(-amount, at, key)

    def _charge(self, amount: int, at: datetime, key: UUID) -> _Result:
        id_, usage = self.new_id(), self.usage(key, cap_day(at))
        name, about = f"meeting:{id_.int}", Reference("meeting", str(id_.int))
        settled = holds.charge(self.funds, usage, self.caps[key], id_, name, amount, about, at)
        return _posted(settled.posting, usage=settled.usage)

    def _hold(self, amount: int, at: datetime, key: UUID) -> _Result:
        id_, day = self.new_id(), cap_day(at)
        kind = TransferKind.NOTULEN_CHARGE if amount % 2 else TransferKind.MEETING_CHARGE
        hold = Hold(id_, f"work:{id_.int}", kind, amount, Reference("work", str(id_.int)), key, day)
        reserved = holds.take(self.funds, self.usage(key, day), self.caps[key], hold)
        self.open_holds.append(hold)
        return {"after": reserved.funds, "usage": reserved.usage, "hold": hold}

    def _end_hold(self, pick: int) -> tuple[Hold, CapUsage] | None:
        hold = _one_of(self.open_holds, pick)
        if hold is None:
            return None
        self.open_holds.remove(hold)
        return hold, self.usage(hold.api_key_id, hold.cap_day)

    def _release(self, pick: int, at: datetime, _: UUID) -> _Result:
        if (ended := self._end_hold(pick)) is None:
            return None
        hold, usage = ended
        reserved = holds.release(self.funds, usage, hold)
        return {"after": reserved.funds, "usage": reserved.usage, "hold": hold}

    def _settle(self, pick: int, at: datetime, _: UUID, more: int = 0) -> _Result:
        if (ended := self._end_hold(pick)) is None:
            return None
        hold, usage = ended
        settled = holds.settle(self.funds, usage, hold, max(1, hold.amount + more), self.new_id(), at)
        return _posted(settled.posting, usage=settled.usage, hold=hold)

    def _settle_for_less(self, amount: int, at: datetime, key: UUID) -> _Result:
        return self._settle(amount, at, key, -amount)

    def _settle_for_more(self, amount: int, at: datetime, key: UUID) -> _Result:
        # Half of the time more than the account has, so that it owes.
        left = max(0, self.funds.available) if amount % 2 else 0
        return self._settle(amount, at, key, left + amount)

    def _refund(self, pick: int, at: datetime, _: UUID) -> _Result:
        charge = _one_of(self.transfers(TransferKind.MEETING_CHARGE), pick)
        if charge is None:
            return None
        name, refunds = ledger.refund_operation(charge), self.transfers(TransferKind.MEETING_REFUND)
        before = next((one for one in refunds if one.operation == name), None)
        assert charge.api_key_id is not None
        assert charge.cap_day is not None
        usage = self.usage(charge.api_key_id, charge.cap_day)
        done = holds.refund(self.funds, usage, charge, self.new_id(), at, before)
        return (
            _posted(done.posting) if done.posting.entry is None else _posted(done.posting, usage=done.usage)
        )

    def _refund_again(self, pick: int, at: datetime, _: UUID) -> _Result:
        before = _one_of(self.transfers(TransferKind.MEETING_REFUND), pick)
        if before is None:
            return None
        charges = self.transfers(TransferKind.MEETING_CHARGE)
        charge = next(charge for charge in charges if charge.id == before.reverses)
        return _posted(ledger.refund(self.funds, charge, self.new_id(), at, before))


def _one_of(found: list[_Found], pick: int) -> _Found | None:
    return found[pick % len(found)] if found else None


def _posted(posting: Posting, **more: Any) -> _Result:
    return {"after": posting.funds, "entry": posting.entry, "facts": posting.facts, **more}


def account_histories(
    max_steps: int = 60, min_entries: int = 1, caps: Mapping[UUID, int | None] = CAPS
) -> SearchStrategy[AccountHistory]:
    """Draw a history around the end of `DAY`; inapplicable decisions are left out.

    `min_entries` is the number of top-ups at the beginning; `caps` are the account's keys and daily caps.
    """
    moments, keys = near_midnight_wib(DAY), sorted(caps)
    acts = st.sampled_from([(act, key) for act in (*Act, *_OFTEN) for key in keys])
    decisions = st.tuples(acts, st.integers(1, _MAX_AMOUNT), moments)
    top_ups = st.tuples(st.just((Act.TOP_UP, keys[0])), st.integers(1, 2 * _MAX_AMOUNT), moments)
    # A list of lists is longer on average than one list, and shrinks as well.
    bursts = st.lists(st.lists(decisions, max_size=_BURST), max_size=max_steps // _BURST)

    def played(drawn: tuple[int, list[_Decision], list[list[_Decision]]]) -> AccountHistory:
        threshold, first, later = drawn
        history = AccountHistory(ledger.open_account(ACCOUNT, threshold), caps)
        for (act, key), amount, at in chain(first, *later):
            history.play(act, amount, at, key)
        return history

    opening = st.lists(top_ups, min_size=min_entries, max_size=min_entries + 2)
    return st.tuples(st.sampled_from([0, 30, 60]), opening, bursts).map(played)
