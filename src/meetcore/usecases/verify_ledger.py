"""Proving the ledger: every chain, every balance, every hold, every pair of legs, every refund and cap.

Reads one snapshot, so that it can run while the service writes, and in constant memory. Accounts come in
portions that may be proven in parallel; what is found is reported in the order of the accounts.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from itertools import groupby
from operator import itemgetter
from typing import Any, Protocol
from uuid import UUID

from attrs import define, field, frozen

from meetcore.domain.money.chain_keys import (
    ANY_VERSION,
    ChainKey,
    ChainPolicy,
    policy_of,
    seal_fault,
    secrets_of,
)
from meetcore.domain.money.hash_chain import CanonicalEntry, ChainVerifier, Fault, policy_faults
from meetcore.domain.money.ledger import funds_faults
from meetcore.ports.audit import Flaw, LedgerAudit, LedgerSnapshot, StoredFunds

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
    """What was found. `findings` are the first hundred; of each history the first wrong entry only."""

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


@frozen
class Proven:
    """What became of a portion: how much of it there was, and the first hundred findings."""

    accounts: int
    entries: int
    findings: Sequence[Finding]


class VerifierLost(Exception):
    """A verifier ended before its work was done."""


class PortionVerifier(Protocol):
    """Proves portions of one snapshot, one after the other."""

    async def __call__(self, portion: Sequence[StoredFunds], on_entries: Callable[[int], None]) -> Proven:
        """Prove the accounts of a portion.

        Args:
            portion: as `LedgerSnapshot.accounts` gave it.
            on_entries: called with how many more entries are proven.

        Raises:
            StoreUnavailable: the store does not answer.
            VerifierLost: the verifier ended before its work was done.
        """


Verifiers = Callable[[LedgerSnapshot, int], AbstractAsyncContextManager[Sequence[PortionVerifier]]]
"""Start verifiers on a snapshot of so many entries, and stop them at exit."""


@frozen
class VerifyPortion:
    """Proves portions of a snapshot, here and now. Fills `PortionVerifier`.

    `secrets` are those of the chain's keys by their ids. With none, entries without a key may be anywhere.
    """

    snapshot: LedgerSnapshot
    secrets: Mapping[bytes, bytes] = field(factory=dict, repr=False)

    async def __call__(self, portion: Sequence[StoredFunds], on_entries: Callable[[int], None]) -> Proven:
        """Prove the accounts of a portion."""
        proofs = {stored.funds.account_id.hex: ChainVerifier(stored.funds.account_id) for stored in portion}
        rules = {stored.funds.account_id.hex: _rule_of(stored, self.secrets) for stored in portion}
        faults: dict[str, Fault] = {}
        entries = 0
        async with aclosing(self.snapshot.entries(portion)) as chunks:
            async for chunk in chunks:
                _fold(chunk, proofs, faults, rules)
                entries += len(chunk)
                on_entries(len(chunk))
        findings = [
            finding
            for account, stored in zip(proofs, portion, strict=True)
            for finding in _judged(stored, proofs[account], faults.get(account), rules[account])
        ]
        return Proven(len(portion), entries, findings[:MAX_FINDINGS])


@define
class _Tally:
    """What is proven so far, of portions that come in any order."""

    accounts: int = 0
    entries: int = 0
    findings: list[tuple[int, Finding]] = field(factory=list)

    def add(self, place: int, proven: Proven) -> None:
        """Note a portion by its place among all; the first findings by their places stay."""
        self.accounts += proven.accounts
        self.entries += proven.entries
        findings = [*self.findings, *((place, finding) for finding in proven.findings)]
        self.findings = sorted(findings, key=_place_of)[:MAX_FINDINGS]

    def audit(self, flaws: Sequence[Flaw]) -> Audit:
        """What was found in the entries, then what does not hang together."""
        flawed = map(finding_of, flaws)
        found = [*(finding for _, finding in self.findings), *flawed]
        return Audit(self.accounts, self.entries, found[:MAX_FINDINGS])


@frozen
class VerifyLedger:
    """Recomputes what is stored.

    `keys` are those that the chain may be under; with none, entries under a key cannot be verified.
    """

    audit: LedgerAudit
    keys: Sequence[ChainKey] = ()

    async def __call__(
        self,
        on_progress: Callable[[int, int], None] = lambda done, total: None,
        verifiers: Verifiers | None = None,
    ) -> Audit:
        """Prove the ledger.

        Args:
            on_progress: called with how many entries are proven, and how many there are.
            verifiers: the verifiers; this process alone when there are none.

        Raises:
            StoreUnavailable: the store does not answer.
        """
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


@frozen
class _Rule:
    """Which versions an account's entries may have, and what is wrong with its seal, if anything."""

    policy: ChainPolicy
    seal_fault: str | None = None


def _rule_of(stored: StoredFunds, secrets: Mapping[bytes, bytes]) -> _Rule:
    if not secrets:
        return _Rule(ANY_VERSION)
    if stored.sealed is not None and (fault := seal_fault(stored.sealed, secrets)) is not None:
        return _Rule(ChainPolicy(secrets), fault)
    return _Rule(policy_of(stored.sealed, secrets))


def _fold(
    chunk: Sequence[CanonicalEntry],
    proofs: dict[str, ChainVerifier],
    faults: dict[str, Fault],
    rules: dict[str, _Rule],
) -> None:
    for account, own in groupby(chunk, _account_of):
        if account not in faults:
            proofs[account], fault = proofs[account].over(own, rules[account].policy)
            if fault is not None:
                faults[account] = fault


def _judged(stored: StoredFunds, proof: ChainVerifier, fault: Fault | None, rule: _Rule) -> list[Finding]:
    account_id = stored.funds.account_id
    found = [] if rule.seal_fault is None else [Finding(account_id, None, rule.seal_fault)]
    if fault is not None:
        found.append(Finding(account_id, fault.number, fault.problem))
    else:
        problems = (*funds_faults(stored.funds, proof), *policy_faults(proof, rule.policy))
        found += [Finding(account_id, None, problem) for problem in problems]
    if stored.open_holds != stored.funds.held:
        problem = f"{stored.funds.held} is held, and its open holds make {stored.open_holds}"
        found.append(Finding(account_id, None, problem))
    return found
