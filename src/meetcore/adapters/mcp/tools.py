"""The tools, derived from the table of operations, as agents see them.

One operation is one tool, so that an agent can do what its key could do over HTTP and no more. Independent of
the protocol's package: these are values.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import frozen

from meetcore.adapters.api import bodies, paging, wire_types
from meetcore.adapters.api.operation import Operation
from meetcore.domain.errors import InsufficientScope
from meetcore.domain.requests import keys

INSTRUCTIONS = """\
Books online meetings and has their notes written, paid with prepaid credits.

To book: list_pricing_tiers, then estimate_credits, then create_meeting, then share its join_url. Dates and times \
of a booking are WIB (UTC+7); all others are UTC. Ask the person before you spend credits or cancel anything.

For notes, once the meeting has ended: list_recordings with its meeting_id, then create_note with the recording's id, \
then get_note until its status is completed or failed. A meeting with auto_notulen has its notes written without \
create_note: list_notes with the meeting_id finds them. The estimate of a meeting is the meeting's price; notes are \
charged when they are written, by the begun minute of the recording, and fail where the credits are short then.

A tool that costs takes an idempotency_key: keep it over the retries of one intent, change it for a new one. \
After a timeout or an error that says so, repeat the call with the same key and arguments: nothing is paid twice.

A refusal has error.code, error.message and error.details. After rate_limited and service_unavailable wait \
details.retry_after_seconds. After insufficient_scope ask for another key. Quote error.request_id to support.
"""

FOR_BOOKING = frozenset({
    "get_me", "get_credits", "list_pricing_tiers", "estimate_credits", "create_meeting", "list_meetings", "get_meeting",
    "cancel_meeting", "list_recordings", "get_recording", "create_note", "list_notes", "get_note",
})  # fmt: skip
"""What an agent needs to book meetings and to read their notes."""

COSTS = "Costs credits, deducted from the account: call estimate_credits first."
FREE = "Costs no credits."

KEY_OF_COST = (
    "Names this one intent, so that it is paid once: make a new one, such as a UUID, for each new intent; keep it "
    "and the other arguments over every retry. Remembered for 24 hours."
)
KEY_OF_FREE = "Names this one intent, so that a retry with the same arguments does it once. Optional. Remembered for 24 hours."


Json = dict[str, Any]

KEY = "idempotency_key"
_PATH_NAME = re.compile(r"\{(\w+)\}")
_POINTER = "#/$defs/"
_ID: Json = {
    "type": "string",
    "minLength": 1,
    "description": "The id, from a list or from the tool that made it.",
}


@frozen
class Tool:
    """An operation as an agent sees it. The schema has no references.

    There is none of the result: every session would pay for it, half of the list, and a client that holds
    results against it would break on a new field.
    """

    operation: Operation
    description: str
    input_schema: Json

    @property
    def name(self) -> str:
        """The operation's name."""
        return self.operation.name

    @property
    def is_read_only(self) -> bool:
        """Whether it changes nothing."""
        return not self.operation.is_mutating

    @property
    def is_destructive(self) -> bool:
        """Whether it changes or ends an existing record."""
        is_replacement = self.operation.method in ("DELETE", "PATCH")
        return self.operation.is_mutating and (is_replacement or self.operation.success not in (201, 202))

    @property
    def is_idempotent(self) -> bool:
        """Whether the same call again changes nothing more."""
        return self.is_read_only or self.operation.method in ("DELETE", "PATCH") or costs(self.operation)

    def is_open_to(self, key: keys.ApiKey) -> bool:
        """Return whether a key may call it."""
        try:
            keys.require_scope(key, self.operation.scopes)
        except InsufficientScope:
            return False
        return True


def tools_of(table: Iterable[Operation]) -> tuple[Tool, ...]:
    """Return every operation as a tool (rule 1/op/agent-tools), with arguments of different names."""
    known = tuple(table)
    names = {f"{operation.method} {operation.path}": operation.name for operation in known}
    return tuple(
        Tool(
            operation,
            f"{operation.summary}. {operation.for_agents} {COSTS if costs(operation) else FREE}",
            _renamed(_input(operation), names),
        )
        for operation in known
    )


def costs(operation: Operation) -> bool:
    """Return whether credits may be deducted for it."""
    return "insufficient_credits" in operation.refusals


def path_names(operation: Operation) -> list[str]:
    """Return the names of the ids in its path."""
    return _PATH_NAME.findall(operation.path)


