"""Traces for an OpenTelemetry collector: sampling, spans, export. Needs the extra `traces`.

Sampling precedes the SDK: an unrecorded request costs a look at its headers and a random number. A sampled
`traceparent` is honoured up to a rate per second, or callers could have everything recorded; beyond it chance
decides, independent of the caller's trace id. The current span is in our own context variable, so that
instrumented libraries add no spans. Exception texts are not recorded.

Spans are sent as OTLP over HTTP in Protobuf by OpenTelemetry's exporter, in the thread of the SDK's batch
processor. A failed batch is dropped; the first failure is logged, and the first success after it.
"""

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, Final
from uuid import UUID

import requests
import structlog
from attrs import frozen
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
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

from meetcore.domain.requests import request_log
from meetcore.ports.observability import NO_HEADERS, NOT_RECORDED, Detail, RawHeaders

QUEUED_SPANS: Final = 2048
"""Limit of queued spans; the oldest is dropped first."""
BATCH_SPANS: Final = 512
SEND_EVERY_S: Final = 2.0
SEND_S: Final = 5.0
"""Seconds for a batch, from connecting to the end of the response, repeats included."""
ANSWER_BYTES: Final = 64 * 1024
"""Bytes read of a response, to reuse its connection."""
STOP_S: Final = 3.0
"""Seconds for the remaining spans at exit."""

log = structlog.get_logger("meetcore.traces")
# It logs the collector's response and address at every batch.
logging.getLogger("opentelemetry.exporter.otlp.proto.http.trace_exporter").disabled = True


class _Session(requests.Session):
    """Posts with fixed headers, ignoring the environment. `cause`: the failure of the last post."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        super().__init__()
        self.trust_env = False
        self.cause = ""
        self._fields = {**headers, "Content-Type": "application/x-protobuf"}

    def request(self, method: Any, url: Any, *_: Any, **given: Any) -> requests.Response:
        options = {"data": given["data"], "timeout": given["timeout"], "headers": self._fields}
        try:
            answer = super().request(method, url, allow_redirects=False, stream=True, **options)
            answer.raw.read(ANSWER_BYTES, decode_content=False)
        except Exception as error:
            self.cause = type(error).__name__
            raise
        answer.close()
        self.cause = "" if 200 <= answer.status_code < 300 else f"status {answer.status_code}"
        return answer


class CollectorExporter(OTLPSpanExporter):
    """Posts batches of spans to the address of a collector, with headers such as its key."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        self._posts = _Session(headers)
        super().__init__(url, timeout=SEND_S, compression=Compression.NoCompression, session=self._posts)
        self._posts.verify, self._posts.cert = True, None  # overrides the environment
        self._sending = threading.Thread()
        self._is_away = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Post a batch, dropped on failure or while the last one hangs; the thread bounds it as a whole."""
        results: list[SpanExportResult] = []
        if not self._sending.is_alive():
            send = super().export
            self._sending = threading.Thread(
                target=lambda: results.append(send(spans)), name="traces", daemon=True
            )
            self._sending.start()
            self._sending.join(SEND_S)
        was_away = self._is_away
        self._is_away = results != [SpanExportResult.SUCCESS] or bool(self._posts.cause)
        if self._is_away and not was_away:
            cause = self._posts.cause if results else "TimeoutError"
            log.warning("traces not sent", spans=len(spans), cause=cause)
        elif was_away and not self._is_away:
            log.info("traces sent again")
        return SpanExportResult.FAILURE if self._is_away else SpanExportResult.SUCCESS


def open_provider(url: str, headers: Mapping[str, str], process: Mapping[str, str | int]) -> TracerProvider:
    """Open a provider that records all spans and sends them in batches from a thread.

    Call it in the recording process, never before a fork. `process` has its attributes, as `service.name`.
    """
    provider = TracerProvider(
        sampler=ALWAYS_ON, resource=Resource(dict(process)), shutdown_on_exit=False,
        span_limits=SpanLimits(max_attributes=32, max_events=0, max_links=1),
    )  # fmt: skip
    provider.add_span_processor(
        BatchSpanProcessor(
            CollectorExporter(url, headers), max_queue_size=QUEUED_SPANS, max_export_batch_size=BATCH_SPANS,
            schedule_delay_millis=SEND_EVERY_S * 1000, export_timeout_millis=SEND_S * 1000,
        )
    )  # fmt: skip
    return provider


def close_provider(provider: TracerProvider, timeout_s: float = STOP_S) -> None:
    """Send the remaining spans within `timeout_s`, even if the collector hangs."""
    closing = threading.Thread(target=provider.shutdown, name="traces", daemon=True)
    closing.start()
    closing.join(timeout_s)


CALLERS_PER_S: Final = 1
"""Enough to trace a single request; more would let any caller have everything recorded."""


class Sampling:
    """Decides whether a request is recorded: a share from 0 to 1, and those of callers up to a rate.

    `callers_per_s` is also their burst; `chance` returns a number from [0, 1), `clock` seconds.
    """

    def __init__(
        self,
        share: float,
        callers_per_s: int = CALLERS_PER_S,
        chance: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._share = share
        self._callers_per_s = callers_per_s
        self._chance = chance
        self._clock = clock
        self._left = float(callers_per_s)
        self._since = clock()

    def is_recorded(self, caller: request_log.TraceContext | None) -> bool:
        """Whether to record a request of this caller."""
        if caller is not None and caller.is_sampled and self._takes_from_callers():
            return True
        return self._chance() < self._share

    def _takes_from_callers(self) -> bool:
        now = self._clock()
        gained = (now - self._since) * self._callers_per_s
        self._left, self._since = min(self._callers_per_s, self._left + gained), now
        if self._left < 1:
            return False
        self._left -= 1
        return True


# Names of OpenTelemetry's conventions; every other detail is one of ours.
_NAMES: Final = {"status": "http.response.status_code", "error": "error.type"}
_NOWHERE: Final = Context()
_REQUEST: Final = "request"
"""The name of a request's span until its operation is known."""


