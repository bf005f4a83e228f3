"""A suite that nothing can fail proves nothing: plausible mistakes, and for each the test that finds it.

The ports beside the store: counters, clock, entropy, cipher, doorbell, resolver, provider, sender,
transcriber, note writer.
"""

import asyncio
import base64
import os
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from ipaddress import IPv4Network, IPv6Network, ip_address
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from attrs import evolve

from meetcore.adapters.memory.rate_counters import MemoryRateCounters
from meetcore.adapters.memory.worker_notifier import MemoryWorkerNotifier
from meetcore.adapters.sandbox import MemorySandboxState, SandboxMeetingState, SandboxProvider
from meetcore.adapters.secrets import AesGcmCipher
from meetcore.adapters.webhook_sender import AsyncioWebhookSender
from meetcore.adapters.webhook_sender import sender as sender_module
from meetcore.domain.errors import HostUnresolved
from meetcore.domain.meetings.cancellation import ProviderMeetingState
from meetcore.domain.meetings.meetings import ProviderAbilities, Provisioned
from meetcore.domain.notes.notes import ActionItem, Decision, Language, NoteDraft
from meetcore.domain.notes.transcripts import Transcript, Utterance
from meetcore.domain.requests.rate_window import OperationClass
from meetcore.domain.webhooks.addresses import Address
from meetcore.domain.webhooks.deliveries import Attempt
from meetcore.ports.ai import AiRefused
from meetcore.ports.audio_editor import Sound
from meetcore.ports.cipher import CipherRefused
from meetcore.ports.video_provider import ProviderOrder, ProviderRefused
from meetcore.ports.webhook_sender import OutgoingPost, WebhookSender
from meetcore.testing.contracts.cipher import CipherContract, ReversibleCipherContract
from meetcore.testing.contracts.clock import ClockContract
from meetcore.testing.contracts.entropy import EntropyContract
from meetcore.testing.contracts.interactive_provider import InteractiveProviderContract
from meetcore.testing.contracts.note_writer import NoteWriterContract
from meetcore.testing.contracts.rate_counters import MINUTE, RateCountersContract, SharedRateCountersContract
from meetcore.testing.contracts.resolver import HANGING, ZONE, ResolverContract
from meetcore.testing.contracts.transcriber import TranscriberContract
from meetcore.testing.contracts.video_provider import VideoProviderContract
from meetcore.testing.contracts.webhook_sender import MakeSender, SenderSetting, WebhookSenderContract
from meetcore.testing.contracts.webhook_setting import SenderBench
from meetcore.testing.contracts.worker_notifier import RemoteNotifierContract, WorkerNotifierContract
from meetcore.testing.receiver import Authority, hang, hang_up

Test = Callable[..., Awaitable[None]]


def mistakes(*pairs: tuple[Test, object]) -> pytest.MarkDecorator:
    """A test of a suite, and what it must find."""
    names = [f"{getattr(fault, '__name__', type(fault).__name__)}-{test.__name__}" for test, fault in pairs]
    return pytest.mark.parametrize(("test", "broken"), pairs, ids=names)


# Transcribers and note writers


class ScriptedTranscriber:
    """Return the given utterances for a piece of any length."""

    def __init__(
        self, *utterances: Utterance, max_piece_s: int = 60, believes_anything: bool = False
    ) -> None:
        self.utterances, self.max_piece_s, self.believes_anything = utterances, max_piece_s, believes_anything

    takes_copies = False

    async def transcribe(self, sound: Sound) -> Transcript:
        if not self.believes_anything and not sound.file.read(4) == b"OggS":
            raise AiRefused("no sound")
        return self.utterances


class Closing(ScriptedTranscriber):
    async def transcribe(self, sound: Sound) -> Transcript:
        sound.close()
        return ()


class Writing:
    """Writes what it is given, whatever the transcript."""

    def __init__(self, draft: NoteDraft) -> None:
        self.draft = draft

    async def write(self, transcript: Transcript, language: Language) -> NoteDraft:
        return self.draft


async def of_length(transcriber: ScriptedTranscriber) -> None:
    await TranscriberContract().test_utterances_lie_within_the_piece(transcriber, 7.25)


async def of_no_sound(transcriber: ScriptedTranscriber) -> None:
    await TranscriberContract().test_what_is_no_sound_is_refused_for_good(transcriber, b"no sound at all")


async def of_length_of_pieces(transcriber: ScriptedTranscriber) -> None:
    await TranscriberContract().test_it_declares_how_long_a_piece_may_be(transcriber)


