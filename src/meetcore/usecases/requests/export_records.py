"""The README of an account's archive, its lines of records that the API does not have, and its ZIP stream."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from attrs import frozen

from meetcore.domain.mails import mails, views
from meetcore.domain.mails.topics import MailTopic, topics_of
from meetcore.domain.meetings.schedule import utc_text
from meetcore.domain.members import audit, members, passkeys
from meetcore.domain.members.sessions import ABSOLUTE_LIMIT, Session, is_view
from meetcore.domain.requests import keys, request_log
from meetcore.domain.requests.views import StoredAccount

_README: Final = """\
What this service keeps of the account, one JSON object on each line.

account.jsonl      the account: its name, e-mail address, balance and settings
members.jsonl      who belongs to it, with which role
passkeys.jsonl     names and dates of the members' passkeys; never a key
invitations.jsonl  invitations that wait for an answer; earlier ones are in audit_log.jsonl
sessions.jsonl     who signed in to it, with IP address and browser, until {sessions} days after the last use
mails.jsonl        mails about it of the last {mails} days: to whom, of which kind and what became of them
api_keys.jsonl     names, scopes and dates of API keys; never a key
meetings.jsonl     meetings, without passwords and host keys
recordings.jsonl   recordings; download their files while they are available
notes.jsonl        notes with their transcripts
ledger.jsonl       every change of the balance, the newest first
webhooks.jsonl     webhooks, without their secrets
deliveries.jsonl   what was sent to them, with every attempt and its answer, of the last {events} days
events.jsonl       events with their payloads, of the last {events} days
requests.jsonl     calls of the API of the last {requests} days; of many at once not all
audit_log.jsonl    who changed what, when and from where

Not in it are

- keys, secrets, passwords and tokens: they would let the reader of this file act for the account
- the files of recordings, and the texts of mails, which are erased when a mail is sent
- mails with links to sign in: they are to a person, for whatever account
- deliveries to webhooks that were removed
- answers that are kept for a day, for requests that are sent again: they repeat the records above
- reports of the video provider that are still worked on, and counters that limits need
- IP addresses and browsers of the sessions in which operators of this service looked at the account
- what operators of this service propose to one another: what was approved is in ledger.jsonl

