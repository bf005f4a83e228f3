"""The advisory locks of the service, by name: their numbers share one space in each database."""

from typing import Final

MIGRATIONS: Final = 0x6D656574636F7265
"""Held by the host that migrates, on its session. The number is "meetcore"."""

PARTITIONS: Final = 6072401002
"""Held by the process that looks after partitions, on its session."""

NOTE_CLAIMS: Final = 6072401001
"""Held by the worker that claims notes, for its transaction: claims follow one another."""

RECONCILIATION: Final = 6072401003
"""Held by the process that applies what a survey after a restore found, for a transaction that does nothing else."""

ACCOUNT_EMAIL: Final = "hashtextextended('account of ' || lower(%(email)s), 0)"
"""Held by the transaction that opens an account of an e-mail address; SQL, a number for each address."""

MAILS_COUNTED: Final = "hashtextextended('mails of ' || name, 0)"
"""Held by the transaction that counts the mails to a recipient or for an account; SQL, a number for each `name`."""
