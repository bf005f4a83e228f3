"""What a writer has done of a note, kept in the note: no part is written and paid for twice."""

from collections.abc import Awaitable, Callable

from attrs import define

from meetcore.domain.notes import notes
from meetcore.domain.notes.views import NoteTask


@define
class KeptParts:
    """Keeps parts by `save`, under the lease of the task. Fills `ports.ai.KeptParts`."""

    task: NoteTask
    save: Callable[[NoteTask, notes.Note], Awaitable[NoteTask]]
    has_come_on: bool = False

    def get(self, name: str) -> str | None:
        """Return a part's text, where it was kept."""
        return dict(self.task.note.parts).get(name)

    async def keep(self, name: str, text: str) -> None:
        """Keep a part, where there is room for it. Raises as `save`."""
        note = notes.keep_part(self.task.note, name, text)
        if note is not self.task.note:
            self.task, self.has_come_on = await self.save(self.task, note), True
