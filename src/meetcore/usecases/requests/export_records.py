"""The README of an account's archive, its lines of records that the API does not have, and its ZIP stream."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime, timedelta
from typing import Final, TypeVar
from uuid import UUID
from weakref import finalize
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from attrs import frozen

from meetcore.domain.errors import Unprocessable
from meetcore.domain.fields import as_json, shown_fields
from meetcore.domain.mails import mails, views
from meetcore.domain.mails.topics import MailTopic, topics_of
from meetcore.domain.meetings.schedule import utc_text
from meetcore.domain.members import audit, members, passkeys
from meetcore.domain.members.sessions import ABSOLUTE_LIMIT, Session, is_view
from meetcore.domain.payments.receipts import Buyer
from meetcore.domain.payments.views import PaymentPapers
from meetcore.domain.records.payments import payment_record
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
payments.jsonl     payments for credits, with their refunds and receipts
billing.jsonl      whom receipts are made out to
webhooks.jsonl     webhooks, without their secrets
deliveries.jsonl   what was sent to them, with the latest attempts and answers, of the last {events} days
events.jsonl       events with their payloads, of the last {events} days
requests.jsonl     calls of the API of the last {requests} days; of many at once not all
audit_log.jsonl    who changed what, when and from where

Not in it are

- keys, secrets, passwords and tokens: they would let the reader of this file act for the account
- the files of recordings, and the texts of mails, which are erased when a mail is sent
- mails with links to sign in: they are to a person, for whatever account
- deliveries to webhooks that were removed
- the pages on which payments are made, and what payment gateways answered about them
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
    return shown_fields(
        account, "id", "user_id", "email", "full_name", "created_at", "suspended_at", "suspension_reason",
        "balance", "held", "low_threshold",
    )  # fmt: skip


def member_line(member: members.Member, chosen: Mapping[MailTopic, bool]) -> dict[str, object]:
    """Return a member, with the topics of mails that the member gets by choice or by role."""
    topics = topics_of(member.membership.role, chosen)
    return {
        **shown_fields(member.user, "id", "email", "full_name", "language"),
        **shown_fields(member.membership, "role"),
        "mail_topics": [topic.value for topic, is_on in topics.items() if is_on],
        **shown_fields(member.membership, "created_at"),
    }


def passkey_line(passkey: passkeys.Passkey) -> dict[str, object]:
    """Return a passkey, without its key."""
    return shown_fields(passkey, "id", "user_id", "name", "created_at", "last_used_at")


def invitation_line(invitation: members.Invitation) -> dict[str, object]:
    """Return an invitation, without its link."""
    return shown_fields(invitation, "id", "email", "role", "created_at", "expires_at")


def session_line(session: Session) -> dict[str, object]:
    """A session, without its token. One without a user is a guest's, or an operator's view of the account.

    An operator's has no address and no browser: they are data of another person.
    """
    is_operators = is_view(session)
    return {
        **shown_fields(session, "id", "user_id", "guest_role"),
        "is_operators": is_operators,
        **shown_fields(session, "created_at", "last_seen_at", "ended_at"),
        "browser": None if is_operators else session.user_agent,
        "client_address": None if is_operators else session.client_address,
    }


def mail_line(mail: views.MailSummary) -> dict[str, object]:
    """Return a mail, without its text."""
    return shown_fields(
        mail, "id", "recipient", "kind", "language", "created_at", "attempts_made", "sent_at", "failed_at",
        "last_error",
    )  # fmt: skip


def key_line(key: keys.ApiKey) -> dict[str, object]:
    """Return an API key, without its text."""
    return {
        **shown_fields(key, "id", "name", "last_four", "scopes"),
        "daily_credit_cap": key.daily_cap,
        **shown_fields(key, "created_at", "created_by", "expires_at", "revoked_at", "last_used_at"),
    }


def payment_line(papers: PaymentPapers) -> dict[str, object]:
    """Return a payment with its refund and its receipt, without its page at the gateway."""
    shown, receipt = dict(as_json(payment_record(papers))), papers.receipt
    del shown["payment_url"]
    shown["receipt"] = receipt and {
        "number": receipt.text,
        **shown_fields(receipt, "issued_at"),
        "buyer": buyer_line(receipt.buyer),
    }
    return shown


def buyer_line(buyer: Buyer) -> dict[str, object]:
    """Return whom a receipt is made out to."""
    return shown_fields(buyer, "name", "address", "tax_number")


def request_line(request: request_log.LoggedRequest) -> dict[str, object]:
    """Return a call of the API."""
    return shown_fields(
        request, "id", "api_key_id", "at", "method", "path", "status", "duration_ms", "code", "message",
        "details", "client_address", "subject_id",
    )  # fmt: skip


def audit_entry_line(entry: audit.AuditEntry) -> dict[str, object]:
    """Return an entry of the audit log."""
    return {
        **shown_fields(entry, "id", "at"),
        "actor": entry.actor.name,
        "actor_kind": entry.actor.kind.value,
        **shown_fields(entry, "action", "target_id"),
        "details": dict(entry.details),
        **shown_fields(entry, "client_address", "is_impersonated"),
    }


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


T = TypeVar("T")

REST: Final = 3.0
"""How long a file rests after each piece, in times of its making: a quarter of the process makes it."""


class Place:
    """The place of one file in the making, until it is released once."""

    def __init__(self, running: set[UUID], account_id: UUID) -> None:
        self._running: set[UUID] | None = running
        self._account_id = account_id
        running.add(account_id)

    def release(self) -> None:
        """Give the place back; a second call changes nothing."""
        if self._running is not None:
            self._running.discard(self._account_id)
        self._running = None


def take_place(running: set[UUID], account_id: UUID, in_all: int) -> Place:
    """Take the place of an account among the `in_all` of the process; raise `Unprocessable` without one."""
    if account_id in running or len(running) >= in_all:
        raise Unprocessable("Another export is being made. Try again when it is done.")
    return Place(running, account_id)


def in_place(pieces: AsyncIterator[T], place: Place) -> AsyncGenerator[T, None]:
    """Return the pieces of a file, gently made, which releases its place at its end, read or not."""
    made = _held(pieces, place)
    finalize(made, place.release)  # one that was never asked for a piece runs no `finally`
    return made


async def _held(pieces: AsyncIterator[T], place: Place) -> AsyncGenerator[T, None]:
    try:
        async with aclosing(gently(pieces)) as gentle:
            async for piece in gentle:
                yield piece
    finally:
        place.release()


async def gently(pieces: AsyncIterator[T]) -> AsyncGenerator[T, None]:
    """Yield pieces, and rest `REST` times as long as each took to make."""
    clock = asyncio.get_running_loop().time
    while True:
        start = clock()
        try:
            piece = await anext(pieces)
        except StopAsyncIteration:
            return
        took_s = clock() - start
        yield piece
        await asyncio.sleep(took_s * REST)
