"""The store of money: postings, proposals, totals, and the verification of the ledger."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import date, datetime
from typing import Protocol
from uuid import UUID

from meetcore.domain.money import views
from meetcore.domain.money.hash_chain import CanonicalEntry
from meetcore.domain.money.proposals import Proposal, ProposalKind
from meetcore.domain.money.statements import DayTotal
from meetcore.ports.runtime import Lease


class PostingRepository(Protocol):
    """Top-ups and adjustments, several at once."""

    async def load_locked(self, account_id: UUID, operations: Sequence[str]) -> views.OperationsView:
        """Take the account's lock; read its funds and the entries of these operations. Raises `NotFound`."""

    async def append_if_unchanged(self, postings: Sequence[views.AccountPostings]) -> Mapping[UUID, int]:
        """Append to each account whose funds are as before and that has none of the operations.

        An account is written wholly or not. One that another transaction has locked is left alone, without a
        wait.

        Args:
            postings: at most one for each account.

        Returns the written accounts, and how many of their deliveries are due now.
        """


class ProposalRepository(Protocol):
    """Proposals, written and decided under the account's lock."""

    async def add(self, proposal: Proposal) -> None:
        """Write a proposal. The caller has checked its reference and replaced an expired one."""

    async def find_by_reference(
        self, account_id: UUID, kind: ProposalKind, reference: str
    ) -> Proposal | None:
        """Return the proposal with a reference that is neither rejected nor replaced."""

    async def load(self, proposal_id: UUID) -> Proposal:
        """Take the lock of a proposal's account and read the proposal. Raises `NotFound`."""

    async def save_decision(self, proposal: Proposal) -> None: ...
    async def lock_mover(self, operator_id: UUID) -> None:
        """Wait for other movements of an operator, before the account's lock is taken."""

    async def moved_alone(self, operator_id: UUID, email: str, account_id: UUID, since: datetime) -> int:
        """Return the credits moved without a proposal since then: by the operator, or in the account.

        The larger sum of both, whatever was given or taken; an operator is known by id or e-mail address.
        """

    async def mark_replaced(self, proposal_id: UUID) -> None:
        """Free the reference of an expired proposal."""


class LedgerTotals(Protocol):
    """Sums of an account's ledger entries by day and kind, of the days from one to another, both included."""

    async def list_day_totals(
        self, account_id: UUID, first_day: date, last_day: date
    ) -> Sequence[DayTotal]: ...


class LedgerSnapshot(Protocol):
    """The ledger at one moment. A caller that stops a generator before its end closes it."""

    @property
    def name(self) -> str:
        """The name by which another connection opens the same snapshot, while this one is open."""

    async def count_entries(self) -> int:
        """Count the entries of all customers."""

    def accounts(self, after: UUID | None = None) -> AsyncGenerator[Sequence[views.StoredFunds], None]:
        """Yield the accounts after an id, by id, in portions of about the same number of entries."""

    def entries(self, portion: Sequence[views.StoredFunds]) -> AsyncGenerator[Sequence[CanonicalEntry], None]:
        """Yield the customer entries of a portion by account, then number, in chunks of some thousands.

        An entry without its transfer is left out: its number is missing.
        """

    async def flaws_of_span(self, after: UUID | None, last: UUID | None) -> Sequence[views.Flaw]:
        """Find the flaws of the accounts, known or not, after one id and up to another; `None`: no end."""

    async def flaws(self) -> Sequence[views.Flaw]:
        """Find flaws, up to `MAX_FLAWS` of each kind. May run beside `entries`.

        Transfers without two legs that sum to zero, and legs without a transfer. Refunds of anything but a
        meeting's charge, of more than it took, or a second time. Usage of keys on a day other than
        their charges less the refunds of these, and their open holds, of that day.
        """


class LedgerAudit(Protocol):
    """Opens snapshots of the ledger. Raises `StoreUnavailable`."""

    def snapshot(self) -> AbstractAsyncContextManager[LedgerSnapshot]:
        """Open the ledger at this moment, while others write on."""

    def joined(self, name: str) -> AbstractAsyncContextManager[LedgerSnapshot]:
        """Open the moment of another snapshot of this store, which has to stay open meanwhile."""


class VerificationLog(Protocol):
    """Keeps one run and the result of the last one. Every call raises `StoreUnavailable`.

    Writes of a run return False when its lease is lost.
    """

    async def claim(self, lease: Lease, at: datetime) -> views.VerificationRun | None:
        """Take the run that is due, a new one beginning at `at`; `None` where none is due."""

    async def renew(self, run: views.VerificationRun, seconds: float) -> bool: ...
    async def save(self, run: views.VerificationRun, wait_s: float) -> bool:
        """Save the progress of a run, which is due again after `wait_s`.

        From the first finding on the ledger counts as unsound.
        """

    async def finish(self, run: views.VerificationRun, at: datetime, next_s: float) -> bool:
        """Save the result of a finished run; the next is due `next_s` later.

        A sound one replaces no result of an instant after the beginning of the run.
        """

    async def end_unsound_run(self, at: datetime) -> None:
        """End a run in progress that has findings, with them as its result; another one begins.

        Called before a verification of the whole ledger that starts at `at`.
        """

    async def keep_result(self, at: datetime, *, is_sound: bool) -> None:
        """Save the result of a verification of the whole ledger at an instant.

        An unsound one is always kept, a sound one unless there is a result of a later instant or the run in
        progress has findings. The run and the time of the next one stay as they are.
        """
