"""Many notes at once with two workers stay within the AI provider's limit."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from attrs import frozen

from meetcore.client import Language, Note, Recording
from meetcore.testing.sounds import silence
from tests.e2e.ai_stack import TRANSCRIPTION, WRITING, AiStack
from tests.e2e.customers import Customer, customer
from tests.e2e.meeting_invariants import add_hosts
from tests.e2e.note_invariants import prove, under_way
from tests.e2e.note_stack import NoteStacks
from tests.e2e.outbox import ask
from tests.e2e.receiver import Receiver
from tests.e2e.recorded import Stretch, take_place
from tests.e2e.zoom_stack import ZoomStack
from tests.support.program import IS_LONG, TIMEOUT_S, Running, Site, until, until_none_left

RECORDINGS = 50 if IS_LONG else 20
LANGUAGES = (Language.INDONESIAN, Language.ENGLISH)
IN_FLIGHT = 3
AI_LATENCY_S = 0.5
LONGEST_S = 4 * TIMEOUT_S
STANDSTILL_S = 90.0


@frozen
class Place:
    """A service with two workers, and a customer."""

    site: Site
    api: Running
    zoom: ZoomStack
    ai: AiStack
    customer: Customer

    def recordings(self) -> list[Recording]:
        """Wait for as many recordings as are wanted."""
        with ThreadPoolExecutor(4) as pool:
            each = [
                pool.submit(
                    take_place, self.site, self.zoom, self.api.url, self.customer, Stretch(silence(30))
                )
                for _ in range(RECORDINGS)
            ]
            for made in each:
                made.result()
        count = "SELECT count(*) FROM recordings WHERE status = 'available'"
        until(lambda: ask(self.site, count) == [(RECORDINGS,)], "all are measured", LONGEST_S, every_s=0.2)
        return list(self.customer.api.recordings.list(page_size=100))

    def want(self, recording: Recording, language: Language) -> Note:
        return self.customer.api.notes.create(recording_id=recording.id, language=language)


@pytest.fixture
def place(note_places: NoteStacks, receiver: Receiver) -> Iterator[Place]:
    with ExitStack() as stack:
        opened = note_places.open(
            ai_s=AI_LATENCY_S, database_pool_size=4, notes_in_flight=IN_FLIGHT,
            ai_timeout_s=int(2 * LONGEST_S),  # or calls that are held would be repeated
        )  # fmt: skip
        site, zoom, ai = stack.enter_context(opened)
        add_hosts(site, 10)
        api = stack.enter_context(site.serve())
        for _ in range(2):
            stack.enter_context(site.worker())
        who = stack.enter_context(customer(site, api))
        who.hook(receiver.url("notified"), "recording.ready", "note.completed", "note.failed")
        yield Place(site, api, zoom, ai, who)


@pytest.mark.spec("1/notes", "6/6")
def test_simultaneous_notes_stay_within_the_ai_provider_limit(place: Place, receiver: Receiver) -> None:
    recordings = place.recordings()
    wanted = [(recording, language) for recording in recordings for language in LANGUAGES]
    place.ai.hold()
    began = time.monotonic()
    with ThreadPoolExecutor(8) as pool:
        queued = list(pool.map(lambda each: place.want(*each), wanted))
    assert len({note.id for note in queued}) == RECORDINGS * len(LANGUAGES)
    took_in_s = time.monotonic() - began
    # A worker cuts one sound at a time, at a low priority: beside other load no calls may coincide.
    until(lambda: place.ai.counts()["in_flight"] >= IN_FLIGHT, "the limit is reached", LONGEST_S, every_s=0.2)
    place.ai.hold(False)
    until_none_left(lambda: under_way(place.site), "all is written and notified", STANDSTILL_S)
    took_s = time.monotonic() - began
    records = prove(place.site, [place.customer], receiver, "notified")
    assert list(records.statuses.values()) == ["completed"] * len(wanted)
    counts = place.ai.counts()
    print(f"{len(wanted)} notes: asked for in {took_in_s:.1f} s, there after {took_s:.1f} s, {counts}")
    assert counts["most_in_flight"] == IN_FLIGHT
    assert counts["done"] == {TRANSCRIPTION: RECORDINGS, WRITING: len(wanted)}, (
        "a transcript serves both languages"
    )
