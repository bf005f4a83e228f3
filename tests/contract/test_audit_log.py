"""The audit log in every store."""

from meetcore.testing.contracts import AuditLogContract


class TestAuditLog(AuditLogContract):
    """In memory and in Postgres."""
