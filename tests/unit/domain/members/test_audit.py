"""The form of an audit entry."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from meetcore.domain.members.audit import (
    MAX_DETAIL_TEXT,
    MAX_DETAILS,
    SERVICE,
    ActorKind,
    AuditEntry,
    Detail,
)

AT = datetime(2026, 12, 1, tzinfo=UTC)


def entry(action: str, details: dict[str, Detail]) -> AuditEntry:
    return AuditEntry(UUID(int=1), AT, None, SERVICE.actor, action, "x", details)


def test_an_entry_has_an_action_and_small_details() -> None:
    details: dict[str, Detail] = {f"name_{number}": number for number in range(MAX_DETAILS - 1)}
    details["text"] = "x" * MAX_DETAIL_TEXT
    assert entry("key.created", details).details == details
    assert entry("member.role_changed", {}).actor.kind is ActorKind.SYSTEM


@pytest.mark.parametrize(
    "action", ["", "key", "key.", ".created", "Key.created", "key created", "key.created\n"]
)
def test_an_action_is_a_dotted_text(action: str) -> None:
    with pytest.raises(ValueError, match=r"key\.created"):
        entry(action, {})


def test_details_are_small() -> None:
    with pytest.raises(ValueError, match="details"):
        entry("key.created", {f"name_{number}": number for number in range(MAX_DETAILS + 1)})
    with pytest.raises(ValueError, match="details"):
        entry("key.created", {"text": "x" * (MAX_DETAIL_TEXT + 1)})
