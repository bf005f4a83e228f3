"""Verification of the ledger: every account proven against its entries, in slices or at once."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, suppress
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any, Protocol
from uuid import UUID

from attrs import define, evolve, field, frozen

from meetcore.domain.money.hash_chain import CanonicalEntry, ChainKey, ChainVerifier, Fault, secrets_of
from meetcore.domain.money.ledger import funds_faults
from meetcore.domain.money.views import Flaw, StoredFunds, VerificationRun
from meetcore.ports.money import LedgerAudit, LedgerSnapshot, VerificationLog
from meetcore.ports.runtime import Lease
from meetcore.ports.store import StoreUnavailable
from meetcore.usecases.runtime import LeaseLost, Runtime, ignore, with_heartbeat

MAX_FINDINGS = 100

_account_of = itemgetter(0)
_place_of = itemgetter(0)


@frozen
class Finding:
    """A defect: the account, the entry if there is one, and a description. As text it is one sentence."""

    account_id: UUID
    number: int | None
    problem: str

    def __str__(self) -> str:
        place = "" if self.number is None else f" entry {self.number}:"
        return f"account {self.account_id}:{place} {self.problem}"


@frozen
class Audit:
    """What was found, in all or in a portion: the first hundred, of each history the first wrong entry."""

    accounts: int
    entries: int
    findings: Sequence[Finding]

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings


def finding_of(flaw: Flaw) -> Finding:
    """Return a flaw as a finding."""
    return Finding(flaw.account_id, flaw.number, f"{flaw.subject} {flaw.kind.value}")


class VerifierLost(Exception):
    """A verifier ended before its work was done."""


class PortionVerifier(Protocol):
    """Proves portions of one snapshot, one after the other."""

    async def __call__(self, portion: Sequence[StoredFunds], on_entries: Callable[[int], None]) -> Audit:
        """Prove the accounts of a portion of the snapshot; `on_entries` is called with how many entries more.

        Raises `VerifierLost`: the verifier ended before its work was done.
        """


Verifiers = Callable[[LedgerSnapshot, int], AbstractAsyncContextManager[Sequence[PortionVerifier]]]
"""Start verifiers on a snapshot of so many entries, and stop them at exit."""


@frozen
class VerifyPortion:
    """Proves portions of a snapshot, here and now, with the secrets of the chain's keys by their ids."""

    snapshot: LedgerSnapshot
    secrets: Mapping[bytes, bytes] = field(factory=dict, repr=False)

    async def __call__(self, portion: Sequence[StoredFunds], on_entries: Callable[[int], None]) -> Audit:
        """Prove the accounts of a portion."""
        proofs = {stored.funds.account_id.hex: ChainVerifier(stored.funds.account_id) for stored in portion}
        faults: dict[str, Fault] = {}
        entries = 0
        async with aclosing(self.snapshot.entries(portion)) as chunks:
            async for chunk in chunks:
                _fold(chunk, proofs, faults, self.secrets)
                entries += len(chunk)
                on_entries(len(chunk))
        findings = [
            finding
            for account, stored in zip(proofs, portion, strict=True)
            for finding in _judged(stored, proofs[account], faults.get(account))
        ]
        return Audit(len(portion), entries, findings[:MAX_FINDINGS])


@define
class _Tally:
    """What is proven so far, of portions that come in any order."""

    accounts: int = 0
    entries: int = 0
    findings: list[tuple[int, Finding]] = field(factory=list)

    def add(self, place: int, proven: Audit) -> None:
        """Note a portion by its place among all; the first findings by their places stay."""
        self.accounts += proven.accounts
        self.entries += proven.entries
        findings = [*self.findings, *((place, finding) for finding in proven.findings)]
        self.findings = sorted(findings, key=_place_of)[:MAX_FINDINGS]

    def audit(self, flaws: Sequence[Flaw]) -> Audit:
        """Return the findings of the entries, then the flaws of references."""
        flawed = map(finding_of, flaws)
        found = [*(finding for _, finding in self.findings), *flawed]
        return Audit(self.accounts, self.entries, found[:MAX_FINDINGS])


