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
    "a charge that lacks credits": lambda life: refused(life, Act.CHARGE, InsufficientCredits),
    "a charge that passes its cap": lambda life: refused(life, Act.CHARGE, CreditCapExceeded),
    "a hold that lacks credits": lambda life: refused(life, Act.HOLD, InsufficientCredits),
    "a hold that passes its cap": lambda life: refused(life, Act.HOLD, CreditCapExceeded),
    "a settlement below zero": lambda life: any(
        step.after.available < 0 for step in life.steps if step.act is Act.SETTLE_FOR_MORE
    ),
    "paid work while the account owes": lambda life: any(
        step.before.available < 0 for step in life.steps if step.act in (Act.CHARGE, Act.HOLD)
    ),
    "two holds open at once": lambda life: any(
        step.act is Act.HOLD and step.refusal is None and step.before.held > 0 for step in life.steps
    ),
    "one key spending on two days": lambda life: any(
        sum(usage.spent > 0 for slot, usage in life.usages.items() if slot[0] == key) > 1 for key in CAPS
    ),
    "a settlement on another day than its hold": lambda life: any(
        step.hold is not None and step.entry is not None and step.at.date() != step.hold.cap_day
        for step in life.steps
    ),
    "credit.low told twice": lambda life: sum(len(step.facts) for step in life.steps) > 1,
    "a clock that goes back": lambda life: any(
        step.entry is not None and step.entry.at > step.at for step in life.steps
    ),
    "twenty decisions": lambda life: len(life.steps) >= 20,
}


def refused(life: AccountHistory, act: Act, refusal: type[Exception]) -> bool:
    return any(step.act is act and isinstance(step.refusal, refusal) for step in life.steps)


@pytest.fixture(scope="module")
def met() -> Counter[str]:
    """Count in how many of three hundred histories each situation occurred, and each action was accepted."""
    counted: Counter[str] = Counter()

    @settings(max_examples=300, phases=[Phase.generate], derandomize=True, database=None)
    @given(account_histories())
    def look(life: AccountHistory) -> None:
        counted.update(name for name, holds in SITUATIONS.items() if holds(life))
        counted.update({step.act.value for step in life.steps if step.refusal is None})

    look()
    return counted


@pytest.mark.parametrize("name", [*SITUATIONS, *Act])
def test_histories_cover_what_the_rules_are_about(name: str, met: Counter[str]) -> None:
    assert met[name] >= 3


@given(account_histories())
def test_a_history_is_of_one_account_and_begins_with_a_top_up(life: AccountHistory) -> None:
    assert life.funds.account_id == ACCOUNT
    assert life.steps[0].act is Act.TOP_UP
    assert life.steps[0].before.entries == 0
    assert life.funds == life.steps[-1].after
