"""The last uses of keys in every store."""

from meetcore.testing.contracts import KeyUsesContract


class TestKeyUses(KeyUsesContract):
    """In memory and in Postgres."""
