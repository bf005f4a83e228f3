"""The steps of every request, over HTTP or MCP: authenticate, count, execute, map errors.

authenticate (401) → rate limit (429) → … → idempotency → the work; what lies between (the route, the scope,
decoding) belongs to each protocol.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from http import HTTPStatus
from types import MappingProxyType
from typing import Final
from uuid import UUID

import structlog
from attrs import define, evolve, frozen

from meetcore.adapters.api.answers import STATUS, ApiResponse, encode_record, envelope_of
from meetcore.adapters.api.operation import API_ROOT, Operation, OperationRequest, UseCases
from meetcore.domain.errors import DomainError, InternalError, NotFound, ServiceUnavailable
from meetcore.domain.ids import parse_id
from meetcore.domain.requests import idempotency, rate_window, request_log
from meetcore.ports import observability, store
from meetcore.ports.queries import NO_INCLUDES, Caller, CallerIncludes
from meetcore.usecases.requests.admit import Admit
from meetcore.usecases.requests.idempotency import IdempotentRequest, Outcome, Refusal
from meetcore.usecases.runtime import Runtime

STORE_UNAVAILABLE_RETRY_AFTER_S = 5

MAX_METHOD: Final = 64
"""Characters of a method that are kept; the names of tools are shorter."""

NO_DETAILS: Final[Mapping[str, object]] = MappingProxyType({})

log = structlog.get_logger("meetcore.api")


@define
class RequestContext:
    """The state of one request: its instant, its verdict, and its fields in the log.

    `code`, `message` and `details` are those of a refusal; `subject_id` is the record that the request made,
    or named in its path.
    """

    request_id: str
    now: datetime
    verdict: rate_window.RateVerdict
    rate_class: rate_window.OperationClass
    key_id: str | None = None
    caller: Caller | None = None
    code: str | None = None
    message: str = ""
    details: Mapping[str, object] = NO_DETAILS
    subject_id: UUID | None = None

    def refuse(self, refusal: DomainError | Refusal) -> None:
        """Note a refusal for the log of requests; the error itself would keep its frames alive."""
        self.code, self.message, self.details = refusal.code, refusal.message, refusal.details


@frozen
class RequestPipeline:
    """The steps that every request passes, over any protocol, to the use cases of the operations.

    `takes_tokens`: access tokens of grants are accepted beside keys.
    """

    use: UseCases
    admit: Admit
    runtime: Runtime
    base_url: str
    takes_tokens: bool = False

    def open(self, rate_class: rate_window.OperationClass) -> RequestContext:
        """Open the context of a new request; its quota looks unused until it is counted."""
        now = self.runtime.now()
        request_id = str(self.runtime.new_id(now))
        observability.add_log_fields(request_id=request_id)
        return RequestContext(request_id, now, self.admit.full_verdict(rate_class, now), rate_class)

    async def authenticate(
        self, context: RequestContext, authorization: str | None, includes: CallerIncludes = NO_INCLUDES
    ) -> Caller:
        """Authenticate the caller and count the request, unless the key is not valid.

        Raises `InvalidApiKey`, `RateLimited` where the quota of this minute is used up, `StoreUnavailable`.
        """
        caller = await self._authenticate(context, authorization, includes)
        context.key_id, context.caller = str(caller.key.id), caller
        observability.add_log_fields(account_id=str(caller.account.id))
        context.verdict = await self.admit.count(caller.key.id, context.rate_class, context.now)
        if not context.verdict.is_allowed:
            raise self.admit.refusal(context.verdict, context.rate_class)
        return caller

    async def judge_again(
        self, context: RequestContext, authorization: str | None,
        includes_at: Callable[[datetime], CallerIncludes],
    ) -> Caller:  # fmt: skip
        """Check a request again whose reading took so long that the first check may be outdated.

        The key is looked up again, with what is read at that instant, and a request that goes on in another
        window than it was counted in is counted there, too. From here on the request's instant is the present
        one: its day may be another. Raises as `authenticate`.
        """
        context.now = self.runtime.now()
        includes = includes_at(context.now)
        if context.now.timestamp() >= context.verdict.reset:
            return await self.authenticate(context, authorization, includes)
        return await self._authenticate(context, authorization, includes)

    async def _authenticate(
        self, context: RequestContext, authorization: str | None, includes: CallerIncludes
    ) -> Caller:
        return await self.admit.authenticate(
            authorization, context.now, includes, takes_tokens=self.takes_tokens
        )

    async def dispatch(
        self, context: RequestContext, operation: Operation, request: OperationRequest
    ) -> ApiResponse:
        """Execute the operation, one of duplicates at a time; raise a `DomainError` that is not stored."""
        context.subject_id = _named_id(request.path)
        if not operation.is_mutating:
            return self._encode(context, operation, await operation.handle(self.use, request))
        # The same request over another wire is the same intent.
        chosen = "".join(f"?{name}={value}" for name, value in sorted(request.options.items()))
        digest = idempotency.fingerprint(operation.method, request.place + chosen, request.value)
        request.request_key = IdempotentRequest(request.key, digest, context.request_id)
        if request.key is None:
            return self._encode(context, operation, await operation.handle(self.use, request))
        async with self.admit.duplicates.turn((request.account_id, request.key, digest)) as wait_until:
            request.request_key = evolve(request.request_key, wait_until=wait_until)
            return self._encode(context, operation, await operation.handle(self.use, request))

    def _encode(
        self, context: RequestContext, operation: Operation, outcome: ApiResponse | Outcome
    ) -> ApiResponse:
        if isinstance(outcome, ApiResponse):
            return outcome
        refusal, record, is_replay = outcome.refusal, outcome.record, outcome.is_replay
        if refusal is not None:
            context.refuse(refusal)
            code = refusal.code
            body = encode_record(
                envelope_of(code, refusal.message, self.base_url, refusal.request_id, refusal.details)
            )
            return ApiResponse(STATUS[code], body, code=code, is_replay=is_replay)
        if record is None:
            return ApiResponse(operation.success, b"", is_replay=is_replay)
        location = None
        if operation.success == HTTPStatus.CREATED:
            location = f"{API_ROOT}{operation.path}/{record['id']}"
        if "{" not in operation.path and "id" in record:
            context.subject_id = UUID(str(record["id"]))
        return ApiResponse(operation.success, encode_record(record), location, is_replay=is_replay)

    def to_domain_error(self, error: Exception, context: RequestContext) -> DomainError:
        """Map an error to the one that the caller gets; log internal details."""
        refusal = self._refusal(error, context)
        context.refuse(refusal)
        return refusal

    def _refusal(self, error: Exception, context: RequestContext) -> DomainError:
        if isinstance(error, store.StoreUnavailable):
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

    def finish(
        self, context: RequestContext, answer: ApiResponse, label: str, method: str, path: str | None
    ) -> float:
        """Report an answer to metrics, trace, and the account's request log; return the milliseconds it took.

        `label` is the operation's name among the metrics, `method` that of HTTP or the tool's name; `path` is
        the operation's, with the names of its ids; `None` logs nothing for the account.
        """
        took_ms = round((self.runtime.now() - context.now).total_seconds() * 1000, 1)
        metrics, caller = self.runtime.metrics, context.caller
        metrics.count(observability.REQUESTS, label, context.rate_class.value, answer.status, answer.code)
        metrics.observe(observability.REQUEST_DURATION, took_ms / 1000, label)
        self.runtime.tracing.describe(
            label, status=answer.status, code=answer.code or None, request_id=context.request_id,
            account_id=None if caller is None else caller.account.id,
            error=answer.code if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR else None,
        )  # fmt: skip
        if caller is None or path is None:
            return took_ms
        key, status = caller.key, answer.status or STATUS["internal_error"]

        def describe() -> request_log.LoggedRequest:
            address = observability.log_fields().get("client") or None
            request = request_log.LoggedRequest(
                UUID(context.request_id), key.account_id, key.id, context.now, method[:MAX_METHOD], path,
                status, max(0, round(took_ms)), context.code, context.subject_id, address,
            )  # fmt: skip
            if context.code is None:
                return request
            return evolve(
                request,
                message=request_log.kept_message(context.message),
                details=request_log.kept_details(context.details),
            )

        self.admit.requests.add(key.account_id, context.now, status, describe)
        return took_ms


def _named_id(path: Mapping[str, str]) -> UUID | None:
    """Return the first id of a path; `None` for a text that is no id."""
    if not path:  # an error that is raised and caught takes several microseconds
        return None
    try:
        return parse_id(next(iter(path.values())), "record")
    except NotFound:
        return None


def common_headers(context: RequestContext) -> dict[str, str]:
    """Build the headers of every answer (rules 4/request-id, 4/rate-headers and 8/3)."""
    verdict = context.verdict
    left_s = verdict.reset - verdict.window_start - int(context.now.timestamp()) % rate_window.WINDOW_SECONDS
    name = context.rate_class.value
    return {
        "X-Request-Id": context.request_id,
        "X-RateLimit-Limit": str(verdict.limit),
        "X-RateLimit-Remaining": str(verdict.remaining),
        "X-RateLimit-Reset": str(verdict.reset),
        "RateLimit-Policy": f'"{name}";q={verdict.limit};w={rate_window.WINDOW_SECONDS}',
        "RateLimit": f'"{name}";r={verdict.remaining};t={left_s}',
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
    }
