"""A worker is killed at every step of measuring a recording, making its notes, and removing it.

A run without a kill records the steps, which are compared with the lists below: a new step fails this test
until it is listed. One worker finishes the work of the killed ones.
"""

from __future__ import annotations

import itertools
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from attrs import define, field, frozen

from meetcore.testing.ai_server import Models
from tests.e2e.ai_stack import TRANSCRIPTION, WRITING, AiStack
from tests.e2e.customers import Customer, customer
from tests.e2e.long_sound import long_sound
from tests.e2e.meeting_invariants import add_hosts
from tests.e2e.note_invariants import expire_leases, is_idle, postpone, prove, under_way
from tests.e2e.note_stack import NoteStacks
from tests.e2e.outbox import ask
from tests.e2e.receiver import Receiver
from tests.e2e.recorded import SOUND, VTT, Stretch, take_place
from tests.e2e.zoom_stack import ZoomStack
from tests.support.program import IS_LONG, TIMEOUT_S, Running, Site, until, until_none_left

KILLS = 6
FOREVER_S = 3600
"""A lease that expires on request only, so that the next worker gets its own work alone."""

TRANSACTION = ("begin", "last line", "committed")
TOKEN = ("POST /token", "POST /token 200")
LISTED = (
    "GET /meetings/n/recordings",
    "GET /meetings/n/recordings 200",
    "GET /past_meetings/n/instances",
    "GET /past_meetings/n/instances 200",
)
LONG = long_sound(100)
"""Two pieces for a model without timestamps."""


