"""A claim on work in progress."""

from uuid import UUID

from attrs import field, frozen

__all__ = ["Lease"]


@frozen
class Lease:
    """Only the bearer of the token may go on with the work, for so many seconds of the store's clock."""

    token: UUID = field(repr=False)
    seconds: float
