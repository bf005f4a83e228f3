"""The form of an audit entry."""

from datetime import UTC, datetime
from uuid import UUID

import pytest
from attrs import evolve

from meetcore.domain.members import audit

AT = datetime(2026, 12, 1, tzinfo=UTC)


def entry(action: str, details: dict[str, audit.Detail]) -> audit.AuditEntry:
    return audit.AuditEntry(UUID(int=1), AT, None, audit.SERVICE.actor, action, "x", details)


def test_an_entry_has_an_action_and_small_details() -> None:
    details: dict[str, audit.Detail] = {f"name_{number}": number for number in range(audit.MAX_DETAILS - 1)}
    details["text"] = "x" * audit.MAX_DETAIL_TEXT
    assert entry("key.created", details).details == details
    assert entry("member.role_changed", {}).actor.kind is audit.ActorKind.SYSTEM


@pytest.mark.parametrize(
    "action", ["", "key", "key.", ".created", "Key.created", "key created", "key.created\n"]
)
def test_an_action_is_a_dotted_text(action: str) -> None:
    with pytest.raises(ValueError, match=r"key\.created"):
        entry(action, {})


def test_details_are_small() -> None:
    with pytest.raises(ValueError, match="details"):
        entry("key.created", {f"name_{number}": number for number in range(audit.MAX_DETAILS + 1)})
    with pytest.raises(ValueError, match="details"):
        entry("key.created", {"text": "x" * (audit.MAX_DETAIL_TEXT + 1)})


@pytest.mark.parametrize("action", ["member.invited", "member.invitation_revoked"])
def test_addresses_are_shown_where_they_are_known(action: str) -> None:
    written = evolve(entry(action, {"role": "owner"}), actor=audit.member_actor(UUID(int=7)))
    assert written.actor.name == "member"
    assert audit.as_shown(written, None, None, None) == written
    shown = audit.as_shown(written, "a@example.com", "b@example.com", "Rapat")
    assert (shown.actor.id, shown.actor.name) == (UUID(int=7), "a@example.com")
    assert shown.details == {"role": "owner", "email": "b@example.com"}


def test_others_than_members_and_those_invited_are_shown_as_they_were_written() -> None:
    written = entry("member.removed", {"before": "owner"})
    assert audit.as_shown(written, "a@example.com", "b@example.com", "Rapat") == written


@pytest.mark.parametrize("title", [None, "Rapat"])
def test_a_meeting_is_shown_with_its_title_where_that_is_known(title: str | None) -> None:
    shown = audit.as_shown(entry("meeting.created", {"credits": 10}), None, None, title)
    assert dict(shown.details) == {"credits": 10} | ({} if title is None else {"title": title})


@pytest.mark.parametrize(
    ("actor", "member_id"),
    [
        (audit.member_actor(UUID(int=1)), UUID(int=1)),
        (audit.guest_actor(UUID(int=1), "owner"), None),
        (audit.operator_actor(UUID(int=1), "sari@example.test"), None),
        (audit.SERVICE.actor, None),
    ],
)
def test_an_origin_names_the_member_who_acts(actor: audit.Actor, member_id: UUID | None) -> None:
    assert audit.ActionOrigin(actor).member_id == member_id


def test_repetitions_are_counted_by_action_and_subject() -> None:
    counted = audit.repeat_counter("session.refused", UUID(int=1))
    assert counted == audit.repeat_counter("session.refused", UUID(int=1))
    others = {
        audit.repeat_counter("session.started", UUID(int=1)),
        audit.repeat_counter("session.refused", 2),
    }
    assert len({counted, *others}) == 3
