"""The contracts of `ports.mails`, `ports.requests` and `ports.runtime`."""

import asyncio
import gc
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from statistics import median
from typing import Any, ClassVar, Protocol
from uuid import uuid4

import pytest
from attrs import evolve, frozen
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from meetcore.domain.mails.views import OutgoingMail
from meetcore.domain.requests.rate_window import OperationClass
from meetcore.ports import requests, runtime
from meetcore.ports.mails import Mailer, MailRefused
from meetcore.testing.ledger import AT, new_id


@frozen
class ReceivedMail:
    """A mail as its recipient reads it."""

    message_id: str
    recipient: str
    subject: str
    text: str
    html: str


class MailboxRig(Protocol):
    """A mailer and its recipients' mailbox, empty for each test."""

    @property
    def mailer(self) -> Mailer:
        """The mailer under test."""

    def received(self) -> Sequence[ReceivedMail]:
        """The mails that arrived, oldest first."""


def outgoing(**fields: Any) -> OutgoingMail:
    """Make a mail with these attributes."""
    return evolve(
        OutgoingMail(
            new_id(), "dewi@example.com", "Masuk ke meetcore — “sekali” saja",
            "Selamat pagi, Émile.\n\n.titik di awal baris\nhttps://meet.example/?token=a%3D&b=" + "x" * 120,
            "<p>Selamat pagi, Émile.</p>\n<p>.</p>", "id", AT,
        ),
        **fields,
    )  # fmt: skip


@pytest.mark.asyncio
class MailerContract:
    """The suite of a `Mailer`, with the fixture `mailbox`: each send arrives once and adds no header."""

    async def test_a_mail_arrives_as_it_was_sent(self, mailbox: MailboxRig) -> None:
        mail = outgoing()
        await mailbox.mailer.send(mail)
        (received,) = mailbox.received()
        assert (received.recipient, received.subject) == (mail.recipient, mail.subject)
        assert received.text.strip() == mail.text
        assert received.html.strip() == mail.html

    async def test_a_mail_has_one_id_at_every_attempt(self, mailbox: MailboxRig) -> None:
        mail = outgoing()
        for each in (mail, mail, outgoing()):
            await mailbox.mailer.send(each)
        first, second, other = (received.message_id for received in mailbox.received())
        assert first == second != other
        assert str(mail.id) in first

    async def test_mails_sent_at_once_all_arrive(self, mailbox: MailboxRig) -> None:
        mails = [outgoing(recipient=f"dewi{number}@example.com") for number in range(8)]
        await asyncio.gather(*(mailbox.mailer.send(mail) for mail in mails))
        assert {received.recipient for received in mailbox.received()} == {mail.recipient for mail in mails}

    @pytest.mark.parametrize("field", ["subject", "recipient"])
    @pytest.mark.parametrize("brk", ["\r\n", "\n", "\r", "\0", "\x85", "\u2028"])
    async def test_no_field_can_add_a_header(self, mailbox: MailboxRig, field: str, brk: str) -> None:
        with pytest.raises(MailRefused):
            await mailbox.mailer.send(outgoing(**{field: f"a@example.com{brk}Bcc: b@example.com"}))
        assert mailbox.received() == []


