"""The example store, held against the contract suites from outside the package."""

from examples.sqlite_store.test_account_machine import test_memory_and_sqlite_behave_the_same
from examples.sqlite_store.test_durability import TestSqliteFile
from examples.sqlite_store.test_sqlite_store import TestSqliteStore

__all__ = ["TestSqliteFile", "TestSqliteStore", "test_memory_and_sqlite_behave_the_same"]
