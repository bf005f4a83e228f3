"""Meetings as rows: their columns, sealed texts opened."""

from typing import Any
from uuid import UUID

from attrs import evolve

from meetcore.adapters.postgres.columns import Columns, Row, readable, seal_text, utc
from meetcore.adapters.postgres.requests.idempotency import sealed_outcome
from meetcore.domain.meetings import hosts, meetings, sessions, views
from meetcore.ports.runtime import Cipher

_JOIN_URL_CONTEXT = "{account_id}/meetings/{id}/join-url"
_PASSWORD_CONTEXT = "{account_id}/meetings/{id}/password"  # noqa: S105  (what a password is sealed for)
MEETING = Columns(
    meetings.Meeting, "m", "meeting_", nested={"options": ""},
    sealed={"password": _PASSWORD_CONTEXT, "join_url": _JOIN_URL_CONTEXT},
    without=("host_key",),
)  # fmt: skip

HOST = Columns(hosts.Host, "h", "host_")

# How many hosts are checked one by one, and how many free ones are returned: more than requests that hold one.
MOST_CHECKED_HOSTS = 32
MOST_FREE_HOSTS = 8


def meeting(row: Row, cipher: Cipher) -> meetings.Meeting:
    """Read a meeting, its password and link opened; `None` where they do not open."""
    return MEETING.read(row, cipher)


def session(row: Row) -> sessions.Session:
    """Read a session of a meeting."""
    started_at, ended_at = row["started_at"], row["ended_at"]
    return sessions.Session(
        row["provider_session_id"],
        None if started_at is None else utc(started_at),
        None if ended_at is None else utc(ended_at),
    )


def meeting_with_key(row: Row, cipher: Cipher) -> meetings.Meeting:
    """Read a meeting with the key of its host, if the row has one."""
    found = meeting(row, cipher)
    if row["host_key"] is None or found.host_id is None:
        return found
    return evolve(found, host_key=readable(cipher, row["host_key"], host_key_context(found.host_id)))


def ending_parameters(
    view: views.LeaseView, meeting: meetings.Meeting, encoded_outcome: bytes | None, cipher: Cipher
) -> dict[str, Any]:
    """Return the parameters that every end of work under a lease has."""
    key = None if view.claim is None else view.claim.key
    sealed = sealed_outcome(cipher, view.meeting.account_id, key, encoded_outcome)
    return MEETING.parameters(meeting, cipher) | _work_parameters(view) | {"answer": sealed}


def scheduled_parameters(view: views.LeaseView, meeting: meetings.Meeting, cipher: Cipher) -> dict[str, Any]:
    """Return the parameters of a meeting that was made: of its columns those that the provider's answer changes."""
    account_id, id_ = meeting.account_id, meeting.id
    return {
        "account_id": account_id,
        "meeting_id": id_,
        "meeting_status": meeting.status.value,
        "meeting_provider_meeting_id": meeting.provider_meeting_id,
        "meeting_join_url": seal_text(cipher, meeting.join_url, join_url_context(account_id, id_)),
        "meeting_password": seal_text(cipher, meeting.password, password_context(account_id, id_)),
    } | _work_parameters(view)


def _work_parameters(view: views.LeaseView) -> dict[str, Any]:
    return {
        "key": None if view.claim is None else view.claim.key,
        "hold_id": None if view.hold is None else view.hold.id,
    }


def password_context(account_id: UUID, meeting_id: UUID) -> str:
    """Return the context that the password of a meeting is sealed for."""
    return _PASSWORD_CONTEXT.format(account_id=account_id, id=meeting_id)


def join_url_context(account_id: UUID, meeting_id: UUID) -> str:
    """Return the context that the link of a meeting is sealed for."""
    return _JOIN_URL_CONTEXT.format(account_id=account_id, id=meeting_id)


def host_key_context(host_id: UUID) -> str:
    """Return the context that a host's key is sealed for."""
    return f"hosts/{host_id}/key"
