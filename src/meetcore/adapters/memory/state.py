"""The state of the memory adapters: tables of immutable values, changed one transaction at a time.

A transaction works on shallow copies of the tables. They take the place of the originals at its
clean end and are dropped at an exception, so that no half change is visible. A transaction opened
inside another one of the same state waits for ever: they are strictly one after another.

Owns the tables, the one lock and the rules that a database would keep by constraints. It reads no
clock and decides nothing.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import date, datetime
from typing import Any
from uuid import UUID

from attrs import define, field, fields, frozen

from meetcore.domain.errors import NotFound
from meetcore.domain.mails.mails import Mail
from meetcore.domain.meetings.hosts import Host
from meetcore.domain.meetings.meetings import Meeting
from meetcore.domain.meetings.provider_events import ProviderEvent
from meetcore.domain.members.audit import AuditEntry
from meetcore.domain.members.members import Invitation, Membership, User
from meetcore.domain.members.operator_tokens import OperatorToken
from meetcore.domain.members.operators import Operator
from meetcore.domain.members.passkeys import Challenge, Passkey
from meetcore.domain.members.sessions import OperatorSession, Session
from meetcore.domain.members.sign_in_links import SignInLink
from meetcore.domain.members.sign_ups import SignUp
from meetcore.domain.money.chain_keys import Seal
from meetcore.domain.money.holds import CapUsage, Hold
from meetcore.domain.money.ledger import Entry, Funds
from meetcore.domain.money.proposals import Proposal
from meetcore.domain.notes.notes import Note
from meetcore.domain.notes.recordings import Recording
from meetcore.domain.notes.transcripts import Transcript
from meetcore.domain.requests.idempotency import IdempotencyRecord
from meetcore.domain.requests.keys import ApiKey
from meetcore.domain.requests.request_log import LoggedRequest
from meetcore.domain.requests.restores import Restore
from meetcore.domain.requests.retention import RemovedKind
from meetcore.domain.webhooks.deliveries import Attempt, Delivery
from meetcore.domain.webhooks.endpoints import Endpoint
from meetcore.domain.webhooks.events import EventKind
from meetcore.ports.ledger_verification import VerificationRun
from meetcore.ports.registry import NewAccount


class ConstraintBroken(Exception):
    """A write that no store may take: a second operation of one name, a second refund. A caller's bug."""


@frozen
class Account:
    """An account as it was opened, and what it has."""

    card: NewAccount
    funds: Funds
    suspended_at: datetime | None = None
    statements_mailed: date | None = None


@frozen
class HeldLease:
    """Whose work in progress a meeting is, and until when."""

    token: UUID = field(repr=False)
    until: datetime


@frozen
class StoredMeeting:
    """A meeting, and what the store knows of the work on it."""

    meeting: Meeting
    hold_id: UUID | None
    idempotency_key: str | None
    lease: HeldLease | None
    due_at: datetime | None = None
    recording_checks: int = 0


@frozen
class StoredOrphanCheck:
    """An open check for orphans of a meeting: since when it counts, when it is due, and for whom."""

    since: datetime
    due_at: datetime
    failures: int = 0
    token: UUID | None = field(default=None, repr=False)


@frozen
class StoredHostKey:
    """A host's key, `None` while it is another meeting's; when it is due to be replaced, and by whom."""

    host_key: str | None = field(default=None, repr=False)
    due_at: datetime | None = None
    token: UUID | None = field(default=None, repr=False)


@frozen
class Reservation:
    """One slot of a host, taken from `start_at` until before `end_at`."""

    host_id: UUID
    slot: int
    start_at: datetime
    end_at: datetime


@frozen
class StoredEvent:
    """An event as every attempt sends it."""

    kind: EventKind
    payload: bytes = field(repr=False)
    created_at: datetime
    subject_id: UUID | None = None
    cause: str | None = None


@frozen
class StoredDelivery:
    """A delivery and the claim on it. While a claim lasts, its due time lies behind the lease."""

    delivery: Delivery
    token: UUID | None = field(default=None, repr=False)

    def is_in_flight(self, now: datetime) -> bool:
        """Whether a valid lease holds it."""
        due = self.delivery.next_attempt_at
        return self.token is not None and due is not None and due > now


@frozen
class StoredProviderEvent:
    """A provider's webhook event. Once it is done the event is deleted, and nothing is due."""

    provider: str
    digest: bytes
    received_at: datetime
    event: ProviderEvent | None
    due_at: datetime | None
    tries: int = 0
    token: UUID | None = field(default=None, repr=False)


@frozen
class StoredRecording:
    """A recording and the claim on it. While a claim lasts, its due time lies behind the lease."""

    recording: Recording
    due_at: datetime | None
    token: UUID | None = field(default=None, repr=False)
    tries: int = 0


@frozen
class StoredNote:
    """A note, its hold and the claim on it. While a claim lasts, its due time lies behind the lease."""

    note: Note
    hold_id: UUID | None
    due_at: datetime | None
    token: UUID | None = field(default=None, repr=False)
    lease_expirations: int = 0
    cause: str | None = None

    def is_leased(self, now: datetime) -> bool:
        """Whether a valid lease holds it."""
        return self.token is not None and self.due_at is not None and self.due_at > now


@frozen
class StoredMail:
    """A mail and the claim on it. While a claim lasts, its due time lies behind the lease."""

    mail: Mail
    token: UUID | None = field(default=None, repr=False)


@frozen
class StoredVerification:
    """The verification of the ledger: the run in progress, when one is due, what came of the last."""

    run: VerificationRun | None = None
    due_at: datetime | None = None
    verified_at: datetime | None = None
    is_sound: bool = True


