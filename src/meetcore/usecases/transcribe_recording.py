"""Obtain the transcript of a recording: the provider's, or one transcribed here.

Transcripts are kept piece by piece, so that only missing pieces are transcribed after a crash. The files go
through nameless files on disk; no more than a chunk of one is in memory.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import BinaryIO

from attrs import define, frozen

from meetcore.domain.notes.audio_chunks import Piece, cut, merge, offsets, source_of
from meetcore.domain.notes.recordings import Recording, RecordingFile
from meetcore.domain.notes.transcripts import Transcript, join
from meetcore.domain.notes.vtt import read_vtt
from meetcore.ports.ai import AiRefused
from meetcore.ports.audio_editor import AudioEditor
from meetcore.ports.notes import NoteTask
from meetcore.ports.recording_files import FileGone, FilesUnavailable, RecordingFiles
from meetcore.ports.store import Store
from meetcore.ports.transcriber import Transcriber
from meetcore.usecases.lease import LeaseLost

COPY_WITHIN_S = 3600
"""An hour: a file that takes longer is trickled."""

MAX_TRANSCRIPT_BYTES = 32 * 1024 * 1024
"""More than a day of speech; a longer file is no transcript."""


class NoTranscriber(Exception):
    """There is no provider transcript and no transcriber."""


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
    """Transcribes a file piece by piece, as it was recorded; once that is refused, as it is encoded here."""

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
    """Obtains transcripts. Without a transcriber only the provider's."""

    store: Store
    files: RecordingFiles
    editor: AudioEditor
    transcriber: Transcriber | None

    async def read(self, recording: Recording) -> Transcript | None:
        """Return the provider's transcript; `None` where a segment has no transcript any more.

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
        """Transcribe the missing pieces of the task's recording and merge all of them.

        Args:
            kept: called with the number of each piece whose transcript was saved.

        Raises:
            NoTranscriber: there is no transcriber.
            LeaseLost: another worker has the note.
            FilesUnavailable, FileGone: see `RecordingFiles.open`.
            MediaUnreadable: see `AudioEditor.cut`.
            AiUnavailable, AiRefused: see `Transcriber.transcribe`.
        """
        if self.transcriber is None:
            raise NoTranscriber
        pieces = cut(task.recording, self.transcriber.max_piece_s)
        source = source_of(pieces)
        async with self.store.at_once() as tx:
            chunks = dict(await tx.notes.load_transcript_chunks(task, source))
        for file in dict.fromkeys(piece.file for piece in pieces if piece.number not in chunks):
            remaining = [piece for piece in pieces if piece.file == file and piece.number not in chunks]
            chunks |= await self._transcribe_file(self.transcriber, task, source, file, remaining, kept)
        return merge(pieces, chunks)

    async def _transcribe_file(
        self,
        transcriber: Transcriber,
        task: NoteTask,
        source: str,
        file: RecordingFile,
        pieces: list[Piece],
        kept: Callable[[int], object],
    ) -> Mapping[int, Transcript]:
        chunks: dict[int, Transcript] = {}
        bound = _BoundTranscriber(self.editor, transcriber, transcriber.takes_copies)
        with closing(self.editor.scratch()) as media:
            await copy_file(self.files, file, media)
            for piece in pieces:
                chunks[piece.number] = await bound.transcribe(media, piece)
                async with self.store.at_once() as tx:
                    if not await tx.notes.save_transcript_chunk(
                        task, source, piece.number, chunks[piece.number]
                    ):
                        raise LeaseLost
                kept(piece.number)
        return chunks

    async def _text(self, file: RecordingFile) -> bytes:
        text = bytearray()
        async with self.files.open(file) as opened:
            async for chunk in opened.chunks:
                text += chunk
                if len(text) > MAX_TRANSCRIPT_BYTES:
                    raise FilesUnavailable(f"a transcript of more than {MAX_TRANSCRIPT_BYTES} bytes")
        return bytes(text)
