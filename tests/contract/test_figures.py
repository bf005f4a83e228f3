"""The figures that an operator watches, and how far the verification of the ledger is, in every store."""

from meetcore.testing.contracts import FigureReaderContract, VerificationLogContract


class TestFigures(FigureReaderContract):
    """In memory and in Postgres."""


class TestVerificationLog(VerificationLogContract):
    """In memory and in Postgres."""
