"""The use cases that an interface for customers calls, with the ports of its reads."""

from datetime import timedelta

from attrs import frozen

from meetcore.domain.money.pricing import TierCatalogue
from meetcore.domain.webhooks.events import EVENTS_KEPT
from meetcore.ports.queries import Lists, Queries
from meetcore.usecases.meetings.cancel_meeting import CancelMeeting
from meetcore.usecases.meetings.create_meeting import CreateMeeting
from meetcore.usecases.money.prices import Estimate
from meetcore.usecases.notes import downloads, note_charges, recordings
from meetcore.usecases.payments.start_payment import StartPayment
from meetcore.usecases.webhooks import endpoints


@frozen
class UseCases:
    """The use cases that the operations call; `lists` may read a standby, decisions read `queries`."""

    create_meeting: CreateMeeting
    cancel_meeting: CancelMeeting
    webhooks: endpoints.Webhooks
    download_recording: downloads.DownloadRecording
    delete_recording: recordings.DeleteRecording
    create_note: note_charges.CreateNote
    estimate: Estimate
    start_payment: StartPayment
    queries: Queries
    lists: Lists
    catalogue: TierCatalogue
    base_url: str
    events_kept: timedelta = EVENTS_KEPT