async def of_open_files(transcriber: ScriptedTranscriber) -> None:
    await TranscriberContract().test_a_piece_stays_open_and_can_be_transcribed_again(transcriber)


@mistakes(
    (of_length, ScriptedTranscriber(Utterance(3, 9, "ya"))),
    (of_length, ScriptedTranscriber(Utterance(5, 4, "ya"))),
    (of_length, ScriptedTranscriber(Utterance(-1, 4, "ya"))),
    (of_length, ScriptedTranscriber(Utterance(5, 6, "ya"), Utterance(1, 2, "ya"))),
    (of_length, ScriptedTranscriber(Utterance(1, 2, " "))),
    (of_length_of_pieces, ScriptedTranscriber(max_piece_s=1)),
    (of_length_of_pieces, ScriptedTranscriber(max_piece_s=100_000)),
    (of_open_files, Closing()),
)
async def test_transcribers(test: Test, broken: object) -> None:
    await of_length(ScriptedTranscriber(Utterance(1, 2, "ya")))
    with pytest.raises(AssertionError):
        await test(broken)


async def test_a_transcriber_that_believes_anything() -> None:
    with pytest.raises(pytest.fail.Exception):
        await of_no_sound(ScriptedTranscriber(believes_anything=True))


QUOTE = "Siti, tolong kirim RAB final paling lambat tanggal 28."


async def of_quotes(writer: Writing) -> None:
    suite = NoteWriterContract()
    await suite.test_a_note_cites_what_was_spoken_at_that_second(writer, "indonesian", Language.INDONESIAN)


async def of_findings(writer: Writing) -> None:
    await NoteWriterContract().test_a_decision_and_what_is_to_be_done_are_found(writer)


@mistakes(
    (of_quotes, Writing(NoteDraft(" "))),
    (of_quotes, Writing(NoteDraft("R", (Decision("D", "tidak pernah", 13.5),)))),
    (of_quotes, Writing(NoteDraft("R", (Decision("D", QUOTE, 9.0),)))),
    (of_quotes, Writing(NoteDraft("R", (Decision("D", "", 9.0),)))),
    (of_quotes, Writing(NoteDraft("R", (Decision(" ", QUOTE, 13.5),)))),
    (of_quotes, Writing(NoteDraft("R", (), (ActionItem("T", QUOTE, 13.5, "Joko"),)))),
    (of_quotes, Writing(NoteDraft("R", (), (ActionItem("T", QUOTE, 13.5, None, "besok"),)))),
    (of_quotes, Writing(NoteDraft("R", (), (ActionItem("", QUOTE, 13.5),)))),
    (of_quotes, Writing(NoteDraft("R", topics=("a", "a")))),
    (of_findings, Writing(NoteDraft("R"))),
)
async def test_note_writers(test: Test, broken: object) -> None:
    await of_quotes(Writing(NoteDraft("R", (), (ActionItem("T", QUOTE, 13.5, "Siti", "tanggal 28"),))))
    with pytest.raises(AssertionError):
        await test(broken)


# Rate counters


