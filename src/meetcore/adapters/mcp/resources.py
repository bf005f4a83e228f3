"""Notes and recordings as resources in Markdown: for programs that attach them to a conversation."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

import msgspec
from attrs import frozen
from mcp_types import ListResourceTemplatesResult, ReadResourceResult, ResourceTemplate, TextResourceContents

from meetcore.adapters.api.operation import Operation, OperationRequest, place_of
from meetcore.adapters.api.operations.notes import MARKDOWN, get_note, get_recording
from meetcore.domain.errors import NotFound
from meetcore.ports.queries import Caller

_TYPE: Final = MARKDOWN.partition(";")[0]


def _recording(body: bytes) -> str:
    """Render the record of a recording; all of its values are the service's."""
    recording = msgspec.json.decode(body, type=dict[str, object])
    return (
        "# Recording\n\n- Meeting: {meeting_id}\n- Recorded: {recorded_at}\n"
        "- Length: {duration} {duration_unit}\n- Size: {size_bytes} bytes\n"
        "- Status: {status}\n- Kept until: {expires_at}\n"
    ).format_map(recording)


@frozen
class Resource:
    """The records of an operation that reads one. `render` makes Markdown of its answer."""

    name: str
    operation: Operation
    description: str
    render: Callable[[bytes], str]
    options: Mapping[str, str] = {}

    @property
    def root(self) -> str:
        """The beginning of its addresses."""
        return f"meetcore://{self.name}s/"


_RESOURCES: Final = (
    Resource(
        "note", get_note, "Notes in Markdown, with their transcript. list_notes finds the id.", bytes.decode,
        {"format": "markdown"},
    ),
    Resource(
        "recording", get_recording, "Length, size and end of a recording. list_recordings finds the id.",
        _recording,
    ),
)  # fmt: skip

TEMPLATES: Final = ListResourceTemplatesResult(
    resource_templates=[
        ResourceTemplate(
            name=each.name, title=each.operation.summary, uri_template=f"{each.root}{{id}}",
            description=each.description, mime_type=_TYPE,
        )
        for each in _RESOURCES
    ]
)  # fmt: skip


def find_resource(uri: str) -> Resource:
    """Return the resource of an address; raise `NotFound` for an address of none."""
    for each in _RESOURCES:
        if uri.startswith(each.root):
            return each
    raise NotFound("No such resource. resources/templates/list names the templates.")


def request_of(resource: Resource, uri: str, caller: Caller, now: datetime) -> OperationRequest:
    """Build the request of a resource's operation."""
    ids = {"id": uri.removeprefix(resource.root)}
    place = place_of(resource.operation, ids)
    return OperationRequest(caller, now, place, ids, options=resource.options)


def result_of(resource: Resource, uri: str, body: bytes) -> ReadResourceResult:
    """Build the result of reading a resource from the answer of its operation."""
    content = TextResourceContents(uri=uri, mime_type=_TYPE, text=resource.render(body))
    return ReadResourceResult(contents=[content])
