"""The suite of the editors of sound on PyAV, and what only ffmpeg and processes can do wrong."""

import asyncio
import json
import os
import re
import signal
import struct
import sys
import textwrap
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import BinaryIO

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from meetcore.adapters.media import AvAudioEditor, aac, commands
from meetcore.adapters.media import editor as editor_module
from meetcore.ports.ai import AudioEditor, EditingFailed, MediaUnreadable
from meetcore.testing.contracts.notes import AudioEditorContract
from meetcore.testing.sounds import sound_length_s
from tests.contract.media import FORMS, Form, decoded, picture, tones, two_streams, with_a_gap
from tests.support.kept_log import capture_own_logs
from tests.support.running_time import running_time
from tests.support.texts import assert_contains

M4A = FORMS[0]
AAC = [form for form in FORMS if form.codec == "aac"]
EXACT_S = 0.05
EXAMPLES = min(200, max(4, settings().max_examples // 6))  # each starts a process, or encodes some seconds


class TestAv(AudioEditorContract):
    @pytest.fixture
    def editor(self) -> AudioEditor:
        return AvAudioEditor(share=1)


class HereAudioEditor(AvAudioEditor):
    """Runs each command in this process: to start another takes longer than a short file."""

    async def _work(self, run: list[str], *files: BinaryIO):
        for file in files:
            file.flush()
        outcome = commands.outcome_of(run[0], [*run[1:], *(str(file.fileno()) for file in files)])
        return editor_module._done(run[0], json.dumps(outcome).encode(), 0, b"")


@pytest.fixture
def editor() -> AvAudioEditor:
    return HereAudioEditor()


@pytest.fixture
def process_editor() -> AvAudioEditor:
    return AvAudioEditor(share=1)


def holding(editor: AudioEditor, content: bytes):
    media = editor.scratch()
    media.write(content)
    return media


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("seconds", [1.0, 12.0, 30.5])
async def test_every_form_is_measured(editor: AvAudioEditor, form: Form, seconds: float):
    with holding(editor, tones(form, seconds, ())) as media:
        # Where nothing declares how far the last frame is filled up, it counts.
        assert await editor.measure(media) == pytest.approx(seconds, abs=0.03)


@pytest.mark.parametrize("form", FORMS[:2], ids=str)
async def test_what_fills_up_the_last_frame_of_an_mp4_is_not_paid_for(editor: AvAudioEditor, form: Form):
    with holding(editor, tones(form, 60.0, ())) as media:
        assert await editor.measure(media) == 60.0


@pytest.mark.parametrize(("form", "may_copy"), [*((form, False) for form in FORMS), (AAC[1], True)], ids=str)
async def test_pieces_join_and_what_is_in_them_is_where_it_was(
    editor: AvAudioEditor, form: Form, may_copy: bool
):
    """One packet on the border of copies is in both: a decoder begins with the right sample."""
    at = [0.5 + number * 0.7 for number in range(28)] if may_copy else [0.5, 6.9, 7.1 + 0.5, 14.2, 20.0]
    with holding(editor, tones(form, 21.0, at)) as media:
        found, total_s = [], 0.0
        for number in range(3):
            with await editor.cut(media, number * 7, 7, may_copy=may_copy) as piece:
                this = decoded(piece.file)
            found += [number * 7 + begin for begin in this.tones if begin > EXACT_S]
            total_s += piece.length_s if may_copy else this.seconds
    assert found == pytest.approx(at, abs=EXACT_S)
    assert total_s == pytest.approx(21.0, abs=0.001 if may_copy else 0.03)


@cache
def three_tones(form: Form) -> bytes:
    return tones(form, 20.0, (3.0, 9.0, 15.0))


def misheard(tones: list[float], from_s: float, seconds: float) -> list[float]:
    """What of `three_tones` is missing in a stretch, and what is in it that is not there.

    A tone just inside may be heard just outside, and the other way round.
    """
    there = [begin - from_s for begin in (3.0, 9.0, 15.0)]

    def only_in(begins: list[float], others: list[float]) -> list[float]:
        inside = [begin for begin in begins if EXACT_S < begin < seconds - 0.1]
        return [begin for begin in inside if sum(abs(begin - each) <= EXACT_S for each in others) != 1]

    return only_in(there, tones) + only_in(tones, there)


CUTS = [(form, may_copy) for form in FORMS for may_copy in (False, True) if form in AAC or not may_copy]


@settings(max_examples=2 * EXAMPLES, deadline=None)
@given(of=st.sampled_from(CUTS), from_s=st.floats(0, 19), length_s=st.floats(0.5, 12))
@example(of=(FORMS[0], False), from_s=6.330355156365096, length_s=2.7695202745327965)
@example(of=(FORMS[3], False), from_s=8.949645397864808, length_s=2.404739566274813)
async def test_any_stretch_of_any_form_is_exact_encoded_or_copied(
    of: tuple[Form, bool], from_s: float, length_s: float
):
    """A copy ends with a packet, which has 32 ms at 32 kHz."""
    (form, may_copy), editor = of, HereAudioEditor()
    with (
        holding(editor, three_tones(form)) as media,
        await editor.cut(media, from_s, length_s, may_copy=may_copy) as piece,
    ):
        assert piece.is_copied == may_copy
        this = decoded(piece.file)
    expected = min(length_s, 20.0 - from_s)
    assert piece.length_s == pytest.approx(expected, abs=0.03)
    assert expected - 0.03 <= this.seconds <= expected + (0.035 if may_copy else 0.03)
    assert misheard(this.tones, from_s, expected) == [], this.tones


@pytest.mark.parametrize("form", [*AAC, FORMS[5]], ids=str)
async def test_media_that_begins_late_counts_from_its_beginning(editor: AvAudioEditor, form: Form):
    with holding(editor, tones(form, 8.0, (2.0, 6.0), begins_s=30.0)) as media:
        assert await editor.measure(media) == pytest.approx(8.0, abs=0.05)
        for may_copy in (False, True):
            with await editor.cut(media, 4, 4, may_copy=may_copy) as piece:
                assert piece.is_copied == (may_copy and form in AAC)
                assert decoded(piece.file).tones == pytest.approx([2.0], abs=EXACT_S)


@pytest.mark.parametrize(
    "content",
    [
        lambda: two_streams(M4A, (3.0, 8.0), (5.0,)), lambda: two_streams(M4A, (8.0, 3.0), (5.0,)),
        lambda: picture(8.0, M4A, (5.0,)),
    ],
    ids=["long sound last", "long sound first", "film"],
)  # fmt: skip
async def test_of_several_streams_the_longest_sound_counts(
    editor: AvAudioEditor, content: Callable[[], bytes]
):
    with holding(editor, content()) as media:
        assert await editor.measure(media) == pytest.approx(8.0, abs=0.03)
        with await editor.cut(media, 4, 4) as piece:
            assert decoded(piece.file).tones == pytest.approx([1.0], abs=EXACT_S)


async def test_a_film_without_sound_is_unreadable(editor: AvAudioEditor):
    with holding(editor, picture(3.0)) as media, pytest.raises(MediaUnreadable, match="no audio"):
        await editor.measure(media)


@pytest.mark.parametrize("form", FORMS, ids=str)
async def test_a_truncated_file_is_as_long_as_what_is_left_or_unreadable(editor: AvAudioEditor, form: Form):
    whole = tones(form, 20.0, range(1, 20))
    with holding(editor, whole[: len(whole) // 2]) as media:
        try:
            length_s = await editor.measure(media)
        except MediaUnreadable:
            assert form.format in ("ipod", "mp4")  # what tells where the sound is stands at the end
            return
        assert length_s < 19
        with await editor.cut(media, 0, 2) as piece:
            assert decoded(piece.file).tones == pytest.approx([1.0], abs=EXACT_S)


@pytest.mark.parametrize("form", FORMS, ids=str)
async def test_damage_in_the_middle_leaves_the_remainder(editor: AvAudioEditor, form: Form):
    whole = bytearray(tones(form, 20.0, (1.0, 17.0)))
    middle = len(whole) // 2
    whole[middle : middle + 200] = bytes(200)
    with holding(editor, bytes(whole)) as media:
        assert await editor.measure(media) == pytest.approx(20.0, abs=0.6)
        with await editor.cut(media, 0, 20) as piece:
            assert decoded(piece.file).tones[0] == pytest.approx(1.0, abs=EXACT_S)


@settings(max_examples=EXAMPLES, deadline=None)
@given(form=st.sampled_from(FORMS), kept=st.integers(0, 400), tail=st.binary(max_size=2000))
async def test_noise_of_any_kind_ends_in_an_answer(form: Form, kept: int, tail: bytes):
    """Heads of real files with anything behind: a length or `MediaUnreadable`, nothing else."""
    editor = AvAudioEditor(share=1)
    with holding(editor, three_tones(form)[:kept] + tail) as media:
        try:
            assert 0 < await editor.measure(media) < 48 * 3600
        except MediaUnreadable:
            pass


@pytest.mark.parametrize(
    "content",
    [
        "#EXTM3U\n#EXTINF:10,\n{secret}\n#EXT-X-ENDLIST\n",
        "#EXTM3U\n#EXTINF:10,\nhttp://127.0.0.1:{port}/x.ts\n#EXT-X-ENDLIST\n",
        "ffconcat version 1.0\nfile {secret}\n",
        "ffconcat version 1.0\nfile http://127.0.0.1:{port}/x.ts\n",
        "<?xml version='1.0'?><MPD xmlns='urn:mpeg:dash:schema:mpd:2011'><BaseURL>{secret}</BaseURL></MPD>",
        "v=0\nc=IN IP4 127.0.0.1\nm=audio {port} RTP/AVP 0\n",
    ],
)
async def test_no_file_makes_us_read_another(editor: AvAudioEditor, content: str, tmp_path: Path):
    secret = tmp_path / "secret.wav"
    secret.write_bytes(tones(FORMS[4], 2.0, (1.0,)))
    visitors: list[object] = []

    def visited(_: object, writer: asyncio.StreamWriter) -> None:
        visitors.append(writer)
        writer.close()

    server = await asyncio.start_server(visited, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        text = content.format(secret=secret, port=port).encode()
        with holding(editor, text) as media, pytest.raises(MediaUnreadable):
            # In a thread, so that this loop can serve a visitor meanwhile.
            await asyncio.to_thread(asyncio.run, editor.measure(media))
    assert visitors == []


@pytest.mark.parametrize(("codec", "rate", "may_copy"), [("pcm_s16le", 16000, False), ("aac", 48000, True)])
async def test_where_the_media_has_a_gap_there_is_silence(
    editor: AvAudioEditor, codec: str, rate: int, may_copy: bool
):
    """And it is not copied: a decoder would join what was apart."""
    with holding(editor, with_a_gap(Form("matroska", codec, rate))) as media:
        assert await editor.measure(media) == pytest.approx(12.0, abs=0.03)
        for from_s, length_s, at in ((0, 12, [1.0, 9.0]), (5, 2, [])):  # whole, and nothing but gap
            with await editor.cut(media, from_s, length_s, may_copy=may_copy) as piece:
                this = decoded(piece.file)
            assert not piece.is_copied
            assert this.seconds == pytest.approx(length_s, abs=0.03)
            assert this.tones == pytest.approx(at, abs=EXACT_S)


@pytest.mark.parametrize("may_copy", [False, True])
async def test_a_piece_past_the_end_has_the_minimum_length(editor: AvAudioEditor, may_copy: bool):
    """Less than the minimum is filled up with silence, and not copied."""
    with holding(editor, tones(M4A, 3.0, ())) as media:
        for from_s in (2.9, 2.99, 3.0, 50.0):
            with await editor.cut(media, from_s, 5, may_copy=may_copy) as piece:
                assert not piece.is_copied
                assert decoded(piece.file).seconds == pytest.approx(0.2, abs=0.03)


# Copies


@pytest.mark.parametrize("form", FORMS, ids=str)
async def test_only_aac_is_copied_and_only_where_it_may_be(editor: AvAudioEditor, form: Form):
    with holding(editor, tones(form, 5.0, (3.0,))) as media:
        for may_copy in (False, True):
            with await editor.cut(media, 1, 3, may_copy=may_copy) as piece:
                assert piece.is_copied == (may_copy and form in AAC)
                head = piece.file.read(8)
                assert head[4:] == b"ftyp" if piece.is_copied else head[:4] == b"OggS"
                assert piece.length_s == pytest.approx(3.0, abs=0.001)
                assert sound_length_s(head + piece.file.read()) == pytest.approx(3.0, abs=0.001)
                piece.file.seek(0)
                assert decoded(piece.file).tones == pytest.approx([2.0], abs=EXACT_S)


def test_a_copy_that_would_be_too_large_is_none(editor: AvAudioEditor, monkeypatch: pytest.MonkeyPatch):
    content = tones(M4A, 20.0, (1.0, 3.0))
    with holding(editor, content) as media, editor.scratch() as into:
        media.flush()
        monkeypatch.setattr(aac, "MAX_BYTES", len(content) // 2)
        assert aac.copy(media.fileno(), 0, into.fileno(), 10, 5) == pytest.approx(5.0, abs=0.001)
        with pytest.raises(aac.NotCopied):
            aac.copy(media.fileno(), 0, into.fileno(), 0, 20)


# Processes


def children(parent: int) -> set[int]:
    """The processes of a parent that work on media."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                arguments = (entry / "cmdline").read_bytes().split(b"\0")
                of = int((entry / "stat").read_text().rsplit(")")[1].split()[1])
            except OSError:
                continue
            if of == parent and any(
                argument.endswith(b"adapters/media/__main__.py") for argument in arguments
            ):
                found.add(int(entry.name))
    return found


async def until(holds, limit_s: float = 120.0):
    async with asyncio.timeout(limit_s):
        while not (found := holds()):  # noqa: ASYNC110  (another process sends no event)
            await asyncio.sleep(0.01)
    return found


def computed_s(process: int) -> float:
    fields = (Path("/proc") / str(process) / "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def forever(editor: AudioEditor):
    """Media that takes long: half an hour of noise that cannot be decoded quickly."""
    return holding(editor, tones(Form("flac", "flac", 8000), 1800.0, ()))


async def test_a_cancelled_caller_leaves_no_process(process_editor: AvAudioEditor):
    with forever(process_editor) as media:
        task = asyncio.create_task(process_editor.cut(media, 0, 1800))
        await until(lambda: children(os.getpid()))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: not children(os.getpid()))


async def test_a_command_has_a_time_limit():
    editor = AvAudioEditor(share=1, within_s=0.3)
    with forever(editor) as media, running_time() as passed_s:
        with pytest.raises(EditingFailed, match="within"):
            await editor.cut(media, 0, 1800)
        assert passed_s() < 10


async def test_a_command_has_a_cpu_limit():
    editor = AvAudioEditor(share=1, cpu_s=1)
    with forever(editor) as media, pytest.raises(MediaUnreadable, match="computing"):
        await editor.cut(media, 0, 1800)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells what a process has computed")
async def test_a_command_is_throttled():
    share, beginning_s = 0.2, 0.2
    editor = AvAudioEditor(share=share)
    with forever(editor) as media:
        task, began = asyncio.create_task(editor.cut(media, 0, 1800)), time.monotonic()
        (child,) = await until(lambda: children(os.getpid()))
        await until(lambda: computed_s(child) > 2 * beginning_s)
        # Holds on a busy machine, too: what waited for a processor does not catch up.
        assert computed_s(child) <= (time.monotonic() - began) * share + beginning_s
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, signal.SIGTERM, signal.SIGALRM, signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS],
    ids=lambda number: number.name,
)  # fmt: skip
async def test_a_process_ended_by_a_signal_does_not_blame_the_file(
    process_editor: AvAudioEditor, number: signal.Signals
):
    """As the system does where memory runs out, and a library that crashes."""
    with forever(process_editor) as media, capture_own_logs() as logged:
        task = asyncio.create_task(process_editor.cut(media, 0, 1800))
        (child,) = await until(lambda: children(os.getpid()))
        await until(lambda: computed_s(child) > 0.1)  # the interpreter has begun
        os.kill(child, number)
        with pytest.raises(EditingFailed, match="without an answer: signal"):
            await task
    (line,) = logged
    assert (line["event"], line["log_level"]) == ("media process ended without an answer", "warning")
    assert signal.strsignal(number) in line["ended"]
    if number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS):
        assert "Fatal Python error" in line["stderr"]  # and where it was


# What runs instead of `__main__.py`: the program, how it ends, what is logged of its standard error.
FAULTY = {
    "exception": ("raise TypeError('no such argument')", "exit status 1", "TypeError: no such argument"),
    "exit": ("import sys; sys.exit(7)", "exit status 7", ""),
    "silence": ("pass", "exit status 0", ""),
    "half an answer": ("print('{\"seconds\": 1', end='')", "exit status 0", ""),
    "much talk": ("import sys; sys.stderr.write('x' * 1_000_000); sys.exit(1)", "exit status 1", "xxx"),
}


@pytest.mark.parametrize("name", FAULTY)
async def test_a_process_that_ends_without_a_reply_does_not_blame_the_file(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    code, ended, stderr = FAULTY[name]
    program = tmp_path / "__main__.py"
    program.write_text(code)
    monkeypatch.setattr(editor_module, "_START", str(program))
    editor = AvAudioEditor(share=1)
    expected = pytest.raises(EditingFailed, match=f"without an answer: {ended}")
    with holding(editor, tones(M4A, 3.0, ())) as media, capture_own_logs() as logged, expected:
        await editor.measure(media)
    (line,) = logged
    assert line["log_level"] == "warning"
    assert (line["act"], line["ended"]) == ("measure", ended)
    assert stderr in line["stderr"]
    assert len(line["stderr"]) <= 4096


def start_with_a_fault(program: Path) -> None:
    """Write a `__main__.py` after which opening media raises TypeError, as it does where PyAV has changed."""
    start = Path(editor_module._START)
    fault = "from meetcore.adapters.media import sound; sound.FORMATS = ['secret of the file']"
    text = start.read_text("utf-8").replace("os.path.abspath(__file__)", repr(str(start)))
    program.write_text(text.replace("    from", f"    {fault}\n    from", 1))


async def test_a_fault_in_the_process_is_logged_by_its_kind_and_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The text of an exception may quote the file."""
    start_with_a_fault(tmp_path / "__main__.py")
    monkeypatch.setattr(editor_module, "_START", str(tmp_path / "__main__.py"))
    editor = AvAudioEditor(share=1)
    expected = pytest.raises(EditingFailed, match=r"could not go on: TypeError at \w+\.pyx?:\d+")
    with holding(editor, tones(M4A, 3.0, ())) as media, capture_own_logs() as logged, expected:
        await editor.measure(media)
    assert [line["event"] for line in logged] == ["media process failed"]
    assert "secret" not in str(logged)


async def test_what_cannot_be_read_is_logged(editor: AvAudioEditor):
    """An operator sees why a recording has 0 minutes."""
    expected = pytest.raises(MediaUnreadable)
    with holding(editor, b"no media at all") as media, capture_own_logs() as logged, expected:
        await editor.measure(media)
    assert [(line["event"], line["log_level"]) for line in logged] == [("media unreadable", "info")]


async def test_a_title_that_is_no_text_does_not_prevent_decoding(editor: AvAudioEditor):
    """A WAV whose title is not UTF-8: versions of PyAV differ in what they do about it."""

    def chunk(name: bytes, content: bytes) -> bytes:
        return name + struct.pack("<I", len(content)) + content

    head = chunk(b"fmt ", struct.pack("<HHIIHH", 1, 1, 16_000, 32_000, 2, 16))
    title = chunk(b"LIST", b"INFO" + chunk(b"INAM", b"\xff\xfe\x80\x00"))
    content = chunk(b"RIFF", b"WAVE" + head + title + chunk(b"data", bytes(2 * 32_000)))
    with holding(editor, content) as media:
        assert await editor.measure(media) == pytest.approx(2.0, abs=0.03)
        with await editor.cut(media, 0, 2) as piece:
            assert piece.length_s == pytest.approx(2.0, abs=0.03)


class Full(AvAudioEditor):
    """Its scratch files have no room."""

    def scratch(self) -> BinaryIO:
        return open("/dev/full", "r+b", buffering=0)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a disk without room is needed")
async def test_a_full_disk_is_not_the_files_doing(editor: AvAudioEditor):
    with holding(editor, tones(M4A, 30.0, ())) as media, pytest.raises(EditingFailed, match="ENOSPC"):
        await Full(share=1).cut(media, 0, 30)


PARENT = """
import asyncio, sys
from meetcore.adapters.media import AvAudioEditor

async def main():
    editor = AvAudioEditor(share=1)
    with editor.scratch() as media:
        media.write(open(sys.argv[1], "rb").read())
        await editor.cut(media, 0, 7200)

asyncio.run(main())
"""


async def test_a_process_ends_with_a_parent_that_was_killed(tmp_path: Path):
    content = tmp_path / "long.flac"
    content.write_bytes(tones(Form("flac", "flac", 8000), 3600.0, ()))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", textwrap.dedent(PARENT), str(content), env=environment
    )
    (child,) = await until(lambda: children(parent.pid))
    parent.send_signal(signal.SIGKILL)
    await parent.wait()
    await until(lambda: not (Path("/proc") / str(child) / "exe").exists())


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells what a process was given")
async def test_a_process_has_low_limits(process_editor: AvAudioEditor, monkeypatch: pytest.MonkeyPatch):
    """Low priority, little memory, none of our secrets, and of our files only the ones it works on."""
    monkeypatch.setenv("MEETCORE_SECRETS_KEY", "not-for-ffmpeg")
    lowered = str(min(os.nice(0) + 10, 19))
    with forever(process_editor) as media, process_editor.scratch() as other:
        task = asyncio.create_task(process_editor.cut(media, 0, 1800))
        (child,) = await until(lambda: children(os.getpid()))
        proc = Path("/proc") / str(child)
        await until(lambda: task.done() or (proc / "stat").read_text().rsplit(")")[1].split()[16] == lowered)
        assert not task.done(), task
        if (proc / "autogroup").exists():
            await until(lambda: (proc / "autogroup").read_text().endswith(" nice 10\n"))
        assert b"not-for-ffmpeg" not in (proc / "environ").read_bytes()
        assert b"MEETCORE" not in (proc / "environ").read_bytes()
        limits = (proc / "limits").read_text()
        assert re.search(r"Max core file size +0 ", limits)
        assert re.search(rf"Max address space +{768 * 1024 * 1024} ", limits)
        open_files = set()
        for each in (proc / "fd").iterdir():
            with suppress(FileNotFoundError):  # a module that it was importing
                open_files.add(os.readlink(each))
        assert_contains(
            open_files,
            os.readlink(f"/proc/self/fd/{media.fileno()}"),
            absent=(os.readlink(f"/proc/self/fd/{other.fileno()}"),),
        )
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_only_so_many_work_at_once():
    editor, most = AvAudioEditor(at_once=2, share=1), 0
    with holding(editor, tones(M4A, 3.0, ())) as media:
        tasks = asyncio.gather(*(editor.measure(media) for _ in range(8)))
        while not tasks.done():
            most = max(most, len(children(os.getpid())))
            await asyncio.sleep(0.005)
        assert await tasks == pytest.approx([3.0] * 8, abs=0.03)
    assert most == 2
