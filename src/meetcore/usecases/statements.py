"""Statements of months, for those who may see them: of totals that are kept as entries are added."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from attrs import frozen

from meetcore.domain.errors import NotFound
from meetcore.domain.members.roles import Action, check_allowed, is_allowed
from meetcore.domain.money.statements import (
    Month,
    Statement,
    is_closed,
    make_statement,
    statement_months,
)
from meetcore.ports.member_queries import SignedIn
from meetcore.ports.queries import Queries

MAX_MONTHS: Final = 36
"""Months that a list has at most; the statements of older ones are there by their address."""


@frozen
class Statements:
    """Reads of statements."""

    queries: Queries

    async def list_months(self, who: SignedIn, now: datetime) -> Sequence[Month]:
        """The months with a statement, the newest first; none for a role that sees no statements."""
        if not is_allowed(who.role, Action.VIEW_STATEMENTS):
            return []
        first_at = await self.queries.find_first_entry_at(who.account.id)
        return [] if first_at is None else statement_months(first_at, now, MAX_MONTHS)

    async def find(self, who: SignedIn, month: Month, now: datetime) -> Statement:
        """The statement of a month.

        Raises:
            ActionNotAllowed: the role does not see statements.
            NotFound: the month is not over, or lies before the account's first entry.
        """
        check_allowed(who.role, Action.VIEW_STATEMENTS)
        if not is_closed(month, now):
            raise NotFound("This month has no statement yet.")
        found = await self.queries.find_entry_range(who.account.id, month.begins_at, month.ends_at)
        if found.last == 0:
            raise NotFound("No statement of this month.")
        totals = await self.queries.list_day_totals(who.account.id, month.first_day, month.last_day)
        return make_statement(month, found, totals)
