"""Spans of one process, made by OpenTelemetry's SDK for those requests that are recorded, and for no other.

Whether a request is recorded is decided before the SDK is called: one that is not costs a look at its headers
and a random number. The span that is open stands in a context variable of ours, not in OpenTelemetry's, so
that no instrumented library adds spans of its own. Texts of exceptions are not recorded.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Final
from uuid import UUID

from attrs import frozen
from opentelemetry.context import Context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)
from structlog.contextvars import bind_contextvars, reset_contextvars

from meetcore.adapters.otlp.sampling import Sampling
from meetcore.domain.requests.trace_context import (
    TRACEPARENT,
    TraceContext,
    parse_traceparent,
    sole_traceparent,
)
from meetcore.ports.tracing import NO_HEADERS, NOT_RECORDED, Detail, RawHeaders

# Names of OpenTelemetry's conventions; every other detail is one of ours.
_NAMES: Final = {"status": "http.response.status_code", "error": "error.type"}
_NOWHERE: Final = Context()
_REQUEST: Final = "request"
"""The name of a request's span until its operation is known."""


@frozen
class _Place:
    """Where a task is: in a span of ours, or in a caller's trace that is only passed on."""

    context: TraceContext
    span: Span | None


class OtlpTracing:
    """Fills `Tracing`.

    Args:
        provider: makes spans, each of which is sent.
        sampling: decides which requests are recorded.
    """

    def __init__(self, provider: TracerProvider, sampling: Sampling) -> None:
        self._tracer = provider.get_tracer("meetcore")
        self._sampling = sampling
        self._current: ContextVar[_Place | None] = ContextVar("meetcore_trace", default=None)

    def request(self, headers: RawHeaders) -> AbstractContextManager[object]:
        caller = sole_traceparent(headers)
        if self._sampling.is_recorded(caller):
            return self._root(_REQUEST, SpanKind.SERVER, {}, parent=caller)
        return NOT_RECORDED if caller is None else self._passed_on(caller)

    def span(self, name: str, **details: Detail) -> AbstractContextManager[object]:
        place = self._current.get()
        if place is None or place.span is None:
            return NOT_RECORDED
        return self._child(name, place.span, details)

    def caused(self, name: str, cause: str | None, **details: Detail) -> AbstractContextManager[object]:
        place = None if cause is None else parse_traceparent(cause)
        if place is None:
            return NOT_RECORDED
        return self._root(name, SpanKind.CONSUMER, details, link=place)

    def resumed(self, place: str | None) -> AbstractContextManager[object]:
        found = None if place is None else parse_traceparent(place)
        return NOT_RECORDED if found is None else _logged(found.trace_id)

    def describe(self, name: str | None = None, **details: Detail) -> None:
        place = self._current.get()
        if place is None or place.span is None:
            return
        if name is not None:
            place.span.update_name(name)
        place.span.set_attributes(_attributes(details))
        if details.get("error"):
            place.span.set_status(Status(StatusCode.ERROR))

    def headers(self) -> Mapping[str, str]:
        place = self._current.get()
        return NO_HEADERS if place is None else {TRACEPARENT: str(place.context)}

    def cause(self) -> str | None:
        place = self._current.get()
        return None if place is None or place.span is None else str(place.context)

    @contextmanager
    def _root(
        self,
        name: str,
        kind: SpanKind,
        details: Mapping[str, Detail],
        parent: TraceContext | None = None,
        link: TraceContext | None = None,
    ) -> Iterator[None]:
        """Begin the part of a trace that is recorded here."""
        within = _NOWHERE
        if parent is not None:
            within = set_span_in_context(NonRecordingSpan(_span_context(parent)), _NOWHERE)
        links = [] if link is None else [Link(_span_context(link))]
        span = self._tracer.start_span(
            name, within, kind, _attributes(details), links,
            record_exception=False, set_status_on_exception=False,
        )  # fmt: skip
        with _logged(_context_of(span).trace_id), self._open(span):
            yield

    @contextmanager
    def _child(self, name: str, parent: Span, details: Mapping[str, Detail]) -> Iterator[None]:
        span = self._tracer.start_span(
            name, set_span_in_context(parent, _NOWHERE), SpanKind.CLIENT, _attributes(details),
            record_exception=False, set_status_on_exception=False,
        )  # fmt: skip
        with self._open(span):
            yield

    @contextmanager
    def _open(self, span: Span) -> Iterator[None]:
        token = self._current.set(_Place(_context_of(span), span))
        try:
            yield
        except BaseException as error:
            span.set_attribute(_NAMES["error"], type(error).__name__)
            span.set_status(Status(StatusCode.ERROR))
            raise
        finally:
            self._current.reset(token)
            span.end()

    @contextmanager
    def _passed_on(self, caller: TraceContext) -> Iterator[None]:
        token = self._current.set(_Place(caller, None))
        try:
            with _logged(caller.trace_id):
                yield
        finally:
            self._current.reset(token)


@contextmanager
def _logged(trace_id: str) -> Iterator[None]:
    """Put the id of a trace on every line that is logged in the context."""
    tokens = bind_contextvars(trace_id=trace_id)
    try:
        yield
    finally:
        reset_contextvars(**tokens)


def _context_of(span: Span) -> TraceContext:
    found = span.get_span_context()
    return TraceContext(f"{found.trace_id:032x}", f"{found.span_id:016x}", found.trace_flags.sampled)


def _span_context(place: TraceContext) -> SpanContext:
    flags = TraceFlags(TraceFlags.SAMPLED if place.is_sampled else TraceFlags.DEFAULT)
    return SpanContext(int(place.trace_id, 16), int(place.span_id, 16), is_remote=True, trace_flags=flags)


def _attributes(details: Mapping[str, Detail]) -> dict[str, str | int | float | bool]:
    return {
        _NAMES.get(name, f"meetcore.{name}"): str(value) if isinstance(value, UUID) else value
        for name, value in details.items()
        if value is not None
    }
