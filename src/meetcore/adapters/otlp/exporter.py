"""Sending spans to a collector: OTLP over HTTP, in Protobuf.

The SDK's batch processor calls it in a thread of its own, so that no request waits for it. A batch that
cannot be sent is dropped: traces are not worth a queue that grows. The log says so once, and once when it
works again.
"""

import asyncio
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

import httpx
import structlog
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

QUEUED_SPANS: Final = 2048
"""Spans that wait to be sent, at most; beyond them the oldest is dropped."""
BATCH_SPANS: Final = 512
SEND_EVERY_S: Final = 2.0
SEND_S: Final = 5.0
"""Seconds for a batch, from the connection to the end of the answer."""
ANSWER_BYTES: Final = 64 * 1024
"""Bytes of an answer that are read, so that its connection serves again; nothing looks at them."""
STOP_S: Final = 3.0
"""Seconds for what is left when the process ends."""

_PROTOBUF: Final = {"Content-Type": "application/x-protobuf"}
_DETAILS: Final = 32

log = structlog.get_logger("meetcore.traces")


class CollectorExporter(SpanExporter):
    """Posts batches of spans to one address.

    Args:
        url: of the collector, its path included.
        headers: for the collector, such as its key.
    """

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        self._url = url
        # No proxy, and no password file, of the environment: what is set is all there is.
        self._http = httpx.AsyncClient(
            headers={**headers, **_PROTOBUF}, timeout=2 * SEND_S, trust_env=False, follow_redirects=False
        )  # that bounds each piece of an answer; the whole is bounded where it is sent
        # The SDK exports one batch at a time, though not always in the same thread.
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._is_away = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Post a batch; an unsuccessful one is dropped."""
        cause = self._post(encode_spans(spans).SerializeToString())
        if cause is not None and not self._is_away:
            log.warning("traces not sent", spans=len(spans), cause=cause)
        elif cause is None and self._is_away:
            log.info("traces sent again")
        self._is_away = cause is not None
        return SpanExportResult.SUCCESS if cause is None else SpanExportResult.FAILURE

    def shutdown(self) -> None:
        """Close the connection."""
        with suppress(RuntimeError):  # a batch is still being sent, and ends with the process
            self._runner.run(self._http.aclose())
            self._runner.close()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Do nothing: nothing waits here."""
        return True

    def _post(self, body: bytes) -> str | None:
        """Return why the collector did not take it; `None` where it did."""
        posting = self._status(body)
        try:
            status = self._runner.run(posting)
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, RuntimeError) as error:
            # A RuntimeError: it is closed.
            return type(error).__name__
        finally:
            posting.close()
        return None if 200 <= status < 300 else f"status {status}"

    async def _status(self, body: bytes) -> int:
        async with asyncio.timeout(SEND_S), self._http.stream("POST", self._url, content=body) as answer:
            left = ANSWER_BYTES
            async for piece in answer.aiter_raw():
                left -= len(piece)
                if left < 0:
                    break
        return answer.status_code


def open_provider(url: str, headers: Mapping[str, str], process: Mapping[str, str | int]) -> TracerProvider:
    """Open a provider whose spans are all sent, in batches, by a thread that begins here.

    Call it in the process that records, never before a fork.

    Args:
        process: which process records, as `service.name` and the like.
    """
    provider = TracerProvider(
        sampler=ALWAYS_ON, resource=Resource(dict(process)), shutdown_on_exit=False,
        span_limits=SpanLimits(max_attributes=_DETAILS, max_events=0, max_links=1),
    )  # fmt: skip
    provider.add_span_processor(
        BatchSpanProcessor(
            CollectorExporter(url, headers), max_queue_size=QUEUED_SPANS, max_export_batch_size=BATCH_SPANS,
            schedule_delay_millis=SEND_EVERY_S * 1000, export_timeout_millis=SEND_S * 1000,
        )
    )  # fmt: skip
    return provider


def close_provider(provider: TracerProvider, timeout_s: float = STOP_S) -> None:
    """Send what is left, for so many seconds at most: a collector that hangs keeps no process from ending."""
    closing = threading.Thread(target=provider.shutdown, name="traces", daemon=True)
    closing.start()
    closing.join(timeout_s)
