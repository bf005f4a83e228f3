"""Meetings as rows: their columns, sealed texts opened."""

from typing import Any
from uuid import UUID

from attrs import evolve

from meetcore.adapters.postgres.columns import Columns, Row, readable, seal_text
from meetcore.adapters.postgres.hosts.keys import host_key_context
from meetcore.adapters.postgres.idempotency import sealed_outcome
from meetcore.domain.meetings.meetings import Meeting
from meetcore.ports.cipher import Cipher
from meetcore.ports.meetings import LeaseView

JOIN_URL = "{account_id}/meetings/{id}/join-url"
_PASSWORD_CONTEXT = "{account_id}/meetings/{id}/password"  # noqa: S105  (what a password is sealed for)
MEETING = Columns(
    Meeting, "m", "meeting_", nested={"options": ""},
    renamed={"join_url": "sealed_join_url"},
    sealed={"password": _PASSWORD_CONTEXT, "join_url": JOIN_URL},
    without=("host_key",),
)  # fmt: skip

# With the link in the clear, as an earlier release wrote it, until it is sealed.
MEETING_COLUMNS = f"{MEETING.select}, m.join_url AS meeting_join_url"


def meeting(row: Row, cipher: Cipher) -> Meeting:
    """A meeting, its password and link opened; `None` where they do not open."""
    given = {} if row["meeting_join_url"] is None else {"join_url": row["meeting_join_url"]}
    return MEETING.read(row, cipher, **given)


def meeting_with_key(row: Row, cipher: Cipher) -> Meeting:
    """A meeting with the key of its host, if the row has one."""
    found = meeting(row, cipher)
    if row["host_key"] is None or found.host_id is None:
        return found
    return evolve(found, host_key=readable(cipher, row["host_key"], host_key_context(found.host_id)))


def ending_parameters(
    view: LeaseView, meeting: Meeting, encoded_outcome: bytes | None, cipher: Cipher
) -> dict[str, Any]:
    """The parameters that every end of work under a lease has."""
    return MEETING.parameters(meeting, cipher) | _work_parameters(view, encoded_outcome, cipher)


def scheduled_parameters(
    view: LeaseView, meeting: Meeting, encoded_outcome: bytes | None, cipher: Cipher
) -> dict[str, Any]:
    """The parameters of a meeting that was made: of its columns those that the provider's answer changes."""
    account_id, id_ = meeting.account_id, meeting.id
    return {
        "account_id": account_id,
        "meeting_id": id_,
        "meeting_status": meeting.status.value,
        "meeting_provider_meeting_id": meeting.provider_meeting_id,
        "meeting_sealed_join_url": seal_text(cipher, meeting.join_url, join_url_context(account_id, id_)),
        "meeting_password": seal_text(cipher, meeting.password, password_context(account_id, id_)),
    } | _work_parameters(view, encoded_outcome, cipher)


def _work_parameters(view: LeaseView, encoded_outcome: bytes | None, cipher: Cipher) -> dict[str, Any]:
    key = None if view.claim is None else view.claim.key
    return {
        "key": key,
        "answer": sealed_outcome(cipher, view.meeting.account_id, key, encoded_outcome),
        "hold_id": None if view.hold is None else view.hold.id,
    }


def password_context(account_id: UUID, meeting_id: UUID) -> str:
    """What the password of a meeting is sealed for."""
    return _PASSWORD_CONTEXT.format(account_id=account_id, id=meeting_id)


def join_url_context(account_id: UUID, meeting_id: UUID) -> str:
    """What the link of a meeting is sealed for."""
    return JOIN_URL.format(account_id=account_id, id=meeting_id)
