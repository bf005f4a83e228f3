"""The JSON schemas of bodies and records, from the classes that decode and encode them.

Adds what a class cannot express itself. Knows nothing of the documents that contain the schemas.
"""

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from meetcore.adapters.api.wire_types import body_type, record_type

Json = dict[str, Any]

_OUR_NOTE = re.compile(r" \((?:spec|rules?) [^)]*\)")


def schemas_of(ref_template: str, *, bodies: Iterable[type] = (), records: Iterable[type] = ()) -> Json:
    """Return the schemas of some classes and of their parts, by name.

    Args:
        ref_template: how one schema points to another; `{name}` stands for the name.
        bodies: request bodies.
        records: records of answers and events.
    """
    types = [*map(body_type, bodies), *map(record_type, records)]
    _, schemas = msgspec.json.schema_components(types, ref_template=ref_template)
    for schema in schemas.values():
        if schema.get("type") == "object" and "properties" in schema:
            # A misspelt field is refused, and a record has exactly its fields.
            schema["additionalProperties"] = False
            for each in schema["properties"].values():
                # Generators of clients take a field with a default for one that is always there, and
                # demand it of callers. The description has the effect of its absence.
                each.pop("default", None)
        if "enum" in schema:
            schema["type"] = "string"
        # The rule of the specification that a class implements is an internal note.
        schema["description"] = _OUR_NOTE.sub("", schema["description"])
    return dict(schemas)
