"""The `AudioEditor` that runs each command in a child process: a crash there is contained.

The child gets open files by descriptor, no environment and no path, and limits its own priority, share of
CPU, memory, time and output. Its standard input is a pipe that only this process holds, so it ends when this
process does. It is killed when its time is over or its caller is cancelled.

Only a reply of the child says something about the file. A child that ends without one is `EditingFailed`: the
file may be fine. ffmpeg is never loaded in this process.
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

from meetcore.ports.ai import EditingFailed, MediaUnreadable, Sound

CPU_S: Final = 300
"""CPU seconds of one command. Two hours of audio take less than sixty."""

WITHIN_S: Final = 1800.0
"""Wall-clock seconds of one command, at a low priority."""

MAX_PIECE_S: Final = 7200.0
"""Longest stretch in seconds: below 25 MB at 24 kbit/s."""

_START: Final = str(Path(__file__).with_name("__main__.py"))
_MAX_REPLY_BYTES: Final = 64 * 1024
_MAX_LOGGED_BYTES: Final = 4096
# Needed to find the interpreter's libraries. Nothing else: the environment holds secrets.
_ENVIRONMENT: Final = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")

log = structlog.get_logger("meetcore")


def can_edit() -> bool:
    """Return whether the extra `notes` is installed, without loading it."""
    return find_spec("av") is not None


@frozen
class _Done:
    """The result of a command: length in seconds, and whether a stretch was copied."""

    seconds: float
    is_copied: bool


class AvAudioEditor:
    """Measures and cuts recordings: MP4, Matroska, WebM, Ogg, MP3, WAV, FLAC.

    `directory` is for scratch files of hundreds of megabytes. By default `at_once` is two processes, or fewer
    to leave one of the machine's processors free, and the `share` of a processor for each a quarter on up to
    three, else 1. One command has `cpu_s` CPU seconds and `within_s` wall-clock seconds.
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
        """Return the seconds of the longest audio stream, summed over its packets."""
        return (await self._work(["measure"], media)).seconds

    async def cut(self, media: BinaryIO, from_s: float, length_s: float, *, may_copy: bool = False) -> Sound:
        """Cut a stretch of the longest audio stream: 16 kHz, mono, Opus in Ogg at 24 kbit/s.

        Consecutive pieces join without a gap. Gaps of the media, and up to 0.2 s after its end, become
        silence, since transcribers refuse shorter audio. With `may_copy`, gapless plain AAC of up to 24 MB is
        copied. Raises `ValueError` for a negative start, no length, or one above `MAX_PIECE_S`.
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
            file.flush()  # the child reads by descriptor
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
    """Read the reply, and the beginning of standard error."""
    assert process.stdout is not None
    assert process.stderr is not None
    reply, stderr = await asyncio.gather(
        _read(process.stdout, _MAX_REPLY_BYTES), _read(process.stderr, _MAX_LOGGED_BYTES)
    )
    await process.wait()
    return reply, stderr


async def _read(stream: asyncio.StreamReader, at_most: int) -> bytes:
    """Read to the end and keep the first bytes: a full pipe would block the child."""
    kept = bytearray()
    while piece := await stream.read(at_most):
        kept += piece[: at_most - len(kept)]
    return bytes(kept)


async def _end(process: Process) -> None:
    """Kill the child and drain its pipes: `wait` hangs while a buffer is full."""
    if process.returncode is None:
        process.kill()
    if process.stdin is not None:
        process.stdin.close()
    await process.communicate()


def _done(run: str, reply: bytes, status: int | None, stderr: bytes) -> _Done:
    """Parse a reply; log anything but a length."""
    try:
        result = json.loads(reply)
    except ValueError:
        # Standard error does not quote the file: `commands` catches all exceptions.
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