class Racing(MemoryRateCounters):
    """Reads, waits, writes: of hits at one time it loses some."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[object] = Counter()

    async def hit(self, key_id: UUID, operation_class: OperationClass, window_start: int) -> int:
        count = self.counts[key_id, operation_class, window_start] + 1
        await asyncio.sleep(0)
        self.counts[key_id, operation_class, window_start] = count
        return count


class OneClass(MemoryRateCounters):
    async def hit(self, key_id: UUID, operation_class: OperationClass, window_start: int) -> int:
        return await super().hit(key_id, OperationClass.READ, window_start)


class OneKey(MemoryRateCounters):
    async def hit(self, key_id: UUID, operation_class: OperationClass, window_start: int) -> int:
        return await super().hit(UUID(int=0), operation_class, window_start)


class OneWindow(MemoryRateCounters):
    async def hit(self, key_id: UUID, operation_class: OperationClass, window_start: int) -> int:
        return await super().hit(key_id, operation_class, 0)


class Forgetful(MemoryRateCounters):
    def __init__(self) -> None:
        super().__init__(windows=1)


class Capped(MemoryRateCounters):
    async def hit(self, key_id: UUID, operation_class: OperationClass, window_start: int) -> int:
        return min(20, await super().hit(key_id, operation_class, window_start))


class Gathering(MemoryRateCounters):
    """Sends hits in batches, and a cancelled caller cancels the whole batch."""

    def __init__(self) -> None:
        super().__init__()
        self.batch: asyncio.Future[None] | None = None

    async def hit(self, key_id: UUID, operation_class: OperationClass, window_start: int) -> int:
        if self.batch is None:
            self.batch = asyncio.get_running_loop().create_future()
            self.batch.get_loop().call_later(0.01, self.send, self.batch)
        await self.batch
        return await super().hit(key_id, operation_class, window_start)

    def send(self, batch: asyncio.Future[None]) -> None:
        self.batch = None
        if not batch.done():
            batch.set_result(None)


@mistakes(
    (RateCountersContract.test_twenty_at_once_count_to_twenty, Racing),
    (RateCountersContract.test_counting_goes_on_past_any_limit, Capped),
    (RateCountersContract.test_keys_count_apart, OneKey),
    (RateCountersContract.test_classes_count_apart, OneClass),
    (RateCountersContract.test_windows_count_apart_and_a_clock_set_back_finds_its_count, OneWindow),
    (RateCountersContract.test_windows_count_apart_and_a_clock_set_back_finds_its_count, Forgetful),
)
async def test_counters(test: Test, broken: type[MemoryRateCounters]) -> None:
    with pytest.raises(AssertionError):
        await test(RateCountersContract(), broken())


@pytest.mark.parametrize("broken", [Racing, OneClass, OneKey, OneWindow])
async def test_counters_under_the_property(broken: type[MemoryRateCounters]) -> None:
    prove: Any = RateCountersContract.test_whatever_is_counted_at_once_each_counter_counts_one_by_one
    word = [(0, OperationClass.READ, 0), (1, OperationClass.READ, 0), (0, OperationClass.CREDIT, 0)]
    word += [(0, OperationClass.READ, 1), *word]
    # The body of the property on one example: Hypothesis itself would need an event loop of its own.
    await prove.hypothesis.inner_test(RateCountersContract(), MemoryRateCounters(), word)
    with pytest.raises(AssertionError):
        await prove.hypothesis.inner_test(RateCountersContract(), broken(), word)


async def test_counters_whose_callers_share_a_cancellation() -> None:
    counters = Gathering()
    assert await counters.hit(UUID(int=1), OperationClass.READ, MINUTE) == 1
    with pytest.raises(asyncio.CancelledError):
        await RateCountersContract().test_a_caller_that_gives_up_has_made_its_attempt(counters)


async def test_counters_that_are_not_shared() -> None:
    with pytest.raises(AssertionError):
        await SharedRateCountersContract().test_two_processes_count_the_same_minute(
            MemoryRateCounters(), MemoryRateCounters()
        )


# Clock and entropy


class Stopwatch:
    def __init__(self, *readings: datetime) -> None:
        self.readings = list(readings)

    def now(self) -> datetime:
        return self.readings.pop(0) if len(self.readings) > 1 else self.readings[0]


NAIVE = datetime(2026, 12, 1, 2)  # noqa: DTZ001  (the mistake)
AN_HOUR_LATER = datetime(2026, 12, 1, 3, tzinfo=UTC)
IN_JAKARTA = datetime.fromisoformat("2026-12-01T09:00:00+07:00")


@mistakes(
    (ClockContract.test_an_instant_is_aware_and_in_utc, Stopwatch(NAIVE)),
    (ClockContract.test_an_instant_is_aware_and_in_utc, Stopwatch(IN_JAKARTA)),
    (
        ClockContract.test_an_instant_compares_with_others_and_survives_being_written_down,
        Stopwatch(datetime.fromtimestamp(1, UTC)),
    ),
    (ClockContract.test_readings_in_a_row_lie_close_together, Stopwatch(IN_JAKARTA, AN_HOUR_LATER)),
)
async def test_clocks(test: Test, broken: Stopwatch) -> None:
    with pytest.raises(AssertionError):
        await test(ClockContract(), broken)


class Drawing:
    def __init__(self, draw: Callable[[int], Any]) -> None:
        self.token_bytes = draw


@mistakes(
    (
        EntropyContract.test_it_returns_the_requested_number_of_bytes,
        Drawing(lambda n: os.urandom(min(n, 256))),
    ),
    (
        EntropyContract.test_it_returns_the_requested_number_of_bytes,
        Drawing(lambda n: bytearray(os.urandom(n))),
    ),
    (EntropyContract.test_no_two_draws_are_alike, Drawing(lambda n: random.Random(1).randbytes(n))),
    (EntropyContract.test_nothing_repeats_inside_a_draw, Drawing(lambda n: (os.urandom(64) * n)[:n])),
    (
        EntropyContract.test_every_byte_occurs_at_every_place_of_a_key,
        Drawing(lambda n: base64.b64encode(os.urandom(n))[:n]),
    ),
    (
        EntropyContract.test_every_byte_occurs_at_every_place_of_a_key,
        Drawing(lambda n: b"\x01" + os.urandom(n - 1)),
    ),
)
async def test_entropy(test: Test, broken: Drawing) -> None:
    with pytest.raises(AssertionError):
        await test(EntropyContract(), broken)


# Cipher


class Tampered(AesGcmCipher):
    """A sound cipher, for the mistakes to be made in."""

    def __init__(self) -> None:
        super().__init__([bytes(32)])


class IgnoresContext(Tampered):
    def seal(self, plain: bytes, context: str) -> bytes:
        return super().seal(plain, "")

    def open(self, sealed: bytes, context: str) -> bytes:
        return super().open(sealed, "")


class CutsContext(Tampered):
    def seal(self, plain: bytes, context: str) -> bytes:
        return super().seal(plain, context[:9])

    def open(self, sealed: bytes, context: str) -> bytes:
        return super().open(sealed, context[:9])


class Strips(Tampered):
    def open(self, sealed: bytes, context: str) -> bytes:
        return super().open(sealed, context).rstrip(b"\0")


class Trailing(Tampered):
    """Reads as many bytes as it wrote and no further."""

    def seal(self, plain: bytes, context: str) -> bytes:
        sealed = super().seal(plain, context)
        return len(sealed).to_bytes(4) + sealed

    def open(self, sealed: bytes, context: str) -> bytes:
        return super().open(sealed[4 : 4 + int.from_bytes(sealed[:4])], context)


class Raises(Tampered):
    """Lets its library's own error through."""

    def open(self, sealed: bytes, context: str) -> bytes:
        if len(sealed) < 17:
            raise AssertionError("IndexError, in the wild")
        return super().open(sealed, context)


