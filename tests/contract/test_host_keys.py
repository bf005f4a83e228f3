"""The keys of hosts in every store."""

from meetcore.testing.contracts import HostKeyRepositoryContract


class TestHostKeys(HostKeyRepositoryContract):
    """In memory and in Postgres."""
