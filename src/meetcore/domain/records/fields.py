"""Types of fields that several records have."""

from datetime import UTC, datetime
from typing import Annotated, Final

from meetcore.domain.field_info import FieldInfo

__all__ = ["DURATION_UNIT", "Credits", "Id", "Utc", "in_utc"]

DURATION_UNIT: Final = "minutes"

Utc = Annotated[datetime, FieldInfo("RFC 3339 in UTC, whole seconds.")]
Id = Annotated[str, FieldInfo("A UUID.", format="uuid")]
Credits = Annotated[int, FieldInfo("Whole credits.")]


def in_utc(at: datetime) -> datetime:
    """Return an instant as records show it: in UTC, its fraction of a second cut off."""
    is_whole = at.tzinfo is UTC and not at.microsecond
    return at if is_whole else at.astimezone(UTC).replace(microsecond=0)
