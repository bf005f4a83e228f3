"""An operation, and a decoded request to it with its caller.

Owns the types of the table of operations. Knows no single operation.
"""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any, Final, Self
from uuid import UUID

from attrs import evolve, field, frozen

from meetcore.adapters.api.answers import ApiResponse
from meetcore.adapters.api.bodies import OneOfBody
from meetcore.adapters.api.filters import Filter
from meetcore.adapters.api.paging import Listing, Page
from meetcore.domain.errors import NotFound
from meetcore.domain.ids import parse_id
from meetcore.domain.requests.keys import Scope
from meetcore.domain.requests.rate_window import OperationClass
from meetcore.ports.queries import NO_INCLUDES, Caller, CallerIncludes
from meetcore.usecases.api import UseCases
from meetcore.usecases.idempotency import IdempotentRequest, Outcome

__all__ = ["API_ROOT", "ITS_ID", "Operation", "OperationRequest", "UseCases", "path_id"]

API_ROOT = "/api/v1"
"""The version is part of the path (rules 1/base and 9/1)."""
ITS_ID: Final = {"id": "$response.body#/id"}
"""The parameters of a link from a new record to an operation on it."""
_NO_ID = UUID(int=0)  # no record has it: ids are of version 7


@frozen
class OperationRequest:
    """An authenticated and decoded request. `request_key` is there for mutating operations only.

    `options` are the values of those of the operation's that were given.
    """

    caller: Caller
    now: datetime
    path: dict[str, str]
    body: Any
    request_key: IdempotentRequest | None
    page: Page = field(factory=Page)
    options: Mapping[str, Any] = field(factory=dict)

    @property
    def required_key(self) -> IdempotentRequest:
        """Return the idempotent request of a mutating operation."""
        assert self.request_key is not None
        return self.request_key


Handler = Callable[[UseCases, OperationRequest], Awaitable[ApiResponse | Outcome]]


async def _not_handled(_: UseCases, __: OperationRequest) -> ApiResponse:
    raise NotImplementedError  # pragma: no cover


def _nothing_else(_: dict[str, str], __: datetime) -> CallerIncludes:
    return NO_INCLUDES


@frozen(kw_only=True)
class Operation:
    """The declaration of an operation, which decorates its handler and takes its name.

    `scopes` are those of which a key needs one; none of them if any key may call it. `record` is what a
    success answers with; the pipeline encodes the outcome of a mutating operation, a read answers by itself.
    `refusals` are the codes that its own work can decide; `refusals.refusals_of` adds those that
    follow from its form. `options` are the parameters of a query that is no list's, `options_of_http` those
    that agents are not given. `includes` names what is read of the account in the statement that
    authenticates, by the parts of the path and the request's instant.

    For people are `summary`, `about` and `requests`, the examples of bodies by name; `example` shows the
    answer, and `links` leads from it to further operations and their parameters.
    """

    method: str
    path: str
    scopes: tuple[Scope, ...]
    rate_class: OperationClass
    summary: str
    about: str
    for_agents: str
    name: str = ""
    handle: Handler = _not_handled
    body: type | OneOfBody | None = None
    record: type | None = None
    success: int = 200
    refusals: tuple[str, ...] = ()
    listing: Listing | None = None
    options: Mapping[str, Filter] = field(factory=dict)
    options_of_http: tuple[str, ...] = ()
    includes: Callable[[dict[str, str], datetime], CallerIncludes] = _nothing_else
    requests: Mapping[str, Mapping[str, object]] = field(factory=dict)
    example: Mapping[str, object] | None = None
    links: Mapping[str, Mapping[str, str]] = field(factory=dict)

    def __call__(self, handler: Handler) -> Self:
        """Return the operation with its handler and that one's name."""
        return evolve(self, name=handler.__name__, handle=handler)

    @property
    def label(self) -> str:
        """Its name among the metrics."""
        return f"{self.method} {self.path}"

    @property
    def is_mutating(self) -> bool:
        """Whether it accepts an Idempotency-Key (rule 4/idem-accepted)."""
        return self.rate_class is not OperationClass.READ

    @property
    def reads_body(self) -> bool:
        """Whether a body is looked at. A mutation without a body class takes an empty one, or `{}`.

        A body has no meaning on a read (RFC 9110, 9.3.1) and is not looked at there.
        """
        return self.body is not None or self.is_mutating


def path_id(request: OperationRequest, name: str = "id") -> UUID:
    """Read the id that a mutating operation names. A text that is no id is treated as an unknown id.

    So that both are answered identically (rules 4.4/3 and 7/404), under an idempotency key too.
    """
    try:
        return parse_id(request.path[name], "record")
    except NotFound:
        return _NO_ID