def _input(operation: Operation) -> Json:
    groups = [_path_arguments(operation), _key_argument(operation), _list_arguments(operation)]
    body = _body_arguments(operation.body)
    properties: Json = {}
    for group in (*(each["properties"] for each in groups), body["properties"]):
        if taken := properties.keys() & group.keys():
            raise ValueError(f"{operation.name} has two arguments of one name: {sorted(taken)}")
        properties |= group
    required = [name for group in (*groups, body) for name in group["required"]]
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return schema | ({"required": required} if required else {})


def _arguments(properties: Json, required: Sequence[str] = ()) -> Json:
    return {"properties": properties, "required": list(required)}


def _path_arguments(operation: Operation) -> Json:
    names = path_names(operation)
    return _arguments(dict.fromkeys(names, _ID), names)


def _key_argument(operation: Operation) -> Json:
    if not operation.is_mutating:
        return _arguments({})
    is_required = costs(operation)
    schema = {
        "type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$",
        "description": KEY_OF_COST if is_required else KEY_OF_FREE,
    }  # fmt: skip
    return _arguments({KEY: schema}, [KEY] if is_required else [])


def chosen_options(operation: Operation) -> Mapping[str, paging.Filter]:
    """Return the options of an operation, but for those of no use to agents."""
    return {name: each for name, each in operation.options.items() if name not in operation.options_of_http}


def _list_arguments(operation: Operation) -> Json:
    if operation.listing is None:
        return _arguments(
            {
                name: {**each.schema, "description": each.description}
                for name, each in chosen_options(operation).items()
            }
        )
    limit = {
        "type": "integer", "minimum": 1, "maximum": paging.MAX_LIMIT, "default": paging.DEFAULT_LIMIT,
        "description": "How many at most.",
    }  # fmt: skip
    cursor = {"type": "string", "minLength": 1, "description": "The next_cursor of the page before; opaque."}
    filters = {
        name: {**each.schema, "description": each.description}
        for name, each in operation.listing.filters.items()
    }
    return _arguments({"limit": limit, "cursor": cursor} | filters)


def _body_arguments(body: type | bodies.OneOfBody | None) -> Json:
    if body is None:
        return _arguments({})
    if isinstance(body, bodies.OneOfBody):
        return _choice_arguments(body)
    schema = _body_schema(body)
    return _arguments(schema["properties"], schema.get("required", ()))


def _choice_arguments(choice: bodies.OneOfBody) -> Json:
    """Build one object for several bodies: models read no alternatives at the root of a schema."""
    schemas = {tag: _body_schema(body) for tag, body in choice.bodies.items()}
    names = dict.fromkeys(name for schema in schemas.values() for name in schema["properties"])
    tag: Json = {"type": "string", "enum": list(schemas), "description": "What it is about."}
    shared = {name: _of_some(name, choice.tag, schemas) for name in names if name != choice.tag}
    return _arguments({choice.tag: tag} | shared, [choice.tag])


def _of_some(name: str, tag: str, schemas: Mapping[str, Json]) -> Json:
    """Build the schema of a field that some of the bodies have, and name those bodies."""
    owners = [each for each, schema in schemas.items() if name in schema["properties"]]
    field: Json = dict(schemas[owners[0]]["properties"][name])
    if all(name in schemas[owner].get("required", ()) for owner in owners):
        note = f"Required with {tag} {' or '.join(owners)}"
    else:
        note = f"With {tag} {' or '.join(owners)}"
    if len(owners) < len(schemas):
        note += " only"
    return field | {"description": f"{field.get('description', '')} {note}.".strip()}


def _body_schema(body: type) -> Json:
    return _whole(body.__name__, wire_types.schemas_of(_POINTER + "{name}", bodies=[body]))


def _whole(name: str, schemas: Json) -> Json:
    """Return a schema with all references replaced by their targets."""

    def resolved(part: Any) -> Any:
        match part:
            case {"$ref": str(pointer), **beside}:
                return _whole(pointer.removeprefix(_POINTER), schemas) | beside
            case _:
                return part

    whole: Json = wire_types.rewritten(schemas[name], resolved)
    return whole


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    """Replace the method and path of an operation by its tool's name, in all texts."""

    def renamed(part: Any) -> Any:
        if isinstance(part, str):
            for place, name in names.items():
                part = re.sub(rf"`?{re.escape(place)}(?![\w/{{-])`?", name, part)
        return part

    return wire_types.rewritten(value, renamed)
