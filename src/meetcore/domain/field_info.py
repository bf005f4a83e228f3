"""What a field of a request or record means, beside its type: `Annotated[int, FieldInfo("Whole credits.")]`.

Schemas and documents are derived from it. Nothing here is checked.
"""

from collections.abc import Sequence
from enum import Enum

from attrs import frozen

__all__ = ["FieldInfo"]


@frozen
class FieldInfo:
    """A field's description for people, and what its type does not say.

    `format` is a format of JSON Schema. `known_values` are those of today: the type stays `str`, so that a
    reader accepts later ones. A field that `is_optional` is left out of a record where it is None.
    """

    description: str = ""
    examples: Sequence[object] = ()
    format: str = ""
    known_values: type[Enum] | None = None
    is_optional: bool = False
