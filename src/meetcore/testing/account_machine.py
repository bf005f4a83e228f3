"""A stateful machine that runs one account against several stores and compares them after each step.

Top-ups, gifts, holds, settlements, cancellations with their refunds, the daily cap round midnight
WIB and over rolled keys, endpoints that are registered, paused, resumed, rotated, failed and
disabled: Hypothesis draws the play. After every step each store must have answered alike and keep
the same records, and the books of each must be right by themselves. Put a store that is proven
first and yours beside it::

    def test_my_store_behaves_as_the_memory_store_does():
        with asyncio.Runner() as runner:

            class Play(AccountMachine):
                def __init__(self):
                    super().__init__(runner.run, {"memory": MemoryRig(), "mine": MyRig()})

            run_state_machine_as_test(Play)
"""

import itertools
import os
from collections import defaultdict
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Protocol, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from meetcore.domain.errors import DomainError
from meetcore.domain.meetings.schedule import cap_day
from meetcore.domain.money.ledger import Entry, Funds, TransferKind, first_broken
from meetcore.domain.webhooks.endpoints import DISABLE_AFTER_FAILURES
from meetcore.domain.webhooks.events import EventKind
from meetcore.ports.ledger_totals import DayTotal
from meetcore.testing.contracts.store_rig import StoreRig
from meetcore.testing.store_driver import DAILY_CAP, Snapshot, StoreDriver, refused

__all__ = ["AccountMachine", "Run"]

T = TypeVar("T")

# Where no play of this process and of no other has begun: stores that keep accounts keep them apart by it.
_SEEDS = itertools.count(int.from_bytes(os.urandom(8), "big"))

which = st.integers(0, 4)
credits_ = st.integers(1, 45)
URLS = tuple(f"https://hooks.example/{name}" for name in "abc")
SUBSCRIBABLE = (EventKind.CREDIT_TOPUP_SUCCEEDED, EventKind.MEETING_CREATED, EventKind.CREDIT_LOW)


class Run(Protocol):
    """Runs a coroutine to its end, always on the same event loop: `asyncio.Runner().run`."""

    def __call__(self, coro: Coroutine[Any, Any, T], /) -> T:
        """Return what the coroutine returns."""


