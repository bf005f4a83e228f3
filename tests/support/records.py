"""Records for tests of several areas, and workers' transactions."""

import os
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Any
from uuid import UUID

from attrs import evolve

from meetcore.domain.ids import RANDOM_BYTES, uuid7
from meetcore.domain.mails.contents import (
    EndpointDisabled,
    LowCredits,
    MailContent,
    PasskeyChanged,
    PaymentEnded,
    PaymentReceived,
    PaymentRefunded,
    StatementReady,
    SuspensionChanged,
)
from meetcore.domain.mails.contents import Invitation as InvitationMail
from meetcore.domain.mails.contents import SignInLink as SignInLinkMail
from meetcore.domain.mails.mails import Mail, MailLimits, Recipient, open_mail, record_failure, record_sent
from meetcore.domain.mails.views import ClaimedMail
from meetcore.domain.meetings.provider_events import ProviderEvent, ProviderEventKind
from meetcore.domain.meetings.views import ClaimedEvent, DueHostKey
from meetcore.domain.members.members import Membership, User, check_owner_stays
from meetcore.domain.members.operators import Operator
from meetcore.domain.members.roles import OperatorRole, Role
from meetcore.domain.notes.notes import Language
from meetcore.domain.notes.recordings import FileKind, RecordingFile
from meetcore.domain.webhooks.deliveries import open_delivery
from meetcore.domain.webhooks.endpoints import Endpoint
from meetcore.domain.webhooks.events import Event, EventKind
from meetcore.domain.webhooks.retry_schedule import RetrySchedule
from meetcore.ports.runtime import Lease
from tests.support.postgres_rig import PostgresRig
from tests.support.transactions import AT, email_of, new_id


async def post(rig: PostgresRig, endpoint: Endpoint, kind: EventKind, at: datetime) -> Event:
    """Write an event for one endpoint, with its delivery."""
    id_ = uuid7(at, new_id().bytes[-RANDOM_BYTES:])
    event = Event(id_, endpoint.account_id, kind, at, {"note": "Rapat ✓"})
    async with rig.store.begin() as tx:
        view = await tx.endpoints.load_for_posting(endpoint.account_id, endpoint.id)
        assert view is not None
        delivery = open_delivery(
            id=new_id(), endpoint=endpoint, event_id=id_, event_kind=kind, created_at=at, now=view.now
        )
        await tx.endpoints.add_event_for_endpoint(event, delivery)
    return event


async def claim_keys(rig: PostgresRig, limit: int = 100, seconds: float = 60.0) -> Sequence[DueHostKey]:
    """Claim hosts with due keys."""
    return await rig.alone.host_keys.claim_due(limit, Lease(new_id(), seconds))


async def save_key(rig: PostgresRig, due: DueHostKey, host_key: str) -> bool:
    """Record a host key; return `False` if the lease is lost."""
    return await rig.alone.host_keys.save(due.host_id, due.token, host_key)


CONTENTS: tuple[MailContent, ...] = (
    SignInLinkMail("https://meet.example/sign-in?token=SEALED-one-time", AT),
    InvitationMail(
        "https://meet.example/join?token=SEALED-invited", "Perkumpulan “Émile”", "Dewi", Role.FINANCE, AT
    ),
    EndpointDisabled(
        ("https://hooks.example/a", "https://hooks.example/b"),
        20,
        AT,
        "Perkumpulan “Émile”",
        "https://meet.example/",
    ),
    LowCredits(9, 10, "Perkumpulan “Émile”", "https://meet.example/"),
    PasskeyChanged("Dewi's laptop", True, AT, "192.0.2.1", "https://meet.example/"),
    StatementReady(date(2026, 11, 1), "Perkumpulan “Émile”", "https://meet.example/"),
    PaymentReceived("2026-000001", 500, 555_000, "IDR", "Perkumpulan “Émile”", "https://meet.example/"),
    PaymentRefunded(100, 111_000, "IDR", False, "Perkumpulan “Émile”", "https://meet.example/"),
    PaymentEnded(500, 555_000, "IDR", True, "Perkumpulan “Émile”", "https://meet.example/"),
    SuspensionChanged("Perkumpulan “Émile”", True, "Unpaid bills", AT, "https://meet.example/"),
)


