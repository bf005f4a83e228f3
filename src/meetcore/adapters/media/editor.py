"""The `AudioEditor` that runs each command in a process: a crash there breaks nothing here.

A process gets the open files by their descriptors, no environment and no path, works at a low priority with
rests, and under limits of memory, time and output that it puts on itself. Its standard input is a pipe whose
other end only we hold: if this process is killed, it ends too. It is killed when its time is over or no
caller waits for it now.

Only an answer of the process is a statement about the file. A process that ends without one, by a signal or
by a fault of ours, is `EditingFailed`: the file may be fine.

Owns the processes and the scratch files. ffmpeg is never loaded here.
"""

import asyncio
import json
import os
import signal
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO, Final, cast

import structlog
from attrs import frozen

from meetcore.ports.audio_editor import EditingFailed, MediaUnreadable, Sound

CPU_S: Final = 300
"""Seconds of computing that one act may take. Two hours of sound take less than sixty."""

WITHIN_S: Final = 1800.0
"""Seconds by the clock: a process at a low priority may have to wait for others."""

MAX_PIECE_S: Final = 7200.0
"""The longest stretch that is cut at once, in seconds: at 24 kbit/s it stays below 25 MB."""

_START: Final = str(Path(__file__).with_name("__main__.py"))
_MAX_REPLY_BYTES: Final = 64 * 1024
_MAX_LOGGED_BYTES: Final = 4096
# What the loader may need to find the interpreter's libraries. Nothing else: the environment holds secrets.
_ENVIRONMENT: Final = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")

log = structlog.get_logger("meetcore")


def can_edit() -> bool:
    """Return whether the extra `notes` is installed; it is looked up and not loaded."""
    return find_spec("av") is not None


@frozen
class _Done:
    """What came of an act: the length of what was measured or cut, and how it was cut."""

    seconds: float
    is_copied: bool


class AvAudioEditor:
    """Measures and cuts what meetings are recorded in: MP4, Matroska and WebM, Ogg, MP3, WAV, FLAC.

    Args:
        directory: where scratch files lie; where the system puts such files, unless it is given. It should be
            a disk and not memory: a recording has hundreds of megabytes.
        processors: how many there are for all that runs here.
        at_once: how many processes there are at the same time; two, unless it is given, or as many as leave a
            processor to other processes.
        share: of a processor that each of them takes, above 0 and up to 1; unless it is given, a quarter on a
            machine of up to three processors, and all of one on others.
        cpu_s: seconds of computing that one act may take.
        within_s: seconds by the clock that it may take.
    """

    def __init__(
        self,
        directory: str | None = None,
        *,
        processors: int = 2,
        at_once: int | None = None,
        share: float | None = None,
        cpu_s: int = CPU_S,
        within_s: float = WITHIN_S,
    ) -> None:
        self._directory = directory
        self._share = share or (1.0 if processors > 3 else 0.25)
        self._cpu_s = cpu_s
        self._within_s = within_s
        self._slots = asyncio.Semaphore(at_once or max(1, min(2, processors - 1)))

    def scratch(self) -> BinaryIO:
        return cast(BinaryIO, tempfile.TemporaryFile(dir=self._directory))

    async def measure(self, media: BinaryIO) -> float:
        """The length in seconds of the longest stream of sound, counted over its packets.

        Raises:
            MediaUnreadable: no media, no sound, or more than the limits of computing and memory.
            EditingFailed: no time for it, or the process ended without an answer.
        """
        return (await self._work(["measure"], media)).seconds

    async def cut(self, media: BinaryIO, from_s: float, length_s: float, *, may_copy: bool = False) -> Sound:
        """A stretch of the longest stream of sound: 16 kHz, one channel, Opus in Ogg at 24 kbit/s.

        Pieces that are cut one after the other join without a gap. Where the media has a gap, or ends within
        its last 0.2 s, there is silence: no transcriber takes less than that. What may be copied is, where
        the media has it in plain AAC without a gap, and not in more than 24 MB.

        Raises:
            MediaUnreadable: no media, no sound, or more than the limits of computing and memory.
            EditingFailed: no time for it, or the process ended without an answer.
            ValueError: the stretch begins before the media, has no length, or is longer than two hours.
        """
        if not (from_s >= 0 and 0 < length_s <= MAX_PIECE_S):
            raise ValueError(f"a piece begins at 0 s or later and has up to {MAX_PIECE_S:.0f} s")
        run = "copy" if may_copy else "encode"
        piece = self.scratch()
        try:
            result = await self._work([run, repr(float(from_s)), repr(float(length_s))], media, piece)
            piece.seek(0)
        except BaseException:
            piece.close()
            raise
        return Sound(piece, result.seconds, result.is_copied)

    async def _work(self, run: list[str], *files: BinaryIO) -> _Done:
        for file in files:
            file.flush()  # the process sees what the kernel has
        descriptors = [file.fileno() for file in files]
        limits = [str(self._cpu_s), repr(self._within_s), repr(self._share)]
        async with self._slots:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-I", "-X", "faulthandler", _START, *limits, *run, *map(str, descriptors),
                stdin=PIPE, stdout=PIPE, stderr=PIPE, env=_environment(), cwd="/",
                pass_fds=descriptors, start_new_session=True,
            )  # fmt: skip
            try:
                async with asyncio.timeout(self._within_s):
                    reply, stderr = await _reply(process)
            except TimeoutError:
                raise EditingFailed(f"not within {self._within_s:g} s") from None
            finally:
                await _end(process)
        return _done(run[0], reply, process.returncode, stderr)


