"""Annotations of records and request bodies as types of msgspec, which checks values and derives schemas."""

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from datetime import datetime
from functools import cache, reduce
from operator import or_
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import attrs
import msgspec
from attrs import frozen
from msgspec import Meta

from meetcore.domain.fields import FieldInfo
from meetcore.domain.webhooks.endpoints import UNSET, Unset

LINES = Meta(extra_json_schema={"pattern": r"^[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]*$"})
"""Marks text that may have tabs and line breaks."""


@frozen
class Rule:
    """A check of a field beyond its type: the problems of a value, which replace those of the type."""

    problems: Callable[[Any], list[str]]


@frozen
class BodyField:
    """A field of a request body: its type for msgspec, its rules, and whether it may have line breaks."""

    kind: Any
    is_required: bool
    rules: tuple[Rule, ...]
    has_lines: bool


@cache
def body_fields(body: type) -> Mapping[str, BodyField]:
    """Return the fields of a body; a field that is a class of its own stands for the fields of that class.

    `null` is a value only where the type says so beside another default than None.
    """
    found: dict[str, BodyField] = {}
    for attribute, hint in _hints(body):
        if attrs.has(hint):
            found |= body_fields(hint)
        else:
            notes = tuple(_notes(hint))
            found[attribute.name] = BodyField(
                wire_type(_without_default(hint, attribute.default)),
                attribute.default is attrs.NOTHING,
                tuple(note for note in notes if isinstance(note, Rule)),
                LINES in notes,
            )
    return found


def shown_name(name: str) -> str:
    """Make a name that a caller chose safe to send back."""
    return name[:100].encode("ascii", "backslashreplace").decode()


@cache
def body_type(body: type) -> type:
    """Return a body as a struct of msgspec: what has a default may be absent."""
    return _struct(
        body,
        [
            (name, each.kind) if each.is_required else (name, each.kind, None)
            for name, each in body_fields(body).items()
        ],
    )


@cache
def record_type(record: type) -> type:
    """Return a record as a struct of msgspec: each field is there, but for those that `is_optional`."""
    fields: list[Any] = []
    for attribute, hint in _hints(record):
        is_optional = any(isinstance(note, FieldInfo) and note.is_optional for note in _notes(hint))
        kind = wire_type(_without_default(hint, None) if is_optional else hint)
        fields.append((attribute.name, kind, None) if is_optional else (attribute.name, kind))
    return _struct(record, fields)


def wire_type(annotation: Any) -> Any:
    """Translate an annotation: `FieldInfo` becomes msgspec's `Meta`, a class becomes a struct."""
    arguments = get_args(annotation)
    if get_origin(annotation) is Annotated:
        return _annotated(arguments[0], arguments[1:])
    if annotation is datetime:
        return Annotated[datetime, Meta(tz=True)]
    if isinstance(annotation, type) and attrs.has(annotation):
        return record_type(annotation)
    if not arguments or get_origin(annotation) is Literal:
        return annotation
    parts = tuple(wire_type(each) for each in arguments)
    return reduce(or_, parts) if _is_union(annotation) else get_origin(annotation)[parts]


def _annotated(kind: Any, notes: tuple[Any, ...]) -> Any:
    kind = wire_type(kind)
    for note in notes:
        if isinstance(note, Meta):
            kind = Annotated[kind, note]
        elif isinstance(note, FieldInfo):
            kind = Annotated[note.known_values or kind, _meta(note)]
    return kind


def _meta(info: FieldInfo) -> Meta:
    extra = {"format": info.format} if info.format else None
    return Meta(
        description=info.description or None, examples=list(info.examples) or None, extra_json_schema=extra
    )


def _struct(cls: type, fields: list[Any]) -> type:
    return msgspec.defstruct(cls.__name__, fields, namespace={"__doc__": cls.__doc__}, kw_only=True)


def _hints(cls: type) -> Iterator[tuple["attrs.Attribute[Any]", Any]]:
    hints = get_type_hints(cls, include_extras=True)
    return ((attribute, hints[attribute.name]) for attribute in attrs.fields(cls))


def _notes(annotation: Any) -> Iterator[Any]:
    """Return the annotations of a type and of the members of a union."""
    first, *rest = get_args(annotation) or (None,)
    if get_origin(annotation) is Annotated:
        yield from rest
        yield from _notes(first)
    elif _is_union(annotation):
        for each in (first, *rest):
            yield from _notes(each)


def _is_union(annotation: Any) -> bool:
    return get_origin(annotation) in (Union, UnionType)


def _without_default(annotation: Any, default: object) -> Any:
    """Take the type of the default out of a union: absence is no value that could be sent."""
    if get_origin(annotation) is Annotated:
        kind, *notes = get_args(annotation)
        return Annotated[(_without_default(kind, default), *notes)]
    left_out = {None: NoneType, UNSET: Unset}.get(default) if default in (None, UNSET) else None
    if left_out is None or not _is_union(annotation):
        return annotation
    return reduce(or_, (each for each in get_args(annotation) if each is not left_out))


Json = dict[str, Any]

_OUR_NOTE = re.compile(r" \((?:spec|rules?) [^)]*\)")


def schemas_of(ref_template: str, *, bodies: Iterable[type] = (), records: Iterable[type] = ()) -> Json:
    """Return the schemas of bodies, records and their parts, by name; a template with `{name}` refers.

    A misspelt field of a body is refused. Records stay open: a later release may add fields and values.
    """
    known = [*bodies]
    types = [*map(body_type, known), *map(record_type, records)]
    _, schemas = msgspec.json.schema_components(types, ref_template=ref_template)
    enums = {ref_template.format(name=name) for name, schema in schemas.items() if "enum" in schema}
    for name, schema in schemas.items():
        if schema.get("type") == "object" and "properties" in schema:
            if any(name == each.__name__ for each in known):
                schema["additionalProperties"] = False
            else:
                schema["properties"] = _with_open_values(schema["properties"], enums)
            for each in schema["properties"].values():
                # Generators of clients take a field with a default for one that is always there, and
                # demand it of callers. The description has the effect of its absence.
                each.pop("default", None)
        if "enum" in schema:
            schema["type"] = "string"
        # The rule of the specification that a class implements is an internal note.
        schema["description"] = _OUR_NOTE.sub("", schema["description"])
    return dict(schemas)


def _with_open_values(schema: Any, enums: Container[str]) -> Any:
    """Let a field have other values than those of its enum."""

    def opened(part: Any) -> Any:
        match part:
            case {"$ref": str(pointer), **beside} if pointer in enums:
                return beside | {"anyOf": [{"$ref": pointer}, {"type": "string"}]}
            case _:
                return part

    return rewritten(schema, opened)


def rewritten(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a schema, or another value of JSON, whose parts `change` replaced, the inner ones first."""
    if isinstance(value, dict):
        value = {name: rewritten(each, change) for name, each in value.items()}
    elif isinstance(value, list):
        value = [rewritten(each, change) for each in value]
    return change(value)
