"""Sealing the ledger: fixing, under a key, what was written before entries were chained under one.

To be done once, after the upgrade, when no process of an earlier release writes any more. It trusts what is
stored at that moment, as far as the chains without a key hold.
"""

from collections.abc import Sequence
from contextlib import aclosing
from itertools import groupby
from operator import itemgetter

from attrs import frozen

from meetcore.domain.money.chain_keys import ChainKey, ChainPolicy, Seal, seal, secrets_of
from meetcore.domain.money.hash_chain import ChainVerifier
from meetcore.ports.audit import LedgerAudit, LedgerSnapshot, StoredFunds
from meetcore.usecases.runtime import Runtime
from meetcore.usecases.verify_ledger import Finding

_account_of = itemgetter(0)


class AlreadySealed(Exception):
    """The ledger was sealed before; the message says what to look at first."""


@frozen
class Sealing:
    """How many accounts were sealed, and those that were not because their history does not hold."""

    sealed: int
    findings: Sequence[Finding]


@frozen
class SealLedger:
    """Seals every account that has entries without a key and no seal. The first of `keys` seals."""

    audit: LedgerAudit
    keys: Sequence[ChainKey]
    runtime: Runtime

    async def __call__(self, *, again: bool = False) -> Sealing:
        """Seal the ledger.

        Args:
            again: also where seals are kept already.

        Raises:
            AlreadySealed: there are seals, and `again` is not asked for.
            StoreUnavailable: the store does not answer; what was sealed stays sealed.
        """
        if not again and await self.audit.count_seals():
            raise AlreadySealed(
                "the ledger was sealed before: what was written without a key since was forged, or written "
                "by a process of an earlier release; look at what `credits verify` finds first"
            )
        sealed, findings = 0, list[Finding]()
        async with self.audit.snapshot() as snapshot:
            async for portion in snapshot.accounts():
                seals, found = await self._seals_of(snapshot, portion)
                await self.audit.add_seals(seals, self.runtime.now())
                sealed += len(seals)
                findings += found
        return Sealing(sealed, findings)

    async def _seals_of(
        self, snapshot: LedgerSnapshot, portion: Sequence[StoredFunds]
    ) -> tuple[list[Seal], list[Finding]]:
        unsealed = {
            stored.funds.account_id.hex: ChainVerifier(stored.funds.account_id)
            for stored in portion
            if stored.sealed is None
        }
        findings = []
        policy = ChainPolicy(secrets_of(self.keys))
        async with aclosing(snapshot.entries(portion)) as chunks:
            async for chunk in chunks:
                for account, own in groupby(chunk, _account_of):
                    if account in unsealed:
                        proof, fault = unsealed[account].over(own, policy)
                        unsealed[account] = proof
                        if fault is not None:
                            findings.append(Finding(proof.account_id, fault.number, fault.problem))
                            del unsealed[account]
        seals = [
            seal(proof.account_id, proof.unkeyed, proof.unkeyed_hash, self.keys[0])
            for proof in unsealed.values()
            if proof.unkeyed
        ]
        return seals, findings
