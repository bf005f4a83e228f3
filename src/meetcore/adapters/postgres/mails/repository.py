"""The outbox of mails in PostgreSQL: claimed by pushing the due time past a lease."""

from collections.abc import Sequence
from uuid import UUID

from attrs import asdict

from meetcore.adapters.postgres.advisory_locks import MAILS_COUNTED
from meetcore.adapters.postgres.columns import utc
from meetcore.adapters.postgres.mails.rows import MAIL, MAIL_COLUMNS, mail, mail_parameters
from meetcore.adapters.postgres.repository import Repository
from meetcore.domain.mails.mails import LIMIT_WINDOW, Mail, MailLimits, Recipient
from meetcore.domain.members.roles import Role
from meetcore.ports.lease import Lease
from meetcore.ports.mails import ClaimedMail, MailView

# Waits for other transactions that mail the same recipients, or for the same accounts: the next statement sees theirs.
# In one order, so that no two wait for each other crosswise.
_LOCK = f"""
SELECT pg_advisory_xact_lock(number) FROM (
    SELECT DISTINCT {MAILS_COUNTED} AS number FROM unnest(%(names)s::text[]) AS counted (name) ORDER BY number) AS locks
"""

# Writes a mail, due at once, if there is room for one more within the hour.
_ADD = f"""
INSERT INTO mails ({MAIL.names}, due_at, content)
SELECT {MAIL.values}, clock_timestamp(), %(mail_content)s
WHERE %(per_recipient)s > (
        SELECT count(*) FROM mails m WHERE lower(m.recipient) = lower(%(mail_recipient)s)
            AND m.created_at > statement_timestamp() - %(window_s)s * interval '1 second')
    AND %(per_account)s > (
        SELECT count(*) FROM mails m WHERE m.account_id = %(account_id)s
            AND m.created_at > statement_timestamp() - %(window_s)s * interval '1 second')
"""

# Who is mailed about an account's webhooks: its owners and developers, the oldest first.
_FIND_RECIPIENTS = """
SELECT u.email FROM memberships b JOIN users u ON u.id = b.user_id
WHERE b.account_id = %(account_id)s AND b.role = ANY(%(roles)s)
ORDER BY b.created_at, b.account_id, b.user_id
"""

# Takes what is due, the longest due first, and passes over what another worker is taking.
_CLAIM = f"""
WITH due AS (
    SELECT id, due_at, lease_token IS NOT NULL AS had_lease FROM mails WHERE due_at <= statement_timestamp()
    ORDER BY due_at, id LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
UPDATE mails m SET lease_token = %(token)s, due_at = statement_timestamp() + %(lease_s)s * interval '1 second'
FROM due WHERE m.id = due.id
RETURNING {MAIL_COLUMNS}, due.had_lease, due.due_at AS was_due_at
"""

# A mail, locked, for the holder of its claim only.
_LOAD = f"""
SELECT {MAIL_COLUMNS}, clock_timestamp() AS now FROM mails m
WHERE m.id = %(id)s AND m.lease_token = %(token)s FOR UPDATE
"""

# Writes what became of a mail and ends the claim; the content of one that is over is erased.
_SAVE = """
UPDATE mails SET lease_token = NULL, due_at = %(mail_due_at)s, attempts_made = %(mail_attempts_made)s,
    sent_at = %(mail_sent_at)s, failed_at = %(mail_failed_at)s, last_error = %(mail_last_error)s,
    content = CASE WHEN %(mail_due_at)s::timestamptz IS NULL THEN NULL ELSE content END
WHERE id = %(mail_id)s
"""


class PostgresMailRepository(Repository):
    """Mails."""

    async def add(self, *mails: Mail, limits: MailLimits) -> int:
        accounts = {str(one.account_id) for one in mails if one.account_id is not None}
        names = [*accounts, *{one.recipient.lower() for one in mails}]
        await self._connection.execute(_LOCK, {"names": names})
        of_limits = asdict(limits) | {"window_s": LIMIT_WINDOW.total_seconds()}
        added = [await self._changed(_ADD, mail_parameters(one, self._cipher) | of_limits) for one in mails]
        return sum(added)

    async def find_recipients(
        self, account_id: UUID, roles: Sequence[Role] = (Role.OWNER, Role.DEVELOPER)
    ) -> Sequence[Recipient]:
        named = {"account_id": account_id, "roles": [role.value for role in roles]}
        found = await self._all(_FIND_RECIPIENTS, named)
        return [Recipient(row["email"]) for row in found]

    async def claim_due(self, limit: int, lease: Lease) -> Sequence[ClaimedMail]:
        """Take what is due.

        One that does not open is logged and left to its lease, as a delivery is.
        """
        parameters = {"limit": limit, "token": lease.token, "lease_s": lease.seconds}
        found = sorted(
            await self._all(_CLAIM, parameters), key=lambda row: (row["was_due_at"], row["mail_id"])
        )
        opened = [(mail(row, self._cipher), row["had_lease"]) for row in found]
        return [ClaimedMail(one, lease.token, had_lease) for one, had_lease in opened if one is not None]

    async def load_claimed(self, claimed: ClaimedMail) -> MailView | None:
        row = await self._one(_LOAD, {"id": claimed.mail.id, "token": claimed.token})
        found = None if row is None else mail(row, self._cipher)
        return None if row is None or found is None else MailView(found, utc(row["now"]))

    async def save(self, mail: Mail) -> None:
        await self._connection.execute(_SAVE, mail_parameters(mail, self._cipher))
