"""Verifying the whole ledger at once, on an operator's behalf, and keeping the result where alerts see it."""

from collections.abc import Callable
from contextlib import suppress

from attrs import frozen

from meetcore.ports.ledger_verification import VerificationLog
from meetcore.ports.store import StoreUnavailable
from meetcore.usecases.runtime import Runtime
from meetcore.usecases.verify_ledger import Audit, Verifiers, VerifyLedger


@frozen
class VerifyByHand:
    """Verifies the ledger and keeps the result in the log, as of the beginning.

    A periodic run that is in progress goes on; one that has findings begins anew, because what it found may
    be repaired. A store that takes no writes, such as a standby, is verified without.
    """

    verify: VerifyLedger
    log: VerificationLog | None
    runtime: Runtime

    async def __call__(
        self,
        on_progress: Callable[[int, int], None] = lambda done, total: None,
        verifiers: Verifiers | None = None,
    ) -> Audit:
        """Verify the ledger; see `VerifyLedger`.

        Raises:
            StoreUnavailable: the store does not answer.
        """
        start = self.runtime.now()
        if self.log is not None:
            with suppress(StoreUnavailable):
                await self.log.end_unsound_run(start)
        audit = await self.verify(on_progress, verifiers)
        if self.log is not None:
            with suppress(StoreUnavailable):
                await self.log.keep_result(start, is_sound=audit.is_sound)
        return audit
