"""What takes several requests or pauses: described once as steps, run by either client.

Owns the kinds of steps. A transport runs each and sends back its result.
"""

from collections.abc import Callable, Generator, Mapping
from typing import Any, Protocol, TypeVar

from attrs import field, frozen

from meetcore.client.calls import Call
from meetcore.client.exchange import RetryPolicy

__all__ = ["Fetch", "Means", "Pause", "Procedure", "Step", "Steps"]

T_co = TypeVar("T_co", covariant=True)


@frozen
class Means:
    """What a procedure may use of its client. The clock counts seconds from any beginning."""

    policy: RetryPolicy
    clock: Callable[[], float]
    jitter: Callable[[], float]


@frozen
class Pause:
    """Wait so many seconds."""

    seconds: float


@frozen
class Fetch:
    """Request an address outside the API, without the API key, for an `HttpResponse` or a `NoResponse`.

    `is_wanted` is asked with status and headers: the body of what is wanted goes to `take`, piece by piece
    and as it was sent; that of anything else is part of the `HttpResponse`.
    """

    method: str
    url: str = field(repr=False)
    headers: Mapping[str, str]
    is_wanted: Callable[[int, Mapping[str, str]], bool]
    take: Callable[[bytes], object]


Step = Call[Any] | Pause | Fetch
Steps = Generator[Step, Any, T_co]
"""Steps on the way to a result. The reply to a `Call` is its result; one that fails ends the procedure."""


class Procedure(Protocol[T_co]):
    """A description of steps."""

    def steps(self, means: Means) -> Steps[T_co]:
        """Begin anew."""
