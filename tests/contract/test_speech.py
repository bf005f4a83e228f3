"""Transcription on this machine: the suite, and that no child outlives its parent, its time or its turn."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from meetcore.adapters.speech import LocalTranscriber, _end, can_transcribe
from meetcore.domain.notes.notes import Language
from meetcore.domain.notes.transcripts import Utterance
from meetcore.ports.ai import AiUnavailable, Sound
from meetcore.testing.contracts import TranscriberContract
from meetcore.testing.sounds import silence, sound_of
from tests.conftest import absent


@pytest.fixture
def speech_model() -> None:
    if not can_transcribe():
        absent("nothing here can hear (pip install 'meetcore[speech]')")


@pytest.fixture
def piece() -> Iterator[Sound]:
    with sound_of(silence(40.0), 40.0) as sound:
        yield sound


@pytest.mark.usefixtures("speech_model")
class TestLocal(TranscriberContract):
    @pytest.fixture
    def transcriber(self):
        return LocalTranscriber()


def children() -> list[int]:
    """Return the running children of this process that transcribe."""
    output = subprocess.run(["ps", "-ww", "-o", "pid=,stat=,args=", "--ppid", str(os.getpid())],
                          capture_output=True, text=True, check=False).stdout  # fmt: skip
    rows = [line.split(None, 2) for line in output.splitlines()]
    return [int(pid) for pid, state, args in rows if "transcribe_child.py" in args and state[0] != "Z"]


async def until(condition: Callable[[], object]) -> None:
    for _ in range(1_000):
        if condition():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it did not come about in 20 s")


async def test_without_the_extra_nothing_can_transcribe(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("meetcore.adapters.speech.find_spec", lambda name: None)
    assert not can_transcribe()


async def test_a_child_that_takes_too_long_is_ended(piece: Sound, hanging: None):
    with pytest.raises(AiUnavailable, match="timeout"):
        await LocalTranscriber(timeout_s=0.3).transcribe(piece, Language.ENGLISH)
    assert children() == []


async def test_a_cancelled_caller_leaves_no_child(piece: Sound, hanging: None):
    task = asyncio.create_task(LocalTranscriber().transcribe(piece, Language.ENGLISH))
    await until(children)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert children() == []


# Each says in a file whether it runs alone, stays for a while, and ends without an answer.
NOTING = """
import fcntl, time
with open({path!r}, "a") as notes:
    try:
        fcntl.flock(notes, fcntl.LOCK_EX | fcntl.LOCK_NB)
        notes.write("alone ")
    except OSError:
        notes.write("together ")
    notes.flush()
    time.sleep(0.3)
"""


async def test_one_transcription_runs_at_a_time(
    piece: Sound, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    notes, transcriber = tmp_path / "notes", LocalTranscriber()
    (tmp_path / "transcribe_child.py").write_text(NOTING.format(path=str(notes)))
    monkeypatch.setattr("meetcore.adapters.speech._PROGRAM", tmp_path / "transcribe_child.py")
    asked = (transcriber.transcribe(piece, Language.ENGLISH) for _ in range(3))
    await asyncio.gather(*asked, return_exceptions=True)
    assert notes.read_text().split() == ["alone"] * 3


@pytest.mark.parametrize(("program", "expected"), [
    ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "ended with -11"),
    ("raise SystemExit(1)", "ended with 1"),
    ("print('no json')", "malformed output"),
    ("print('x' * 5_000_000)", "too long"),
])  # fmt: skip
async def test_a_child_that_fails_is_away(
    piece: Sound, monkeypatch, tmp_path: Path, program: str, expected: str
):
    (tmp_path / "transcribe_child.py").write_text(program)
    monkeypatch.setattr("meetcore.adapters.speech._PROGRAM", tmp_path / "transcribe_child.py")
    with pytest.raises(AiUnavailable, match=expected):
        await LocalTranscriber().transcribe(piece, Language.ENGLISH)
    assert children() == []


async def test_a_loop_and_the_end_of_a_video_are_not_said(piece: Sound, monkeypatch, tmp_path: Path):
    texts = ["Let us begin.", *["Okay."] * 5, "Thanks for watching!"]
    lines = [[at, at + 1, text] for at, text in enumerate(texts)]
    program = "\n".join(f"print({json.dumps(json.dumps(line))})" for line in lines)
    (tmp_path / "transcribe_child.py").write_text(program)
    monkeypatch.setattr("meetcore.adapters.speech._PROGRAM", tmp_path / "transcribe_child.py")
    heard = await LocalTranscriber().transcribe(piece, Language.ENGLISH)
    assert heard == (Utterance(0, 1, "Let us begin."), Utterance(1, 6, "Okay."))


async def test_a_child_that_writes_on_when_nobody_reads_is_ended():
    """asyncio's `wait` returns at the end of the pipes, which a reader that has stopped never sees."""
    flood = "import sys\nwhile True: sys.stdout.write('x' * 65_536)"
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", flood, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    stdout: Any = child.stdout
    await until(lambda: stdout._paused)
    async with asyncio.timeout(20):
        await _end(child)
    assert child.returncode == -signal.SIGKILL


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A program in the child's place that never answers."""
    (tmp_path / "transcribe_child.py").write_text("import time; time.sleep(60)")
    monkeypatch.setattr("meetcore.adapters.speech._PROGRAM", tmp_path / "transcribe_child.py")


PARENT = """
import asyncio
from meetcore.adapters.speech import LocalTranscriber
from meetcore.domain.notes.notes import Language
from meetcore.testing.sounds import silence, sound_of

with sound_of(silence(110.0), 110.0) as sound:
    print("begun", flush=True)
    asyncio.run(LocalTranscriber().transcribe(sound, Language.ENGLISH))
"""


@pytest.mark.usefixtures("speech_model")
async def test_a_child_ends_when_its_parent_is_killed():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PARENT, stdout=asyncio.subprocess.PIPE, env=environment
    )
    try:
        assert parent.stdout is not None
        await parent.stdout.readline()
        await until(lambda: _transcribing_children_of(parent.pid))
        (child,) = _transcribing_children_of(parent.pid)
        parent.send_signal(signal.SIGKILL)
        await parent.wait()
        await until(lambda: not _is_alive(child))
    finally:
        if parent.returncode is None:
            parent.kill()
            await parent.wait()


def _transcribing_children_of(pid: int) -> list[int]:
    output = subprocess.run(["ps", "-ww", "-o", "pid=,args=", "--ppid", str(pid)],
                          capture_output=True, text=True, check=False).stdout  # fmt: skip
    return [int(line.split()[0]) for line in output.splitlines() if "transcribe_child.py" in line]


def _is_alive(pid: int) -> bool:
    output = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return bool(output.stdout.strip()) and not output.stdout.startswith("Z")