class AccountMachine(RuleBasedStateMachine):
    """One account on every store at once.

    Args:
        run: runs each step; the stores' connections must belong to its loop.
        rigs: the stores by a name for the report. Each is emptied of hosts, meetings and deliveries when a
            run begins, so it must not be shared meanwhile.
    """

    def __init__(self, run: Run, rigs: Mapping[str, StoreRig]) -> None:
        super().__init__()
        self._run = run
        seed = next(_SEEDS)
        self._drivers = {name: StoreDriver(rig, seed) for name, rig in rigs.items()}
        self._first = next(iter(self._drivers.values()))
        self._failures = itertools.count()

    # Actions

    @initialize(opening=st.integers(0, 120))
    def open(self, opening: int) -> None:
        """Open the account, with credits or without, and an endpoint subscribed to everything."""
        self._play(lambda driver: driver.open())
        self._play(lambda driver: driver.register(URLS[0], SUBSCRIBABLE))
        if opening:
            self._play(lambda driver: driver.top_up(opening, "opening"))

    @rule(amount=credits_, reference=st.sampled_from(("INV-1", "INV-2", "INV-3", "INV-4")))
    def top_up(self, amount: int, reference: str) -> None:
        """Pay in; a reference that was paid before changes nothing or is a conflict."""
        self._play(lambda driver: driver.top_up(amount, reference))

    @rule(amount=st.integers(-30, 30).filter(bool))
    def adjust(self, amount: int) -> None:
        """Give or take by hand."""
        self._play(lambda driver: driver.adjust(amount))

    @rule(key=which, credits=credits_, slot=st.integers(0, 2))
    def hold(self, key: int, credits: int, slot: int) -> None:
        """Reserve, within balance, cap and hosts."""
        self._play(lambda driver: driver.hold(key, credits, slot))

    @rule(key=which, credits=credits_, slot=st.integers(0, 2))
    def create(self, key: int, credits: int, slot: int) -> None:
        """Reserve and settle: a meeting as it is mostly made."""
        before = len(self._first.made)
        self._play(lambda driver: driver.hold(key, credits, slot))
        if len(self._first.made) > before:
            self._play(lambda driver: driver.settle(before))

    @rule(key=which, overlap_h=st.sampled_from((0, 1, 24)))
    def roll(self, key: int, overlap_h: int) -> None:
        """Roll a key; one that is revoked or expired is refused."""
        self._play(lambda driver: driver.roll(key, overlap_h))

    @precondition(lambda self: self._first.made)
    @rule(which=which)
    def settle(self, which: int) -> None:
        """Charge what was held."""
        self._play(lambda driver: driver.settle(which))

    @precondition(lambda self: self._first.made)
    @rule(which=which)
    def release(self, which: int) -> None:
        """Give a hold back."""
        self._play(lambda driver: driver.release(which))

    @precondition(lambda self: self._first.made)
    @rule(which=which, is_unavailable=st.booleans())
    def cancel(self, which: int, is_unavailable: bool) -> None:
        """Cancel with the refund of the whole charge, or fail to."""
        self._play(lambda driver: driver.cancel(which, is_unavailable=is_unavailable))

    @rule(seconds=st.sampled_from((-60, 30, 119, 3_600, 86_400)))
    def let_time_pass(self, seconds: int) -> None:
        """Move the clock, over midnight WIB and back."""
        self._play(lambda driver: driver.advance(seconds))

    @rule(url=st.sampled_from(URLS), kinds=st.lists(st.sampled_from(SUBSCRIBABLE), min_size=1, unique=True))
    def register(self, url: str, kinds: list[EventKind]) -> None:
        """Register an endpoint; the same URL again is a conflict."""
        self._play(lambda driver: driver.register(url, kinds))

    @rule(which=which, is_active=st.booleans())
    def pause_or_resume(self, which: int, is_active: bool) -> None:
        """Pause or resume an endpoint: its deliveries wait or become due."""
        self._play(lambda driver: driver.set_active(which, is_active=is_active))

    @rule(which=which)
    def rotate(self, which: int) -> None:
        """Rotate a secret: what waits is signed with the new one."""
        self._play(lambda driver: driver.rotate(which))

    @rule(status_code=st.sampled_from((200, 500, 500, 410)))
    def deliver(self, status_code: int) -> None:
        """Post all that is due."""
        self._play(lambda driver: driver.deliver(status_code))

    @rule()
    def fail_until_disabled(self) -> None:
        """Fail as often in a row as an endpoint bears."""
        for _ in range(DISABLE_AFTER_FAILURES):
            reference = f"FAIL-{next(self._failures)}"
            _, is_due = self._play(partial(StoreDriver.top_up, amount=1, reference=reference))
            if not is_due:
                break  # no delivery is due: no endpoint is active
            self._play(lambda driver: driver.deliver(500))

    @rule()
    def sweep(self) -> None:
        """Look for what was held."""
        self._play(lambda driver: driver.sweep())

    # Judgement

    def _play(self, action: Callable[[StoreDriver], Coroutine[Any, Any, Any]]) -> Any:
        results = {name: self._run(_result_of(action(driver))) for name, driver in self._drivers.items()}
        self._compare("answered", results)
        left = {name: self._run(driver.snapshot()) for name, driver in self._drivers.items()}
        for name, snapshot in left.items():
            self._prove(name, snapshot)
        for subject in next(iter(left.values())):
            self._compare(subject, {name: snapshot[subject] for name, snapshot in left.items()})
        return next(iter(results.values()))

    def _compare(self, subject: str, results: Mapping[str, object]) -> None:
        (first, expected), *others = results.items()
        for name, found in others:
            assert found == expected, f"{subject}: {name} is not as {first}"

    def _prove(self, name: str, snapshot: Snapshot) -> None:
        funds, entries, legs, held = (snapshot[part] for part in ("funds", "entries", "legs", "holds"))
        assert isinstance(funds, Funds)
        assert isinstance(entries, list)
        assert isinstance(legs, list)
        assert isinstance(held, list)
        assert first_broken(funds.account_id, entries) is None, f"{name}: the chain is broken"
        assert funds.balance == sum(entry.amount for entry in entries), f"{name}: no fold of its entries"
        assert sum(amount for _, amount in legs) == 0, f"{name}: credits were made or lost"
        assert snapshot["totals"] == _day_totals(entries), f"{name}: the totals are not those of its entries"
        assert funds.held == sum(held), f"{name}: held is not the sum of the holds"
        assert _refunds_once(entries), f"{name}: a charge was refunded twice"
        assert funds.available >= 0, f"{name}: spent what was not there"
        usage = snapshot["usage"]
        assert isinstance(usage, list)
        capped = [each.used for each in usage if each.cap_key_id == usage[0].api_key_id]
        assert len(set(capped)) == 1, f"{name}: rolled keys see one usage"
        assert capped[0] <= DAILY_CAP, f"{name}: the cap was passed"


async def _result_of(action: Coroutine[Any, Any, object]) -> object:
    try:
        return await action
    except DomainError as error:
        return refused(error)


def _day_totals(entries: list[Entry]) -> list[DayTotal]:
    by_day = defaultdict(list)
    for entry in entries:
        by_day[cap_day(entry.at), entry.transfer.kind].append(entry.amount)
    return [DayTotal(day, kind, sum(found), len(found)) for (day, kind), found in sorted(by_day.items())]


def _refunds_once(entries: list[Entry]) -> bool:
    reversed_ = [
        entry.transfer.reverses for entry in entries if entry.transfer.kind is TransferKind.MEETING_REFUND
    ]
    return len(set(reversed_)) == len(reversed_)