class Unauthenticated(Tampered):
    """Context in the clear before the value: what `PlainCipher` is for tests, passed off as a cipher."""

    def seal(self, plain: bytes, context: str) -> bytes:
        return context.encode() + b"\n" + plain

    def open(self, sealed: bytes, context: str) -> bytes:
        lead = context.encode() + b"\n"
        if not sealed.startswith(lead):
            raise CipherRefused("another context")
        return sealed[len(lead) :]


class KeptNonce(Tampered):
    def __init__(self) -> None:
        AesGcmCipher.__init__(self, [bytes(32)], Drawing(bytes))


@mistakes(
    (ReversibleCipherContract.test_what_is_sealed_opens, Strips),
    (ReversibleCipherContract.test_it_opens_in_its_own_context_only, IgnoresContext),
    (ReversibleCipherContract.test_it_opens_in_its_own_context_only, CutsContext),
    (ReversibleCipherContract.test_foreign_bytes_are_refused, Raises),
    (CipherContract.test_a_context_ends_where_it_ends, Unauthenticated),
    (CipherContract.test_a_flipped_bit_anywhere_is_refused, Unauthenticated),
    (CipherContract.test_a_cut_value_is_refused, Unauthenticated),
    (CipherContract.test_a_longer_value_is_refused, Trailing),
    (CipherContract.test_the_same_text_never_looks_the_same, KeptNonce),
    (CipherContract.test_the_text_cannot_be_read, Unauthenticated),
)
async def test_ciphers(test: Test, broken: type[Tampered]) -> None:
    with pytest.raises(AssertionError):
        await test(CipherContract(), broken())


# Worker notifier


class BrokenNotifier:
    """A rig around one notifier; `wakes` decides which notifications arrive, `cost_s` how long each takes."""

    def __init__(self, wakes: Callable[[int], bool] = lambda number: True, cost_s: float = 0.0) -> None:
        self.listeners: list[Callable[[], object]] = []
        self.wakes, self.cost_s = wakes, cost_s
        self.is_unavailable = False
        self.notifier = MemoryWorkerNotifier(self.pass_on)

    def pass_on(self) -> None:
        if self.cost_s:
            time.sleep(self.cost_s)
        if self.wakes(self.notifier.notifications) and not self.is_unavailable:
            for on_wake in self.listeners:
                on_wake()

    @asynccontextmanager
    async def listening(self, on_wake: Callable[[], object]):
        self.listeners.append(on_wake)
        yield
        self.listeners.remove(on_wake)

    async def disconnect(self) -> None:
        self.is_unavailable = True

    async def bring_back(self) -> None:
        self.is_unavailable = False


class Dying(BrokenNotifier):
    """Never notifies again once its queue has been away."""

    async def bring_back(self) -> None:
        pass


class Blocking(BrokenNotifier):
    """Waits for its queue while that is away."""

    def pass_on(self) -> None:
        if self.is_unavailable:
            time.sleep(0.002)