@frozen
class _Place:
    """Where a task is: in a span of ours, or in a caller's trace that is only passed on."""

    context: request_log.TraceContext
    span: Span | None


class OtlpTracing:
    """Fills `Tracing` by a provider's spans, each of which is sent, for requests of a sampling."""

    def __init__(self, provider: TracerProvider, sampling: Sampling) -> None:
        self._tracer = provider.get_tracer("meetcore")
        self._sampling = sampling
        self._current: ContextVar[_Place | None] = ContextVar("meetcore_trace", default=None)

    def request(self, headers: RawHeaders) -> AbstractContextManager[object]:
        caller = request_log.sole_traceparent(headers)
        if self._sampling.is_recorded(caller):
            return self._root(_REQUEST, SpanKind.SERVER, {}, parent=caller)
        return NOT_RECORDED if caller is None else self._passed_on(caller)

    def span(self, name: str, **details: Detail) -> AbstractContextManager[object]:
        place = self._current.get()
        if place is None or place.span is None:
            return NOT_RECORDED
        return self._child(name, place.span, details)

    def caused(self, name: str, cause: str | None, **details: Detail) -> AbstractContextManager[object]:
        place = None if cause is None else request_log.parse_traceparent(cause)
        if place is None:
            return NOT_RECORDED
        return self._root(name, SpanKind.CONSUMER, details, link=place)

    def resumed(self, place: str | None) -> AbstractContextManager[object]:
        found = None if place is None else request_log.parse_traceparent(place)
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
        return NO_HEADERS if place is None else {request_log.TRACEPARENT: str(place.context)}

    def cause(self) -> str | None:
        place = self._current.get()
        return None if place is None or place.span is None else str(place.context)

    @contextmanager
    def _root(
        self,
        name: str,
        kind: SpanKind,
        details: Mapping[str, Detail],
        parent: request_log.TraceContext | None = None,
        link: request_log.TraceContext | None = None,
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
    def _passed_on(self, caller: request_log.TraceContext) -> Iterator[None]:
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


def _context_of(span: Span) -> request_log.TraceContext:
    found = span.get_span_context()
    return request_log.TraceContext(
        f"{found.trace_id:032x}", f"{found.span_id:016x}", found.trace_flags.sampled
    )


def _span_context(place: request_log.TraceContext) -> SpanContext:
    flags = TraceFlags(TraceFlags.SAMPLED if place.is_sampled else TraceFlags.DEFAULT)
    return SpanContext(int(place.trace_id, 16), int(place.span_id, 16), is_remote=True, trace_flags=flags)


def _attributes(details: Mapping[str, Detail]) -> dict[str, str | int | float | bool]:
    return {
        _NAMES.get(name, f"meetcore.{name}"): str(value) if isinstance(value, UUID) else value
        for name, value in details.items()
        if value is not None
    }
