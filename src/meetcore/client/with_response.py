"""`client.with_response`: the same operations, whose results come with the answers that hold them."""

from meetcore.client.descriptors import AsyncResponses, AsyncRunner, Runner, SyncResponses
from meetcore.client.note_operations import NoteOperations, RecordingOperations
from meetcore.client.operations import (
    AccountOperations,
    CreditOperations,
    MeetingOperations,
    WebhookOperations,
)

__all__ = ["AsyncClientResponses", "ClientResponses"]


class MeetingResponses(MeetingOperations, SyncResponses):
    """`client.with_response.meetings`."""


class CreditResponses(CreditOperations, SyncResponses):
    """`client.with_response.credits`."""


class WebhookResponses(WebhookOperations, SyncResponses):
    """`client.with_response.webhooks`."""


class RecordingResponses(RecordingOperations, SyncResponses):
    """`client.with_response.recordings`."""


class NoteResponses(NoteOperations, SyncResponses):
    """`client.with_response.notes`."""


class AsyncMeetingResponses(MeetingOperations, AsyncResponses):
    """`client.with_response.meetings`."""


class AsyncCreditResponses(CreditOperations, AsyncResponses):
    """`client.with_response.credits`."""


class AsyncWebhookResponses(WebhookOperations, AsyncResponses):
    """`client.with_response.webhooks`."""


class AsyncRecordingResponses(RecordingOperations, AsyncResponses):
    """`client.with_response.recordings`."""


class AsyncNoteResponses(NoteOperations, AsyncResponses):
    """`client.with_response.notes`."""


class ClientResponses(AccountOperations, SyncResponses):
    """The operations of a `Client`, each returning a `Response`; a list gives one for each page."""

    def __init__(self, runner: Runner) -> None:
        super().__init__(runner)
        self.meetings = MeetingResponses(runner)
        self.credits = CreditResponses(runner)
        self.webhooks = WebhookResponses(runner)
        self.recordings = RecordingResponses(runner)
        self.notes = NoteResponses(runner)


class AsyncClientResponses(AccountOperations, AsyncResponses):
    """The operations of an `AsyncClient`, each returning a `Response`; a list gives one for each page."""

    def __init__(self, runner: AsyncRunner) -> None:
        super().__init__(runner)
        self.meetings = AsyncMeetingResponses(runner)
        self.credits = AsyncCreditResponses(runner)
        self.webhooks = AsyncWebhookResponses(runner)
        self.recordings = AsyncRecordingResponses(runner)
        self.notes = AsyncNoteResponses(runner)
