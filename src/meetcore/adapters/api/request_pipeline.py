"""The steps of every request, over HTTP or MCP: authenticate, count, execute, map errors.

authenticate (401) → rate limit (429) → … → idempotency → the work; what lies between (the route, the scope,
decoding) belongs to each protocol. Owns the one instant of a request and the one verdict on it.
"""

from collections.abc import Mapping
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final
from uuid import UUID

import structlog
from attrs import define, evolve, field, frozen

from meetcore.adapters.api.answers import STATUS, ApiResponse, envelope_of, render_record
from meetcore.adapters.api.operation import API_ROOT, Operation, OperationRequest, UseCases
from meetcore.adapters.api.paging import Page
from meetcore.domain.errors import DomainError, InternalError, NotFound, ServiceUnavailable
from meetcore.domain.ids import parse_id
from meetcore.domain.requests.idempotency import fingerprint
from meetcore.domain.requests.rate_window import OperationClass, RateVerdict
from meetcore.domain.requests.request_log import LoggedRequest
from meetcore.ports.log_fields import add_log_fields
from meetcore.ports.metrics import ServedRequest
from meetcore.ports.queries import NO_INCLUDES, Caller, CallerIncludes
from meetcore.ports.store import StoreFenced, StoreUnavailable
from meetcore.usecases.admit import Admit
from meetcore.usecases.idempotency import IdempotentRequest, Outcome
from meetcore.usecases.runtime import Runtime

STORE_UNAVAILABLE_RETRY_AFTER_S = 5
FENCED_RETRY_AFTER_S = 60
_FENCED = (
    "The service was restored from a backup and is being checked; until that is done nothing is sold or "
    "changed. Nothing was done for this request. Send it again later, with the same Idempotency-Key."
)

MAX_METHOD: Final = 64
"""Characters of a method that are kept; the names of tools are shorter."""

log = structlog.get_logger("meetcore.api")


@define
class RequestContext:
    """The state of one request: its instant, its verdict, and what is logged of it.

    `code` is that of a refusal; `subject_id` is the record that the request made, or named in its path.
    """

    request_id: str
    now: datetime
    verdict: RateVerdict
    rate_class: OperationClass
    key_id: str | None = None
    caller: Caller | None = None
    code: str | None = None
    subject_id: UUID | None = None


@frozen
class ParsedRequest:
    """The decoded input of an operation.

    `place` is the path with its ids in it, `path` those ids by name. `value` is the body as a JSON value and
    `body` what it was decoded to. `key` is the idempotency key, if one was sent. `options` are the values of
    those that were given.
    """

    place: str
    path: dict[str, str]
    value: Any = None
    body: Any = None
    key: str | None = None
    page: Page = field(factory=Page)
    options: Mapping[str, Any] = field(factory=dict)


