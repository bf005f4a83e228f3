"""Verification of the ledger: whole, in slices of a run, and by hand."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, cast

import pytest
import structlog
from attrs import define, evolve

from meetcore.composition import observability
from meetcore.composition.application import build
from meetcore.composition.policy import Policy
from meetcore.domain.money.hash_chain import CanonicalEntry
from meetcore.domain.money.views import Flaw, FlawKind, StoredFunds, VerificationRun
from meetcore.ports.money import LedgerSnapshot
from meetcore.ports.runtime import Lease
from meetcore.ports.store import StoreReadOnly, StoreUnavailable
from meetcore.testing.clock import SeededEntropy
from meetcore.usecases.money.verify_ledger import (
    FINDINGS_KEPT,
    LEASE_S,
    MAX_FINDINGS,
    Audit,
    PortionVerifier,
    VerifyByHand,
    VerifyLedger,
    VerifyPeriodically,
    VerifyPortion,
)
from meetcore.usecases.runtime import Runtime
from tests.support.kept_log import capture_own_logs
from tests.support.postgres_rig import PostgresRig, Tampering
from tests.support.transactions import new_id, open_customer
from tests.unit.usecases.application import ApplicationHarness


@pytest.fixture(autouse=True)
def _one_account_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each portion be one account."""
    monkeypatch.setattr("meetcore.adapters.postgres.money.verification.ENTRIES_OF_A_PORTION", 0)


class _Snapshot:
    """A snapshot of a store in which one thing happens; all else is the store's."""

    def __init__(self, snapshot: LedgerSnapshot) -> None:
        self._snapshot = snapshot

    def __getattr__(self, name: str) -> Any:
        return getattr(self._snapshot, name)


@define
class _Audit:
    """A ledger whose snapshots are `of` those of a store; `meanwhile` runs between one and its use."""

    rig: PostgresRig
    of: Callable[[LedgerSnapshot], Any] = lambda snapshot: snapshot
    meanwhile: Callable[[], Awaitable[object]] | None = None

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[LedgerSnapshot]:
        async with self.rig.audit.snapshot() as snapshot:
            if self.meanwhile is not None:
                await self.meanwhile()
            yield self.of(snapshot)


async def test_a_store_that_becomes_unavailable_leaves_nothing_running(rig: PostgresRig) -> None:
    await open_customer(rig, 5)
    left: list[str] = []

    class Slow(_Snapshot):
        """Cannot read its entries while it looks for flaws."""

        async def entries(
            self, portion: Sequence[StoredFunds]
        ) -> AsyncGenerator[Sequence[CanonicalEntry], None]:
            await asyncio.sleep(0)
            if portion:
                raise StoreUnavailable("gone")
            yield []

        async def flaws(self) -> Sequence[Flaw]:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                left.append("cancelled")
                raise
            return []

    with pytest.raises(StoreUnavailable):
        await VerifyLedger(cast(Any, _Audit(rig, Slow)))()
    assert left == ["cancelled"]


async def test_the_first_hundred_findings_are_kept(rig: PostgresRig) -> None:
    class Bad(_Snapshot):
        async def flaws(self) -> Sequence[Flaw]:
            return [
                Flaw(new_id(), FlawKind.UNBALANCED, f"transfer {number}", number) for number in range(500)
            ]

    audit = await VerifyLedger(cast(Any, _Audit(rig, Bad)))()
    assert [finding.number for finding in audit.findings] == list(range(MAX_FINDINGS))
    assert not audit.is_sound


async def test_findings_are_reported_in_account_order_whichever_verifier_finishes_first(
    rig: PostgresRig,
) -> None:
    tampered = sorted([(await open_customer(rig, 5)).account_id for _ in range(MAX_FINDINGS + 20)])
    for account_id in tampered:
        await rig.tamper(account_id, 0, Tampering.BALANCE)
    others_are_done = asyncio.Event()
    proven: list[int] = []

    @asynccontextmanager
    async def two(snapshot: LedgerSnapshot, entries: int) -> AsyncIterator[Sequence[PortionVerifier]]:
        prove = VerifyPortion(snapshot)

        async def slow(portion: Sequence[StoredFunds], on_entries: Callable[[int], None]) -> Audit:
            """Takes the first portion and holds it until every other is proven."""
            await others_are_done.wait()
            return await prove(portion, on_entries)

        async def quick(portion: Sequence[StoredFunds], on_entries: Callable[[int], None]) -> Audit:
            proven.append(len(proven))
            if len(proven) == entries - 1:
                others_are_done.set()
            return await prove(portion, on_entries)

        yield [slow, quick]

    progress: list[int] = []
    audit = await VerifyLedger(rig.audit)(lambda done, total: progress.append(done), two)
    assert [finding.account_id for finding in audit.findings] == tampered[:MAX_FINDINGS]
    assert audit == await VerifyLedger(rig.audit)()
    assert progress == [*range(1, len(tampered) + 1), len(tampered)]


