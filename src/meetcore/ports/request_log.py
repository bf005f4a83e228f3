"""What became of requests, written in batches and read by their account and by operators."""

from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

from attrs import frozen

from meetcore.domain.requests.request_log import LoggedRequest

__all__ = ["RequestFilter", "RequestLog", "RequestQueries"]


@frozen
class RequestFilter:
    """Which of an account's requests a list shows. None narrows nothing.

    `status_class` is the first digit of the status: 2, 4 or 5.
    """

    api_key_id: UUID | None = None
    status_class: int | None = None


class RequestLog(Protocol):
    """Where the requests of all processes are kept."""

    async def save(self, requests: Sequence[LoggedRequest]) -> None:
        """Keep requests, each once, however often it is written.

        Raises:
            StoreUnavailable: whether they are kept is not known.
        """


class RequestQueries(Protocol):
    """Reads of the requests that are kept."""

    async def list_requests(
        self, account_id: UUID, wanted: RequestFilter, limit: int, before: UUID | None
    ) -> Sequence[LoggedRequest]:
        """An account's requests, the newest first, as the lists of `Queries` give them."""
        ...

    async def find_request(self, account_id: UUID, request_id: UUID) -> LoggedRequest | None:
        """An account's request."""
        ...

    async def find_request_of_any(self, request_id: UUID) -> LoggedRequest | None:
        """A request of any account."""
        ...
