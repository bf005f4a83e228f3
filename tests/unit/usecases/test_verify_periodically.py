"""Verifying the ledger a little at a time: it goes on where it was left, and its result is reported once."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, cast

import pytest
import structlog
from attrs import evolve
from structlog.testing import capture_logs

from meetcore.composition import operation_logs
from meetcore.composition.application import build
from meetcore.composition.policy import Policy
from meetcore.ports.lease import Lease
from meetcore.ports.ledger_verification import VerificationRun
from meetcore.ports.store import StoreReadOnly
from meetcore.testing.clock import SeededEntropy
from meetcore.testing.contracts.store_rig import Tampering
from meetcore.testing.contracts.transactions import new_id, open_customer
from meetcore.testing.memory_rig import MemoryRig
from meetcore.usecases.runtime import Runtime
from meetcore.usecases.verify_by_hand import VerifyByHand
from meetcore.usecases.verify_ledger import VerifyLedger
from meetcore.usecases.verify_periodically import FINDINGS_KEPT, LEASE_S, VerifyPeriodically
from tests.unit.usecases.application import ApplicationHarness

DAY_S = 86_400.0


def task(rig: MemoryRig, reported: list[VerificationRun], **changes: Any) -> VerifyPeriodically:
    """A task of one process; each slice is one account."""
    runtime = Runtime(rig.clock, SeededEntropy(3))
    made = VerifyPeriodically(
        VerifyLedger(rig.audit), rig.verification_log, runtime, DAY_S, reported.append, slice_s=0.0
    )
    return evolve(made, **changes)


async def test_slices_of_several_processes_make_one_run() -> None:
    rig, reported = MemoryRig(), list[VerificationRun]()
    for _ in range(3):
        await open_customer(rig, 10)
    for slices in range(3):
        assert reported == [], slices
        assert await task(rig, reported)() is False
    await task(rig, reported)()
    [run] = reported
    assert (run.accounts, run.entries, run.findings) == (3, 3, ())
    assert (await rig.figures.read()).ledger_verified_at == rig.now()


async def test_the_next_run_begins_after_the_period() -> None:
    rig, reported = MemoryRig(), list[VerificationRun]()
    await task(rig, reported)()
    for _ in range(3):
        await task(rig, reported)()
    assert len(reported) == 1
    rig.clock.advance(DAY_S)
    await task(rig, reported)()
    assert len(reported) == 2


async def test_a_slice_takes_what_fits_into_its_time() -> None:
    rig, reported = MemoryRig(), list[VerificationRun]()
    for _ in range(5):
        await open_customer(rig, 10)
    await task(rig, reported, slice_s=1.0)()
    assert [run.accounts for run in reported] == [5]


async def test_what_is_wrong_is_found_in_any_slice_and_shows_before_the_end() -> None:
    rig, reported = MemoryRig(), list[VerificationRun]()
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


async def test_the_first_findings_are_kept() -> None:
    rig, reported = MemoryRig(), list[VerificationRun]()
    for _ in range(FINDINGS_KEPT + 3):
        customer = await open_customer(rig, 10)
        await rig.tamper(customer.account_id, 1, Tampering.BALANCE)
    await task(rig, reported, slice_s=1.0)()
    assert len(reported[0].findings) == FINDINGS_KEPT


async def test_a_run_whose_lease_was_lost_reports_nothing() -> None:
    rig, reported = MemoryRig(), list[VerificationRun]()
    await open_customer(rig, 10)
    lost = await rig.verification_log.claim(Lease(new_id(), LEASE_S), rig.now())
    assert lost is not None
    rig.clock.advance(LEASE_S + 1)
    await task(rig, reported, slice_s=1.0)()
    assert not await rig.verification_log.finish(lost, rig.now(), DAY_S)
    assert len(reported) == 1


class _SlowAudit:
    """A ledger whose snapshot takes until the lease that its reading is under was renewed so many times."""

    def __init__(self, rig: MemoryRig, log: "_CountingLog", renewals: int) -> None:
        self._rig, self._log, self._renewals = rig, log, renewals

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Any]:
        async with self._rig.audit.snapshot() as snapshot:
            await asyncio.wait_for(self._log.renewed(self._renewals), 5)
            yield snapshot


class _CountingLog:
    """A log that passes time at each renewal, and counts them."""

    def __init__(self, rig: MemoryRig) -> None:
        self._rig, self._count, self._changed = rig, 0, asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rig.verification_log, name)

    async def renew(self, run: VerificationRun, seconds: float) -> bool:
        is_ours = await self._rig.verification_log.renew(run, seconds)
        self._rig.clock.advance(seconds / 2)
        self._count += 1
        self._changed.set()
        return is_ours

    async def renewed(self, times: int) -> None:
        while self._count < times:
            self._changed.clear()
            await self._changed.wait()


async def test_a_slice_that_takes_longer_than_its_lease_keeps_it_and_gets_on() -> None:
    rig, reported = MemoryRig(), list[VerificationRun]()
    await open_customer(rig, 10)
    log = _CountingLog(rig)
    verify = VerifyLedger(cast(Any, _SlowAudit(rig, log, renewals=5)))
    await task(rig, reported, verify=verify, log=log, slice_s=1.0, lease_s=0.03)()
    [run] = reported
    assert (run.accounts, run.findings) == (1, ())


async def test_a_slice_whose_lease_was_lost_ends_without_a_result() -> None:
    rig, reported = MemoryRig(), list[VerificationRun]()
    await open_customer(rig, 10)
    log = _CountingLog(rig)
    verify = VerifyLedger(cast(Any, _SlowAudit(rig, log, renewals=10_000)))
    slow = asyncio.create_task(task(rig, reported, verify=verify, log=log, lease_s=0.03)())
    await log.renewed(1)
    rig.clock.advance(60)
    assert await rig.verification_log.claim(Lease(new_id(), 3600.0), rig.now()) is not None
    assert await slow is False
    assert reported == []


@pytest.mark.parametrize("is_sound", [True, False])
async def test_a_verification_by_hand_is_kept(is_sound: bool) -> None:
    rig = MemoryRig()
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


def by_hand(rig: MemoryRig, audit: Any = None) -> VerifyByHand:
    runtime = Runtime(rig.clock, SeededEntropy(5))
    return VerifyByHand(VerifyLedger(audit or rig.audit), rig.verification_log, runtime)


class _ChangedMeanwhile:
    """A ledger of which something is found between the snapshot of a verification and its end."""

    def __init__(self, rig: MemoryRig, meanwhile: Callable[[], Awaitable[object]]) -> None:
        self._rig, self._meanwhile = rig, meanwhile

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Any]:
        async with self._rig.audit.snapshot() as snapshot:
            await self._meanwhile()
            yield snapshot


async def test_a_verification_by_hand_does_not_hide_what_a_run_finds_meanwhile() -> None:
    rig, reported = MemoryRig(), list[VerificationRun]()
    customer = await open_customer(rig, 10)

    async def meanwhile() -> None:
        rig.clock.advance(1)
        await rig.tamper(customer.account_id, 1, Tampering.BALANCE)
        await task(rig, reported)()

    assert (await by_hand(rig, _ChangedMeanwhile(rig, meanwhile))()).is_sound
    assert not (await rig.figures.read()).ledger_is_sound


async def test_a_verification_by_hand_ends_the_alert_on_what_was_repaired() -> None:
    """A slice that began before is in progress, too."""
    rig = MemoryRig()
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


async def test_a_store_that_takes_no_writes_is_verified_by_hand() -> None:
    class ReadOnlyLog:
        async def end_unsound_run(self, at: datetime) -> None:
            raise StoreReadOnly("the database takes no writes")

        async def keep_result(self, at: datetime, *, is_sound: bool) -> None:
            raise StoreReadOnly("the database takes no writes")

    rig = MemoryRig()
    log = cast(Any, ReadOnlyLog())
    verify = VerifyByHand(VerifyLedger(rig.audit), log, Runtime(rig.clock, SeededEntropy(3)))
    assert (await verify()).is_sound


async def test_the_result_is_one_line(monkeypatch: Any) -> None:
    monkeypatch.setattr(operation_logs, "log", structlog.get_logger("meetcore.worker"))
    rig = MemoryRig()
    customer = await open_customer(rig, 10)
    report = operation_logs.LOGGED.verified_ledger
    with capture_logs() as lines:
        await task(rig, [], report=report, slice_s=1.0)()
        await rig.tamper(customer.account_id, 1, Tampering.BALANCE)
        rig.clock.advance(DAY_S)
        await task(rig, [], report=report, slice_s=1.0)()
    sound, unsound = lines
    assert (sound["event"], sound["log_level"], sound["is_sound"]) == ("ledger verified", "info", True)
    assert (unsound["log_level"], unsound["is_sound"], len(unsound["findings"])) == ("error", False, 1)
