"""The operations on recordings (rules 1/notes and 7/410)."""

from datetime import UTC, datetime

from meetcore.adapters.api import example_records as examples
from meetcore.adapters.api import lists
from meetcore.adapters.api.answers import ApiResponse, render_record
from meetcore.adapters.api.filters import flag, record_id
from meetcore.adapters.api.links import download_url
from meetcore.adapters.api.operation import Operation, OperationRequest, UseCases, path_id
from meetcore.adapters.api.paging import Listing, slice_page
from meetcore.domain.ids import parse_id
from meetcore.domain.notes.recordings import RecordingStatus
from meetcore.domain.records import notes as records
from meetcore.domain.records.notes import recording_record
from meetcore.domain.requests.keys import Scope
from meetcore.domain.requests.rate_window import OperationClass
from meetcore.usecases.idempotency import Outcome
from meetcore.usecases.missing import missing

_READERS = (Scope.RECORDINGS_READ,)


@Operation(
    method="GET",
    path="/recordings",
    scopes=_READERS,
    rate_class=OperationClass.READ,
    listing=Listing({"meeting_id": record_id("Only the recording of this meeting.")}),
    record=lists.RecordingList,
    summary="List the recordings, the newest first",
    about="A recording is there once its media has been measured, some minutes after its meeting.",
    for_agents="Use it to find the recording of a meeting that has ended, by meeting_id; it is there a while "
    "after the end.",
    example=examples.page_of(examples.RECORDING),
)
async def list_recordings(use: UseCases, request: OperationRequest) -> ApiResponse:
    """Rule 1/op/recordings."""
    page = request.page
    found = await use.lists.since(request.caller.version).list_recordings(
        request.caller.account.id, page.filters.get("meeting_id"), page.limit + 1, page.before
    )
    shown, cursor = slice_page(found, page, lambda one: one.id)
    return render_record(
        200, {"data": [recording_record(one, request.now) for one in shown], "next_cursor": cursor}
    )


@Operation(
    method="GET",
    path="/recordings/{id}",
    scopes=_READERS,
    rate_class=OperationClass.READ,
    record=records.Recording,
    refusals=("gone",),
    summary="Read a recording",
    about="An `expired` one can be read, and nothing else: its files are gone.",
    for_agents="Use it to see how long a recording is, and until when it is kept.",
    example=examples.RECORDING,
)
async def get_recording(use: UseCases, request: OperationRequest) -> ApiResponse:
    recording_id = parse_id(request.path["id"], "recording")
    found = await use.queries.find_recording(request.caller.account.id, recording_id)
    if found is None or found.status is RecordingStatus.MEASURING:
        raise await missing(use.queries, request.caller.account.id, recording_id, "recording")
    return render_record(200, recording_record(found, request.now))


@Operation(
    method="GET",
    path="/recordings/{id}/download-url",
    scopes=_READERS,
    rate_class=OperationClass.READ,
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
async def get_download_url(use: UseCases, request: OperationRequest) -> ApiResponse:
    """Rule 1/op/download-url."""
    recording_id = parse_id(request.path["id"], "recording")
    signed = await use.download_recording.link(request.caller.account.id, recording_id, request.now)
    expires_at = datetime.fromtimestamp(signed.link.expires, UTC)
    return render_record(
        200, records.DownloadUrl(url=download_url(use.base_url, signed), expires_at=expires_at)
    )


@Operation(
    method="DELETE",
    path="/recordings/{id}",
    scopes=(Scope.RECORDINGS_WRITE,),
    rate_class=OperationClass.WRITE,
    options={"with_notes": flag("Whether the notes made of it are erased too, with the events about them.")},
    success=204,
    refusals=("gone",),
    summary="Delete a recording for good",
    about="Its files are removed at the video provider too. Notes stay, unless `with_notes` is true; notes "
    "in progress fail and cost nothing. What was charged stays in the ledger.",
    for_agents="Use it to delete a recording for good; with_notes also erases the notes made of it. Ask the "
    "person first: it cannot be undone.",
)
async def delete_recording(use: UseCases, request: OperationRequest) -> Outcome:
    with_notes = bool(request.options.get("with_notes", False))
    return await use.delete_recording(
        request.caller, path_id(request), request.required_key, request.now, with_notes=with_notes
    )
