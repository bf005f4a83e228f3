"""A whole store at once: every repository of a transaction."""

from meetcore.testing.contracts.audit_log import AuditLogContract
from meetcore.testing.contracts.console_queries import ConsoleQueriesContract
from meetcore.testing.contracts.dashboard_queries import DashboardQueriesContract
from meetcore.testing.contracts.delivery_limits import DeliveryLimitsContract
from meetcore.testing.contracts.delivery_repository import DeliveryRepositoryContract
from meetcore.testing.contracts.endpoint_repository import EndpointRepositoryContract
from meetcore.testing.contracts.erasure_repository import ErasureRepositoryContract
from meetcore.testing.contracts.host_keys import HostKeyRepositoryContract
from meetcore.testing.contracts.hosts import HostsContract
from meetcore.testing.contracts.idempotency_repository import IdempotencyRepositoryContract
from meetcore.testing.contracts.mail_repository import MailRepositoryContract
from meetcore.testing.contracts.meeting_repository import MeetingRepositoryContract
from meetcore.testing.contracts.member_repository import MemberRepositoryContract
from meetcore.testing.contracts.note_repository import NoteRepositoryContract
from meetcore.testing.contracts.operator_repository import OperatorRepositoryContract
from meetcore.testing.contracts.orphan_checks import OrphanCheckRepositoryContract
from meetcore.testing.contracts.passkey_repository import PasskeyRepositoryContract
from meetcore.testing.contracts.posting_repository import PostingRepositoryContract
from meetcore.testing.contracts.proposal_repository import ProposalRepositoryContract
from meetcore.testing.contracts.provider_event_inbox import ProviderEventInboxContract
from meetcore.testing.contracts.recording_repository import RecordingRepositoryContract
from meetcore.testing.contracts.shared_cap import SharedCapContract
from meetcore.testing.contracts.sign_in_repository import SignInRepositoryContract


class StoreContract(
    PostingRepositoryContract,
    MeetingRepositoryContract,
    HostsContract,
    IdempotencyRepositoryContract,
    EndpointRepositoryContract,
    DeliveryRepositoryContract,
    DeliveryLimitsContract,
    ProviderEventInboxContract,
    RecordingRepositoryContract,
    NoteRepositoryContract,
    HostKeyRepositoryContract,
    OrphanCheckRepositoryContract,
    MailRepositoryContract,
    SharedCapContract,
    AuditLogContract,
    MemberRepositoryContract,
    SignInRepositoryContract,
    OperatorRepositoryContract,
    PasskeyRepositoryContract,
    DashboardQueriesContract,
    ConsoleQueriesContract,
    ProposalRepositoryContract,
    ErasureRepositoryContract,
):
    """What `ports.store.Store`, its transactions and their repositories promise.

    Give a fixture `rig` that is a `StoreRig`, where you like::

        class TestMySQLStore(StoreContract):
            @pytest_asyncio.fixture
            async def rig(self, mysql_pool):
                return await fresh_mysql_rig(mysql_pool)
    """
