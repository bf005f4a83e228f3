"""Contract suites: what our own adapters are held against, for yours.

Subclass a suite, give its fixture, and pytest runs it::

    port                            suite                        fixture
    ports.store                     StoreContract                rig: StoreRig
      .EndpointRepository             EndpointRepositoryContract
    ports.postings
      .PostingRepository              PostingRepositoryContract
        of a ledger alone             LedgerContract           rig: LedgerRig
    ports.meetings
      .MeetingRepository              MeetingRepositoryContract, HostsContract
    ports.idempotency
      .IdempotencyRepository          IdempotencyRepositoryContract
    ports.deliveries
      .DeliveryRepository             DeliveryRepositoryContract, DeliveryLimitsContract
    ports.host_keys
      .HostKeyRepository              HostKeyRepositoryContract
      .OrphanCheckRepository          OrphanCheckRepositoryContract
    ports.audit_log
      .AuditLog                       AuditLogContract
    ports.members
      .MemberRepository               MemberRepositoryContract
    ports.sign_in
      .SignInRepository               SignInRepositoryContract
    ports.passkeys
      .PasskeyRepository              PasskeyRepositoryContract
    ports.operators
      .OperatorRepository             OperatorRepositoryContract
    ports.dashboard_queries
      .DashboardQueries               DashboardQueriesContract
    ports.proposals
      .ProposalRepository             ProposalRepositoryContract
    ports.console_queries
      .ConsoleQueries                 ConsoleQueriesContract
    ports.provider_events
      .ProviderEventInbox             ProviderEventInboxContract
    ports.mails
      .MailRepository, .MailQueries   MailRepositoryContract
    ports.recordings
      .RecordingRepository            RecordingRepositoryContract
    ports.notes
      .NoteRepository                 NoteRepositoryContract
      .ErasureRepository              ErasureRepositoryContract
      one cap of several keys         SharedCapContract
    ports.queries                   QueriesContract              rig: QueriesRig
    ports.lists                     ListsContract                rig: ListsRig
    ports.registry                  RegistryContract             rig: RegistryRig
    ports.housekeeping              HousekeepingContract         rig: HousekeepingRig
      and a key's whole machine       IdempotencyMachineContract
    ports.key_uses                  KeyUsesContract              rig: KeyUsesRig
    ports.request_log               RequestLogContract           rig: RequestLogRig
    ports.retention                 RetentionStoreContract            rig: RetentionRig
    ports.audit                     LedgerAuditContract          rig: LedgerAuditRig
    ports.restores                  RestoreRepositoryContract    rig: RestoresRig
    ports.figures                   FigureReaderContract         rig: FiguresRig
    ports.ledger_verification       VerificationLogContract      rig: VerificationRig
    ports.partitions                PartitionsContract           rig: PartitionsRig
    ports.metrics                   MetricsContract              metrics
    ports.tracing                   TracingContract              tracing
    ports.rate_counters             RateCountersContract         counters
                                    SharedRateCountersContract   counters, other_counters
    ports.video_provider            VideoProviderContract        provider
                                    InteractiveProviderContract       provider, play: Play
    ports.webhook_sender            WebhookSenderContract        make_sender
    ports.mailer                    MailerContract               mailbox: MailboxRig
    ports.document_printer          DocumentPrinterContract      printer
    ports.sealed_values             SealedValuesContract         sealed: SealedValuesRig
    ports.mail_texts                MailTextsContract            texts
    ports.passkey_verifier          PasskeyVerifierContract      verifier
    ports.identity_provider         IdentityProviderContract     rig: IdentityRig
    ports.worker_notifier           WorkerNotifierContract             rig: NotifierRig
                                    RemoteNotifierContract       rig: RemoteNotifierRig
    ports.transcriber               TranscriberContract          transcriber
    ports.note_writer               NoteWriterContract           note_writer
    ports.resolver                  ResolverContract             resolver
    ports.cipher                    CipherContract               cipher
                                    ReversibleCipherContract        cipher
    ports.clock                     ClockContract                clock
    ports.entropy                   EntropyContract              entropy
    ports.audio_editor              AudioEditorContract          editor
    ports.recording_files           RecordingFilesContract       place: RecordingPlace

`StoreContract` joins those below it, down to the notes. A rig is an adapter with a look behind it:
`store_rig` says what it must return, and one class that fills `FullRig` serves all of these suites.
`meetcore.testing.memory_rig` is one to copy from.

Owns what every adapter of a port has to do. It knows none: what only PostgreSQL can do wrong
is tested where the PostgreSQL adapter is.
"""