def _environment() -> dict[str, str]:
    return {name: value for name in _ENVIRONMENT if (value := os.environ.get(name)) is not None}


async def _reply(process: Process) -> tuple[bytes, bytes]:
    """Read the answer, and the beginning of standard error."""
    assert process.stdout is not None
    assert process.stderr is not None
    reply, stderr = await asyncio.gather(
        _read(process.stdout, _MAX_REPLY_BYTES), _read(process.stderr, _MAX_LOGGED_BYTES)
    )
    await process.wait()
    return reply, stderr


async def _read(stream: asyncio.StreamReader, at_most: int) -> bytes:
    """Read to the end and keep the first bytes: a full pipe would block the process."""
    kept = bytearray()
    while piece := await stream.read(at_most):
        kept += piece[: at_most - len(kept)]
    return bytes(kept)


async def _end(process: Process) -> None:
    """End the process. Its pipes are read to their end: `wait` alone does not return at a full buffer."""
    if process.returncode is None:
        process.kill()
    if process.stdin is not None:
        process.stdin.close()
    await process.communicate()


def _done(run: str, reply: bytes, status: int | None, stderr: bytes) -> _Done:
    """Read an answer; log what is not a length."""
    try:
        result = json.loads(reply)
    except ValueError:
        # It quotes nothing of the file: `commands` lets no exception out, and the rest is the interpreter's.
        log.warning(
            "media process ended without an answer", act=run, ended=_ended(status),
            stderr=stderr.decode("utf-8", "replace"),
        )  # fmt: skip
        raise EditingFailed(f"the process ended without an answer: {_ended(status)}") from None
    if "missing" in result:
        raise RuntimeError("PyAV cannot be loaded: pip install 'meetcore[server,notes]'")
    if "failed" in result:
        log.warning("media process failed", act=run, cause=result["failed"])
        raise EditingFailed(f"the process could not go on: {result['failed']}")
    if "unreadable" in result:
        log.info("media unreadable", act=run, cause=result["unreadable"])
        raise MediaUnreadable(str(result["unreadable"]))
    return _Done(float(result["seconds"]), bool(result.get("is_copied")))


def _ended(status: int | None) -> str:
    if status is not None and status < 0:
        return f"signal {signal.strsignal(-status) or -status}"
    return f"exit status {status}"
