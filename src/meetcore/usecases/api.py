"""The use cases that an interface for customers calls, and what its reads need."""

from datetime import timedelta

from attrs import frozen

from meetcore.domain.money.pricing import TierCatalogue
from meetcore.domain.webhooks.events import EVENTS_KEPT
from meetcore.ports.lists import Lists
from meetcore.ports.queries import Queries
from meetcore.usecases.cancel_meeting import CancelMeeting
from meetcore.usecases.create_meeting import CreateMeeting
from meetcore.usecases.create_note import CreateNote
from meetcore.usecases.download_recording import DownloadRecording
from meetcore.usecases.estimate import Estimate
from meetcore.usecases.expire_recordings import DeleteRecording
from meetcore.usecases.post_webhooks import RecoverDeliveries, ResendDelivery, SendTestEvent
from meetcore.usecases.webhooks import RegisterWebhook, RemoveWebhook, RotateSecret, UpdateWebhook


@frozen
class UseCases:
    """The use cases that the operations call.

    `lists` may read a standby; what a decision needs is in `queries`. Events and deliveries are shown for
    `events_kept`.
    """

    create_meeting: CreateMeeting
    cancel_meeting: CancelMeeting
    register_webhook: RegisterWebhook
    update_webhook: UpdateWebhook
    remove_webhook: RemoveWebhook
    rotate_secret: RotateSecret
    send_test_event: SendTestEvent
    resend_delivery: ResendDelivery
    recover_deliveries: RecoverDeliveries
    download_recording: DownloadRecording
    delete_recording: DeleteRecording
    create_note: CreateNote
    estimate: Estimate
    queries: Queries
    lists: Lists
    catalogue: TierCatalogue
    base_url: str
    events_kept: timedelta = EVENTS_KEPT