@frozen
class VerifyLedger:
    """Recomputes balances and chains from the entries; those under a key not given are unverifiable."""

    audit: LedgerAudit
    keys: Sequence[ChainKey] = ()

    async def __call__(
        self,
        on_progress: Callable[[int, int], None] = lambda done, total: None,
        verifiers: Verifiers | None = None,
    ) -> Audit:
        """Prove the ledger, by `verifiers` if any; `on_progress` gets the number proven, and that of all."""
        async with self.audit.snapshot() as snapshot:
            total = await snapshot.count_entries()
            flaws = asyncio.ensure_future(snapshot.flaws())
            try:
                async with (verifiers or self._prove_here)(snapshot, total) as running:
                    tally = await _shared_out(snapshot, running, lambda done: on_progress(done, total))
                audit = tally.audit(await flaws)
            finally:
                await _given_up([flaws])  # when the entries cannot be read, it is not awaited
            on_progress(audit.entries, total)
        return audit

    @asynccontextmanager
    async def _prove_here(self, snapshot: LedgerSnapshot, _: int) -> AsyncIterator[Sequence[PortionVerifier]]:
        yield [VerifyPortion(snapshot, secrets_of(self.keys))]


async def _shared_out(
    snapshot: LedgerSnapshot, verifiers: Sequence[PortionVerifier], on_entries: Callable[[int], None]
) -> _Tally:
    """Pass each portion to the next free verifier."""
    portions = aiter(snapshot.accounts())
    turn = asyncio.Lock()
    tally = _Tally()
    given, proven = 0, 0

    def report(more: int) -> None:
        nonlocal proven
        proven += more
        on_entries(proven)

    async def work(verifier: PortionVerifier) -> None:
        nonlocal given
        while True:
            async with turn:
                portion = await anext(portions, None)
                place = given
                given += 1
            if portion is None:
                return
            tally.add(place, await verifier(portion, report))

    works = [asyncio.ensure_future(work(verifier)) for verifier in verifiers]
    try:
        await asyncio.gather(*works)
    finally:
        await _given_up(works)
    return tally


async def _given_up(works: Sequence[asyncio.Future[Any]]) -> None:
    for each in works:
        each.cancel()
    await asyncio.wait(works)


def _fold(
    chunk: Sequence[CanonicalEntry],
    proofs: dict[str, ChainVerifier],
    faults: dict[str, Fault],
    secrets: Mapping[bytes, bytes],
) -> None:
    for account, own in groupby(chunk, _account_of):
        if account not in faults:
            proofs[account], fault = proofs[account].over(own, secrets)
            if fault is not None:
                faults[account] = fault


def _judged(stored: StoredFunds, proof: ChainVerifier, fault: Fault | None) -> list[Finding]:
    account_id = stored.funds.account_id
    if fault is not None:
        found = [Finding(account_id, fault.number, fault.problem)]
    else:
        found = [Finding(account_id, None, problem) for problem in funds_faults(stored.funds, proof)]
    if stored.open_holds != stored.funds.held:
        problem = f"{stored.funds.held} is held, and its open holds make {stored.open_holds}"
        found.append(Finding(account_id, None, problem))
    counted = stored.day_credits, stored.day_entries
    if not found and counted != (proof.balance, proof.entries):
        problem = "its daily totals come to {} credits in {} entries, and its entries to {} in {}"
        found.append(Finding(account_id, None, problem.format(*counted, proof.balance, proof.entries)))
    return found


FINDINGS_KEPT = 20
LEASE_S = 60.0
"""How long the run of a dead worker waits. The lease is renewed: a long history takes longer than it."""


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
    report: Callable[[VerificationRun], object] = ignore
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
        """Verify the ledger; see `VerifyLedger`."""
        start = self.runtime.now()
        if self.log is not None:
            with suppress(StoreUnavailable):
                await self.log.end_unsound_run(start)
        audit = await self.verify(on_progress, verifiers)
        if self.log is not None:
            with suppress(StoreUnavailable):
                await self.log.keep_result(start, is_sound=audit.is_sound)
        return audit