async def test_a_verifier_that_fails_ends_the_others(rig: PostgresRig) -> None:
    for _ in range(3):
        await open_customer(rig, 5)
    left: list[str] = []

    @asynccontextmanager
    async def two(snapshot: LedgerSnapshot, entries: int) -> AsyncIterator[Sequence[PortionVerifier]]:
        async def waiting(portion: Sequence[StoredFunds], on_entries: Callable[[int], None]) -> Audit:
            try:
                await asyncio.Event().wait()
            finally:
                left.append("waiting")
            raise AssertionError

        async def failing(portion: Sequence[StoredFunds], on_entries: Callable[[int], None]) -> Audit:
            raise StoreUnavailable("gone")

        yield [waiting, failing]
        left.append("not reached: an error passes through here")

    with pytest.raises(StoreUnavailable):
        await VerifyLedger(rig.audit)(verifiers=two)
    assert left == ["waiting"]


DAY_S = 86_400.0


def task(rig: PostgresRig, reported: list[VerificationRun], **changes: Any) -> VerifyPeriodically:
    """A task of one process; each slice is one account."""
    runtime = Runtime(rig.clock, SeededEntropy(3))
    made = VerifyPeriodically(
        VerifyLedger(rig.audit), rig.verification_log, runtime, DAY_S, reported.append, slice_s=0.0
    )
    return evolve(made, **changes)


async def test_slices_of_several_processes_make_one_run(rig: PostgresRig) -> None:
    reported = list[VerificationRun]()
    for _ in range(3):
        await open_customer(rig, 10)
    for slices in range(3):
        assert reported == [], slices
        assert await task(rig, reported)() is False
    await task(rig, reported)()
    [run] = reported
    assert (run.accounts, run.entries, run.findings) == (3, 3, ())
    assert (await rig.figures.read()).ledger_verified_at == rig.now()


async def test_the_next_run_begins_after_the_period(rig: PostgresRig) -> None:
    reported = list[VerificationRun]()
    await task(rig, reported)()
    for _ in range(3):
        await task(rig, reported)()
    assert len(reported) == 1
    rig.clock.advance(DAY_S)
    await task(rig, reported)()
    assert len(reported) == 2


async def test_a_slice_takes_what_fits_into_its_time(rig: PostgresRig) -> None:
    reported = list[VerificationRun]()
    for _ in range(5):
        await open_customer(rig, 10)
    await task(rig, reported, slice_s=1.0)()
    assert [run.accounts for run in reported] == [5]


async def test_what_is_wrong_is_found_in_any_slice_and_shows_before_the_end(rig: PostgresRig) -> None:
    reported = list[VerificationRun]()
    first, second, _ = [await open_customer(rig, 10) for _ in range(3)]
    await rig.tamper(first.account_id, 1, Tampering.BALANCE)
    await rig.tamper(second.account_id, 1, Tampering.AMOUNT)
    await task(rig, reported)()
    assert not (await rig.figures.read()).ledger_is_sound
    for _ in range(3):
        await task(rig, reported)()
    [run] = reported
    assert [str(first.account_id) in each for each in run.findings] == [True, False]
    whole = await VerifyLedger(rig.audit)()
    assert list(run.findings) == [str(each) for each in whole.findings]


async def test_the_first_findings_are_kept(rig: PostgresRig) -> None:
    reported = list[VerificationRun]()
    for _ in range(FINDINGS_KEPT + 3):
        customer = await open_customer(rig, 10)
        await rig.tamper(customer.account_id, 1, Tampering.BALANCE)
    await task(rig, reported, slice_s=1.0)()
    assert len(reported[0].findings) == FINDINGS_KEPT


async def test_a_run_whose_lease_was_lost_reports_nothing(rig: PostgresRig) -> None:
    reported = list[VerificationRun]()
    await open_customer(rig, 10)
    lost = await rig.verification_log.claim(Lease(new_id(), LEASE_S), rig.now())
    assert lost is not None
    rig.clock.advance(LEASE_S + 1)
    await task(rig, reported, slice_s=1.0)()
    assert not await rig.verification_log.finish(lost, rig.now(), DAY_S)
    assert len(reported) == 1


class _CountingLog:
    """A log that passes time at each renewal, and counts them; they wait while it is held."""

    def __init__(self, rig: PostgresRig) -> None:
        self._rig, self._count, self._changed = rig, 0, asyncio.Event()
        self.goes_on = asyncio.Event()
        self.goes_on.set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rig.verification_log, name)

    async def renew(self, run: VerificationRun, seconds: float) -> bool:
        await self.goes_on.wait()
        is_ours = await self._rig.verification_log.renew(run, seconds)
        self._rig.clock.advance(seconds / 2)
        self._count += 1
        self._changed.set()
        return is_ours

    async def renewed(self, times: int) -> None:
        while self._count < times:
            self._changed.clear()
            await self._changed.wait()


