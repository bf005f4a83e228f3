"""A collector of traces on loopback: real HTTP, real Protobuf."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from attrs import define, field, frozen
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

KIND = {value: name.removeprefix("SPAN_KIND_").lower() for name, value in Span.SpanKind.items()}


@frozen
class Received:
    """A span as it came: ids in hex, a link as `(trace id, span id)`."""

    name: str
    kind: str
    trace_id: str
    span_id: str
    parent_id: str
    links: tuple[tuple[str, str], ...]
    attributes: dict[str, Any]
    has_failed: bool
    process: dict[str, Any]
    took_s: float


@define
class Collector:
    """Keeps all spans and answers with `status`, once `release` is set."""

    url: str
    status: int = 200
    spans: list[Received] = field(factory=list)
    batches: list[dict[str, str]] = field(factory=list)
    """The headers of each batch, names in lower case."""
    bodies: list[bytes] = field(factory=list)
    peers: list[int] = field(factory=list)
    """The port that each batch came from."""
    release: threading.Event = field(factory=threading.Event)

    def named(self, name: str, **attributes: object) -> list[Received]:
        """Return the `meetcore.` spans of a name with these attributes."""
        wanted = {f"meetcore.{key}": value for key, value in attributes.items()}
        return [
            span
            for span in list(self.spans)
            if span.name == name and wanted.items() <= span.attributes.items()
        ]

    def under(self, parent: Received) -> list[Received]:
        return [
            span
            for span in list(self.spans)
            if (span.trace_id, span.parent_id) == (parent.trace_id, parent.span_id)
        ]


def spans_of(body: bytes) -> list[Received]:
    found = []
    for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
        process = _values(resource.resource.attributes)
        found += [_received(span, process) for scope in resource.scope_spans for span in scope.spans]
    return found


def _received(span: Span, process: dict[str, Any]) -> Received:
    return Received(
        span.name, KIND[span.kind], span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex(),
        tuple((link.trace_id.hex(), link.span_id.hex()) for link in span.links), _values(span.attributes),
        span.status.code == Status.STATUS_CODE_ERROR, process,
        (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9,
    )  # fmt: skip


def _values(attributes: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}


@contextmanager
def collecting() -> Iterator[Collector]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            collector.release.wait()
            is_there = self.path == "/v1/traces"
            if is_there and collector.status == 200:
                collector.spans += spans_of(body)
            collector.bodies.append(body)
            collector.peers.append(self.client_address[1])
            collector.batches.append({name.lower(): value for name, value in self.headers.items()})
            self.send_response(collector.status if is_there else 404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    collector = Collector(f"http://127.0.0.1:{server.server_port}/v1/traces")
    collector.release.set()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield collector
    finally:
        collector.release.set()
        server.shutdown()
        thread.join()
        server.server_close()
