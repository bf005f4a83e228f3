"""The use cases of a process by the work that they do: with meetings, with recordings, with notes."""

from attrs import frozen

from meetcore.usecases.account_data import AccountData
from meetcore.usecases.admit import Admit
from meetcore.usecases.bounded_provider import BoundedProvider
from meetcore.usecases.cancellation import Cancellation
from meetcore.usecases.collect_recording_files import CollectRecordingFiles
from meetcore.usecases.deliver_webhooks import DeliverWebhooks
from meetcore.usecases.end_due_meetings import EndDueMeetings
from meetcore.usecases.expire_recordings import ExpireRecordings
from meetcore.usecases.mail_queue import MailQueue
from meetcore.usecases.provider_events import HandleProviderEvents, ReceiveProviderEvent
from meetcore.usecases.provision import Provisioner
from meetcore.usecases.reconcile_meetings import ReconcileMeetings
from meetcore.usecases.remove_orphans import RemoveOrphans
from meetcore.usecases.replace_host_keys import ReplaceHostKeys
from meetcore.usecases.sessions import Sessions
from meetcore.usecases.sync_recording_files import SyncRecordingFiles
from meetcore.usecases.track_meeting import TrackMeeting
from meetcore.usecases.verify_ledger import VerifyLedger
from meetcore.usecases.work_on_recordings import WorkOnRecordings
from meetcore.usecases.write_notes import WriteNotes

__all__ = ["Meetings", "Notes", "Recordings", "Work"]


@frozen
class Meetings:
    """The use cases that keep meetings in step with their provider."""

    provider: BoundedProvider
    provisioner: Provisioner
    cancellation: Cancellation
    reconcile: ReconcileMeetings
    remove_orphans: RemoveOrphans
    end_due: EndDueMeetings
    replace_host_keys: ReplaceHostKeys
    track: TrackMeeting
    receive_event: ReceiveProviderEvent
    handle_events: HandleProviderEvents


@frozen
class Recordings:
    """The use cases that keep recordings in step with their files."""

    collect_files: CollectRecordingFiles
    sync_files: SyncRecordingFiles
    expire: ExpireRecordings


@frozen
class Notes:
    """The use cases of a worker that measures recordings and writes notes."""

    work_on_recordings: WorkOnRecordings
    write: WriteNotes


@frozen
class Work:
    """The use cases that a process repeats; `deliver` and `notes` where it has the ports for them."""

    admit: Admit
    meetings: Meetings
    recordings: Recordings
    mail_queue: MailQueue
    deliver: DeliverWebhooks | None
    notes: Notes | None
    sessions: Sessions
    account_data: AccountData
    verify_ledger: VerifyLedger