async def test_a_slice_that_takes_longer_than_its_lease_keeps_it_and_gets_on(rig: PostgresRig) -> None:
    reported = list[VerificationRun]()
    await open_customer(rig, 10)
    log = _CountingLog(rig)
    verify = VerifyLedger(cast(Any, _Audit(rig, meanwhile=lambda: asyncio.wait_for(log.renewed(5), 60))))
    # Each renewal passes time: however many there are, the slice has not yet taken its own.
    await task(rig, reported, verify=verify, log=log, slice_s=3600.0, lease_s=0.03)()
    [run] = reported
    assert (run.accounts, run.findings) == (1, ())


async def test_a_slice_whose_lease_was_lost_ends_without_a_result(rig: PostgresRig) -> None:
    reported = list[VerificationRun]()
    await open_customer(rig, 10)
    log = _CountingLog(rig)
    verify = VerifyLedger(cast(Any, _Audit(rig, meanwhile=asyncio.Event().wait)))
    slow = asyncio.create_task(task(rig, reported, verify=verify, log=log, lease_s=0.03)())
    await log.renewed(1)
    log.goes_on.clear()
    rig.clock.advance(60)
    assert await rig.verification_log.claim(Lease(new_id(), 3600.0), rig.now()) is not None
    log.goes_on.set()
    assert await slow is False
    assert reported == []


@pytest.mark.parametrize("is_sound", [True, False])
async def test_a_verification_by_hand_is_kept(rig: PostgresRig, is_sound: bool) -> None:
    customer = await open_customer(rig, 10)
    if not is_sound:
        await rig.tamper(customer.account_id, 1, Tampering.BALANCE)
    ports = evolve(
        ApplicationHarness().process().ports, clock=rig.clock, store=rig.store, audit=rig.audit,
        verification_log=rig.verification_log,
    )  # fmt: skip
    assert (await build(ports, Policy()).verify_ledger()).is_sound is is_sound
    found = await rig.figures.read()
    assert (found.ledger_verified_at, found.ledger_is_sound) == (rig.now(), is_sound)


def by_hand(rig: PostgresRig, audit: Any = None) -> VerifyByHand:
    runtime = Runtime(rig.clock, SeededEntropy(5))
    return VerifyByHand(VerifyLedger(audit or rig.audit), rig.verification_log, runtime)


async def test_a_verification_by_hand_does_not_hide_what_a_run_finds_meanwhile(rig: PostgresRig) -> None:
    reported = list[VerificationRun]()
    customer = await open_customer(rig, 10)

    async def meanwhile() -> None:
        rig.clock.advance(1)
        await rig.tamper(customer.account_id, 1, Tampering.BALANCE)
        await task(rig, reported)()

    assert (await by_hand(rig, _Audit(rig, meanwhile=meanwhile))()).is_sound
    assert not (await rig.figures.read()).ledger_is_sound


async def test_a_verification_by_hand_ends_the_alert_on_what_was_repaired(rig: PostgresRig) -> None:
    """A slice that began before is in progress, too."""
    await open_customer(rig, 10)
    log = rig.verification_log
    found = await log.claim(Lease(new_id(), LEASE_S), rig.now())
    assert found is not None
    assert await log.save(evolve(found, findings=("a finding",)), 0.0)
    in_progress = await log.claim(Lease(new_id(), LEASE_S), rig.now())
    assert in_progress is not None
    rig.clock.advance(1)
    assert (await by_hand(rig)()).is_sound
    assert (await rig.figures.read()).ledger_is_sound
    assert not await log.save(in_progress, 0.0)
    assert not await log.finish(in_progress, rig.now(), DAY_S)
    assert (await rig.figures.read()).ledger_is_sound


async def test_a_store_that_takes_no_writes_is_verified_by_hand(rig: PostgresRig) -> None:
    class ReadOnlyLog:
        async def end_unsound_run(self, at: datetime) -> None:
            raise StoreReadOnly("the database takes no writes")

        async def keep_result(self, at: datetime, *, is_sound: bool) -> None:
            raise StoreReadOnly("the database takes no writes")

    log = cast(Any, ReadOnlyLog())
    verify = VerifyByHand(VerifyLedger(rig.audit), log, Runtime(rig.clock, SeededEntropy(3)))
    assert (await verify()).is_sound


async def test_the_result_is_one_line(rig: PostgresRig, monkeypatch: Any) -> None:
    monkeypatch.setattr(observability, "log", structlog.get_logger("meetcore.worker"))
    customer = await open_customer(rig, 10)
    report = observability.LOGGED.verified_ledger
    with capture_own_logs() as lines:
        await task(rig, [], report=report, slice_s=1.0)()
        await rig.tamper(customer.account_id, 1, Tampering.BALANCE)
        rig.clock.advance(DAY_S)
        await task(rig, [], report=report, slice_s=1.0)()
    # A busy machine adds lines of slow calls of the store.
    sound, unsound = [each for each in lines if each["event"] == "ledger verified"]
    assert (sound["log_level"], sound["is_sound"]) == ("info", True)
    assert (unsound["log_level"], unsound["is_sound"], len(unsound["findings"])) == ("error", False, 1)
