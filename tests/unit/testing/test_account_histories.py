"""Account histories cover what the rules are about: a property without its case proves nothing."""

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import Phase, given, settings

from meetcore.domain.errors import CreditCapExceeded, InsufficientCredits
from meetcore.testing.strategies.account_histories import (
    ACCOUNT,
    CAPS,
    AccountHistory,
    Act,
    account_histories,
)

SITUATIONS: dict[str, Callable[[AccountHistory], bool]] = {
    "a charge that lacks credits": lambda history: refused(history, Act.CHARGE, InsufficientCredits),
    "a charge that passes its cap": lambda history: refused(history, Act.CHARGE, CreditCapExceeded),
    "a hold that lacks credits": lambda history: refused(history, Act.HOLD, InsufficientCredits),
    "a hold that passes its cap": lambda history: refused(history, Act.HOLD, CreditCapExceeded),
    "a settlement below zero": lambda history: any(
        step.after.available < 0 for step in history.steps if step.act is Act.SETTLE_FOR_MORE
    ),
    "paid work while the account owes": lambda history: any(
        step.before.available < 0 for step in history.steps if step.act in (Act.CHARGE, Act.HOLD)
    ),
    "two holds open at once": lambda history: any(
        step.act is Act.HOLD and step.refusal is None and step.before.held > 0 for step in history.steps
    ),
    "one key spending on two days": lambda history: any(
        sum(usage.spent > 0 for slot, usage in history.usages.items() if slot[0] == key) > 1 for key in CAPS
    ),
    "a settlement on another day than its hold": lambda history: any(
        step.hold is not None and step.entry is not None and step.at.date() != step.hold.cap_day
        for step in history.steps
    ),
    "credit.low notified twice": lambda history: sum(len(step.facts) for step in history.steps) > 1,
    "a clock that goes back": lambda history: any(
        step.entry is not None and step.entry.at > step.at for step in history.steps
    ),
    "twenty decisions": lambda history: len(history.steps) >= 20,
}


def refused(history: AccountHistory, act: Act, refusal: type[Exception]) -> bool:
    return any(step.act is act and isinstance(step.refusal, refusal) for step in history.steps)


@pytest.fixture(scope="module")
def met() -> Counter[str]:
    """Count in how many of three hundred histories each situation occurred, and each action was accepted."""
    counted: Counter[str] = Counter()

    @settings(max_examples=300, phases=[Phase.generate], derandomize=True, database=None)
    @given(account_histories())
    def look(history: AccountHistory) -> None:
        counted.update(name for name, holds in SITUATIONS.items() if holds(history))
        counted.update({step.act.value for step in history.steps if step.refusal is None})

    look()
    return counted


@pytest.mark.parametrize("name", [*SITUATIONS, *Act])
def test_histories_cover_what_the_rules_are_about(name: str, met: Counter[str]) -> None:
    assert met[name] >= 3


@given(account_histories())
def test_a_history_is_of_one_account_and_begins_with_a_top_up(history: AccountHistory) -> None:
    assert history.funds.account_id == ACCOUNT
    assert history.steps[0].act is Act.TOP_UP
    assert (history.steps[0].before.entries, history.funds) == (0, history.steps[-1].after)
