"""The example ledger under the contract suite, from outside the package."""

from examples.sqlite_ledger.test_sqlite_ledger import (
    TestSqliteFile,
    TestSqliteLedger,
    test_the_ledger_behaves_as_the_model_does,
)

__all__ = ["TestSqliteFile", "TestSqliteLedger", "test_the_ledger_behaves_as_the_model_does"]
