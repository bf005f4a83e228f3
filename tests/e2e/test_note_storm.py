"""Workers are killed at random instants under faults; afterwards the records must agree.

`MEETCORE_TEST_KILLS` of 500 and more is the long run. A note may complete, or fail because the AI provider
refused, its recording was deleted, or credits were short. Everything else is a loss.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from attrs import define, field

from meetcore.client import Conflict, Gone, InsufficientCredits, Recording, UpstreamError
from meetcore.domain.notes.notes import NoteFault, describe
from meetcore.testing.ai_server import Models
from meetcore.testing.sounds import silence
from meetcore.usecases.notes.write_notes import MAX_LEASE_EXPIRATIONS
from tests.e2e.ai_stack import TRANSCRIPTION, WRITING, AiStack
from tests.e2e.customers import Customer, customer
from tests.e2e.long_sound import long_sound
from tests.e2e.meeting_invariants import add_hosts
from tests.e2e.note_invariants import make_due, prove, under_way
from tests.e2e.note_stack import NoteStacks
from tests.e2e.outbox import ask
from tests.e2e.receiver import Receiver
from tests.e2e.recorded import VTT, Stretch, take_place
from tests.e2e.zoom_stack import ZoomStack
from tests.support.program import IS_LONG, Running, Site, has_fault, until, until_none_left

KILLS = 200 if IS_LONG else 6
WORKERS = 3
CUSTOMERS = 3
CREDITS = 100_000
# Enough for a few recorded meetings, and for some of their notes.
SHORT_OF_CREDITS = 15 * 4 + 3
LEASE_S = 2
MAKERS = 4 if IS_LONG else 2
PAUSE_S = 0.1
MAX_WORKER_LIFE_S = 4.0
"""Enough for real progress, from when a worker has started."""
SPARED_FROM = MAX_LEASE_EXPIRATIONS - 2 * WORKERS
"""Workers that died over a note without any progress: the next ones live until it has come on."""
STARTS_EVERY = 4
"""Every so many kills may hit workers that start: on a slow machine most would, and no note would end."""

OUTAGE_EVERY = 3
"""Every so many kills, all workers are killed at once."""

BACKLOG = 30 if IS_LONG else 12
"""Limit of notes in progress, so that some finish."""

AUTOMATIC, DELETED, READ_TOO = 0.8, 0.15, 0.4
CALM_S = 180.0
STANDSTILL_S = 90.0
PLANNED = {
    describe(each) for each in (NoteFault.AI_REFUSED, NoteFault.RECORDING_GONE, NoteFault.SHORT_OF_CREDITS)
}
STRETCHES = (
    (Stretch(silence(100)), Stretch(silence(30))),
    (Stretch(long_sound(70)),),
    (Stretch(silence(20), VTT),),
)

AI_FAULTS: tuple[dict[str, object], ...] = (
    {"fault": "rate_limit", "call": TRANSCRIPTION},
    {"fault": "rate_limit", "call": WRITING},
    {"fault": "500", "call": TRANSCRIPTION},
    {"fault": "500", "call": WRITING},
    {"fault": "slow", "call": TRANSCRIPTION, "slow_s": 1.5},
    {"fault": "slow", "call": WRITING, "slow_s": 1.5},
    {"fault": "drop", "call": TRANSCRIPTION},
    {"fault": "cut", "call": TRANSCRIPTION},
    {"fault": "cut", "call": WRITING},
    {"fault": "garbage", "call": TRANSCRIPTION},
    {"fault": "not_json", "call": WRITING},
    {"fault": "out_of_shape", "call": WRITING},
    {"fault": "refusal", "call": WRITING},
)
ZOOM_FAULTS: tuple[dict[str, object], ...] = (
    {"fault": "500", "call": "content"},
    {"fault": "cut", "call": "content"},
    {"fault": "drop", "call": "download"},
    {"fault": "500", "call": "recordings", "times": 3},
    {"fault": "drop", "call": "delete_file", "is_done": True},
    {"fault": "500", "call": "delete_file", "times": 3},
    {"fault": "token_expired", "call": "any"},
)


@define
class Storm:
    """The stack, its customers (the last short of credits), and counts of requests."""

    site: Site
    zoom: ZoomStack
    ai: AiStack
    api: Running
    customers: list[Customer]
    wanted: Counter[str] = field(factory=Counter)
    is_over: threading.Event = field(factory=threading.Event)

    def live(self) -> None:
        """Hold meetings, request notes, delete recordings."""
        while not self.is_over.is_set():
            who = random.choice(self.customers)
            try:
                take_place(
                    self.site, self.zoom, self.api.url, who, *random.choice(STRETCHES),
                    auto_notulen=random.random() < AUTOMATIC,
                )  # fmt: skip
                self.wanted["recordings"] += 1
                found = list(who.api.recordings.list())
                for recording in random.sample(found, min(2, len(found))):
                    self.look_at(who, recording)
            except (InsufficientCredits, UpstreamError):  # Zoom's bad moments are for bookings, too
                self.wanted["refused"] += 1
            self.is_over.wait(PAUSE_S)
            while under_way(self.site) > BACKLOG and not self.is_over.wait(PAUSE_S):
                pass

    def look_at(self, who: Customer, recording: Recording) -> None:
        """Request notes in English, or delete the recording; either may be too late."""
        if random.random() < READ_TOO:
            try:
                who.api.notes.create(recording_id=recording.id, language="en")
                self.wanted["asked for"] += 1
            except (Conflict, Gone):
                self.wanted["too late"] += 1
        if random.random() < DELETED:
            who.api.recordings.delete(recording.id)
            self.wanted["deleted"] += 1

    def plan_faults(self) -> None:
        """Replace the planned faults of both providers by new ones."""
        self.ai.clear_faults()
        self.zoom.clear_faults()
        self.ai.plan(*random.sample(AI_FAULTS, 4))
        self.zoom.plan(*random.sample(ZOOM_FAULTS, 2))


@pytest.fixture
def storm(note_places: NoteStacks, receiver: Receiver) -> Iterator[Storm]:
    with ExitStack() as stack:
        opened = note_places.open(
            zoom_s=0.01, ai_s=0.2, database_pool_size=4, note_lease_s=LEASE_S, webhook_lease_s=3,
            ai_transcribe_format="json", ai_transcribe_model=Models().plain,
            # The providers' faults are temporary, so that retries succeed.
            note_retry_schedule=",".join(["1"] * 40), webhook_retry_schedule=",".join(["1"] * 40),
        )  # fmt: skip
        site, zoom, ai = stack.enter_context(opened)
        add_hosts(site, 40 if not IS_LONG else 200)
        api = stack.enter_context(site.serve())
        rich = [stack.enter_context(customer(site, api, CREDITS)) for _ in range(CUSTOMERS)]
        short_of_credits = stack.enter_context(customer(site, api, SHORT_OF_CREDITS))
        for who in (*rich, short_of_credits):
            who.hook(receiver.url("notified"), "recording.ready", "note.completed", "note.failed")
        yield Storm(site, zoom, ai, api, [*rich, short_of_credits])


def rage(storm: Storm) -> int:
    """Run all kills, a few workers at a time; count the notes in progress when all workers were killed."""
    hit = 0
    with ExitStack() as stack:
        making = stack.enter_context(ThreadPoolExecutor(MAKERS))
        makers = [making.submit(storm.live) for _ in range(MAKERS)]
        stack.callback(storm.is_over.set)
        workers = [stack.enter_context(storm.site.worker()) for _ in range(WORKERS)]
        for number in range(KILLS):
            storm.plan_faults()
            if number % STARTS_EVERY:
                for worker in workers:
                    worker.wait_until_working()
            # The instant of the kill is the point of it; nothing else is waited for, but that there is work.
            time.sleep(random.uniform(0.5, MAX_WORKER_LIFE_S))
            until(lambda: not nearly_given_up(storm.site), "a note has come on", CALM_S)
            if is_outage := number % OUTAGE_EVERY == OUTAGE_EVERY - 1:
                until(lambda: in_progress(storm.site), "a note is in progress", CALM_S)
            died = range(WORKERS) if is_outage else (number % WORKERS,)
            for each in died:
                workers[each].kill()
            hit += in_progress(storm.site) if is_outage else 0
            for each in died:
                log = workers[each].err.read_text()
                assert not has_fault(log), log[-3000:]
                workers[each] = stack.enter_context(storm.site.worker())
            for maker in makers:
                assert not maker.done(), maker.exception()
        storm.is_over.set()
        for maker in makers:
            maker.result()
        storm.ai.clear_faults()
        storm.zoom.clear_faults()
        until_none_left(lambda: left(storm.site), "all is seen to", STANDSTILL_S, every_s=0.5)
    return hit


def left(site: Site) -> int:
    """Count the work that is left; makes checks at Zoom due, which may wait for an hour."""
    make_due(site)
    return under_way(site)


def in_progress(site: Site) -> int:
    """Count the leased notes."""
    [(count,)] = ask(site, "SELECT count(*) FROM notes WHERE lease_token IS NOT NULL")
    return int(str(count))


def nearly_given_up(site: Site) -> int:
    """Count the notes that a few more deaths of workers would fail by rule; a busy machine has some."""
    statement = "SELECT count(*) FROM notes WHERE due_at IS NOT NULL AND lease_expirations >= %s"
    [(count,)] = ask(site, statement, SPARED_FROM)
    return int(str(count))


@pytest.mark.spec("1/notes", "6/6")
def test_random_kills_lose_no_note_and_charge_none_twice(storm: Storm, receiver: Receiver) -> None:
    began = time.monotonic()
    hit = rage(storm)
    lasted_s = time.monotonic() - began
    records = prove(storm.site, storm.customers, receiver, "notified")
    found = Counter(records.statuses.values())
    assert set(records.errors.values()) <= PLANNED
    print(
        f"{KILLS} kills in {lasted_s:.0f} s, {hit} in progress at them, {dict(storm.wanted)}, {dict(found)}"
    )
    print(f"{Counter(records.errors.values())}, {sum(records.charges.values())} credits")
    print(storm.ai.counts())
    assert hit > 0, "the kills hit something"
    assert found["completed"] > KILLS // 4, "the load was a load"
