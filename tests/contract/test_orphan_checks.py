"""Checks for orphans in every store."""

from meetcore.testing.contracts import OrphanCheckRepositoryContract


class TestOrphanChecks(OrphanCheckRepositoryContract):
    """In memory and in Postgres."""
