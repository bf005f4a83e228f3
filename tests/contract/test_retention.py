"""Removal of what is past its retention, in every store."""

from meetcore.testing.contracts import RetentionStoreContract


class TestRetention(RetentionStoreContract):
    """In memory and in Postgres."""