class Spinning(BrokenNotifier):
    """Works at every notification instead of leaving it to another thread."""

    def pass_on(self) -> None:
        began = time.thread_time()
        while time.thread_time() - began < 60e-6:
            pass


class ShortTimeout(WorkerNotifierContract):
    timeout_s = 0.05


class ShortTimeoutRemote(RemoteNotifierContract):
    timeout_s = 0.05


@mistakes(
    (ShortTimeout.test_each_notification_wakes_the_listener, BrokenNotifier(lambda number: False)),
    (ShortTimeout.test_each_notification_wakes_the_listener, BrokenNotifier(lambda number: number == 1)),
    (
        ShortTimeout.test_a_hundred_notifications_wake_at_least_once_and_again_after_the_last,
        BrokenNotifier(lambda number: number < 100),
    ),
    (
        ShortTimeout.test_a_notification_without_a_listener_is_no_error_and_loses_no_later_one,
        BrokenNotifier(lambda number: number == 1),
    ),
    (ShortTimeout.test_a_notification_costs_microseconds, Spinning()),
    (ShortTimeout.test_a_notification_does_not_block, BrokenNotifier(cost_s=0.002)),
    (ShortTimeoutRemote.test_a_notification_neither_raises_nor_blocks_without_the_queue, Blocking()),
    (ShortTimeoutRemote.test_a_queue_that_is_back_is_notified_again, Dying()),
)
async def test_worker_notifiers(test: Test, broken: BrokenNotifier) -> None:
    suite = ShortTimeoutRemote() if "Remote" in test.__qualname__ else ShortTimeout()
    with pytest.raises(AssertionError):
        await test(suite, broken)


async def test_the_rig_round_them_is_sound() -> None:
    for name in dir(ShortTimeoutRemote):
        if name.startswith("test_"):
            await getattr(RemoteNotifierContract(), name)(BrokenNotifier())


# Resolver


def found(host: str) -> tuple[Address, ...]:
    """The zone, read as it should be."""
    records = tuple(dict.fromkeys(map(ip_address, ZONE.get(host, ()))))
    if not records:
        raise HostUnresolved(host)
    return records


class Asking:
    """A resolver made of one function."""

    def __init__(self, answer: Callable[[str], Any]) -> None:
        self.answer = answer

    async def resolve(self, host: str, account_id: UUID) -> tuple[Address, ...]:
        if host == HANGING:
            raise HostUnresolved(host)
        await asyncio.sleep(0)
        answer: tuple[Address, ...] = self.answer(host)
        return answer


async def test_the_resolver_they_are_made_of_is_sound() -> None:
    suite, sound = ResolverContract(), Asking(found)
    for host in ("one.test", "two.test", "doubled.test", "private.test"):
        await suite.test_a_name_has_all_its_addresses_once(sound, host)
    await suite.test_a_name_that_is_not_there_is_unresolved(sound, "missing.test")
    await suite.test_a_name_without_an_address_is_unresolved(sound)
    await suite.test_waiting_for_an_answer_has_its_limit(sound)
    await suite.test_names_resolved_at_once_do_not_mix(sound)
    await suite.test_a_name_that_hangs_holds_up_no_other(sound)
    await suite.test_a_cancelled_call_cancels_no_other(sound)


class Doubling(Asking):
    def __init__(self) -> None:
        super().__init__(lambda host: found(host) * 2)


class OnlyVersion4(Asking):
    def __init__(self) -> None:
        super().__init__(lambda host: tuple(one for one in found(host) if one.version == 4))


class HidesPrivate(Asking):
    """Judges the addresses, which is not its business."""

    def __init__(self) -> None:
        super().__init__(lambda host: tuple(one for one in found(host) if not one.is_private))


class AnswersNone(Asking):
    def __init__(self) -> None:
        super().__init__(lambda host: found(host) if ZONE.get(host) else ())


class Wildcard(Asking):
    def __init__(self) -> None:
        super().__init__(lambda host: found(host if host in ZONE else "one.test"))


class Mixing(Asking):
    """Keeps the question in the wrong place: the last lookup answers every caller."""

    def __init__(self) -> None:
        super().__init__(lambda host: found(self.last))
        self.last = ""

    async def resolve(self, host: str, account_id: UUID) -> tuple[Address, ...]:
        self.last = host
        return await super().resolve(host, account_id)


class WithoutATimeout(Asking):
    """Waits without a limit."""

    def __init__(self) -> None:
        super().__init__(found)

    async def resolve(self, host: str, account_id: UUID) -> tuple[Address, ...]:
        return await (asyncio.Future() if host == HANGING else super().resolve(host, account_id))


