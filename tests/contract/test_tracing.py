"""Traces: the port in every adapter, the spans that the SDK is given, and how they reach a collector."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from uuid import UUID

import pytest
import structlog
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import SpanKind, StatusCode
from structlog.testing import capture_logs

from meetcore.adapters import otlp
from meetcore.adapters.openai.endpoint import AiAccess, AiEndpoint
from meetcore.adapters.otlp import (
    QUEUED_SPANS,
    CollectorExporter,
    OtlpTracing,
    Sampling,
    close_provider,
    open_provider,
)
from meetcore.adapters.postgres.pool import make_pool
from meetcore.adapters.postgres.standby import Standby
from meetcore.adapters.postgres.store import PostgresStore
from meetcore.adapters.zoom.calls import open_http
from meetcore.domain.ids import parse_id
from meetcore.domain.requests.request_log import TRACEPARENT, parse_traceparent
from meetcore.domain.requests.views import AccountVersion
from meetcore.ports.observability import NO_TRACING, Tracing
from meetcore.testing.stand_in import Reply, Request, as_json, serving
from tests.support.collector import Collector, collecting
from tests.support.fakes import PlainCipher
from tests.support.running_time import running_time

_CALLER = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
_ID = parse_id("0192d2a6-0000-7000-8000-000000000000", "record")


class TracingContract:
    """What `ports.observability.Tracing` promises, whether or not requests are recorded."""

    async def test_without_a_request_nothing_is_open(self, tracing: Tracing) -> None:
        assert tracing.cause() is None
        assert dict(tracing.headers()) == {}
        with tracing.span("transaction"):
            assert tracing.cause() is None
        tracing.describe("a name", status=200)

    @pytest.mark.parametrize(
        "headers",
        [
            [],
            [(b"traceparent", _CALLER)],
            [(b"traceparent", b"\xff\x00")],
            [(b"traceparent", _CALLER), (b"traceparent", _CALLER)],
        ],
    )
    async def test_a_request_may_do_anything_and_leaves_nothing_behind(
        self, tracing: Tracing, headers: list[tuple[bytes, bytes]]
    ) -> None:
        for _ in range(3):
            with tracing.request(headers):
                tracing.describe("POST /meetings", status=201, account_id=_ID, code=None)
                with tracing.span("transaction"), tracing.span("read", rows=3, is_last=True, took=0.5):
                    sent, kept = dict(tracing.headers()), tracing.cause()
                assert kept is None or sent == {TRACEPARENT: kept}
                assert all(parse_traceparent(value) is not None for value in sent.values())
            assert tracing.cause() is None
            assert dict(tracing.headers()) == {}

    @pytest.mark.parametrize("fault", [ValueError, asyncio.CancelledError])
    async def test_exception_passes_through_unchanged(
        self, tracing: Tracing, fault: type[BaseException]
    ) -> None:
        raised = fault("why")
        with pytest.raises(fault) as caught, tracing.request([]), tracing.span("provider create"):
            raise raised
        assert caught.value is raised
        assert tracing.cause() is None

    @pytest.mark.parametrize("cause", [None, "", "nonsense", _CALLER.decode()])
    async def test_what_was_caused_may_name_anything_as_its_cause(
        self, tracing: Tracing, cause: str | None
    ) -> None:
        with tracing.caused("webhook attempt", cause, delivery_id=_ID):
            tracing.describe(status=500, error="status_500")
            with tracing.resumed(tracing.cause()):
                pass
        with tracing.resumed(cause):
            pass
        assert tracing.cause() is None

    async def test_tasks_do_not_see_each_others_traces(self, tracing: Tracing) -> None:
        has_begun, may_end = asyncio.Event(), asyncio.Event()

        async def serve() -> None:
            with tracing.request([(b"traceparent", _CALLER)]):
                has_begun.set()
                await may_end.wait()

        task = asyncio.create_task(serve())
        await has_begun.wait()
        assert tracing.cause() is None
        assert dict(tracing.headers()) == {}
        may_end.set()
        await task


TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
ASKS = f"00-{TRACE}-{SPAN}-01"
ASKS_NOT = f"00-{TRACE}-{SPAN}-00"
SECRET = "hunter2"


class Kept:
    """A tracing whose spans are kept here."""

    def __init__(self, share: float = 1.0, callers_per_s: int = 0) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(ALWAYS_ON, shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracing = OtlpTracing(provider, Sampling(share, callers_per_s))

    @property
    def spans(self) -> dict[str, ReadableSpan]:
        """The spans that are over, by their names."""
        return {span.name: span for span in self._exporter.get_finished_spans()}


def headers(traceparent: str) -> list[tuple[bytes, bytes]]:
    return [(b"host", b"127.0.0.1"), (b"traceparent", traceparent.encode())]


class TestTracing(TracingContract):
    """Recorded, not recorded, and not there."""

    @pytest.fixture(params=["recorded", "callers", "not recorded", "none"])
    def tracing(self, request: pytest.FixtureRequest) -> Tracing:
        kept = {"recorded": Kept(), "callers": Kept(0.0, 100), "not recorded": Kept(0.0)}
        return kept[request.param].tracing if request.param in kept else NO_TRACING


def ids_of(span: ReadableSpan) -> tuple[int, int]:
    assert span.context is not None
    return span.context.trace_id, span.context.span_id


def test_what_a_request_does_is_one_trace() -> None:
    kept = Kept()
    with kept.tracing.request([]):
        kept.tracing.describe("POST /meetings", status=201)
        with kept.tracing.span("transaction"):
            pass
        with kept.tracing.span("provider create", provider="zoom"):
            sent = kept.tracing.headers()["traceparent"]
    request, transaction, call = (
        kept.spans[name] for name in ("POST /meetings", "transaction", "provider create")
    )
    assert request.parent is None
    assert request.kind is SpanKind.SERVER
    assert request.attributes == {"http.response.status_code": 201}
    for child in (transaction, call):
        assert child.parent is not None
        assert (child.parent.trace_id, child.parent.span_id) == ids_of(request)
        assert child.kind is SpanKind.CLIENT
    assert call.attributes == {"meetcore.provider": "zoom"}
    trace_id, span_id = ids_of(call)
    assert sent == f"00-{trace_id:032x}-{span_id:016x}-01"


@pytest.mark.parametrize("traceparent", [ASKS, ASKS_NOT])
def test_a_caller_s_trace_is_continued_where_the_request_is_recorded(traceparent: str) -> None:
    kept = Kept(share=1.0)
    with kept.tracing.request(headers(traceparent)):
        pass
    [span] = kept.spans.values()
    assert span.parent is not None
    assert (span.parent.trace_id, span.parent.span_id) == (int(TRACE, 16), int(SPAN, 16))
    assert ids_of(span)[0] == int(TRACE, 16)


@pytest.mark.parametrize("traceparent", [ASKS, ASKS_NOT])
def test_a_caller_s_trace_is_passed_on_as_it_is_where_the_request_is_not_recorded(traceparent: str) -> None:
    kept = Kept(share=0.0)
    with kept.tracing.request(headers(traceparent)), kept.tracing.span("provider create"):
        assert kept.tracing.headers() == {"traceparent": traceparent}
        assert kept.tracing.cause() is None, "it would be linked to a span that is not ours"
        assert structlog.contextvars.get_contextvars()["trace_id"] == TRACE
    assert kept.spans == {}
    assert "trace_id" not in structlog.contextvars.get_contextvars()


def test_callers_cannot_have_everything_recorded() -> None:
    kept = Kept(share=0.0, callers_per_s=2)
    for _ in range(50):
        with kept.tracing.request(headers(ASKS)):
            kept.tracing.describe("asked")
    assert len(kept._exporter.get_finished_spans()) == 2


@pytest.mark.parametrize("bad", [f"00-{'0' * 32}-{SPAN}-01", "nonsense", ""])
def test_a_bad_header_is_ignored(bad: str) -> None:
    kept = Kept(share=0.0, callers_per_s=100)
    with kept.tracing.request(headers(bad)):
        assert kept.tracing.headers() == {}
    assert kept.spans == {}


def test_what_a_request_caused_is_a_trace_of_its_own_with_a_link() -> None:
    kept = Kept()
    with kept.tracing.request([]):
        kept.tracing.describe("request")
        cause = kept.tracing.cause()
    with kept.tracing.caused("webhook attempt", cause, event="meeting.created"):
        kept.tracing.describe(status=500, error="status_500")
        place = kept.tracing.cause()
    request, attempt = kept.spans["request"], kept.spans["webhook attempt"]
    assert attempt.parent is None
    assert ids_of(attempt)[0] != ids_of(request)[0]
    assert [(link.context.trace_id, link.context.span_id) for link in attempt.links] == [ids_of(request)]
    assert attempt.status.status_code is StatusCode.ERROR
    with kept.tracing.resumed(place):
        assert structlog.contextvars.get_contextvars()["trace_id"] == f"{ids_of(attempt)[0]:032x}"


def test_no_text_of_an_exception_is_recorded() -> None:
    kept = Kept()
    with pytest.raises(ValueError, match=SECRET), kept.tracing.request([]), kept.tracing.span("read"):
        raise ValueError(SECRET)
    for span in kept.spans.values():
        assert span.status.status_code is StatusCode.ERROR
        assert span.attributes == {"error.type": "ValueError"}
        assert SECRET not in span.to_json()
        assert not span.events


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as running:
        yield running


def opened(collector: Collector, **fields: str) -> tuple[TracerProvider, OtlpTracing]:
    provider = open_provider(collector.url, fields, {"service.name": "meetcore", "process.pid": 7})
    return provider, OtlpTracing(provider, Sampling(1.0, 0))


def test_spans_reach_a_collector_in_protobuf_with_the_process_and_the_fields(collector: Collector) -> None:
    provider, tracing = opened(collector, **{"x-key": SECRET})
    with tracing.request([]), tracing.span("transaction"):
        pass
    close_provider(provider)
    assert {span.name for span in collector.spans} == {"request", "transaction"}
    assert collector.spans[0].process == {"service.name": "meetcore", "process.pid": 7}
    [batch] = collector.batches
    assert (batch["content-type"], batch["x-key"]) == ("application/x-protobuf", SECRET)


def test_a_collector_that_hangs_delays_no_request_and_no_end(collector: Collector) -> None:
    collector.release.clear()
    provider, tracing = opened(collector)
    with running_time() as passed_s:
        for _ in range(QUEUED_SPANS + 100):
            began_s = passed_s()
            with tracing.request([]):
                pass
            assert passed_s() - began_s < 1
    with running_time() as passed_s:
        close_provider(provider, timeout_s=0.3)
        assert passed_s() < 2
    collector.release.set()


@pytest.mark.parametrize("status", [302, 400, 401, 503])
def test_a_batch_that_is_refused_is_dropped_with_one_line_and_no_address(
    collector: Collector, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(otlp, "log", structlog.get_logger("meetcore.traces"))
    collector.status = status
    with monkeypatch.context() as at_opening:
        at_opening.setattr(otlp, "SEND_S", 0.5 if status == 503 else 30.0)  # for so long it is repeated
        provider, tracing = opened(collector, **{"x-key": SECRET})
    monkeypatch.setattr(otlp, "SEND_S", 30.0)
    with capture_logs() as lines:
        for _ in range(3):
            with tracing.request([]):
                pass
            provider.force_flush()
        collector.status = 200
        with tracing.request([]):
            pass
        provider.force_flush()
        close_provider(provider)
    assert [(line["event"], line["log_level"]) for line in lines] == [
        ("traces not sent", "warning"), ("traces sent again", "info"),
    ]  # fmt: skip
    assert lines[0]["cause"] == f"status {status}"
    assert SECRET not in str(lines)
    assert collector.url not in str(lines)
    assert len(collector.spans) == 1


def test_a_collector_that_is_away_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "log", structlog.get_logger("meetcore.traces"))
    monkeypatch.setattr(otlp, "SEND_S", 0.5)
    with socket.socket() as closed, capture_logs() as lines:
        closed.bind(("127.0.0.1", 0))
        provider = open_provider(f"http://127.0.0.1:{closed.getsockname()[1]}/v1/traces", {}, {})
        monkeypatch.setattr(otlp, "SEND_S", 30.0)
        for _ in range(2):
            with OtlpTracing(provider, Sampling(1.0, 0)).request([]):
                pass
            provider.force_flush()
        close_provider(provider)
    assert [line["cause"] for line in lines] == ["ConnectionError"]


class _Endless(BaseHTTPRequestHandler):
    """Sends an answer piece by piece: its head, or a body, without an end until `is_over` is set."""

    answer: bytes
    is_over: threading.Event

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        with suppress(OSError):
            self.wfile.write(self.answer)
            while not self.is_over.wait(0.02):
                self.wfile.write(b"x")

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.mark.parametrize("answer", [b"HTTP/1.1 200 OK\r\nX-Long: ", b"HTTP/1.0 200 OK\r\n\r\n"])
def test_answer_that_does_not_end_is_waited_for_once(answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "SEND_S", 0.3)
    is_over = threading.Event()
    handler = type("Handler", (_Endless,), {"answer": answer, "is_over": is_over})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    sender = CollectorExporter(f"http://127.0.0.1:{server.server_port}/", {})
    try:
        with running_time() as passed_s, capture_logs() as lines:
            assert sender.export([]) is SpanExportResult.FAILURE
            assert passed_s() < 2
    finally:
        is_over.set()
        sender.shutdown()
        server.shutdown()
        thread.join()
        server.server_close()
    assert [line["cause"] for line in lines] == ["TimeoutError"]


def test_nothing_of_the_environment_counts(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = "http://127.0.0.1:9"
    for name, value in {
        "HTTP_PROXY": nowhere, "OTEL_EXPORTER_OTLP_ENDPOINT": nowhere,
        "OTEL_EXPORTER_OTLP_HEADERS": "x-other=1", "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
        "OTEL_EXPORTER_OTLP_CERTIFICATE": "/nowhere",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    sender = CollectorExporter(collector.url, {"x-key": SECRET})
    assert sender.export([]) is SpanExportResult.SUCCESS
    sender.shutdown()
    [batch] = collector.batches
    assert batch["x-key"] == SECRET
    assert not {"x-other", "content-encoding"} & batch.keys()


def test_batches_share_a_connection(collector: Collector) -> None:
    sender = CollectorExporter(collector.url, {})
    assert [sender.export([]) for _ in range(2)] == [SpanExportResult.SUCCESS] * 2
    sender.shutdown()
    assert sender.export([]) is SpanExportResult.FAILURE
    assert len(collector.peers) == 2
    assert len(set(collector.peers)) == 1


async def test_what_is_done_in_postgresql_is_a_span(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("meetcore.adapters.postgres.standby._REST_S", 60.0)
    kept = Kept()
    pool = make_pool(database_url, max_size=1)
    pool.tracing = kept.tracing
    store, standby = PostgresStore(pool, PlainCipher()), Standby(pool, 5.0)
    async with pool:
        for _ in range(2):
            with kept.tracing.request([]):
                await pool.read("SELECT 1", {})
                async with store.begin():
                    pass
                async with store.at_once():
                    pass
                await standby.read("SELECT 1", {}, AccountVersion(UUID(int=1), 1, datetime.now(UTC)))
        names = [span.name for span in kept._exporter.get_finished_spans()]
    once = ["read", "transaction", "transaction", "standby read", "request"]
    # What did not answer as a standby is not asked again so soon.
    assert names == [*once, *(name for name in once if name != "standby read")]


@pytest.fixture
async def remembering() -> AsyncIterator[tuple[str, list[str | None]]]:
    """A server that answers everything with an empty object, and the `traceparent` of each request."""
    seen: list[str | None] = []

    async def answer(request: Request) -> Reply:
        seen.append(request.headers.get("traceparent"))
        return as_json({})

    async with serving(answer) as port:
        yield f"http://127.0.0.1:{port}", seen


async def test_calls_of_zoom_carry_the_span_that_is_open(remembering: tuple[str, list[str | None]]) -> None:
    url, seen = remembering
    kept = Kept()
    zoom = open_http(kept.tracing)
    await zoom.send("POST", url, {"Authorization": "Bearer x"}, json={}, read_s=5)
    with kept.tracing.request([]), kept.tracing.span("provider create"):
        await zoom.send("POST", url, {}, json={}, read_s=5)
    await zoom.aclose()
    assert seen[0] is None
    place = parse_traceparent(seen[1] or "")
    assert place is not None
    assert int(place.span_id, 16) == ids_of(kept.spans["provider create"])[1]


async def test_calls_of_the_ai_endpoint_are_spans_and_carry_them(
    remembering: tuple[str, list[str | None]],
) -> None:
    url, seen = remembering
    kept = Kept()
    access = AiAccess(url, SECRET, "whisper-1", "gpt-4o-mini")
    ai = AiEndpoint(access, structlog.get_logger(), lambda: datetime.now(UTC), kept.tracing)
    await ai.post_json("/chat/completions", {})
    with kept.tracing.caused("note", ASKS):
        await ai.post_json("/chat/completions", {})
    await ai.aclose()
    assert seen[0] is None
    place = parse_traceparent(seen[1] or "")
    assert place is not None
    call = kept.spans["ai /chat/completions"]
    assert (int(place.trace_id, 16), int(place.span_id, 16)) == ids_of(call)
    assert SECRET not in call.to_json()
