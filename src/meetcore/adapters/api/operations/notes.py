"""The operations on recordings and their notes (rules 1/notes and 7/410)."""

from datetime import UTC, datetime

import msgspec

from meetcore.adapters.api import answers, bodies, examples, http_common, paging
from meetcore.adapters.api.operation import ITS_ID, Operation, OperationRequest, UseCases, path_id
from meetcore.domain.errors import Gone
from meetcore.domain.ids import parse_id
from meetcore.domain.notes import notes, recordings, views
from meetcore.domain.notes.markdown import markdown
from meetcore.domain.records import notes as records
from meetcore.domain.records.notes import note_record, recording_record
from meetcore.domain.requests import keys, rate_window
from meetcore.usecases.notes.note_charges import NoteRequest
from meetcore.usecases.requests.idempotency import Outcome
from meetcore.usecases.requests.missing_records import missing

_RECORDING_READERS = (keys.Scope.RECORDINGS_READ,)


@Operation(
    method="GET",
    path="/recordings",
    scopes=_RECORDING_READERS,
    listing=paging.Listing({"meeting_id": paging.record_id("Only the recording of this meeting.")}),
    record=paging.RecordingList,
    summary="List the recordings, the newest first",
    about="A recording is there once its media has been measured, some minutes after its meeting.",
    for_agents="Use it to find the recording of a meeting that has ended, by meeting_id; it is there a while "
    "after the end.",
    example=examples.page_of(examples.RECORDING),
)
async def list_recordings(use: UseCases, request: OperationRequest) -> answers.ApiResponse:
    """Rule 1/op/recordings."""
    page = request.page
    found = await use.lists.since(request.caller.version).list_recordings(
        request.account_id, page.filters.get("meeting_id"), page.limit + 1, page.before
    )
    return paging.render_list(found, page, lambda one: one.id, lambda one: recording_record(one, request.now))


@Operation(
    method="GET",
    path="/recordings/{id}",
    scopes=_RECORDING_READERS,
    record=records.Recording,
    refusals=("gone",),
    summary="Read a recording",
    about="An `expired` one can be read, and nothing else: its files are gone.",
    for_agents="Use it to see how long a recording is, and until when it is kept.",
    example=examples.RECORDING,
)
async def get_recording(use: UseCases, request: OperationRequest) -> answers.ApiResponse:
    recording_id = parse_id(request.path["id"], "recording")
    found = await use.queries.find_recording(request.account_id, recording_id)
    if found is None or found.status is recordings.RecordingStatus.MEASURING:
        raise await missing(use.queries, request.account_id, recording_id, "recording")
    return answers.render_record(200, recording_record(found, request.now))


@Operation(
    method="GET",
    path="/recordings/{id}/download-url",
    scopes=_RECORDING_READERS,
    record=records.DownloadUrl,
    refusals=("gone",),
    summary="A link that downloads a recording without a key",
    about="The link works for 15 minutes, for anyone who has it: hand it on with care.",
    for_agents="Use it to hand a recording to a person: the link works for 15 minutes without a key, so give "
    "it to no one else.",
    example={
        "url": f"https://meet.example.com/downloads/recordings/{examples.RECORDING['id']}"
        "?account=01a1fde1-000f-7231-b5bb-4e01a363425d&part=1&expires=1796094600&signature=9f2c…",
        "expires_at": "2026-12-01T03:10:00Z",
    },
)
async def get_download_url(use: UseCases, request: OperationRequest) -> answers.ApiResponse:
    """Rule 1/op/download-url."""
    recording_id = parse_id(request.path["id"], "recording")
    signed = await use.download_recording.link(request.account_id, recording_id, request.now)
    expires_at = datetime.fromtimestamp(signed.link.expires, UTC)
    return answers.render_record(
        200, records.DownloadUrl(url=http_common.download_url(use.base_url, signed), expires_at=expires_at)
    )


