"""Waiting until a note is written: asking again, after pauses that grow, until a deadline."""

from typing import Final

from attrs import frozen

from meetcore.client.calls import Call
from meetcore.client.errors import NoteFailed, WaitTimedOut
from meetcore.client.procedures import Means, Pause, Steps
from meetcore.client.records import Note, NoteStatus, Page

__all__ = ["NoteWait"]

_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 15.0
_GROWTH: Final = 1.5


@frozen
class NoteWait:
    """Waits for one note, or for the newest of a list, which may be empty at first."""

    ask: Call[Note] | Call[Page[Note]]
    timeout_s: float

    def steps(self, means: Means) -> Steps[Note]:
        """See `NoteOperations.wait`."""
        ends_at, pause_s = means.clock() + self.timeout_s, _FIRST_PAUSE_S
        while True:
            found: Note | Page[Note] = yield self.ask
            note = found if isinstance(found, Note) else next(iter(found.data), None)
            if note is not None and note.status == NoteStatus.COMPLETED:
                return note
            if note is not None and note.status == NoteStatus.FAILED:
                raise NoteFailed(note.error or "the note failed", note=note)
            left_s = ends_at - means.clock()
            if left_s <= 0:
                raise WaitTimedOut(f"no completed note within {self.timeout_s:g} s", note=note)
            yield Pause(min(pause_s, left_s))
            pause_s = min(_LONGEST_PAUSE_S, pause_s * _GROWTH)