@frozen
class StoredRound:
    """The removal of one kind of records: how far the round is, or when the next one is due."""

    after: UUID | None = None
    due_at: datetime | None = None
    started_at: datetime | None = None


@define
class Tables:
    """Everything by its key; what belongs to an account has the account's id first.

    `creations` were made for an account on a day (UTC) on a host. `changes` is how many transactions made
    them.
    """

    accounts: dict[UUID, Account] = field(factory=dict)
    keys: dict[UUID, ApiKey] = field(factory=dict)
    audit_log: dict[UUID, AuditEntry] = field(factory=dict)
    users: dict[UUID, User] = field(factory=dict)
    memberships: dict[tuple[UUID, UUID], Membership] = field(factory=dict)
    invitations: dict[UUID, Invitation] = field(factory=dict)
    operators: dict[UUID, Operator] = field(factory=dict)
    operator_tokens: dict[bytes, OperatorToken] = field(factory=dict)
    proposals: dict[UUID, Proposal] = field(factory=dict)
    links: dict[bytes, SignInLink] = field(factory=dict)
    sessions: dict[bytes, Session] = field(factory=dict)
    operator_sessions: dict[bytes, OperatorSession] = field(factory=dict)
    sign_ups: dict[bytes, SignUp] = field(factory=dict)
    passkeys: dict[UUID, Passkey] = field(factory=dict)
    passkey_challenges: dict[bytes, Challenge] = field(factory=dict)
    key_of_digest: dict[bytes, UUID] = field(factory=dict)
    hosts: dict[UUID, Host] = field(factory=dict)
    host_keys: dict[UUID, StoredHostKey] = field(factory=dict)
    entries: dict[tuple[UUID, int], Entry] = field(factory=dict)
    entry_of_operation: dict[tuple[UUID, str], int] = field(factory=dict)
    entry_of_transfer: dict[tuple[UUID, UUID], int] = field(factory=dict)
    entry_of_reversal: dict[tuple[UUID, UUID], int] = field(factory=dict)
    seals: dict[UUID, Seal] = field(factory=dict)
    holds: dict[tuple[UUID, UUID], Hold] = field(factory=dict)
    usage: dict[tuple[UUID, UUID, date], CapUsage] = field(factory=dict)
    meetings: dict[tuple[UUID, UUID], StoredMeeting] = field(factory=dict)
    reservations: dict[tuple[UUID, UUID], Reservation] = field(factory=dict)
    creations: dict[tuple[UUID, date, UUID], int] = field(factory=dict)
    orphan_checks: dict[tuple[UUID, UUID], StoredOrphanCheck] = field(factory=dict)
    idempotency: dict[tuple[UUID, str], IdempotencyRecord] = field(factory=dict)
    idempotency_since: dict[tuple[UUID, str], datetime] = field(factory=dict)
    endpoints: dict[tuple[UUID, UUID], Endpoint] = field(factory=dict)
    host_claims: dict[str, tuple[datetime, ...]] = field(factory=dict)
    host_failures: dict[tuple[UUID, str], int] = field(factory=dict)
    released_until: dict[tuple[UUID, UUID], datetime] = field(factory=dict)
    events: dict[tuple[UUID, UUID], StoredEvent] = field(factory=dict)
    deliveries: dict[tuple[UUID, UUID], StoredDelivery] = field(factory=dict)
    attempts: dict[tuple[UUID, UUID, int], Attempt] = field(factory=dict)
    provider_events: dict[UUID, StoredProviderEvent] = field(factory=dict)
    recordings: dict[tuple[UUID, UUID], StoredRecording] = field(factory=dict)
    notes: dict[tuple[UUID, UUID], StoredNote] = field(factory=dict)
    transcript_chunks: dict[tuple[UUID, UUID, str, int], Transcript] = field(factory=dict)
    mails: dict[UUID, StoredMail] = field(factory=dict)
    requests: dict[UUID, LoggedRequest] = field(factory=dict)
    erasures: dict[UUID, tuple[datetime, datetime | None]] = field(factory=dict)
    erasures_due: dict[UUID, datetime] = field(factory=dict)
    verification: dict[bool, StoredVerification] = field(factory=dict)
    removed: dict[tuple[UUID, UUID], None] = field(factory=dict)
    retention: dict[RemovedKind, StoredRound] = field(factory=dict)
    changes: int = 0
    restores: dict[int, Restore] = field(factory=dict)

    def copy(self) -> "Tables":
        """The same values in tables of their own."""
        copied: dict[str, Any] = {}
        for each in fields(Tables):
            value = getattr(self, each.name)
            copied[each.name] = dict(value) if isinstance(value, dict) else value
        return Tables(**copied)


class MemoryState:
    """The tables that the memory store, its queries and its registry share."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._committed = Tables()

    @property
    def committed(self) -> Tables:
        """What finished transactions left. Read it, never change it."""
        return self._committed

    @asynccontextmanager
    async def change(self) -> AsyncIterator[Tables]:
        """One transaction: a clean exit keeps what was changed, an exception nothing of it."""
        async with self._lock:
            draft = self._committed.copy()
            yield draft
            draft.changes += 1
            self._committed = draft


def account_of(tables: Tables, account_id: UUID) -> Account:
    """An account.

    Raises:
        NotFound: no such account.
    """
    account = tables.accounts.get(account_id)
    if account is None:
        raise NotFound("No account with this id.")
    return account


def meeting_at_provider(tables: Tables, provider: str, provider_meeting_id: str) -> Meeting | None:
    """The meeting that a provider knows under an id of its own, the latest that had it."""
    named = (
        stored.meeting
        for stored in tables.meetings.values()
        if (stored.meeting.provider, stored.meeting.provider_meeting_id) == (provider, provider_meeting_id)
    )
    return max(named, key=lambda meeting: meeting.id, default=None)
