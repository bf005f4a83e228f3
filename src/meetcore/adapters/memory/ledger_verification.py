"""How far the periodic verification of the ledger is, in memory."""

from datetime import datetime, timedelta

from attrs import evolve

from meetcore.adapters.memory.state import MemoryState, StoredVerification, Tables
from meetcore.ports.clock import Clock
from meetcore.ports.lease import Lease
from meetcore.ports.ledger_verification import VerificationRun


class MemoryVerificationLog:
    """Keeps one run, and what came of the last one."""

    def __init__(self, state: MemoryState, clock: Clock) -> None:
        self._state = state
        self._clock = clock

    async def claim(self, lease: Lease, at: datetime) -> VerificationRun | None:
        now = self._clock.now()
        async with self._state.change() as tables:
            stored = tables.verification.get(True, StoredVerification())
            if stored.due_at is not None and stored.due_at > now:
                return None
            run = evolve(stored.run or VerificationRun(lease.token, at), token=lease.token)
            due_at = now + timedelta(seconds=lease.seconds)
            tables.verification[True] = evolve(stored, run=run, due_at=due_at)
        return run

    async def renew(self, run: VerificationRun, seconds: float) -> bool:
        due_at = self._clock.now() + timedelta(seconds=seconds)
        async with self._state.change() as tables:
            stored = _claimed(tables, run)
            if stored is not None:
                tables.verification[True] = evolve(stored, due_at=due_at)
        return stored is not None

    async def save(self, run: VerificationRun, wait_s: float) -> bool:
        async with self._state.change() as tables:
            stored = _claimed(tables, run)
            if stored is not None:
                tables.verification[True] = evolve(
                    stored,
                    run=run,
                    due_at=self._clock.now() + timedelta(seconds=wait_s),
                    is_sound=stored.is_sound and not run.findings,
                )
        return stored is not None

    async def finish(self, run: VerificationRun, at: datetime, next_s: float) -> bool:
        due_at = self._clock.now() + timedelta(seconds=next_s)
        async with self._state.change() as tables:
            stored = _claimed(tables, run)
            if stored is not None:
                over = evolve(stored, run=None, due_at=due_at)
                if run.findings or _is_latest(stored, run.started_at):
                    over = evolve(over, verified_at=at, is_sound=not run.findings)
                tables.verification[True] = over
        return stored is not None

    async def end_unsound_run(self, at: datetime) -> None:
        async with self._state.change() as tables:
            stored = tables.verification.get(True)
            if stored is not None and stored.run is not None and stored.run.findings:
                tables.verification[True] = StoredVerification(
                    None, self._clock.now(), max(stored.verified_at or at, at), is_sound=False
                )

    async def keep_result(self, at: datetime, *, is_sound: bool) -> None:
        async with self._state.change() as tables:
            stored = tables.verification.get(True, StoredVerification())
            has_findings = stored.run is not None and bool(stored.run.findings)
            if not is_sound or (not has_findings and _is_latest(stored, at)):
                verified_at = max(stored.verified_at or at, at)
                tables.verification[True] = evolve(stored, verified_at=verified_at, is_sound=is_sound)


def _is_latest(stored: StoredVerification, at: datetime) -> bool:
    """Whether there is no result of a later instant."""
    return stored.verified_at is None or stored.verified_at <= at


def _claimed(tables: Tables, run: VerificationRun) -> StoredVerification | None:
    stored = tables.verification.get(True)
    if stored is None or stored.run is None or stored.run.token != run.token:
        return None
    return stored
