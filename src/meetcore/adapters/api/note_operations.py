"""The operations on recordings and on the notes made of them (spec 1/notes, 7/410)."""

from datetime import UTC, datetime

import msgspec
from attrs import frozen
from msgspec import UNSET

from meetcore.adapters.api.answers import ApiResponse, render_record, render_text
from meetcore.adapters.api.bodies import CreateNoteBody
from meetcore.adapters.api.filters import flag, one_of, record_id
from meetcore.adapters.api.links import download_url
from meetcore.adapters.api.operation import Call, Operation, UseCases, path_id
from meetcore.adapters.api.paging import Listing, cursor_after, slice_page
from meetcore.domain.errors import Gone, NotFound
from meetcore.domain.ids import parse_id
from meetcore.domain.meetings.schedule import utc_text
from meetcore.domain.notes.markdown import markdown
from meetcore.domain.notes.notes import Language, Note, NoteStatus
from meetcore.domain.notes.recordings import RecordingStatus
from meetcore.domain.records import note_record, recording_record
from meetcore.domain.requests.keys import Scope
from meetcore.domain.requests.rate_window import OperationClass
from meetcore.ports.queries import NoteFilter
from meetcore.usecases.create_note import NoteRequest
from meetcore.usecases.idempotency import Answer

__all__ = ["note_operations"]

_MEETING = record_id("Only the recording of this meeting.")
_OF_RECORDING = record_id("Only notes on this recording.")
_OF_MEETING = record_id("Only notes on the recording of this meeting.")
_WITH_NOTES = flag("Whether the notes made of it are erased too, with the events that told of them.")
_FORMAT = one_of({"json": "json", "markdown": "markdown"}, "`markdown` is for people to read.")
_NOTE_REFUSALS = (
    "not_found", "gone", "conflict", "unprocessable_entity", "insufficient_credits", "credit_cap_exceeded",
)  # fmt: skip
MARKDOWN = "text/markdown; charset=utf-8"
_PAGE_BYTES = 4 * 1024 * 1024
_NOTES_AT_ONCE = 5
_encoder = msgspec.json.Encoder()


def note_operations(use: UseCases) -> tuple[Operation, ...]:
    """The operations on recordings and notes, bound to their use cases."""
    read, write, credit = OperationClass.READ, OperationClass.WRITE, OperationClass.CREDIT
    recordings, notes = _Recordings(use), _Notes(use)
    one, readers = "/recordings/{id}", (Scope.RECORDINGS_READ,)
    return (
        Operation(
            "list_recordings", "GET", "/recordings", "List the recordings, the newest first", read,
            recordings.list, (), 200, readers,
            response="RecordingList", listing=Listing({"meeting_id": _MEETING}),
        ),
        Operation(
            "get_recording", "GET", one, "Read a recording", read,
            recordings.get, (), 200, readers, response="Recording",
        ),
        Operation(
            "get_download_url", "GET", f"{one}/download-url",
            "A link that downloads a recording without a key", read,
            recordings.link, ("gone",), 200, readers, response="DownloadUrl",
        ),
        Operation(
            "delete_recording", "DELETE", one, "Delete a recording for good", write,
            recordings.delete, (), 204, (Scope.RECORDINGS_WRITE,), None, _present_deleted,
            options={"with_notes": _WITH_NOTES},
        ),
        Operation(
            "create_note", "POST", "/notes", "Have notes written of a recording", credit,
            notes.create, _NOTE_REFUSALS, 202, (Scope.NOTULEN_WRITE,), CreateNoteBody, _present_note, "Note",
        ),
        Operation(
            "list_notes", "GET", "/notes", "List the notes, the newest first", read,
            notes.list, (), 200, (Scope.NOTULEN_READ,),
            response="NoteList", listing=Listing({"meeting_id": _OF_MEETING, "recording_id": _OF_RECORDING}),
        ),
        Operation(
            "get_note", "GET", "/notes/{id}", "Read a note", read,
            notes.get, ("gone",), 200, (Scope.NOTULEN_READ,), response="Note", options={"format": _FORMAT},
        ),
    )  # fmt: skip


@frozen
class _Recordings:
    use: UseCases

    async def list(self, call: Call) -> ApiResponse:
        page = call.page
        found = await self.use.queries.list_recordings(
            call.caller.account.id, page.filters.get("meeting_id"), page.limit + 1, page.before
        )
        shown, cursor = slice_page(found, page, lambda one: one.id)
        return render_record(
            200, {"data": [recording_record(one, call.now) for one in shown], "next_cursor": cursor}
        )

    async def get(self, call: Call) -> ApiResponse:
        recording_id = parse_id(call.path["id"], "recording")
        found = await self.use.queries.find_recording(call.caller.account.id, recording_id)
        if found is None or found.status is RecordingStatus.MEASURING:
            raise NotFound("No recording with this id.")
        return render_record(200, recording_record(found, call.now))

    async def link(self, call: Call) -> ApiResponse:
        recording_id = parse_id(call.path["id"], "recording")
        signed = await self.use.download_recording.link(call.caller.account.id, recording_id, call.now)
        expires_at = datetime.fromtimestamp(signed.link.expires, UTC)
        url = download_url(self.use.base_url, signed)
        return render_record(200, {"url": url, "expires_at": utc_text(expires_at)})

    async def delete(self, call: Call) -> Answer:
        with_notes = bool(call.options.get("with_notes", False))
        return await self.use.delete_recording(
            call.caller, path_id(call), call.required_request, call.now, with_notes=with_notes
        )


@frozen
class _Notes:
    use: UseCases

    async def create(self, call: Call) -> Answer:
        body: CreateNoteBody = call.body
        language = Language.INDONESIAN if body.language is UNSET else body.language
        wanted = NoteRequest(body.recording_id, language)
        return await self.use.create_note(call.caller, wanted, call.required_request, call.now)

    async def list(self, call: Call) -> ApiResponse:
        """A page, a few notes at a time: each has its transcript, and a page is no longer than it must be."""
        page, before = call.page, call.page.before
        chosen = NoteFilter(page.filters.get("recording_id"), page.filters.get("meeting_id"))
        shown: list[msgspec.Raw] = []
        size_bytes, is_more = 0, True
        while is_more and len(shown) < page.limit and size_bytes < _PAGE_BYTES:
            wanted = min(_NOTES_AT_ONCE, page.limit - len(shown))
            found = await self.use.queries.list_notes(call.caller.account.id, chosen, wanted + 1, before)
            is_more = len(found) > wanted
            for note in found[:wanted]:
                shown.append(msgspec.Raw(_encoder.encode(note_record(note))))
                size_bytes, before = size_bytes + len(shown[-1]), note.id
        cursor = cursor_after(page, str(before)) if is_more else None
        return render_record(200, {"data": shown, "next_cursor": cursor})

    async def get(self, call: Call) -> ApiResponse:
        note_id = parse_id(call.path["id"], "note")
        note = await self.use.queries.find_note(call.caller.account.id, note_id)
        if note is None:
            raise NotFound("No note with this id.")
        if note.status is NoteStatus.ERASED:
            raise Gone("This note was erased with its recording.")
        if call.options.get("format") == "markdown":
            return render_text(200, markdown(note), MARKDOWN)
        return render_record(200, note_record(note))


def _present_deleted(_: object, __: datetime) -> ApiResponse:
    return ApiResponse(204, b"")


def _present_note(outcome: object, _: datetime) -> ApiResponse:
    assert isinstance(outcome, Note)
    return render_record(202, note_record(outcome))
