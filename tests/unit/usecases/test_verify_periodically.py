"""Verifying the ledger a little at a time: it goes on where it was left, and its result is reported once."""

from typing import Any

import structlog
from attrs import evolve
from structlog.testing import capture_logs

from meetcore.composition import operation_logs
from meetcore.ports.lease import Lease
from meetcore.ports.ledger_verification import VerificationRun
from meetcore.testing.clock import SeededEntropy
from meetcore.testing.contracts.store_rig import Tampering
from meetcore.testing.contracts.transactions import new_id, open_customer
from meetcore.testing.memory_rig import MemoryRig
from meetcore.usecases.runtime import Runtime
from meetcore.usecases.verify_ledger import VerifyLedger
from meetcore.usecases.verify_periodically import FINDINGS_KEPT, LEASE_S, VerifyPeriodically

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
