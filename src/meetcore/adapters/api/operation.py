"""An operation, and a decoded request to it with its caller."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any, Final, Self
from uuid import UUID

from attrs import define, evolve, field, frozen

from meetcore.adapters.api.answers import ApiResponse
from meetcore.adapters.api.bodies import OneOfBody
from meetcore.adapters.api.paging import Filter, Listing, Page
from meetcore.domain.errors import NotFound
from meetcore.domain.ids import is_id, parse_id
from meetcore.domain.requests.keys import Scope
from meetcore.domain.requests.rate_window import OperationClass
from meetcore.ports.queries import NO_INCLUDES, Caller, CallerIncludes
from meetcore.usecases.api import UseCases
from meetcore.usecases.requests.idempotency import IdempotentRequest, Outcome

__all__ = ["API_ROOT", "ITS_ID", "Operation", "OperationRequest", "UseCases", "path_id", "place_of"]

API_ROOT = "/api/v1"
"""The version is part of the path (rules 1/base and 9/1)."""
ITS_ID: Final = {"id": "$response.body#/id"}
"""The parameters of a link from a new record to an operation on it."""
_NO_ID = UUID(int=0)  # no record has it: ids are of version 7


@define
class OperationRequest:
    """An authenticated and decoded request.

    `place` is that of `place_of`, `path` the ids in it by name. `value` is the body as a JSON value and
    `body` its decoded form. `key` is the idempotency key, if one was sent. `options` are the values of those
    that were given. The pipeline adds the `request_key` of a mutating operation.
    """

    caller: Caller
    now: datetime
    place: str
    path: dict[str, str]
    value: Any = None
    body: Any = None
    key: str | None = None
    page: Page = field(factory=Page)
    options: Mapping[str, Any] = field(factory=dict)
    request_key: IdempotentRequest | None = None

    @property
    def account_id(self) -> UUID:
        """Return the id of the caller's account."""
        return self.caller.account.id

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

    A key needs one of `scopes`; without any, every key may call it. `rate_class` is READ for GET and WRITE
    for any other method unless given. `record` is the answer of a success; the pipeline encodes the outcome
    of a mutating operation, a read answers by itself. `refusals` are the codes that its own work can decide;
    `error_pages.refusals_of` adds those that follow from its form. `options` are the parameters of a query
    that is no list's, `options_of_http` those that agents are not given. `includes` names what is read of the
    account in the statement that authenticates, by the parts of the path and the request's instant. An
    operation `reaches_out` where it may make a provider, a receiver or a name server act.

    For people are `summary`, `about` and `requests`, the examples of bodies by name; `example` shows the
    answer, and `links` leads from it to further operations and their parameters.
    """

    method: str
    path: str
    scopes: tuple[Scope, ...]
    summary: str
    about: str
    for_agents: str
    rate_class: OperationClass = field()
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
    reaches_out: bool = False

    @rate_class.default
    def _by_method(self) -> OperationClass:
        return OperationClass.READ if self.method == "GET" else OperationClass.WRITE

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
        """Whether a body is looked at: not of a read, where it has no meaning (RFC 9110, 9.3.1).

        A mutation without a body class takes an empty one, or `{}`.
        """
        return self.body is not None or self.is_mutating


def place_of(operation: Operation, ids: Mapping[str, str]) -> str:
    """Return the path of a request with its ids in their canonical form: one record has one place."""
    return API_ROOT + operation.path.format_map({name: _canonical(text) for name, text in ids.items()})


def _canonical(text: str) -> str:
    return text.lower() if is_id(text) else text


def path_id(request: OperationRequest, name: str = "id") -> UUID:
    """Read the id that a mutating operation names; a text that is no id is treated as an unknown id.

    So that both are answered identically (rules 4.4/3 and 7/404), under an idempotency key too.
    """
    try:
        return parse_id(request.path[name], "record")
    except NotFound:
        return _NO_ID