@frozen
class RequestPipeline:
    """The steps that every request passes, over any protocol.

    Args:
        use: what the operations call.
        admit: authenticates and counts requests.
        runtime: the clock, and new request ids.
        base_url: where the service is reached, without a slash at its end.
    """

    use: UseCases
    admit: Admit
    runtime: Runtime
    base_url: str

    def open(self, rate_class: OperationClass) -> RequestContext:
        """Open the context of a new request; its quota looks unused until it is counted."""
        now = self.runtime.now()
        return RequestContext(
            str(self.runtime.new_id(now)), now, self.admit.untouched(rate_class, now), rate_class
        )

    async def authenticate(
        self, context: RequestContext, authorization: str | None, includes: CallerIncludes = NO_INCLUDES
    ) -> Caller:
        """Authenticate the caller and count the request.

        Raises:
            InvalidApiKey: the key is not valid; nothing is counted.
            RateLimited: the quota of this minute is used up.
            StoreUnavailable: the database does not answer.
        """
        caller = await self.admit.authenticate(authorization, context.now, includes)
        context.key_id, context.caller = str(caller.key.id), caller
        add_log_fields(account_id=str(caller.account.id))
        context.verdict = await self.admit.count(caller.key.id, context.rate_class, context.now)
        if not context.verdict.is_allowed:
            raise self.admit.refusal(context.verdict)
        return caller

    async def judge_again(
        self, context: RequestContext, authorization: str | None, includes: CallerIncludes = NO_INCLUDES
    ) -> Caller:
        """Check a request again whose reading took so long that the first check may be outdated.

        The key is looked up again, and a request that goes on in another window than it was counted in is
        counted there, too. From here on the request's instant is the present one.

        Raises:
            InvalidApiKey: the key was revoked or expired meanwhile.
            RateLimited: the quota of the present window is used up.
            StoreUnavailable: the database does not answer.
        """
        context.now = self.runtime.now()
        if context.now.timestamp() >= context.verdict.reset:
            return await self.authenticate(context, authorization, includes)
        return await self.admit.authenticate(authorization, context.now, includes)

    async def dispatch(
        self, context: RequestContext, caller: Caller, operation: Operation, parsed: ParsedRequest
    ) -> tuple[ApiResponse, bool]:
        """Execute the operation; return the answer, and whether it is a replay.

        Raises:
            DomainError: a refusal that is not stored under the idempotency key.
        """
        context.subject_id = _named_id(parsed.path)
        request_key = self._idempotent_request(context, operation, parsed) if operation.is_mutating else None
        if request_key is None or request_key.key is None:
            return await self._handle(context, caller, operation, parsed, request_key)
        identity = (caller.account.id, request_key.key, request_key.fingerprint)
        async with self.admit.duplicates.turn(identity) as wait_until:
            waiting = evolve(request_key, wait_until=wait_until)
            return await self._handle(context, caller, operation, parsed, waiting)

    async def _handle(
        self,
        context: RequestContext,
        caller: Caller,
        operation: Operation,
        parsed: ParsedRequest,
        request_key: IdempotentRequest | None,
    ) -> tuple[ApiResponse, bool]:
        request = OperationRequest(
            caller, context.now, parsed.path, parsed.body, request_key, parsed.page, parsed.options
        )
        result = await operation.handle(self.use, request)
        if isinstance(result, Outcome):
            return self._encode(context, operation, result), result.is_replay
        return result, False

    def _idempotent_request(
        self, context: RequestContext, operation: Operation, parsed: ParsedRequest
    ) -> IdempotentRequest:
        # The same request over another wire is the same intent.
        chosen = "".join(f"?{name}={value}" for name, value in sorted(parsed.options.items()))
        digest = fingerprint(operation.method, parsed.place + chosen, parsed.value)
        return IdempotentRequest(parsed.key, digest, context.request_id)

    def _encode(self, context: RequestContext, operation: Operation, outcome: Outcome) -> ApiResponse:
        refusal, record = outcome.refusal, outcome.record
        if refusal is not None:
            context.code = refusal.code
            body = envelope_of(
                refusal.code, refusal.message, self.base_url, refusal.request_id, refusal.details
            )
            return evolve(render_record(STATUS[refusal.code], body), code=refusal.code)
        if record is None:
            return ApiResponse(operation.success, b"")
        created = operation.success == HTTPStatus.CREATED
        location = f"{API_ROOT}{operation.path}/{record['id']}" if created else None
        if created:
            context.subject_id = UUID(str(record["id"]))
        return render_record(operation.success, record, location)

    def to_domain_error(self, error: Exception, context: RequestContext) -> DomainError:
        """Map an error to the one that the caller gets; log internal details."""
        refusal = self._refusal(error, context)
        context.code = refusal.code
        return refusal

    def _refusal(self, error: Exception, context: RequestContext) -> DomainError:
        if isinstance(error, StoreFenced):
            return ServiceUnavailable(_FENCED, FENCED_RETRY_AFTER_S)
        if isinstance(error, StoreUnavailable):
            # One line, no traceback: an outage makes many of these, all alike.
            log.error("store unavailable", request_id=context.request_id, cause=repr(error.__cause__))
            return ServiceUnavailable(
                "The service is temporarily unavailable. Try again soon.", STORE_UNAVAILABLE_RETRY_AFTER_S
            )
        if isinstance(error, DomainError):
            if error.__cause__ is not None:
                log.warning(
                    "refused", request_id=context.request_id, code=error.code, cause=repr(error.__cause__)
                )
            return error
        log.error("fault", request_id=context.request_id, exc_info=error)
        return InternalError("Something went wrong at the service. Quote the request id to support.")

    def keep(self, context: RequestContext, method: str, path: str, status: int, took_ms: float) -> None:
        """Keep what became of a request whose key is known, for its account to look at.

        Args:
            method: of HTTP, or the name of the tool that was called.
            path: the operation's, with the names of its ids; empty where there is none.
            status: what was answered.
            took_ms: milliseconds from its arrival to its answer.
        """
        if context.caller is None:
            return
        key = context.caller.key

        def describe() -> LoggedRequest:
            return LoggedRequest(
                UUID(context.request_id), key.account_id, key.id, context.now, method[:MAX_METHOD], path,
                status, max(0, round(took_ms)), context.code, context.subject_id,
            )  # fmt: skip

        self.admit.requests.add(key.account_id, context.now, status, describe)

    def count(self, context: RequestContext, operation: str, answer: ApiResponse, took_ms: float) -> None:
        """Report an answer to the metrics, and to the trace of the request."""
        self.runtime.metrics.served(
            ServedRequest(operation, context.rate_class.value, answer.status, answer.code, took_ms / 1000)
        )
        caller = context.caller
        self.runtime.tracing.describe(
            operation, status=answer.status, code=answer.code or None, request_id=context.request_id,
            account_id=None if caller is None else caller.account.id,
            error=answer.code if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR else None,
        )  # fmt: skip

    def took_ms(self, context: RequestContext) -> float:
        """Milliseconds since the request arrived."""
        return round((self.runtime.now() - context.now).total_seconds() * 1000, 1)


def _named_id(path: Mapping[str, str]) -> UUID | None:
    """The first id of a path; none for a text that is no id."""
    if not path:  # an error that is raised and caught takes several microseconds
        return None
    try:
        return parse_id(next(iter(path.values())), "record")
    except NotFound:
        return None