from meetcore.testing.contracts.audio_editor import AudioEditorContract
from meetcore.testing.contracts.audit_log import AuditLogContract
from meetcore.testing.contracts.cipher import CipherContract, ReversibleCipherContract
from meetcore.testing.contracts.clock import ClockContract
from meetcore.testing.contracts.console_queries import ConsoleQueriesContract
from meetcore.testing.contracts.dashboard_queries import DashboardQueriesContract
from meetcore.testing.contracts.delivery_limits import DeliveryLimitsContract
from meetcore.testing.contracts.delivery_repository import DeliveryRepositoryContract
from meetcore.testing.contracts.document_printer import DocumentPrinterContract
from meetcore.testing.contracts.endpoint_repository import EndpointRepositoryContract
from meetcore.testing.contracts.entropy import EntropyContract
from meetcore.testing.contracts.erasure_repository import ErasureRepositoryContract
from meetcore.testing.contracts.figures import FigureReaderContract
from meetcore.testing.contracts.host_keys import HostKeyRepositoryContract
from meetcore.testing.contracts.hosts import HostsContract
from meetcore.testing.contracts.housekeeping import HousekeepingContract
from meetcore.testing.contracts.idempotency_machine import IdempotencyMachineContract
from meetcore.testing.contracts.idempotency_repository import IdempotencyRepositoryContract
from meetcore.testing.contracts.identity_provider import IdentityProviderContract, IdentityRig
from meetcore.testing.contracts.interactive_provider import InteractiveProviderContract, Play
from meetcore.testing.contracts.key_uses import KeyUsesContract
from meetcore.testing.contracts.ledger import LedgerContract
from meetcore.testing.contracts.ledger_audit import LedgerAuditContract
from meetcore.testing.contracts.lists import ListsContract
from meetcore.testing.contracts.mail_repository import MailRepositoryContract
from meetcore.testing.contracts.mail_texts import MailTextsContract
from meetcore.testing.contracts.mailer import MailboxRig, MailerContract, ReceivedMail
from meetcore.testing.contracts.meeting_repository import MeetingRepositoryContract
from meetcore.testing.contracts.member_repository import MemberRepositoryContract
from meetcore.testing.contracts.metrics import MetricsContract
from meetcore.testing.contracts.note_repository import NoteRepositoryContract
from meetcore.testing.contracts.note_writer import NoteWriterContract
from meetcore.testing.contracts.operator_repository import OperatorRepositoryContract
from meetcore.testing.contracts.orphan_checks import OrphanCheckRepositoryContract
from meetcore.testing.contracts.partitions import PartitionsContract
from meetcore.testing.contracts.passkey_repository import PasskeyRepositoryContract
from meetcore.testing.contracts.passkey_verifier import PasskeyVerifierContract
from meetcore.testing.contracts.posting_repository import PostingRepositoryContract
from meetcore.testing.contracts.proposal_repository import ProposalRepositoryContract
from meetcore.testing.contracts.provider_event_inbox import ProviderEventInboxContract
from meetcore.testing.contracts.queries import QueriesContract
from meetcore.testing.contracts.rate_counters import RateCountersContract, SharedRateCountersContract
from meetcore.testing.contracts.recording_files import RecordingFilesContract, RecordingPlace
from meetcore.testing.contracts.recording_repository import RecordingRepositoryContract
from meetcore.testing.contracts.registry import RegistryContract
from meetcore.testing.contracts.request_log import RequestLogContract
from meetcore.testing.contracts.resolver import ResolverContract
from meetcore.testing.contracts.restore_repository import RestoreRepositoryContract
from meetcore.testing.contracts.retention import RetentionStoreContract
from meetcore.testing.contracts.sealed_values import SealedValuesContract, SealedValuesRig
from meetcore.testing.contracts.shared_cap import SharedCapContract
from meetcore.testing.contracts.sign_in_repository import SignInRepositoryContract
from meetcore.testing.contracts.store import StoreContract
from meetcore.testing.contracts.store_rig import (
    FiguresRig,
    FullRig,
    HousekeepingRig,
    KeyUsesRig,
    LedgerAuditRig,
    LedgerRig,
    QueriesRig,
    RegistryRig,
    RequestLogRig,
    RestoresRig,
    Rig,
    StoreRig,
    Tampering,
    VerificationRig,
)
from meetcore.testing.contracts.tracing import TracingContract
from meetcore.testing.contracts.transcriber import TranscriberContract
from meetcore.testing.contracts.verification_log import VerificationLogContract
from meetcore.testing.contracts.video_provider import VideoProviderContract
from meetcore.testing.contracts.webhook_sender import MakeSender, SenderSetting, WebhookSenderContract
from meetcore.testing.contracts.worker_notifier import (
    NotifierRig,
    RemoteNotifierContract,
    RemoteNotifierRig,
    WorkerNotifierContract,
)

