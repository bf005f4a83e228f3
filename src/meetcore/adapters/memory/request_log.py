"""What became of requests, in memory."""

from collections.abc import Sequence
from uuid import UUID

from meetcore.adapters.memory.state import MemoryState
from meetcore.domain.requests.request_log import LoggedRequest
from meetcore.ports.request_log import RequestFilter


class MemoryRequestLog:
    """Where the requests of all processes are kept."""

    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def save(self, requests: Sequence[LoggedRequest]) -> None:
        async with self._state.change() as tables:
            for request in requests:
                tables.requests.setdefault(request.id, request)


class MemoryRequestQueries:
    """Reads of the requests that are kept."""

    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def list_requests(
        self, account_id: UUID, wanted: RequestFilter, limit: int, before: UUID | None
    ) -> Sequence[LoggedRequest]:
        found = [
            each
            for each in self._state.committed.requests.values()
            if each.account_id == account_id
            and (before is None or each.id < before)
            and wanted.api_key_id in (None, each.api_key_id)
            and wanted.status_class in (None, each.status // 100)
        ]
        return sorted(found, key=lambda each: each.id, reverse=True)[:limit]

    async def find_request(self, account_id: UUID, request_id: UUID) -> LoggedRequest | None:
        found = await self.find_request_of_any(request_id)
        return found if found is not None and found.account_id == account_id else None

    async def find_request_of_any(self, request_id: UUID) -> LoggedRequest | None:
        return self._state.committed.requests.get(request_id)