READ, CREDIT = OperationClass.READ, OperationClass.CREDIT
MINUTE = int(time.time()) // 60 * 60
"""The unix second at which the present minute started: a store may forget windows that are over."""
_hits = st.tuples(st.integers(0, 2), st.sampled_from(OperationClass), st.integers(0, 2))
_SHARED = [HealthCheck.differing_executors, HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


@pytest.mark.asyncio
class RateCountersContract:
    """The suite of a `RateCounters`, with the fixture `counters`; the store need not be empty."""

    async def test_twenty_at_once_count_to_twenty(self, counters: requests.RateCounters) -> None:
        key = uuid4()
        counts = await asyncio.gather(*(counters.hit(key, READ, MINUTE) for _ in range(20)))
        assert sorted(counts) == list(range(1, 21))

    async def test_counting_goes_on_past_any_limit(self, counters: requests.RateCounters) -> None:
        key = uuid4()
        assert [await counters.hit(key, CREDIT, MINUTE) for _ in range(25)] == list(range(1, 26))

    async def test_windows_count_apart_in_any_order(self, counters: requests.RateCounters) -> None:
        key = uuid4()
        assert await counters.hit(key, READ, MINUTE) == 1
        for later in (60, 120):
            assert await counters.hit(key, READ, MINUTE + later) == 1
        assert await counters.hit(key, READ, MINUTE) == 2

    # The examples share the adapter, and each takes up to forty calls: a long profile has its limit.
    @settings(max_examples=min(settings().max_examples, 500), deadline=None, suppress_health_check=_SHARED)
    @given(sequence=st.lists(_hits, max_size=40))
    async def test_keys_classes_and_windows_count_apart(
        self, counters: requests.RateCounters, sequence: list[tuple[int, OperationClass, int]]
    ) -> None:
        keys = [uuid4() for _ in range(3)]
        counts = await asyncio.gather(
            *(counters.hit(keys[key], operation, MINUTE + 60 * window) for key, operation, window in sequence)
        )
        for name, hits in Counter(sequence).items():
            counted_to = [count for counted, count in zip(sequence, counts, strict=True) if counted == name]
            assert sorted(counted_to) == list(range(1, hits + 1))

    async def test_a_caller_that_gives_up_has_made_its_attempt(self, counters: requests.RateCounters) -> None:
        key = uuid4()
        await counters.hit(key, READ, MINUTE)
        cancelled = asyncio.create_task(counters.hit(key, READ, MINUTE))
        kept = asyncio.create_task(counters.hit(key, READ, MINUTE))
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.gather(cancelled, return_exceptions=True)
        # The cancelled hit may be counted; the other is not lost with it.
        assert await kept in (2, 3)


class SharedRateCountersContract(RateCountersContract):
    """The suite of counters that processes share: `other_counters` is the view of another process.

    `an_hour_later` lets an hour pass for the store, after which `MINUTE` is long over: it sets its clock, or
    does what the deployment does to forget. `unavailable_counters` are those of a store that does not answer.
    """

    async def test_processes_count_together(
        self, counters: requests.RateCounters, other_counters: requests.RateCounters
    ) -> None:
        key = uuid4()
        views = (counters, other_counters) * 10
        counts = await asyncio.gather(*(view.hit(key, READ, MINUTE) for view in views))
        assert sorted(counts) == list(range(1, 21))

    async def test_a_window_is_forgotten_when_it_is_long_over(
        self, counters: requests.RateCounters, an_hour_later: Callable[[], Awaitable[object]]
    ) -> None:
        key = uuid4()
        assert [await counters.hit(key, READ, MINUTE) for _ in range(2)] == [1, 2]
        await an_hour_later()
        assert await counters.hit(key, READ, MINUTE) == 1

    async def test_without_an_answer_the_store_is_unavailable(
        self, unavailable_counters: requests.RateCounters
    ) -> None:
        async with asyncio.timeout(10):
            with pytest.raises(requests.RateStoreUnavailable):
                await unavailable_counters.hit(uuid4(), READ, MINUTE)


class NotifierRig(Protocol):
    """A notifier and its listeners."""

    @property
    def notifier(self) -> runtime.WorkerNotifier:
        """The notifier under test."""

    def listening(self, on_wake: Callable[[], object]) -> AbstractAsyncContextManager[object]:
        """Listen as one worker, and call `on_wake` from any thread."""


class RemoteNotifierRig(NotifierRig, Protocol):
    """A notifier whose queue can be disconnected. At first it is connected."""

    async def disconnect(self) -> None:
        """Cut every connection and refuse new ones."""

    async def bring_back(self) -> None:
        """Accept connections again."""


class _Wakes:
    """Wakes from any thread; made inside the event loop."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        self._wakes = asyncio.Event()

    def note(self) -> None:
        self._loop.call_soon_threadsafe(self._wakes.set)

    async def is_notified(self, within_s: float) -> bool:
        """Wait for a wake and consume it."""
        try:
            await asyncio.wait_for(self._wakes.wait(), within_s)
        except TimeoutError:
            return False
        self._wakes.clear()
        return True

    async def must_come(self, notifier: runtime.WorkerNotifier | None = None) -> None:
        """Wait for a wake; notify again and again, as some are lost while a queue comes back."""
        deadline = time.monotonic() + self._timeout_s
        while not await self.is_notified(0.1):
            assert time.monotonic() < deadline, f"no wake within {self._timeout_s} s"
            if notifier is not None:
                notifier.notify()

    async def settle(self) -> None:
        """Wait until the wakes of earlier notifications have come."""
        while await self.is_notified(0.3):
            pass


@pytest.mark.asyncio
class WorkerNotifierContract:
    """The suite of a `WorkerNotifier` in its process, with `rig`; a notification may get lost or late::

    class MyRig:
        def __init__(self) -> None:
            self.notifier = MyNotifier()

        @asynccontextmanager
        async def listening(self, on_wake: Callable[[], object]) -> AsyncIterator[None]:
            self.notifier.workers.add(on_wake)
            yield
            self.notifier.workers.remove(on_wake)
    """

    timeout_s: ClassVar[float] = 15.0

    async def test_notifications_wake_the_listener_each_time(self, rig: NotifierRig) -> None:
        wakes = _Wakes(self.timeout_s)
        async with rig.listening(wakes.note):
            for count in (1, 1, 99, 1):
                for _ in range(count):
                    rig.notifier.notify()
                await wakes.must_come()
                await wakes.settle()

    async def test_a_notification_without_a_listener_is_no_error(self, rig: NotifierRig) -> None:
        rig.notifier.notify()
        wakes = _Wakes(self.timeout_s)
        async with rig.listening(wakes.note):
            await wakes.settle()
            rig.notifier.notify()
            await wakes.must_come()
        rig.notifier.notify()

    async def test_a_notification_costs_microseconds_and_does_not_block(self, rig: NotifierRig) -> None:
        rig.notifier.notify()
        assert_is_cheap(rig.notifier)


class RemoteNotifierContract(WorkerNotifierContract):
    """The suite of a `WorkerNotifier` with a queue between its ends; its `rig` is a `RemoteNotifierRig`."""

    async def test_without_the_queue_nothing_raises_or_blocks(self, rig: RemoteNotifierRig) -> None:
        await rig.disconnect()
        assert_is_cheap(rig.notifier)  # a connection alone would take longer

    async def test_a_queue_that_is_back_is_notified_again(self, rig: RemoteNotifierRig) -> None:
        rig.notifier.notify()
        await rig.disconnect()
        wakes = _Wakes(self.timeout_s)
        async with rig.listening(wakes.note):
            for _ in range(2):
                rig.notifier.notify()
                await rig.bring_back()
                await wakes.must_come(rig.notifier)
                await rig.disconnect()
            rig.notifier.notify()
            await rig.bring_back()


def assert_is_cheap(notifier: runtime.WorkerNotifier) -> None:
    """Check that a thousand notifications take less than a second, by the median of three rounds."""
    took_s: list[float] = []
    for _ in range(3):
        began = time.perf_counter()
        for _ in range(1000):
            notifier.notify()
        took_s.append(time.perf_counter() - began)
    assert median(took_s) < 1.0
    gc.collect()
    began = time.thread_time()
    for _ in range(10_000):
        notifier.notify()
    assert (time.thread_time() - began) / 10_000 < 50e-6