class Queueing(Asking):
    """One question at a time."""

    def __init__(self) -> None:
        super().__init__(found)
        self.turn = asyncio.Lock()

    async def resolve(self, host: str, account_id: UUID) -> tuple[Address, ...]:
        try:
            async with asyncio.timeout(0.01), self.turn:
                return await (asyncio.Future() if host == HANGING else super().resolve(host, account_id))
        except TimeoutError:
            raise HostUnresolved(host) from None


class Sharing(Asking):
    """Concurrent callers share a lookup, and a cancelled one stops it for all."""

    def __init__(self) -> None:
        super().__init__(found)
        self.lookup: asyncio.Task[tuple[Address, ...]] | None = None

    async def resolve(self, host: str, account_id: UUID) -> tuple[Address, ...]:
        if self.lookup is None:
            self.lookup = asyncio.create_task(super().resolve(host, account_id))
        return await self.lookup


@mistakes(
    (ResolverContract.test_a_name_without_an_address_is_unresolved, AnswersNone),
    (ResolverContract.test_names_resolved_at_once_do_not_mix, Mixing),
    (ResolverContract.test_a_name_that_hangs_holds_up_no_other, Queueing),
    (ResolverContract.test_a_cancelled_call_cancels_no_other, Sharing),
)
async def test_resolvers(test: Test, broken: Callable[[], Asking]) -> None:
    with pytest.raises(AssertionError):
        await test(ResolverContract(), broken())


@pytest.mark.parametrize(
    ("host", "broken"),
    [("doubled.test", Doubling), ("two.test", OnlyVersion4), ("private.test", HidesPrivate)],
)
async def test_resolvers_that_give_other_addresses(host: str, broken: Callable[[], Asking]) -> None:
    with pytest.raises(AssertionError):
        await ResolverContract().test_a_name_has_all_its_addresses_once(broken(), host)


async def test_a_resolver_that_knows_every_name() -> None:
    with pytest.raises(AssertionError):
        await ResolverContract().test_a_name_that_is_not_there_is_unresolved(Wildcard(), "missing.test")


async def test_a_resolver_without_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("meetcore.testing.contracts.resolver._SLACK_S", -2.95)
    with pytest.raises(AssertionError, match="limit"):
        await ResolverContract().test_waiting_for_an_answer_has_its_limit(WithoutATimeout())


# Video provider


class Sandbox(SandboxProvider):
    """A sound provider, for the mistakes to be made in."""

    def __init__(self) -> None:
        super().__init__("http://127.0.0.1:8000", MemorySandboxState(), bytes(range(32)))


class MakesAnother(Sandbox):
    """Drops the correlation."""

    async def create(self, order: ProviderOrder) -> Provisioned:
        return await super().create(evolve(order, meeting_id=UUID(bytes=os.urandom(16))))


class OneRoom(Sandbox):
    async def create(self, order: ProviderOrder) -> Provisioned:
        return await super().create(evolve(order, meeting_id=UUID(int=7)))


class ForgetsPassword(Sandbox):
    async def create(self, order: ProviderOrder) -> Provisioned:
        return evolve(await super().create(order), password=None)


class FindsNothing(Sandbox):
    async def find(self, order: ProviderOrder) -> tuple[Provisioned, ...]:
        return ()


class RemovesAgain(Sandbox):
    async def remove(self, provider_meeting_id: str) -> ProviderMeetingState:
        await super().remove(provider_meeting_id)
        return ProviderMeetingState.REMOVED


class RemovesNothing(Sandbox):
    async def remove(self, provider_meeting_id: str) -> ProviderMeetingState:
        return ProviderMeetingState.REMOVED


@mistakes(
    (VideoProviderContract.test_asking_twice_makes_one, MakesAnother),
    (VideoProviderContract.test_two_orders_are_two_meetings, OneRoom),
    (VideoProviderContract.test_a_meeting_that_was_made_has_a_name_a_link_and_its_password, ForgetsPassword),
    (VideoProviderContract.test_what_was_made_is_found, FindsNothing),
    (VideoProviderContract.test_what_was_never_made_is_not_found, Sandbox),
    (VideoProviderContract.test_a_removed_meeting_is_gone, RemovesNothing),
    (VideoProviderContract.test_removing_one_meeting_leaves_the_others, RemovesNothing),
    (VideoProviderContract.test_of_many_that_remove_one_did_it, RemovesAgain),
    (VideoProviderContract.test_ending_again_or_after_removal_is_fine, RemovesNothing),
)
async def test_providers(test: Test, broken: type[Sandbox]) -> None:
    with pytest.raises(AssertionError):
        await test(VideoProviderContract(), broken())


