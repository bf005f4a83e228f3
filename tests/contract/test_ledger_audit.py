"""Proving the ledger, in every store: what is right is proven, what was tampered with is named."""

from meetcore.testing.contracts import LedgerAuditContract


class TestLedgerAudit(LedgerAuditContract):
    """In memory and in Postgres."""
