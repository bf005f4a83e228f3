"""The outbox of mails: content sealed, claimed under leases."""

from collections.abc import Callable, Mapping, Sequence
from uuid import UUID

import msgspec
import structlog
from attrs import asdict

from meetcore.adapters.postgres.columns import Columns, Row, utc
from meetcore.adapters.postgres.repository import NEWEST, Reads, Repository, load_statements
from meetcore.adapters.postgres.requests.registry import ACCOUNT
from meetcore.domain.errors import require_record
from meetcore.domain.mails.contents import CONTENT_OF
from meetcore.domain.mails.mails import LIMIT_WINDOW, NEVER_DROPPED, Mail, MailLimits, Recipient
from meetcore.domain.mails.topics import MailTopic, may_read, reads_by_default
from meetcore.domain.mails.views import ClaimedMail, MailSummary, MailView
from meetcore.domain.members.roles import Role
from meetcore.domain.notes.notes import Language
from meetcore.domain.requests.views import StoredAccount
from meetcore.ports.runtime import Cipher, CipherRefused, Lease

log = structlog.get_logger("meetcore.postgres")

MAIL = Columns(Mail, "m", "mail_", without=("content", "due_at"))

_CONTEXT = "mails/{mail_id}/content"


def mail_context(mail_id: UUID) -> str:
    """Return the context that the content of a mail is sealed for."""
    return _CONTEXT.format(mail_id=mail_id)


_decoders = {kind: msgspec.json.Decoder(content) for kind, content in CONTENT_OF.items()}


def mail(row: Row, cipher: Cipher) -> Mail | None:
    """Read a mail that is not over, without content where that does not open; `None` for a later release's kind."""
    content = None
    try:
        document = cipher.open(row["mail_content"], _CONTEXT.format_map(row))
        content = _decoders[row["mail_kind"]].decode(document)
    except (CipherRefused, msgspec.DecodeError, KeyError):
        log.exception("mail does not open", mail_id=str(row["mail_id"]))
        if row["mail_kind"] not in _decoders:
            return None
    return MAIL.read(row, due_at=utc(row["mail_due_at"]), content=content)


def mail_parameters(mail: Mail, cipher: Cipher) -> Row:
    """Return the parameters of a mail's columns. One that is over has no content."""
    found = MAIL.parameters(mail) | {"mail_due_at": mail.due_at, "mail_content": None}
    if mail.content is not None:
        found["mail_content"] = cipher.seal(msgspec.json.encode(mail.content), _CONTEXT.format_map(found))
    return found


def _is_owner_or(role: Role, topic: MailTopic | None, of_topic: Callable[[Role, MailTopic], bool]) -> bool:
    return role is Role.OWNER if topic is None else of_topic(role, topic)


class PostgresMailRepository(Repository):
    """Mails."""

    async def add(self, *mails: Mail, limits: MailLimits) -> int:
        accounts = {str(one.account_id) for one in mails if one.account_id is not None}
        names = [*accounts, *{one.recipient.lower() for one in mails}]
        await self._run(SQL["lock_counts"], names=names)
        of_limits = asdict(limits) | {"window_s": LIMIT_WINDOW.total_seconds()}
        added = [
            await self._changed(
                SQL["add_mail"],
                mail_parameters(one, self._cipher)
                | of_limits
                | {"is_limited": one.kind not in NEVER_DROPPED},
            )
            for one in mails
        ]
        return sum(added)

    async def find_recipients(
        self, account_id: UUID, topic: MailTopic | None = MailTopic.WEBHOOKS
    ) -> Sequence[Recipient]:
        found = await self._all(
            SQL["find_recipients"], account_id=account_id, topic=topic or "",
            readers=[role.value for role in Role if _is_owner_or(role, topic, may_read)],
            by_default=[role.value for role in Role if _is_owner_or(role, topic, reads_by_default)],
        )  # fmt: skip
        return [Recipient(row["email"], Language(row["language"] or Language.INDONESIAN)) for row in found]

    async def account_name(self, account_id: UUID) -> str:
        row = await self._one("SELECT full_name FROM accounts WHERE id = %(id)s", id=account_id)
        return str(require_record(row, "account")["full_name"])

    async def save_topics(self, account_id: UUID, user_id: UUID, topics: Mapping[MailTopic, bool]) -> None:
        text = msgspec.json.encode({topic.value: is_on for topic, is_on in topics.items()}).decode()
        await self._run(SQL["save_topics"], account_id=account_id, user_id=user_id, topics=text)

    async def claim_due(self, limit: int, lease: Lease) -> Sequence[ClaimedMail]:
        """Take due mails. One that does not open has no content; a later release's kind is left to its lease."""
        found = sorted(
            await self._all(SQL["claim_due_mails"], limit=limit, token=lease.token, lease_s=lease.seconds),
            key=lambda row: (row["was_due_at"], row["mail_id"]),
        )
        opened = [(mail(row, self._cipher), row["had_lease"]) for row in found]
        return [ClaimedMail(one, lease.token, had_lease) for one, had_lease in opened if one is not None]

    async def load_claimed(self, claimed: ClaimedMail) -> MailView | None:
        row = await self._one(SQL["load_mail"], id=claimed.mail.id, token=claimed.token)
        found = None if row is None else mail(row, self._cipher)
        return None if row is None or found is None else MailView(found, utc(row["now"]))

    async def save(self, mail: Mail) -> None:
        await self._run(SQL["save_mail"], mail_parameters(mail, self._cipher))


_SUMMARY = Columns(MailSummary, "m", "mail_")

SQL = load_statements(__file__, MAIL=MAIL, SUMMARY=_SUMMARY, ACCOUNT=ACCOUNT)


class MailReads(Reads):
    """Reads of stored mails."""

    async def list_mails(self, account_id: UUID, limit: int, before: UUID | None) -> Sequence[MailSummary]:
        page = {"account_id": account_id, "limit": limit, "before": before or NEWEST}
        return await self._list(_SUMMARY, SQL["list_mails"], page)

    async def find_settings(
        self, account_id: UUID, user_id: UUID | None
    ) -> tuple[StoredAccount, Mapping[MailTopic, bool]]:
        row = await self._one(SQL["find_settings"], account_id=account_id, user_id=user_id)
        found = require_record(row, "account")
        topics = {MailTopic(name): is_on for name, is_on in found["mail_topics"].items()}
        return ACCOUNT.read(found), topics