class Playing(Sandbox):
    """Its own play, too."""

    async def start(self, provider_meeting_id: str) -> None:
        await self.state.put(provider_meeting_id, SandboxMeetingState.STARTED)

    async def finish(self, provider_meeting_id: str) -> None:
        await self.state.put(provider_meeting_id, SandboxMeetingState.ENDED)


class RemovesWhatRuns(Playing):
    async def remove(self, provider_meeting_id: str) -> ProviderMeetingState:
        state = await super().remove(provider_meeting_id)
        return ProviderMeetingState.REMOVED if state is ProviderMeetingState.IN_PROGRESS else state


class TakesOverForGone(Playing):
    async def remove(self, provider_meeting_id: str) -> ProviderMeetingState:
        state = await super().remove(provider_meeting_id)
        return ProviderMeetingState.GONE if state is ProviderMeetingState.OVER else state


class EndsNothing(Playing):
    async def end(self, provider_meeting_id: str) -> None:
        pass


class EndsAll(Playing):
    def __init__(self) -> None:
        super().__init__()
        self.running: list[str] = []

    async def start(self, provider_meeting_id: str) -> None:
        self.running.append(provider_meeting_id)
        await super().start(provider_meeting_id)

    async def end(self, provider_meeting_id: str) -> None:
        for each in self.running:
            await super().end(each)


@mistakes(
    (InteractiveProviderContract.test_one_that_runs_is_not_removed, RemovesWhatRuns),
    (InteractiveProviderContract.test_one_that_is_over_is_not_removed, TakesOverForGone),
    (InteractiveProviderContract.test_one_that_was_ended_is_over, EndsNothing),
    (InteractiveProviderContract.test_ending_one_leaves_the_others, EndsAll),
)
async def test_interactive_providers(test: Test, broken: type[Playing]) -> None:
    provider = broken()
    with pytest.raises(AssertionError):
        await test(InteractiveProviderContract(), provider, provider)


class FindsTheLast(MakesAnother):
    def __init__(self) -> None:
        super().__init__()
        self.made: tuple[Provisioned, ...] = ()

    async def create(self, order: ProviderOrder) -> Provisioned:
        made = await super().create(order)
        self.made = (made,)
        return made

    async def find(self, order: ProviderOrder) -> tuple[Provisioned, ...]:
        return self.made


async def test_a_provider_that_makes_two_of_one_order_finds_all_of_them() -> None:
    class MayMakeTwo(VideoProviderContract):
        makes_one_for_one_order = False

    with pytest.raises(AssertionError):
        await MayMakeTwo().test_asking_twice_makes_one(FindsTheLast())


class TakesAKeyOnce(Sandbox):
    async def set_host_key(self, provider_user_id: str, host_key: str) -> None:
        if await self.state.host_key(provider_user_id) is not None:
            raise ProviderRefused("it has one")
        await super().set_host_key(provider_user_id, host_key)


class HasUndeclaredHostKeys(Sandbox):
    @property
    def abilities(self) -> ProviderAbilities:
        return evolve(super().abilities, host_key_digits=None)


async def test_host_keys() -> None:
    test = VideoProviderContract().test_a_host_key_is_set_and_set_again_or_there_is_none
    with pytest.raises(ProviderRefused):
        await test(TakesAKeyOnce())
    with pytest.raises(pytest.fail.Exception):
        await test(HasUndeclaredHostKeys())


class HasKeysOfNoHosts(Sandbox):
    @property
    def abilities(self) -> ProviderAbilities:
        return evolve(super().abilities, has_hosts=False)


async def test_abilities_and_removals() -> None:
    with pytest.raises(AssertionError):
        await VideoProviderContract().test_a_provider_declares_its_abilities(HasKeysOfNoHosts())
    forgetful = type("Forgetful", (VideoProviderContract,), {"knows_the_removed": False})()
    await forgetful.test_a_removed_meeting_is_gone(RemovesNothing())
    with pytest.raises(AssertionError):
        await forgetful.test_a_removed_meeting_is_gone(Sandbox())
    with pytest.raises(AssertionError):
        await forgetful.test_of_many_that_remove_one_did_it(Sandbox())


# Webhook sender


class Following:
    """Follows a redirect, to the same place for simplicity."""

    def __init__(self, inner: WebhookSender) -> None:
        self.inner = inner

    async def post(self, post: OutgoingPost) -> Attempt:
        attempt = await self.inner.post(post)
        moved = attempt.status_code is not None and 300 <= attempt.status_code < 400
        return await self.inner.post(post) if moved else attempt