__all__ = [
    "AudioEditorContract",
    "AuditLogContract",
    "CipherContract",
    "ClockContract",
    "ConsoleQueriesContract",
    "DashboardQueriesContract",
    "DeliveryLimitsContract",
    "DeliveryRepositoryContract",
    "DocumentPrinterContract",
    "EndpointRepositoryContract",
    "EntropyContract",
    "ErasureRepositoryContract",
    "FigureReaderContract",
    "FiguresRig",
    "FullRig",
    "HostKeyRepositoryContract",
    "HostsContract",
    "HousekeepingContract",
    "HousekeepingRig",
    "IdempotencyMachineContract",
    "IdempotencyRepositoryContract",
    "IdentityProviderContract",
    "IdentityRig",
    "InteractiveProviderContract",
    "KeyUsesContract",
    "KeyUsesRig",
    "LedgerAuditContract",
    "LedgerAuditRig",
    "LedgerContract",
    "LedgerRig",
    "ListsContract",
    "MailRepositoryContract",
    "MailTextsContract",
    "MailboxRig",
    "MailerContract",
    "MakeSender",
    "MeetingRepositoryContract",
    "MemberRepositoryContract",
    "MetricsContract",
    "NoteRepositoryContract",
    "NoteWriterContract",
    "NotifierRig",
    "OperatorRepositoryContract",
    "OrphanCheckRepositoryContract",
    "PartitionsContract",
    "PasskeyRepositoryContract",
    "PasskeyVerifierContract",
    "Play",
    "PostingRepositoryContract",
    "ProposalRepositoryContract",
    "ProviderEventInboxContract",
    "QueriesContract",
    "QueriesRig",
    "RateCountersContract",
    "ReceivedMail",
    "RecordingFilesContract",
    "RecordingPlace",
    "RecordingRepositoryContract",
    "RegistryContract",
    "RegistryRig",
    "RemoteNotifierContract",
    "RemoteNotifierRig",
    "RequestLogContract",
    "RequestLogRig",
    "ResolverContract",
    "RestoreRepositoryContract",
    "RestoresRig",
    "RetentionStoreContract",
    "ReversibleCipherContract",
    "Rig",
    "SealedValuesContract",
    "SealedValuesRig",
    "SenderSetting",
    "SharedCapContract",
    "SharedRateCountersContract",
    "SignInRepositoryContract",
    "StoreContract",
    "StoreRig",
    "Tampering",
    "TracingContract",
    "TranscriberContract",
    "VerificationLogContract",
    "VerificationRig",
    "VideoProviderContract",
    "WebhookSenderContract",
    "WorkerNotifierContract",
]
