"""An answer of the API beside the record that it holds: for support, for logs, for what has no field."""

from collections.abc import Mapping
from typing import Generic, TypeVar

from attrs import field, frozen

from meetcore.client.rate_limit import RateLimit, read_rate_limit

__all__ = ["Response"]

T = TypeVar("T")


@frozen
class Response(Generic[T]):
    """A success. `result` is what the call returns without its response.

    The names in `headers` are in lower case. `body` is as it was received, decompressed. `attempts` counts
    the requests that it took, and `idempotency_key` is theirs; None for a read.
    """

    status: int
    result: T = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    attempts: int = 1
    idempotency_key: str | None = None

    @property
    def request_id(self) -> str | None:
        """The id of the request, to give to support."""
        return self.headers.get("x-request-id")

    @property
    def is_replayed(self) -> bool:
        """Whether this is the first result of the same idempotency key again."""
        return self.headers.get("idempotent-replayed") == "true"

    @property
    def rate_limit(self) -> RateLimit | None:
        """The request rate by the answer."""
        return read_rate_limit(self.headers)
