"""The outbox of mails in memory: claimed by pushing the due time past a lease."""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from attrs import evolve

from meetcore.adapters.memory.state import ConstraintBroken, MemoryState, StoredMail, Tables, account_of
from meetcore.domain.mails.mails import LIMIT_WINDOW, Mail, MailLimits, Recipient
from meetcore.domain.members.roles import Role
from meetcore.domain.requests.accounts import email_key
from meetcore.ports.clock import Clock
from meetcore.ports.lease import Lease
from meetcore.ports.mails import ClaimedMail, MailSummary, MailView


class MemoryMailQueries:
    """Reads of the mails that are kept."""

    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def list_mails(self, account_id: UUID, limit: int, before: UUID | None) -> Sequence[MailSummary]:
        found = [
            one.mail
            for one in self._state.committed.mails.values()
            if one.mail.account_id == account_id and (before is None or one.mail.id < before)
        ]
        return [_summary(one) for one in sorted(found, key=lambda one: one.id, reverse=True)[:limit]]


class MemoryMailRepository:
    """Mails, on one open transaction."""

    def __init__(self, tables: Tables, clock: Clock) -> None:
        self._tables = tables
        self._clock = clock

    async def add(self, *mails: Mail, limits: MailLimits) -> int:
        added = [mail for mail in mails if self._add(mail, limits)]
        return len(added)

    def _add(self, mail: Mail, limits: MailLimits) -> bool:
        if mail.account_id is not None:
            account_of(self._tables, mail.account_id)
        if mail.id in self._tables.mails:
            raise ConstraintBroken(f"mail {mail.id} is written already")
        now = self._clock.now()
        lately = [
            stored.mail
            for stored in self._tables.mails.values()
            if stored.mail.created_at > now - LIMIT_WINDOW
        ]
        to_recipient = sum(email_key(one.recipient) == email_key(mail.recipient) for one in lately)
        of_account = sum(one.account_id == mail.account_id is not None for one in lately)
        if to_recipient >= limits.per_recipient or of_account >= limits.per_account:
            return False
        self._tables.mails[mail.id] = StoredMail(evolve(mail, due_at=now))
        return True

    async def find_recipients(
        self, account_id: UUID, roles: Sequence[Role] = (Role.OWNER, Role.DEVELOPER)
    ) -> Sequence[Recipient]:
        found = [
            (one.created_at, one.user_id)
            for one in self._tables.memberships.values()
            if one.account_id == account_id and one.role in roles
        ]
        return [Recipient(self._tables.users[user_id].email) for _, user_id in sorted(found)]

    async def claim_due(self, limit: int, lease: Lease) -> Sequence[ClaimedMail]:
        now = self._clock.now()
        due = sorted(
            (stored.mail.due_at, id_)
            for id_, stored in self._tables.mails.items()
            if stored.mail.due_at is not None and stored.mail.due_at <= now
        )
        claimed = []
        for _, id_ in due[:limit]:
            stored = self._tables.mails[id_]
            mail = evolve(stored.mail, due_at=now + timedelta(seconds=lease.seconds))
            self._tables.mails[id_] = StoredMail(mail, lease.token)
            claimed.append(ClaimedMail(mail, lease.token, stored.token is not None))
        return claimed

    async def load_claimed(self, claimed: ClaimedMail) -> MailView | None:
        stored = self._tables.mails.get(claimed.mail.id)
        if stored is None or stored.token != claimed.token:
            return None
        return MailView(stored.mail, self._clock.now())

    async def save(self, mail: Mail) -> None:
        self._tables.mails[mail.id] = StoredMail(mail)


def _summary(mail: Mail) -> MailSummary:
    return MailSummary(
        mail.id, mail.recipient, mail.kind, mail.language, mail.created_at, mail.attempts_made, mail.sent_at,
        mail.failed_at, mail.last_error,
    )  # fmt: skip