NO_LIMITS = MailLimits(10_000, 10_000)


def new_mail(
    rig: PostgresRig,
    content: MailContent = CONTENTS[0],
    *,
    to: str | None = None,
    account_id: UUID | None = None,
) -> Mail:
    """Return a mail of the store's present."""
    id_ = new_id()
    recipient = Recipient(to or email_of(id_), Language.ENGLISH)
    return open_mail(
        id=id_, account_id=account_id, recipient=recipient, content=content, created_at=rig.now()
    )


async def add_mails(rig: PostgresRig, *mails: Mail, limits: MailLimits = NO_LIMITS) -> int:
    """Add mails; return the number written."""
    return await rig.alone.mails.add(*mails, limits=limits)


async def claim_mails(rig: PostgresRig, limit: int = 100, seconds: float = 60.0) -> Sequence[ClaimedMail]:
    """Claim due mails."""
    return list(await rig.alone.mails.claim_due(limit, Lease(new_id(), seconds)))


async def record_mail(
    rig: PostgresRig, claimed: ClaimedMail, error: str | None = None, retry_s: int = -1
) -> bool:
    """Record success, or an error with a retry, none if negative; return `False` if the claim is lost."""
    schedule = RetrySchedule((retry_s,) * 100 if retry_s >= 0 else ())
    async with rig.store.begin() as tx:
        view = await tx.mails.load_claimed(claimed)
        if view is None:
            return False
        sent = record_sent(view.mail, view.now)
        if error is not None:
            sent = record_failure(
                view.mail, error, is_final=False, schedule=schedule, jitter=0.0, now=view.now
            )
        await tx.mails.save(sent)
    return True


def new_user(**fields: Any) -> User:
    id_ = new_id()
    return evolve(User(id_, email_of(id_), "Dewi Ayu", AT), **fields)


async def put_user(rig: PostgresRig, user: User | None = None) -> User:
    return await rig.alone.members.ensure_user(user or new_user())


async def put_member(
    rig: PostgresRig, account_id: UUID, role: Role = Role.OWNER, user: User | None = None
) -> User:
    async with rig.store.begin() as tx:
        user = await tx.members.ensure_user(user or new_user())
        await tx.lock_account(account_id)
        assert await tx.members.add_membership(Membership(account_id, user.id, role, AT))
        return user


async def remove_member(rig: PostgresRig, account_id: UUID, user_id: UUID) -> None:
    async with rig.store.begin() as tx:
        await tx.lock_account(account_id)
        check_owner_stays(await tx.members.load_members(account_id), user_id, None)
        await tx.members.remove_membership(account_id, user_id, AT)


async def put_operator(rig: PostgresRig, role: OperatorRole = OperatorRole.SUPPORT) -> Operator:
    id_ = new_id()
    operator = Operator(id_, email_of(id_), role, AT)
    await rig.alone.operators.add(operator)
    return operator


def new_file(id: str = "a1", **fields: Any) -> RecordingFile:
    url = f"https://files.example/{id}?key=SEALED-file"
    return evolve(
        RecordingFile(id, FileKind.VIDEO, 210_000_000, AT, AT + timedelta(minutes=36), url), **fields
    )


def provider_event(**fields: Any) -> ProviderEvent:
    """Return the event of an ended meeting; `fields` are its attributes."""
    return evolve(ProviderEvent("zoom", ProviderEventKind.MEETING_ENDED, "85746065432", AT), **fields)


async def add_event(rig: PostgresRig, event: ProviderEvent, digest: bytes | None = None) -> UUID | None:
    """Add an event; return its id, `None` for a duplicate."""
    id_ = new_id()
    is_new = await rig.alone.inbox.add(id_, event, os.urandom(32) if digest is None else digest)
    return id_ if is_new else None


async def claim_events(rig: PostgresRig, limit: int = 100, seconds: float = 60.0) -> Sequence[ClaimedEvent]:
    return list(await rig.alone.inbox.claim(limit, Lease(new_id(), seconds)))


async def finish_event(rig: PostgresRig, claimed: ClaimedEvent, token: UUID | None = None) -> None:
    """Mark an event as done, by default under its own token."""
    await rig.alone.inbox.done(claimed.id, token or claimed.token)
