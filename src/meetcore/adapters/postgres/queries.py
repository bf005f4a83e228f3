"""Reads on PostgreSQL, together: apart from `store`, as a command that writes a row needs none of them."""

from psycopg.errors import ReadOnlySqlTransaction

from meetcore.adapters.postgres import console, dashboard, mails, pool
from meetcore.adapters.postgres.meetings.reads import MeetingReads
from meetcore.adapters.postgres.members.audit import AuditReads
from meetcore.adapters.postgres.members.reads import MemberReads
from meetcore.adapters.postgres.money.reads import StatementReads, TotalReads, TransactionReads
from meetcore.adapters.postgres.notes.reads import NoteReads, RecordingReads
from meetcore.adapters.postgres.payments.reads import PaymentReads
from meetcore.adapters.postgres.requests import callers, request_log, retention
from meetcore.adapters.postgres.webhooks import endpoints, reads
from meetcore.domain.requests.views import AccountVersion

# Whether writes are refused: by a standby, or by a server or role that is set so.
_IS_READ_ONLY = """
SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean AS is_read_only
"""


class PostgresQueries(
    callers.CallerReads,
    MeetingReads,
    TransactionReads,
    TotalReads,
    StatementReads,
    PaymentReads,
    reads.EndpointReads,
    endpoints.HealthReads,
    reads.DeliveryReads,
    reads.EventReads,
    RecordingReads,
    NoteReads,
    AuditReads,
    MemberReads,
    dashboard.DashboardReads,
    console.ConsoleReads,
    request_log.RequestReads,
    mails.MailReads,
    retention.RemovedReads,
):
    """Frequent reads that must be cheap."""

    def since(self, version: AccountVersion | None) -> "PostgresQueries":
        """Return these: a server that takes writes has all that was seen of it."""
        return self

    async def ping(self) -> None:
        """Make sure that the database answers and takes writes."""
        with pool.translated():
            async with self._pool.connection() as connection:
                row = await (await connection.execute(_IS_READ_ONLY)).fetchone()
                if row is None or row["is_read_only"]:
                    raise ReadOnlySqlTransaction("the server takes no writes")