def read(content: bytes) -> tuple[str, ...]:
    return ("open", *["read on"] * (len(content) // (64 * 1024)), "read")


def on_media(command: str) -> tuple[str, ...]:
    return (command, "media", "media done", f"{command} done")


def ai_request(path: str, status: int = 200) -> tuple[str, ...]:
    return (f"POST {path}", f"POST {path} {status}")


MEASURED = (
    "open", *TOKEN, *read(LONG)[1:], *on_media("measure"), *TRANSACTION,
    *read(SOUND), *on_media("measure"), *TRANSACTION,
)  # fmt: skip
# Files of the known sessions are listed at Zoom and collected; then the recording and its sessions are read.
LOOKED = (*TRANSACTION, *LISTED, *TRANSACTION, *TRANSACTION, *TRANSACTION)
PIECE = (*on_media("cut"), *ai_request("/audio/transcriptions"), *TRANSACTION)
TRANSCRIBED = (*TRANSACTION, *read(LONG), *PIECE, *PIECE, *read(SOUND), *PIECE, *TRANSACTION)
WRITTEN = (*ai_request("/chat/completions"), *TRANSACTION)
SETTLED = TRANSACTION
REMOVED = (*TRANSACTION, *TOKEN, *LISTED, *["DELETE file", "DELETE file 204"] * 2, *TRANSACTION)


@frozen
class Work:
    """Work of a worker and its steps. `pieces`: number of pieces to transcribe."""

    name: str
    steps: tuple[str, ...]
    stretches: tuple[Stretch, ...]
    pieces: int = 0
    faults: tuple[dict[str, object], ...] = ()


PLAIN = (Stretch(LONG), Stretch(SOUND))
WITH_TRANSCRIPTS = (Stretch(LONG, VTT), Stretch(SOUND, VTT))
TRANSCRIBE = Work(
    "a note that is heard",
    (*MEASURED, *LOOKED, *TRANSACTION, *TRANSCRIBED, *WRITTEN, *SETTLED), PLAIN, pieces=3,
)  # fmt: skip
LESS_OFTEN = (
    Work(
        "a note of a transcript that Zoom wrote",
        (*MEASURED, *LOOKED, *read(VTT), *read(VTT), *TRANSACTION, *WRITTEN, *SETTLED), WITH_TRANSCRIPTS,
    ),
    Work(
        "a note that the AI provider refuses",
        (*MEASURED, *LOOKED, *read(VTT), *read(VTT), *TRANSACTION, *ai_request("/chat/completions"),
         *SETTLED),
        WITH_TRANSCRIPTS, faults=({"fault": "refusal", "call": WRITING},),
    ),
    Work(
        "a note that the AI provider lets wait",
        (*MEASURED, *LOOKED, *read(VTT), *read(VTT), *TRANSACTION, *ai_request("/chat/completions", 429),
         *TRANSACTION, *WRITTEN, *SETTLED),
        WITH_TRANSCRIPTS, faults=({"fault": "rate_limit", "call": WRITING, "retry_after": "1"},),
    ),
)  # fmt: skip


@define
class Place:
    """A database, Zoom, an AI provider, an API, a worker for all other work, and a customer."""

    site: Site
    zoom: ZoomStack
    ai: AiStack
    api: Running
    customer: Customer
    scratch: Path
    log_dir: Path
    numbers: Iterator[int] = field(factory=itertools.count)
    kills: int = 0

    def write_note(self, work: Work, crash_at: int) -> list[str]:
        """Run work in a worker with a crash point; return the steps taken."""
        self.ai.plan(*work.faults)
        meeting = take_place(
            self.site, self.zoom, self.api.url, self.customer, *work.stretches, auto_notulen=True
        )
        steps = self.run_worker(lambda: bool(ask(self.site, _OVER, meeting.id)), crash_at)
        self.ai.clear_faults()
        return steps

    def run_worker(self, is_over: Callable[[], bool], crash_at: int) -> list[str]:
        """Run a worker with a crash point until it is killed or the work is over."""
        step_log = self.log_dir / f"{next(self.numbers)}"
        more = {
            "crash_point": crash_at,
            "crash_log": step_log,
            "crash_within": "notes",
            "note_lease_s": FOREVER_S,
        }
        with self.site.worker("--only", "notes", **more) as worker:
            if crash_at:
                code = until(worker.poll, f"it is dead at step {crash_at}", TIMEOUT_S)
                assert code == -signal.SIGKILL, worker.err.read_text()[-3000:]
                self.kills += 1
                postpone(self.site)
            else:
                # The database has the end of the work before the worker has noted the last step.
                until(
                    lambda: is_over() and step_log.read_text().endswith("committed\n"),
                    "it is over",
                    TIMEOUT_S,
                )
        return step_log.read_text().splitlines()

    def lost_pieces(self, work: Work) -> int:
        """Count the pieces that killed workers transcribed and did not store."""
        [(measuring,)] = ask(self.site, "SELECT count(*) FROM recordings WHERE status = 'measuring'")
        [(notes, kept)] = ask(self.site, _CHUNKS_OF_DEAD_WORKERS)
        return work.pieces * (int(str(measuring)) + int(str(notes))) - int(str(kept))

    def holders(self) -> list[int]:
        """Return the processes with an open scratch file."""
        return [
            int(each.name)
            for each in Path("/proc").iterdir()
            if each.name.isdigit() and _holds(each, self.scratch)
        ]


_OVER = "SELECT id FROM notes WHERE meeting_id = %s::uuid AND due_at IS NULL"
_CHUNKS_OF_DEAD_WORKERS = """
SELECT count(DISTINCT n.id), count(h.number) FROM notes n
LEFT JOIN transcript_chunks h ON h.account_id = n.account_id AND h.recording_id = n.recording_id
WHERE n.due_at IS NOT NULL AND n.step IN ('fetch', 'transcribe')"""
_UNWRITTEN = """
SELECT (SELECT count(*) FROM recordings WHERE status = 'measuring')
     + (SELECT count(*) FROM notes WHERE due_at IS NOT NULL AND step <> 'settle')"""


def _holds(process: Path, directory: Path) -> bool:
    try:
        return any(str(each.readlink()).startswith(str(directory)) for each in (process / "fd").iterdir())
    except OSError:
        return False  # it has ended meanwhile


@pytest.fixture
def place(note_places: NoteStacks, receiver: Receiver, tmp_path: Path) -> Iterator[Place]:
    with ExitStack() as stack:
        scratch = tmp_path / "scratch"
        scratch.mkdir()
        opened = note_places.open(
            database_pool_size=4, notes_in_flight=1000, scratch_directory=scratch,
            note_retry_schedule="1,1,1", ai_transcribe_format="json", ai_transcribe_model=Models().plain,
        )  # fmt: skip
        site, zoom, ai = stack.enter_context(opened)
        add_hosts(site, 20)
        api = stack.enter_context(site.serve())
        stack.enter_context(site.worker("--only", "webhooks"))
        who = stack.enter_context(customer(site, api))
        who.hook(receiver.url("notified"), "recording.ready", "note.completed", "note.failed")
        yield Place(site, zoom, ai, api, who, scratch, tmp_path)


def chosen(steps: tuple[str, ...], kills: int) -> list[int]:
    """Choose steps to kill at: all in the long run, else some in every part."""
    if IS_LONG:
        return list(range(1, len(steps) + 1))
    stride = len(steps) / kills
    return [1 + int(place * stride + random.uniform(0, stride)) for place in range(kills)]


def wait_until_idle(place: Place) -> None:
    """Expire the leases of killed workers, and let one worker finish."""
    expire_leases(place.site)
    with place.site.worker("--only", "notes"):
        # A hundred notes take longer on a busy machine: the time begins anew with each that is done.
        until_none_left(lambda: under_way(place.site), "all is seen to", 4 * TIMEOUT_S, every_s=0.1)


@pytest.mark.spec("1/notes", "6/6")
def test_death_at_every_step_leaves_one_note_and_one_charge(place: Place, receiver: Receiver) -> None:
    for work in (TRANSCRIBE, *LESS_OFTEN) if IS_LONG else (TRANSCRIBE,):
        assert tuple(place.write_note(work, 0)) == work.steps, f"the steps of {work.name}"
        for at in chosen(work.steps, KILLS):
            assert tuple(place.write_note(work, at)) == work.steps[:at]
        until(lambda: not place.holders(), "nobody is left who decodes")
        assert list(place.scratch.iterdir()) == [], "and nothing of a meeting on the disk"
        lost_pieces, [(unwritten,)] = place.lost_pieces(work), ask(place.site, _UNWRITTEN)
        transcribed, written = place.ai.done(TRANSCRIPTION), place.ai.done(WRITING)
        wait_until_idle(place)
        assert place.ai.done(TRANSCRIPTION) - transcribed == lost_pieces, (
            "what was transcribed is not transcribed again"
        )
        assert place.ai.done(WRITING) - written == unwritten
    records = prove(place.site, [place.customer], receiver, "notified")
    kept = [status for status in records.statuses.values() if status == "completed"]
    print(f"{place.kills} kills, {len(records.statuses)} notes, {len(kept)} completed")


@pytest.mark.spec("1/notes")
def test_the_next_worker_continues_when_the_lease_has_expired(place: Place, receiver: Receiver) -> None:
    first_is_kept = len((*MEASURED, *LOOKED, *TRANSACTION, *TRANSACTION, *read(LONG), *PIECE))
    assert tuple(place.write_note(TRANSCRIBE, first_is_kept)) == TRANSCRIBE.steps[:first_is_kept]
    with place.site.worker("--only", "notes") as worker:
        worker.wait_until_working()
        assert place.ai.done(TRANSCRIPTION) == 1
        expire_leases(place.site)
        until(lambda: is_idle(place.site), "the note is there")
    assert place.ai.done(TRANSCRIPTION) == 3
    records = prove(place.site, [place.customer], receiver, "notified")
    assert set(records.statuses.values()) == {"completed"}


def test_death_at_every_step_of_a_removal_leaves_nothing_at_zoom(place: Place, receiver: Receiver) -> None:
    crash_at_steps = [0, *chosen(REMOVED, 2)]
    meetings = [
        take_place(place.site, place.zoom, place.api.url, place.customer, *PLAIN, auto_notulen=True)
        for _ in crash_at_steps
    ]
    with place.site.worker("--only", "notes"):
        until(lambda: is_idle(place.site), "they are there", 4 * TIMEOUT_S, every_s=0.1)
    for meeting, at in zip(meetings, crash_at_steps, strict=True):
        [recording] = list(place.customer.api.recordings.list(meeting_id=meeting.id))
        place.customer.api.recordings.delete(recording.id)
        steps = place.run_worker(lambda: is_idle(place.site), at)
        assert tuple(steps) == REMOVED[: at or None]
    wait_until_idle(place)
    assert [place.zoom.files(str(meeting.provider_meeting_id)) for meeting in meetings] == [[]] * len(
        meetings
    )
    assert ask(place.site, "SELECT DISTINCT status FROM recordings") == [("expired",)]
    records = prove(place.site, [place.customer], receiver, "notified")
    assert set(records.statuses.values()) == {"completed"}, "what was made of it stays, and is paid"
