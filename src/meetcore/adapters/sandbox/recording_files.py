"""The recordings of sandbox sessions that are over: three people plan something, and then follow it up.

The first session of a meeting has the plan, each later one the follow-up. A recording has audio, spoken by
espeak-ng, and a transcript with names. Removed files are recorded in the sandbox's state.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from functools import cache
from importlib import resources
from typing import Final

from meetcore.adapters.sandbox.provider import meeting_uuid
from meetcore.adapters.sandbox.state import (
    SandboxCall,
    SandboxFault,
    SandboxFaults,
    SandboxSession,
    SandboxState,
)
from meetcore.domain.notes.recordings import FileKind, RecordingFile
from meetcore.ports.recording_files import ByteRange, FileGone, FilesUnavailable, OpenFile, RangeUnsatisfiable
from meetcore.ports.store import StoreUnavailable

MEETING: Final = "meeting"
FOLLOW_UP: Final = "follow_up"
LENGTHS_S: Final = {MEETING: 59.53, FOLLOW_UP: 34.809}
"""Lengths of the recordings in seconds."""

_CHUNK_BYTES: Final = 64 * 1024
_TIMEOUT_S: Final = 60.0
_SUFFIXES: Final = {"audio": "m4a", "transcript": "vtt"}


@cache
def _content(recording: str, kind: str) -> bytes:
    """Return the content of a file, less than 200 KB."""
    name = f"{recording}.{_SUFFIXES[kind]}"
    return resources.files(__package__).joinpath("recording", name).read_bytes()


def _recording_of(session: str) -> str:
    """Return the recording of a session by its id, which ends with its number."""
    return MEETING if session.endswith("-1") else FOLLOW_UP


class SandboxRecordingFiles:
    """The recording files of the sandbox, in a state shared with the provider.

    A call raises `FilesUnavailable` while the state is unavailable, and as planned by `faults`. Without an
    answer it ends after `timeout_s`.
    """

    def __init__(
        self, state: SandboxState, faults: SandboxFaults | None = None, timeout_s: float = _TIMEOUT_S
    ) -> None:
        self._state = state
        self._faults = SandboxFaults() if faults is None else faults
        self._timeout_s = timeout_s

    @property
    def provider(self) -> str:
        return "sandbox"

    async def find(
        self, provider_meeting_id: str, session_ids: Iterable[str] = ()
    ) -> tuple[RecordingFile, ...]:
        """Return audio and transcript of every session that is over, without removed files."""
        await self._raise_fault(self._faults.due(SandboxCall.FIND_FILES))
        return tuple(await self._kept(provider_meeting_id))

    @asynccontextmanager
    async def open(self, file: RecordingFile, wanted: ByteRange | None = None) -> AsyncIterator[OpenFile]:
        await self._raise_fault(self._faults.due(SandboxCall.OPEN_FILE))
        session, _, name = file.provider_file_id.rpartition("-")
        meeting = session.rpartition("-")[0]
        if file.provider_file_id not in {one.provider_file_id for one in await self._kept(meeting)}:
            raise FileGone("the sandbox has no such file")
        content = _content(_recording_of(session), name)
        first, last = 0, len(content) - 1
        if wanted is not None:
            if wanted.first > last:
                raise RangeUnsatisfiable(len(content))
            first, last = wanted.first, last if wanted.last is None else min(wanted.last, last)
        yield OpenFile(len(content), first, last, _chunks(content[first : last + 1]))

    async def remove(self, provider_meeting_id: str, file: RecordingFile) -> None:
        fault = self._faults.due(SandboxCall.REMOVE_FILE)
        if fault is None or not fault.does_the_work:
            await self._raise_fault(fault)
        kept = {one.provider_file_id for one in await self._kept(provider_meeting_id)}
        if file.provider_file_id in kept:
            try:
                await self._state.remove_file(provider_meeting_id, file.provider_file_id)
            except StoreUnavailable as error:
                raise FilesUnavailable("the sandbox's state does not answer") from error
        await self._raise_fault(fault)

    async def _kept(self, provider_meeting_id: str) -> list[RecordingFile]:
        if meeting_uuid(provider_meeting_id) is None:
            return []
        try:
            sessions = await self._state.sessions(provider_meeting_id)
        except StoreUnavailable as error:
            raise FilesUnavailable("the sandbox's state does not answer") from error
        return [file for one in sessions if one.ended_at is not None for file in _files_of(one, one.ended_at)]

    async def _raise_fault(self, fault: SandboxFault | None) -> None:
        if fault is None:
            return
        if fault.keeps_waiting:
            await asyncio.sleep(self._timeout_s)
        raise FilesUnavailable(f"sandbox: requested fault: {fault}")


def _files_of(session: SandboxSession, ended_at: datetime) -> list[RecordingFile]:
    # A meeting that was ended before anyone started it has a session without any length.
    recording = _recording_of(session.id)
    length = timedelta(seconds=LENGTHS_S[recording])
    start = session.started_at if session.started_at < ended_at else ended_at - length
    names = {name: f"{session.id}-{name}" for name in _SUFFIXES}
    return [
        RecordingFile(
            id, FileKind(name), len(_content(recording, name)), start, ended_at, f"sandbox:{id}",
            session_id=session.id,
        )
        for name, id in names.items()
        if id not in session.removed_files
    ]  # fmt: skip


async def _chunks(content: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(content), _CHUNK_BYTES):
        yield content[at : at + _CHUNK_BYTES]
