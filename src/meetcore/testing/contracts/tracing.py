"""Tracing: what is reported decides nothing, leaves nothing behind, and reaches no other task's trace."""

import asyncio

import pytest

from meetcore.domain.ids import parse_id
from meetcore.domain.requests.trace_context import TRACEPARENT, parse_traceparent
from meetcore.ports.tracing import Tracing

_CALLER = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
_ID = parse_id("0192d2a6-0000-7000-8000-000000000000", "record")


@pytest.mark.asyncio
class TracingContract:
    """What `ports.tracing.Tracing` promises, whether or not requests are recorded."""

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
    async def test_an_exception_passes_through_unchanged(
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
