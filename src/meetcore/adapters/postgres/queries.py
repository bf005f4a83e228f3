"""Reads in PostgreSQL: one statement each, outside any transaction. Each aggregate's stand in its package."""

from psycopg.errors import ReadOnlySqlTransaction

from meetcore.adapters.postgres.audit_log import AuditReads
from meetcore.adapters.postgres.callers import CallerReads
from meetcore.adapters.postgres.console import ConsoleReads
from meetcore.adapters.postgres.dashboard import DashboardReads
from meetcore.adapters.postgres.deliveries.events import EventReads
from meetcore.adapters.postgres.deliveries.read import DeliveryReads
from meetcore.adapters.postgres.endpoints.health import HealthReads
from meetcore.adapters.postgres.endpoints.read import EndpointReads
from meetcore.adapters.postgres.ledger.read import TransactionReads
from meetcore.adapters.postgres.ledger.statements import StatementReads
from meetcore.adapters.postgres.ledger.totals import TotalReads
from meetcore.adapters.postgres.mails.read import MailReads
from meetcore.adapters.postgres.meetings.read import MeetingReads
from meetcore.adapters.postgres.members.read import MemberReads
from meetcore.adapters.postgres.notes.read import NoteReads
from meetcore.adapters.postgres.pool import translated
from meetcore.adapters.postgres.recordings.read import RecordingReads
from meetcore.adapters.postgres.request_log import RequestReads
from meetcore.adapters.postgres.retention import RemovedReads
from meetcore.ports.lists import AccountVersion

# Whether writes are refused: by a standby, or by a server or role that is set so.
_IS_READ_ONLY = """
SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean AS is_read_only
"""


class PostgresQueries(
    CallerReads,
    MeetingReads,
    TransactionReads,
    TotalReads,
    StatementReads,
    EndpointReads,
    HealthReads,
    DeliveryReads,
    EventReads,
    RecordingReads,
    NoteReads,
    AuditReads,
    MemberReads,
    DashboardReads,
    ConsoleReads,
    RequestReads,
    MailReads,
    RemovedReads,
):
    """Frequent reads that must be cheap."""

    def since(self, version: AccountVersion | None) -> "PostgresQueries":
        """Return these: a server that takes writes has all that was seen of it."""
        return self

    async def ping(self) -> None:
        """Make sure that the database answers and takes writes."""
        with translated():
            async with self._pool.connection() as connection:
                row = await (await connection.execute(_IS_READ_ONLY)).fetchone()
                if row is None or row["is_read_only"]:
                    raise ReadOnlySqlTransaction("the server takes no writes")