@Operation(
    method="DELETE",
    path="/recordings/{id}",
    scopes=(keys.Scope.RECORDINGS_WRITE,),
    options={
        "with_notes": paging.flag("Whether the notes made of it are erased too, with the events about them.")
    },
    success=204,
    refusals=("gone", "conflict"),
    reaches_out=True,
    summary="Delete a recording for good",
    about="Its files are removed at the video provider too. Notes stay, unless `with_notes` is true; notes "
    "in progress fail and cost nothing. What was charged stays in the ledger. That of a test call before its meeting is "
    "409: the meeting's own would be removed with it.",
    for_agents="Use it to delete a recording for good; with_notes also erases the notes made of it. Ask the "
    "person first: it cannot be undone.",
)
async def delete_recording(use: UseCases, request: OperationRequest) -> Outcome:
    with_notes = bool(request.options.get("with_notes", False))
    return await use.delete_recording(
        request.caller, path_id(request), request.required_key, request.now, with_notes=with_notes
    )


MARKDOWN = "text/markdown; charset=utf-8"
_PAGE_BYTES = 4 * 1024 * 1024
_NOTES_AT_ONCE = 5


@Operation(
    method="POST",
    path="/notes",
    scopes=(keys.Scope.NOTULEN_WRITE,),
    rate_class=rate_window.OperationClass.CREDIT,
    body=bodies.CreateNoteBody,
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
    reaches_out=True,
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
    body: bodies.CreateNoteBody = request.body
    wanted = NoteRequest(body.recording_id, body.language)
    return await use.create_note(request.caller, wanted, request.required_key, request.now)


@Operation(
    method="GET",
    path="/notes",
    scopes=(keys.Scope.NOTULEN_READ,),
    listing=paging.Listing(
        {
            "meeting_id": paging.record_id("Only notes on the recording of this meeting."),
            "recording_id": paging.record_id("Only notes on this recording."),
        }
    ),
    record=paging.NoteList,
    summary="List the notes, the newest first",
    about="Each with all of its content: ask for small pages.",
    for_agents="Use it to find the notes of a meeting by meeting_id, those on a recording by recording_id, or the latest "
    "of all. Each has its whole transcript: ask for few by limit.",
    example=examples.page_of(examples.NOTE),
)
async def list_notes(use: UseCases, request: OperationRequest) -> answers.ApiResponse:
    """Rule 1/op/notes."""
    # A few at a time: each has its transcript, and a page is no longer than it must be.
    page, before = request.page, request.page.before
    chosen = views.NoteFilter(page.filters.get("recording_id"), page.filters.get("meeting_id"))
    shown: list[msgspec.Raw] = []
    size_bytes, is_more, lists = 0, True, use.lists.since(request.caller.version)
    while is_more and len(shown) < page.limit and size_bytes < _PAGE_BYTES:
        wanted = min(_NOTES_AT_ONCE, page.limit - len(shown))
        found = await lists.list_notes(request.account_id, chosen, wanted + 1, before)
        is_more = len(found) > wanted
        for note in found[:wanted]:
            shown.append(msgspec.Raw(answers.encode_record(note_record(note))))
            size_bytes, before = size_bytes + len(shown[-1]), note.id
    cursor = paging.cursor_after(page, str(before)) if is_more else None
    return answers.render_record(200, {"data": shown, "next_cursor": cursor})


@Operation(
    method="GET",
    path="/notes/{id}",
    scopes=(keys.Scope.NOTULEN_READ,),
    options={
        "format": paging.one_of({"json": "json", "markdown": "markdown"}, "`markdown` is for people to read.")
    },
    options_of_http=("format",),  # the result of a tool is a record, which an agent reads as well
    record=records.Note,
    refusals=("gone",),
    summary="Read a note",
    about="`format=markdown` answers `text/markdown`. A failed note says why in `error` and costs nothing.",
    for_agents="Use it to read notes: summary, decisions, action items with owner and due date, and the transcript.",
    example=examples.NOTE,
)
async def get_note(use: UseCases, request: OperationRequest) -> answers.ApiResponse:
    """Rule 1/op/note."""
    account_id, note_id = request.account_id, parse_id(request.path["id"], "note")
    is_markdown = request.options.get("format") == "markdown"
    details = await use.queries.find_note_details(account_id, note_id) if is_markdown else None
    note = details.note if details else await use.queries.find_note(account_id, note_id)
    if note is None:
        raise await missing(use.queries, account_id, note_id, "note")
    if note.status is notes.NoteStatus.ERASED:
        raise Gone("This note was erased with its recording.")
    if details is not None:
        return answers.render_text(200, markdown(note, details.meeting), MARKDOWN)
    return answers.render_record(200, note_record(note))
