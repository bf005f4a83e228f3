"""Reads of the dashboard in memory."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import date, datetime
from uuid import UUID

from meetcore.adapters.memory.state import MemoryState
from meetcore.domain.meetings.schedule import cap_day
from meetcore.domain.money.holds import CapUsage
from meetcore.domain.money.ledger import Entry
from meetcore.domain.money.statements import EntryRange
from meetcore.domain.money.transfers import TransferKind
from meetcore.domain.webhooks.endpoints import EndpointState
from meetcore.ports.dashboard_queries import CappedKey, DaySpending, KeyUse, Overview, TroubledEndpoint


class MemoryDashboardQueries:
    """What the pages of the dashboard show beside the lists of the API."""

    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def list_key_use(self, account_id: UUID, day: date) -> Sequence[KeyUse]:
        tables = self._state.committed
        keys = sorted(
            (key for key in tables.keys.values() if key.account_id == account_id), key=lambda key: key.id
        )
        found = []
        for key in reversed(keys):
            usage = tables.usage.get((account_id, key.cap_key_id, day), CapUsage(key.cap_key_id, day))
            found.append(KeyUse(key, usage.used))
        return found

    async def find_overview(self, account_id: UUID, first_day: date, today: date) -> Overview:
        capped = [
            CappedKey(use.key.name, use.key.daily_cap, use.spent)
            for use in await self.list_key_use(account_id, today)
            if use.key.daily_cap is not None and use.key.revoked_at is None
        ]
        low = self._state.committed.accounts[account_id].funds.low_threshold
        return Overview(self._spending(account_id, first_day), capped, self._troubled(account_id), low)

    async def find_first_entry_at(self, account_id: UUID) -> datetime | None:
        first = self._state.committed.entries.get((account_id, 1))
        return None if first is None else first.at

    async def find_entry_range(
        self, account_id: UUID, made_from: datetime, made_before: datetime
    ) -> EntryRange:
        entries = self._entries(account_id)
        before = [entry for entry in entries if entry.at < made_from]
        until = [entry for entry in entries if entry.at < made_before]
        opening, closing = (found[-1].balance_after if found else 0 for found in (before, until))
        return EntryRange(len(before) + 1, len(until), opening, closing)

    def _entries(self, account_id: UUID) -> Sequence[Entry]:
        found = [each for each in self._state.committed.entries.values() if each.account_id == account_id]
        return sorted(found, key=lambda each: each.number)

    def _spending(self, account_id: UUID, first_day: date) -> Sequence[DaySpending]:
        totals: dict[date, list[int]] = defaultdict(lambda: [0, 0])
        for entry in self._state.committed.entries.values():
            kind, day = entry.transfer.kind, cap_day(entry.at)
            if entry.account_id != account_id or day < first_day or kind not in _COLUMN:
                continue
            totals[day][_COLUMN[kind]] -= entry.amount
        return [DaySpending(day, *totals[day]) for day in sorted(totals)]

    def _troubled(self, account_id: UUID) -> Sequence[TroubledEndpoint]:
        found = [
            TroubledEndpoint(
                each.id, each.url, each.consecutive_failures, each.state is EndpointState.DISABLED
            )
            for each in self._state.committed.endpoints.values()
            if each.account_id == account_id
            and (each.state is EndpointState.DISABLED or each.consecutive_failures > 0)
        ]
        return sorted(found, key=lambda each: each.id)


_COLUMN = {TransferKind.MEETING_CHARGE: 0, TransferKind.MEETING_REFUND: 0, TransferKind.NOTULEN_CHARGE: 1}
