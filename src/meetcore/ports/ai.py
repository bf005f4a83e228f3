"""Services that make notes of sound: an audio editor, a transcriber, a note writer.

The editor works on open local files without names: no sound stays on a disk after its process is gone.
The texts of the errors are for the log only.
"""

from types import TracebackType
from typing import BinaryIO, Protocol, Self

from attrs import field, frozen

from meetcore.domain.notes import notes, transcripts


class AiUnavailable(Exception):
    """No answer, or not now: the same call may work later, after `retry_after_s` if given."""

    def __init__(self, text: str, retry_after_s: float | None = None) -> None:
        super().__init__(text)
        self.retry_after_s = retry_after_s


class AiRefused(Exception):
    """Refused for good, this content or this service."""


class MediaUnreadable(Exception):
    """The file is no media with sound that can be decoded."""


class EditingFailed(Exception):
    """The machine or the editor failed, not caused by the file."""


@frozen
class Sound:
    """A chunk of sound, for a transcriber; closing it removes it.

    `file` is a scratch file at its beginning, below 25 MB: one channel of Opus in Ogg, or, where it
    `is_copied`, AAC in M4A as recorded.
    """

    file: BinaryIO = field(repr=False)
    length_s: float
    is_copied: bool = False

    def close(self) -> None:
        """Remove the file."""
        self.file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AudioEditor(Protocol):
    """Measures and cuts media from strangers, in bounded memory and time.

    Raises `MediaUnreadable` and `EditingFailed`.
    """

    def scratch(self) -> BinaryIO:
        """Open an empty file on disk, without a name; closing it removes it."""

    async def measure(self, media: BinaryIO) -> float:
        """Return the length of the sound in seconds, from its content, not its header."""

    async def cut(self, media: BinaryIO, from_s: float, length_s: float, *, may_copy: bool = False) -> Sound:
        """Cut a chunk of sound, shorter where the media ends before; `may_copy` allows not to re-encode."""


class Transcriber(Protocol):
    """Transcribes a chunk of sound. Raises `AiUnavailable` and `AiRefused`."""

    @property
    def max_piece_s(self) -> int:
        """The longest chunk, in seconds."""

    @property
    def takes_copies(self) -> bool:
        """Whether it accepts sound that `is_copied`."""

    async def transcribe(self, sound: Sound, language: notes.Language) -> transcripts.Transcript:
        """Transcribe a chunk, with times in seconds from its beginning. The caller closes it.

        `language` is that of the notes, and most likely the spoken one.
        """


class KeptParts(Protocol):
    """What a writer has done of a note so far, kept by name until the note is written."""

    def get(self, name: str) -> str | None: ...
    async def keep(self, name: str, text: str) -> None: ...


class NothingKept:
    """Keeps nothing."""

    def get(self, name: str) -> str | None:
        return None

    async def keep(self, name: str, text: str) -> None:
        pass


NOTHING_KEPT = NothingKept()


class NoteWriter(Protocol):
    """Writes a summary, decisions, action items and topics. Raises `AiUnavailable` and `AiRefused`."""

    @property
    def name(self) -> str:
        """The name of its model, or `notes.BY_RULES`."""

    async def write(
        self, transcript: transcripts.Transcript, language: notes.Language, kept: KeptParts = NOTHING_KEPT
    ) -> notes.NoteDraft:
        """Write notes of a transcript, which is not empty, in a language, whatever language was spoken.

        A quote stands in the transcript word for word, and its second is that of its utterance. A writer that
        works part by part asks `kept` before each, and lets it keep the result.
        """
