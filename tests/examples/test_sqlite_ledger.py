"""The example ledger, held against the contract suite from outside the package."""

from examples.sqlite_ledger.test_sqlite_ledger import TestSqliteFile, TestSqliteLedger

__all__ = ["TestSqliteFile", "TestSqliteLedger"]
