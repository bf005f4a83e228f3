"""Contract suites of the ports to the outside, and of a ledger of one's own.

Subclass a suite, give its fixture, and pytest runs it::

    port                            suite                           fixture
    ports.money, a ledger alone     LedgerContract                  rig: LedgerRig
    ports.video_provider            VideoProviderContract           provider
                                    InteractiveProviderContract     provider, play: Play
    ports.recording_files           RecordingFilesContract          place: RecordingPlace
    ports.ai                        TranscriberContract             transcriber
    ports.ai                        NoteWriterContract              note_writer
    ports.ai                        AudioEditorContract             editor
    ports.payments                  PaymentGatewayContract          rig: GatewayRig
                                    GatewayFaultsContract           faulty: FaultyRig
    ports.mails                     MailerContract                  mailbox: MailboxRig
    ports.webhook_sender            WebhookSenderContract           make_sender
    ports.requests                  RateCountersContract            counters
                                    SharedRateCountersContract      counters, other_counters, an_hour_later,
                                                                    unavailable_counters
    ports.runtime                   WorkerNotifierContract          rig: NotifierRig
                                    RemoteNotifierContract          rig: RemoteNotifierRig

`meetcore.testing.ledger` has `LedgerRig`, and a machine that compares a ledger with a model of the rules.
"""

from meetcore.testing.contracts.infrastructure import (
    MailboxRig,
    MailerContract,
    NotifierRig,
    RateCountersContract,
    ReceivedMail,
    RemoteNotifierContract,
    RemoteNotifierRig,
    SharedRateCountersContract,
    WorkerNotifierContract,
)
from meetcore.testing.contracts.ledger import LedgerContract
from meetcore.testing.contracts.notes import AudioEditorContract, NoteWriterContract, TranscriberContract
from meetcore.testing.contracts.payments import (
    FaultyPlay,
    FaultyRig,
    GatewayFaultsContract,
    GatewayPlay,
    GatewayRig,
    PaymentGatewayContract,
)
from meetcore.testing.contracts.providers import (
    InteractiveProviderContract,
    Play,
    RecordingFilesContract,
    RecordingPlace,
    VideoProviderContract,
)
from meetcore.testing.contracts.webhook_sender import MakeSender, SenderSetting, WebhookSenderContract

__all__ = [
    "AudioEditorContract", "FaultyPlay", "FaultyRig", "GatewayFaultsContract", "GatewayPlay",
    "GatewayRig", "InteractiveProviderContract", "LedgerContract", "MailboxRig", "MailerContract",
    "MakeSender", "NoteWriterContract", "NotifierRig", "PaymentGatewayContract", "Play",
    "RateCountersContract", "ReceivedMail", "RecordingFilesContract", "RecordingPlace",
    "RemoteNotifierContract", "RemoteNotifierRig", "SenderSetting", "SharedRateCountersContract",
    "TranscriberContract", "VideoProviderContract", "WebhookSenderContract", "WorkerNotifierContract",
]  # fmt: skip