class Retrying(Following):
    async def post(self, post: OutgoingPost) -> Attempt:
        attempt = await self.inner.post(post)
        return await self.inner.post(post) if attempt.error == "connection_lost" else attempt


class Content(Following):
    """Takes any answer for a success."""

    async def post(self, post: OutgoingPost) -> Attempt:
        attempt = await self.inner.post(post)
        return attempt if attempt.status_code is None else evolve(attempt, error=None)


class Deaf(Following):
    async def post(self, post: OutgoingPost) -> Attempt:
        return evolve(await self.inner.post(post), retry_after_s=None)


class Verbatim(Following):
    """Keeps what the receiver said as it said it."""

    async def post(self, post: OutgoingPost) -> Attempt:
        return evolve(await self.inner.post(post), response_excerpt="a\0b")


class Reserialising(Following):
    """Sends what the body means."""

    async def post(self, post: OutgoingPost) -> Attempt:
        return await self.inner.post(evolve(post, body=post.body.strip()))


class Anonymous(Following):
    async def post(self, post: OutgoingPost) -> Attempt:
        return evolve(await self.inner.post(post), address=None)


Change = Callable[[SenderSetting, Authority], SenderSetting]


class Sending:
    """A sender with one mistake, either in what it is made with or in what it makes of a post."""

    def __init__(self, *, change: Change | None = None, wrap: type[Following] | None = None) -> None:
        self.change, self.wrap = change, wrap

    def at(self, authority: Authority, monkeypatch: pytest.MonkeyPatch) -> MakeSender:
        @asynccontextmanager
        async def make(given: SenderSetting) -> AsyncIterator[WebhookSender]:
            setting = given if self.change is None else self.change(given, authority)
            monkeypatch.setattr(sender_module, "_HTTPS_PORT", setting.port)
            sender = AsyncioWebhookSender(
                setting.resolver,
                setting.allowed_networks,
                setting.ca_file,
                setting.timeout_s,
                now=setting.now,
            )
            await sender.start()
            try:
                yield sender if self.wrap is None else self.wrap(sender)
            finally:
                await sender.close()

        return make


def vetting_nothing(setting: SenderSetting, _authority: Authority) -> SenderSetting:
    return evolve(setting, allowed_networks=(IPv4Network("0.0.0.0/0"), IPv6Network("::/0")))


def slow(setting: SenderSetting, _authority: Authority) -> SenderSetting:
    return evolve(setting, timeout_s=setting.timeout_s + 2.5)


def believing(setting: SenderSetting, authority: Authority) -> SenderSetting:
    return evolve(setting, ca_file=authority.ca_file)


SUITE = WebhookSenderContract


@pytest.mark.parametrize(("test", "broken", "case"), [
    (SUITE.test_redirects_are_not_followed, Sending(wrap=Following), {"status": 307}),
    (SUITE.test_any_other_status_is_a_failure_by_its_number, Sending(wrap=Content), {"status": 500}),
    (
        SUITE.test_a_busy_receivers_retry_after_is_returned,
        Sending(wrap=Deaf),
        {"value": "120", "wait_s": 120},
    ),
    (SUITE.test_an_excerpt_is_text_that_any_store_can_hold, Sending(wrap=Verbatim), {"body": b"a\0b"}),
    (SUITE.test_the_body_goes_out_byte_for_byte, Sending(wrap=Reserialising), {"body": b' {"a": 1}\n'}),
    (SUITE.test_a_delivery_arrives_as_it_was_signed, Sending(wrap=Anonymous), {}),
    (
        SUITE.test_a_receiver_that_goes_is_a_lost_connection_and_is_not_tried_again,
        Sending(wrap=Retrying), {"behaviour": hang_up},
    ),
    (
        SUITE.test_one_clock_runs_over_the_whole_attempt,
        Sending(change=slow), {"behaviour": hang, "status_code": None},
    ),
    (
        SUITE.test_an_address_that_is_not_public_is_not_dialled,
        Sending(change=vetting_nothing), {"url": "https://127.0.0.1/"},
    ),
    (
        SUITE.test_a_name_that_resolves_to_one_is_refused_whole,
        Sending(change=vetting_nothing), {"addresses": ("127.0.0.1",)},
    ),
    (SUITE.test_the_certificate_must_be_of_a_trusted_authority, Sending(change=believing), {}),
], ids=lambda value: getattr(value, "__name__", ""))  # fmt: skip
async def test_senders(
    test: Test, broken: Sending, case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    with pytest.raises(AssertionError):
        await test(SUITE(), SenderBench(broken.at(authority, monkeypatch), authority), **case)
