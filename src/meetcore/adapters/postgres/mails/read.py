"""Reads of mails: what became of them, never their texts."""

from collections.abc import Sequence
from uuid import UUID

from meetcore.adapters.postgres.columns import Columns
from meetcore.adapters.postgres.repository import NEWEST, Reads
from meetcore.ports.mails import MailSummary

_SUMMARY = Columns(MailSummary, "m", "mail_")

# A page of the mails about an account.
_LIST = f"""
SELECT {_SUMMARY.select} FROM mails m WHERE m.account_id = %(account_id)s AND m.id < %(before)s
ORDER BY m.id DESC LIMIT %(limit)s
"""


class MailReads(Reads):
    """Reads of the mails that are kept."""

    async def list_mails(self, account_id: UUID, limit: int, before: UUID | None) -> Sequence[MailSummary]:
        page = {"account_id": account_id, "limit": limit, "before": before or NEWEST}
        return [_SUMMARY.read(row) for row in await self._all(_LIST, page)]
