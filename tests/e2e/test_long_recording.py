"""Notes of a recording of hours, within the memory limit of worker and media processes."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from attrs import define, field

from tests.e2e.ai_stack import TRANSCRIPTION
from tests.e2e.customers import customer
from tests.e2e.long_sound import long_sound
from tests.e2e.note_stack import NoteStacks
from tests.e2e.receiver import Receiver
from tests.e2e.recorded import Stretch, take_place
from tests.support.program import IS_LONG, until

HOURS = 3.0 if IS_LONG else 0.5
MOST_MB = 300
PIECE_S = 600
TIMEOUT_S = 900.0


def family(pid: int) -> list[int]:
    """Return a process and its descendants."""
    children: dict[int, list[int]] = defaultdict(list)
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            children[int(stat.read_text().rpartition(")")[2].split()[1])].append(int(stat.parent.name))
    found = [pid]
    for each in found:
        found += children[each]
    return found


def resident_mb(pid: int) -> float:
    with suppress(OSError, StopIteration):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmRSS:")).split()[1]) * 1024 / 1e6
    return 0.0  # it has ended meanwhile


@define
class Watch:
    """Samples the memory of a process and its children."""

    pid: int
    peak_mb: float = 0.0
    of_the_first_mb: float = 0.0
    most_processes: int = 0
    checks: int = 0
    is_over: threading.Event = field(factory=threading.Event)

    def look(self) -> None:
        while not self.is_over.wait(0.05):
            sizes = [resident_mb(each) for each in family(self.pid)]
            self.peak_mb = max(self.peak_mb, sum(sizes))
            self.of_the_first_mb = max(self.of_the_first_mb, sizes[0])
            self.most_processes = max(self.most_processes, len(sizes))
            self.checks += 1


@contextmanager
def watched(pid: int) -> Iterator[Watch]:
    watch = Watch(pid)
    watching = threading.Thread(target=watch.look)
    watching.start()
    try:
        yield watch
    finally:
        watch.is_over.set()
        watching.join()


@pytest.mark.spec("1/notes")
def test_a_recording_of_hours_is_transcribed_in_little_memory(
    note_places: NoteStacks, receiver: Receiver
) -> None:
    seconds = int(HOURS * 3600)
    with ExitStack() as stack:
        site, zoom, ai = stack.enter_context(note_places.open())
        site.cli("host", "add", "--provider-user-id", "host-1", "--capacity", 1000)
        api = stack.enter_context(site.serve())
        worker = stack.enter_context(site.worker())
        who = stack.enter_context(customer(site, api))
        who.hook(receiver.url("notified"), "note.completed")
        sound = long_sound(seconds)
        began = time.monotonic()
        with watched(worker.pid) as watch:
            take_place(site, zoom, api.url, who, Stretch(sound), auto_notulen=True)
            until(lambda: receiver.at("notified"), "the note is notified", TIMEOUT_S, every_s=0.2)
        took_s = time.monotonic() - began
        [note] = list(who.api.notes.list())
        print(f"{HOURS} h, {len(sound) / 1e6:.0f} MB: {took_s:.0f} s, {watch}")
        assert (note.status, note.duration, note.credits_charged) == (
            "completed",
            seconds // 60,
            seconds // 60,
        )
        assert ai.done(TRANSCRIPTION) == seconds // PIECE_S
        assert seconds - 10 < note.transcript[-1].at < seconds
    assert watch.most_processes > 1, "media is decoded in a process of its own"
    assert watch.peak_mb < MOST_MB
