"""What was said in a recording: as the provider wrote it down, or as we hear it.

What is heard is kept piece by piece, so that whoever goes on after a crash hears only the rest. The files go
through nameless files on disk; no more than a chunk of one is in memory.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import BinaryIO

from attrs import define, frozen

from meetcore.domain.audio_chunks import Piece, cut, merge, offsets, source_of
from meetcore.domain.recordings import Recording, RecordingFile
from meetcore.domain.transcripts import Transcript, join
from meetcore.domain.vtt import read_vtt
from meetcore.ports.ai import AiRefused
from meetcore.ports.audio_editor import AudioEditor
from meetcore.ports.notes import NoteTask
from meetcore.ports.recording_files import FileGone, FilesUnavailable, RecordingFiles
from meetcore.ports.store import Store
from meetcore.ports.transcriber import Transcriber
from meetcore.usecases.lease import LeaseLost

__all__ = ["NoTranscriber", "TranscribeRecording", "copy_file"]

COPY_WITHIN_S = 3600
"""An hour: a file that takes longer is trickled."""

MAX_TRANSCRIPT_BYTES = 32 * 1024 * 1024
"""More than a day of speech; a longer file is no transcript."""


class NoTranscriber(Exception):
    """What was said is written down nowhere, and there is nobody to hear it."""


async def copy_file(files: RecordingFiles, file: RecordingFile, into: BinaryIO) -> None:
    """Copy a provider's file, chunk by chunk.

    Raises:
        FilesUnavailable, FileGone: see `RecordingFiles.open`.
    """
    try:
        async with asyncio.timeout(COPY_WITHIN_S), files.open(file) as opened:
            async for chunk in opened.chunks:
                await asyncio.to_thread(into.write, chunk)
    except TimeoutError:
        raise FilesUnavailable(f"a file that does not come within {COPY_WITHIN_S} s") from None
    into.seek(0)


@define
class _BoundTranscriber:
    """Hears a file piece by piece, as it was recorded; once that is refused, as it is encoded here."""

    editor: AudioEditor
    transcriber: Transcriber
    takes_copies: bool

    async def transcribe(self, media: BinaryIO, piece: Piece) -> Transcript:
        if self.takes_copies:
            with await self.editor.cut(media, piece.from_s, piece.length_s, may_copy=True) as sound:
                try:
                    return await self.transcriber.transcribe(sound)
                except AiRefused:
                    if not sound.is_copied:
                        raise
            self.takes_copies = False
        with await self.editor.cut(media, piece.from_s, piece.length_s) as sound:
            return await self.transcriber.transcribe(sound)


@frozen
class TranscribeRecording:
    """Finds out what was said. Without a transcriber only what the provider wrote down."""

    store: Store
    files: RecordingFiles
    editor: AudioEditor
    transcriber: Transcriber | None

    async def read(self, recording: Recording) -> Transcript | None:
        """The provider's own transcript; none where a segment has none, or has it no more.

        Raises:
            FilesUnavailable: see `RecordingFiles.open`.
        """
        parts: list[tuple[float, Transcript]] = []
        for segment, before_s in offsets(recording):
            if segment.transcript is None:
                return None
            try:
                text = await self._text(segment.transcript)
            except FileGone:  # the sound may be there all the same
                return None
            parts.append((before_s, read_vtt(text)))
        return join(parts)

    async def transcribe(self, task: NoteTask, kept: Callable[[int], object]) -> Transcript:
        """Hear what nobody has heard yet of the task's recording, and put it all together.

        Args:
            task: whose recording.
            kept: called with the number of each piece that nobody has to hear again now.

        Raises:
            NoTranscriber: there is no transcriber.
            LeaseLost: somebody else has the note.
            FilesUnavailable, FileGone: see `RecordingFiles.open`.
            MediaUnreadable: see `AudioEditor.cut`.
            AiUnavailable, AiRefused: see `Transcriber.transcribe`.
            StoreUnavailable: the database does not answer.
        """
        if self.transcriber is None:
            raise NoTranscriber
        pieces = cut(task.recording, self.transcriber.max_piece_s)
        source = source_of(pieces)
        async with self.store.at_once() as tx:
            heard = dict(await tx.notes.load_heard(task, source))
        for file in dict.fromkeys(piece.file for piece in pieces if piece.number not in heard):
            rest = [piece for piece in pieces if piece.file == file and piece.number not in heard]
            heard |= await self._transcribe_file(self.transcriber, task, source, file, rest, kept)
        return merge(pieces, heard)

    async def _transcribe_file(
        self,
        transcriber: Transcriber,
        task: NoteTask,
        source: str,
        file: RecordingFile,
        pieces: list[Piece],
        kept: Callable[[int], object],
    ) -> Mapping[int, Transcript]:
        heard: dict[int, Transcript] = {}
        ear = _BoundTranscriber(self.editor, transcriber, transcriber.takes_copies)
        with closing(self.editor.scratch()) as media:
            await copy_file(self.files, file, media)
            for piece in pieces:
                heard[piece.number] = await ear.transcribe(media, piece)
                async with self.store.at_once() as tx:
                    if not await tx.notes.save_heard(task, source, piece.number, heard[piece.number]):
                        raise LeaseLost
                kept(piece.number)
        return heard

    async def _text(self, file: RecordingFile) -> bytes:
        text = bytearray()
        async with self.files.open(file) as opened:
            async for chunk in opened.chunks:
                text += chunk
                if len(text) > MAX_TRANSCRIPT_BYTES:
                    raise FilesUnavailable(f"a transcript of more than {MAX_TRANSCRIPT_BYTES} bytes")
        return bytes(text)
