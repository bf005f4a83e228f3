"""The operations on the notes of recordings (rules 1/notes and 7/410)."""

import msgspec

from meetcore.adapters.api import example_records as examples
from meetcore.adapters.api import lists
from meetcore.adapters.api.answers import ApiResponse, encode_record, render_record, render_text
from meetcore.adapters.api.bodies import CreateNoteBody
from meetcore.adapters.api.filters import one_of, record_id
from meetcore.adapters.api.operation import ITS_ID, Operation, OperationRequest, UseCases
from meetcore.adapters.api.paging import Listing, cursor_after
from meetcore.domain.errors import Gone
from meetcore.domain.ids import parse_id
from meetcore.domain.notes.markdown import markdown
from meetcore.domain.notes.notes import NoteStatus
from meetcore.domain.records import notes as records
from meetcore.domain.records.notes import note_record
from meetcore.domain.requests.keys import Scope
from meetcore.domain.requests.rate_window import OperationClass
from meetcore.ports.queries import NoteFilter
from meetcore.usecases.create_note import NoteRequest
from meetcore.usecases.idempotency import Outcome
from meetcore.usecases.missing import missing

MARKDOWN = "text/markdown; charset=utf-8"
_PAGE_BYTES = 4 * 1024 * 1024
_NOTES_AT_ONCE = 5


@Operation(
    method="POST",
    path="/notes",
    scopes=(Scope.NOTULEN_WRITE,),
    rate_class=OperationClass.CREDIT,
    body=CreateNoteBody,
    record=records.Note,
    success=202,
    refusals=(
        "not_found",
        "gone",
        "conflict",
        "unprocessable_entity",
        "insufficient_credits",
        "credit_cap_exceeded",
    ),
    links={"get_note": ITS_ID},
    summary="Have notes written of a recording",
    about="The note is `queued`; `note.completed` is sent when it is ready. It is charged then, by the begun minutes "
    "of the recording; until then that is held. There is one note for each recording and language: "
    "where it is there the answer is 409, and `details.id` names it for `GET /notes/{id}`. A recording without "
    "sound is 422; 503 with Retry-After means that more of it has come and is being measured.",
    for_agents="Use it to have notes written of a recording, once per language. The price is by the minute of the "
    "recording: estimate_credits with type notulen returns it. The note is queued: read it with get_note after a few "
    "minutes, until its status is completed or failed; a failed one costs nothing.",
    requests={
        "indonesian": {"recording_id": examples.RECORDING["id"]},
        "english": {"recording_id": examples.RECORDING["id"], "language": "en"},
    },
    example=examples.QUEUED_NOTE,
)
async def create_note(use: UseCases, request: OperationRequest) -> Outcome:
    body: CreateNoteBody = request.body
    wanted = NoteRequest(body.recording_id, body.language)
    return await use.create_note(request.caller, wanted, request.required_key, request.now)


@Operation(
    method="GET",
    path="/notes",
    scopes=(Scope.NOTULEN_READ,),
    rate_class=OperationClass.READ,
    listing=Listing(
        {
            "meeting_id": record_id("Only notes on the recording of this meeting."),
            "recording_id": record_id("Only notes on this recording."),
        }
    ),
    record=lists.NoteList,
    summary="List the notes, the newest first",
    about="Each with all of its content: ask for small pages.",
    for_agents="Use it to find the notes of a meeting by meeting_id, those on a recording by recording_id, or the latest "
    "of all.",
    example=examples.page_of(examples.NOTE),
)
async def list_notes(use: UseCases, request: OperationRequest) -> ApiResponse:
    """Rule 1/op/notes."""
    # A few at a time: each has its transcript, and a page is no longer than it must be.
    page, before = request.page, request.page.before
    chosen = NoteFilter(page.filters.get("recording_id"), page.filters.get("meeting_id"))
    shown: list[msgspec.Raw] = []
    size_bytes, is_more, lists = 0, True, use.lists.since(request.caller.version)
    while is_more and len(shown) < page.limit and size_bytes < _PAGE_BYTES:
        wanted = min(_NOTES_AT_ONCE, page.limit - len(shown))
        found = await lists.list_notes(request.caller.account.id, chosen, wanted + 1, before)
        is_more = len(found) > wanted
        for note in found[:wanted]:
            shown.append(msgspec.Raw(encode_record(note_record(note))))
            size_bytes, before = size_bytes + len(shown[-1]), note.id
    cursor = cursor_after(page, str(before)) if is_more else None
    return render_record(200, {"data": shown, "next_cursor": cursor})


@Operation(
    method="GET",
    path="/notes/{id}",
    scopes=(Scope.NOTULEN_READ,),
    rate_class=OperationClass.READ,
    options={"format": one_of({"json": "json", "markdown": "markdown"}, "`markdown` is for people to read.")},
    options_of_http=("format",),  # the result of a tool is a record, which an agent reads as well
    record=records.Note,
    refusals=("gone",),
    summary="Read a note",
    about="`format=markdown` answers `text/markdown`. A failed note says why in `error` and costs nothing.",
    for_agents="Use it to read notes: summary, decisions, action items with owner and due date, and the transcript.",
    example=examples.NOTE,
)
async def get_note(use: UseCases, request: OperationRequest) -> ApiResponse:
    """Rule 1/op/note."""
    account_id, note_id = request.caller.account.id, parse_id(request.path["id"], "note")
    note = await use.queries.find_note(account_id, note_id)
    if note is None:
        raise await missing(use.queries, account_id, note_id, "note")
    if note.status is NoteStatus.ERASED:
        raise Gone("This note was erased with its recording.")
    if request.options.get("format") == "markdown":
        return render_text(200, markdown(note), MARKDOWN)
    return render_record(200, note_record(note))
