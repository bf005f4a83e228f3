"""What traces add to a request: processor time of its calls, in one process, the sending thread's included.

A request is one to `POST /meetings`: a read, four transactions, a call of the provider, and an
event that keeps its cause. Spans go to a collector of another process.
"""

import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from benchmarks.report import Result, middle
from meetcore.ports.tracing import NO_TRACING, Tracing

__all__ = ["measure_traces"]

LIMIT_US = 70.0
SHARE = 0.01
_HEADERS = [
    (b"host", b"meet.example.com"), (b"accept", b"*/*"), (b"accept-encoding", b"gzip, deflate"),
    (b"connection", b"keep-alive"), (b"user-agent", b"python-httpx/0.28"), (b"authorization", b"Bearer mk_x"),
    (b"content-type", b"application/json"), (b"content-length", b"120"), (b"idempotency-key", b"k"),
    (b"x-forwarded-for", b"203.0.113.7"),
]  # fmt: skip
_CALLER = (b"traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
_DONE = ("read", "transaction", "provider create", "transaction", "transaction", "transaction")


def measure_traces(rounds: int, requests: int) -> list[Result]:
    """Return the µs of a request, medians of several processes, without and with callers' traces."""
    taken = [_of_a_process(requests) for _ in range(rounds)]
    names = (
        f"traces of {SHARE:.0%} of requests, of a request",
        "the same, each caller with a trace of its own",
    )
    return [
        Result(name, middle([figures[place] for figures in taken]), None, "CPU µs", f"≤ {LIMIT_US:g}")
        for place, name in enumerate(names)
    ]


def _of_a_process(requests: int) -> tuple[float, float]:
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.traces", "collect"], stdout=subprocess.PIPE, text=True
    ) as collector:
        try:
            assert collector.stdout is not None
            url = collector.stdout.readline().strip()
            done = subprocess.run(
                [sys.executable, "-m", "benchmarks.traces", url, str(requests)],
                stdout=subprocess.PIPE, text=True, check=True,
            )  # fmt: skip
        finally:
            collector.kill()
    own, callers = map(float, done.stdout.split())
    return own, callers


def _tracing_s(tracing: Tracing, headers: list[tuple[bytes, bytes]], requests: int) -> None:
    """Report so many requests, as the service does."""
    for _ in range(requests):
        with tracing.request(headers):
            for name in _DONE:
                with tracing.span(name):
                    tracing.headers()
            tracing.cause()
            tracing.describe("POST /meetings", status=201, code=None, request_id="0192d2a6", error=None)


def _us(tracing: Tracing, headers: list[tuple[bytes, bytes]], requests: int) -> float:
    start = time.process_time()
    _tracing_s(tracing, headers, requests)
    return (time.process_time() - start) / requests * 1e6


def main() -> None:
    """Print what traces cost beyond a process without them."""
    from meetcore.adapters.otlp.exporter import close_provider, open_provider
    from meetcore.adapters.otlp.sampling import Sampling
    from meetcore.adapters.otlp.tracing import OtlpTracing

    url, requests = sys.argv[1], int(sys.argv[2])
    _us(NO_TRACING, _HEADERS, 100)
    without_us = _us(NO_TRACING, _HEADERS, requests)
    for headers in (_HEADERS, [*_HEADERS, _CALLER]):
        provider = open_provider(url, {}, {"service.name": "meetcore"})
        tracing = OtlpTracing(provider, Sampling(SHARE, 1))
        _tracing_s(tracing, headers, 200)
        start = time.process_time()
        _tracing_s(tracing, headers, requests)
        close_provider(provider)  # with what its thread still sends
        print((time.process_time() - start) / requests * 1e6 - without_us)


def collect() -> None:
    """Take batches and forget them, at an address that is printed."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(f"http://127.0.0.1:{server.server_port}/v1/traces", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    collect() if sys.argv[1] == "collect" else main()