Times are in UTC (RFC 3339). Made at {at}.
"""


def readme(at: datetime, events_kept: timedelta) -> str:
    """Describe the files of an archive that is made at a time."""
    return _README.format(
        at=utc_text(at), events=events_kept.days, sessions=ABSOLUTE_LIMIT.days, mails=mails.MAILS_KEPT.days,
        requests=request_log.REQUESTS_KEPT.days,
    )  # fmt: skip


def account_line(account: StoredAccount) -> dict[str, object]:
    """Return an account."""
    return {
        "id": str(account.id),
        "user_id": str(account.user_id),
        "email": account.email,
        "full_name": account.full_name,
        "created_at": utc_text(account.created_at),
        "suspended_at": _instant(account.suspended_at),
        "suspension_reason": account.suspension_reason,
        "balance": account.balance,
        "held": account.held,
        "low_threshold": account.low_threshold,
    }


def member_line(member: members.Member, chosen: Mapping[MailTopic, bool]) -> dict[str, object]:
    """Return a member, with the topics of mails that the member gets by choice or by role."""
    topics = topics_of(member.membership.role, chosen)
    return {
        "id": str(member.user.id),
        "email": member.user.email,
        "full_name": member.user.full_name,
        "language": member.user.language,
        "role": member.membership.role.value,
        "mail_topics": [topic.value for topic, is_on in topics.items() if is_on],
        "created_at": utc_text(member.membership.created_at),
    }


def passkey_line(passkey: passkeys.Passkey) -> dict[str, object]:
    """Return a passkey, without its key."""
    return {
        "id": str(passkey.id),
        "user_id": str(passkey.user_id),
        "name": passkey.name,
        "created_at": utc_text(passkey.created_at),
        "last_used_at": _instant(passkey.last_used_at),
    }


def invitation_line(invitation: members.Invitation) -> dict[str, object]:
    """Return an invitation, without its link."""
    return {
        "id": str(invitation.id),
        "email": invitation.email,
        "role": invitation.role.value,
        "created_at": utc_text(invitation.created_at),
        "expires_at": utc_text(invitation.expires_at),
    }


def session_line(session: Session) -> dict[str, object]:
    """A session, without its token. One without a user is a guest's, or an operator's view of the account.

    An operator's has no address and no browser: they are data of another person.
    """
    is_operators = is_view(session)
    return {
        "id": str(session.id),
        "user_id": None if session.user_id is None else str(session.user_id),
        "guest_role": None if session.guest_role is None else session.guest_role.value,
        "is_operators": is_operators,
        "created_at": utc_text(session.created_at),
        "last_seen_at": utc_text(session.last_seen_at),
        "ended_at": _instant(session.ended_at),
        "browser": None if is_operators else session.user_agent,
        "client_address": None if is_operators else session.client_address,
    }


def mail_line(mail: views.MailSummary) -> dict[str, object]:
    """Return a mail, without its text."""
    return {
        "id": str(mail.id),
        "recipient": mail.recipient,
        "kind": mail.kind.value,
        "language": mail.language.value,
        "created_at": utc_text(mail.created_at),
        "attempts_made": mail.attempts_made,
        "sent_at": _instant(mail.sent_at),
        "failed_at": _instant(mail.failed_at),
        "last_error": mail.last_error,
    }


def key_line(key: keys.ApiKey) -> dict[str, object]:
    """Return an API key, without its text."""
    return {
        "id": str(key.id),
        "name": key.name,
        "last_four": key.last_four,
        "scopes": [scope.value for scope in key.scopes],
        "daily_credit_cap": key.daily_cap,
        "created_at": utc_text(key.created_at),
        "created_by": None if key.created_by is None else str(key.created_by),
        "expires_at": _instant(key.expires_at),
        "revoked_at": _instant(key.revoked_at),
        "last_used_at": _instant(key.last_used_at),
    }


def request_line(request: request_log.LoggedRequest) -> dict[str, object]:
    """Return a call of the API."""
    return {
        "id": str(request.id),
        "api_key_id": str(request.api_key_id),
        "at": utc_text(request.at),
        "method": request.method,
        "path": request.path,
        "status": request.status,
        "duration_ms": request.duration_ms,
        "code": request.code,
        "message": request.message,
        "details": list(request.details),
        "client_address": request.client_address,
        "subject_id": None if request.subject_id is None else str(request.subject_id),
    }


def audit_entry_line(entry: audit.AuditEntry) -> dict[str, Any]:
    """Return an entry of the audit log."""
    return {
        "id": str(entry.id),
        "at": utc_text(entry.at),
        "actor": entry.actor.name,
        "actor_kind": entry.actor.kind.value,
        "action": entry.action,
        "target_id": entry.target_id,
        "details": dict(entry.details),
        "client_address": entry.client_address,
        "is_impersonated": entry.is_impersonated,
    }


def _instant(at: datetime | None) -> str | None:
    return None if at is None else utc_text(at)


_OWNER_ONLY: Final = 0o600 << 16


@frozen
class ArchivedFile:
    """A file of an archive and its content, in pieces."""

    name: str
    pieces: AsyncIterator[bytes]


class _Sink:
    """Buffers written bytes until they are fetched; not readable, not seekable."""

    def __init__(self) -> None:
        self._written = bytearray()

    def write(self, data: bytes) -> int:
        self._written += data
        return len(data)

    def flush(self) -> None:
        """Keep written bytes."""

    def take(self) -> bytes:
        """Fetch the bytes written since the last time."""
        taken, self._written = bytes(self._written), bytearray()
        return taken


async def zip_stream(files: Sequence[ArchivedFile], at: datetime) -> AsyncIterator[bytes]:
    """Write a ZIP archive (with ZIP64 where needed) of files dated `at`, compressed beside the event loop."""
    sink = _Sink()
    archive = ZipFile(sink, "w", ZIP_DEFLATED)  # type: ignore[call-overload]  # needs write and flush only
    for file in files:
        info = ZipInfo(file.name, at.timetuple()[:6])
        info.compress_type, info.external_attr = ZIP_DEFLATED, _OWNER_ONLY
        with archive.open(info, "w", force_zip64=True) as member:
            async for piece in file.pieces:
                await asyncio.to_thread(member.write, piece)
                if made := sink.take():
                    yield made
    await asyncio.to_thread(archive.close)
    yield sink.take()
