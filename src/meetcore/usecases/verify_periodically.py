"""Verifying the whole ledger again and again, a little at a time, beside other work.

A slice reads one snapshot for about a second, so that no transaction stays open for long, and what was
verified is kept: another worker goes on where one ended. Each account is verified at one moment. Owns the
slices; what is verified is `verify_ledger`'s.
"""

from collections.abc import Callable, Iterable
from contextlib import aclosing
from functools import partial
from uuid import UUID

from attrs import evolve, frozen

from meetcore.domain.money.chain_keys import secrets_of
from meetcore.ports.audit import LedgerSnapshot
from meetcore.ports.lease import Lease
from meetcore.ports.ledger_verification import VerificationLog, VerificationRun
from meetcore.usecases.lease import LeaseLost, with_heartbeat
from meetcore.usecases.runtime import Runtime
from meetcore.usecases.verify_ledger import VerifyLedger, VerifyPortion, finding_of

FINDINGS_KEPT = 20
LEASE_S = 60.0
"""How long the run of a dead worker waits. The lease is renewed: a long history takes longer than it."""


def _ignore(_: VerificationRun) -> None:
    return None


@frozen
class VerifyPeriodically:
    """Verifies a slice of the ledger. `report` is called with each run that is over.

    A run begins `every_s` after the end of the one before. A slice ends with the portion that it was at after
    `slice_s`. The claim on a run lasts `lease_s` and is renewed three times in it.
    """

    verify: VerifyLedger
    log: VerificationLog
    runtime: Runtime
    every_s: float
    report: Callable[[VerificationRun], object] = _ignore
    slice_s: float = 1.0
    lease_s: float = LEASE_S

    async def __call__(self) -> bool:
        """Verify the next slice, if a run is due; false, as nothing else is due by it."""
        start = self.runtime.now()
        claimed = await self.log.claim(Lease(self.runtime.new_id(start), self.lease_s), start)
        if claimed is None:
            return False
        renew = partial(self.log.renew, claimed, self.lease_s)
        try:
            run, is_over = await with_heartbeat(self._slice(claimed), renew, self.lease_s / 3)
        except LeaseLost:
            return False
        if not is_over:
            await self.log.save(run, 0.0)
        elif await self.log.finish(run, self.runtime.now(), self.every_s):
            self.report(run)
        return False

    async def _slice(self, run: VerificationRun) -> tuple[VerificationRun, bool]:
        async with self.verify.audit.snapshot() as snapshot:
            return await self._verify_slice(snapshot, run)

    async def _verify_slice(
        self, snapshot: LedgerSnapshot, run: VerificationRun
    ) -> tuple[VerificationRun, bool]:
        """Verify portions until the time is over; the second value is whether the end was reached."""
        start, prove = self.runtime.now(), VerifyPortion(snapshot, secrets_of(self.verify.keys))
        async with aclosing(snapshot.accounts(run.after_account)) as portions:
            async for portion in portions:
                proven = await prove(portion, lambda _: None)
                last = portion[-1].funds.account_id
                run = evolve(
                    run,
                    accounts=run.accounts + proven.accounts,
                    entries=run.entries + proven.entries,
                    findings=_with(run.findings, map(str, proven.findings)),
                )
                run = evolve(await self._with_flaws(snapshot, run, last), after_account=last)
                if (self.runtime.now() - start).total_seconds() >= self.slice_s:
                    return run, False
        # What belongs to no account that is there is behind the last one.
        return await self._with_flaws(snapshot, run, None), True

    async def _with_flaws(
        self, snapshot: LedgerSnapshot, run: VerificationRun, last: UUID | None
    ) -> VerificationRun:
        flaws = await snapshot.flaws_of_span(run.after_account, last)
        return evolve(run, findings=_with(run.findings, (str(finding_of(each)) for each in flaws)))


def _with(findings: tuple[str, ...], more: Iterable[str]) -> tuple[str, ...]:
    return (*findings, *more)[:FINDINGS_KEPT]
