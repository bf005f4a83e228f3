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
            is_ours = _claimed(tables, run) is not None
            if is_ours:
                tables.verification[True] = StoredVerification(None, due_at, at, not run.findings)
        return is_ours

    async def keep_result(self, at: datetime, *, is_sound: bool) -> None:
        async with self._state.change() as tables:
            stored = tables.verification.get(True, StoredVerification())
            if stored.verified_at is None or stored.verified_at <= at:
                tables.verification[True] = evolve(stored, verified_at=at, is_sound=is_sound)


def _claimed(tables: Tables, run: VerificationRun) -> StoredVerification | None:
    stored = tables.verification.get(True)
    if stored is None or stored.run is None or stored.run.token != run.token:
        return None
    return stored
