"""Notes as resources: Markdown, for people and for programs that attach it to a conversation."""

from datetime import datetime
from typing import Final

from mcp_types import ListResourceTemplatesResult, ReadResourceResult, ResourceTemplate, TextResourceContents

from meetcore.adapters.api.operation import OperationRequest, place_of
from meetcore.adapters.api.operations.notes import MARKDOWN, get_note
from meetcore.domain.errors import NotFound
from meetcore.ports.queries import Caller

_ROOT: Final = "meetcore://notes/"

TEMPLATES: Final = ListResourceTemplatesResult(
    resource_templates=[
        ResourceTemplate(
            name="note",
            title=get_note.summary,
            uri_template=f"{_ROOT}{{id}}",
            description="Notes in Markdown, with their transcript. list_notes finds the id.",
            mime_type=MARKDOWN.partition(";")[0],
        )
    ]
)


def note_request(uri: str, caller: Caller, now: datetime) -> OperationRequest:
    """Build the request of `get_note` for a resource; raise `NotFound` for an address that is no note's."""
    if not uri.startswith(_ROOT):
        raise NotFound("No such resource. resources/templates/list names the templates.")
    ids = {"id": uri.removeprefix(_ROOT)}
    return OperationRequest(caller, now, place_of(get_note, ids), ids, options={"format": "markdown"})


def resource_of(uri: str, body: bytes) -> ReadResourceResult:
    """Build the result of reading a note."""
    content = TextResourceContents(uri=uri, mime_type=MARKDOWN.partition(";")[0], text=body.decode())
    return ReadResourceResult(contents=[content])
