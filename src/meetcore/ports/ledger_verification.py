"""How far the periodic verification of the ledger is, kept where every worker finds it."""

from datetime import datetime
from typing import Protocol
from uuid import UUID

from attrs import field, frozen

from meetcore.ports.lease import Lease

__all__ = ["VerificationLog", "VerificationRun"]


@frozen
class VerificationRun:
    """A run over the whole ledger that is in progress, under the caller's lease.

    The accounts up to `after_account` are verified; `None` at the beginning. `accounts` and `entries` count
    them. `findings` are the first ones, as texts.
    """

    token: UUID = field(repr=False)
    started_at: datetime
    after_account: UUID | None = None
    accounts: int = 0
    entries: int = 0
    findings: tuple[str, ...] = ()


class VerificationLog(Protocol):
    """Keeps one run, and what came of the last one."""

    async def claim(self, lease: Lease, at: datetime) -> VerificationRun | None:
        """Take the run that is due, a new one beginning at the given instant; `None` where none is due.

        Raises:
            StoreUnavailable: the store does not answer.
        """

    async def renew(self, run: VerificationRun, seconds: float) -> bool:
        """Keep the claim on a run for so many seconds from now; false when the lease is lost.

        Raises:
            StoreUnavailable: the store does not answer.
        """

    async def save(self, run: VerificationRun, wait_s: float) -> bool:
        """Keep how far a run is, and let it go on after so many seconds; false when the lease is lost.

        From the first finding on the ledger counts as unsound.

        Raises:
            StoreUnavailable: the store does not answer.
        """

    async def finish(self, run: VerificationRun, at: datetime, next_s: float) -> bool:
        """Keep the result of a run that is over; the next is due so many seconds after it. False when the
        lease is lost.

        A sound one replaces no result of an instant after the beginning of the run.

        Raises:
            StoreUnavailable: the store does not answer.
        """

    async def end_unsound_run(self, at: datetime) -> None:
        """End the run in progress if it has findings, with them as its result; another one begins.

        For who verifies the whole ledger from that instant on: what a run has found when that is over, it
        found later.

        Raises:
            StoreUnavailable: the store does not answer.
        """

    async def keep_result(self, at: datetime, *, is_sound: bool) -> None:
        """Keep that the whole ledger was verified at an instant, and whether it was sound then.

        An unsound one is always kept, a sound one unless there is a result of a later instant or the run in
        progress has findings. The run and the time of the next one stay as they are.

        Raises:
            StoreUnavailable: the store does not answer.
        """
