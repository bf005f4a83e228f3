"""The procedures of the client: download a recording, and wait for a note.

A part of a recording is written to a file of another name first, so that a file of the final name is
complete. Each attempt takes a new link, as a link works for 15 minutes, and requests the missing bytes.
"""

import os
import re
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any, Final, Protocol
from uuid import uuid4

from attrs import define, frozen

from meetcore.client import exchange
from meetcore.client.calls import Call, Id, path_of, read
from meetcore.client.errors import MeetcoreError, NoteFailed, UnexpectedResponse, WaitTimedOut
from meetcore.client.records import Download, DownloadUrl, Note, NoteStatus, Page

__all__ = ["NoteWait", "RecordingDownload", "WritesBytes", "recording_download"]

_RANGE: Final = re.compile(r"bytes ([0-9]{1,18})-[0-9]{1,18}/([0-9]{1,18})", re.ASCII)
_LENGTH: Final = re.compile(r"[0-9]{1,18}", re.ASCII)
_NEXT: Final = re.compile(r'<([^<>]+)>\s*;\s*rel="?next"?', re.IGNORECASE)
_HEADERS: Final = {"Accept": "*/*", "Accept-Encoding": "identity"}  # ranges count the stored bytes
_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 15.0
_GROWTH: Final = 1.5


class WritesBytes(Protocol):
    """A binary file that is open for writing."""

    def write(self, data: bytes, /) -> object:
        """Write; return the number of bytes written, or None for all."""


def recording_download(
    recording_id: Id, to: "str | os.PathLike[str] | WritesBytes", part: int | None
) -> "RecordingDownload":
    """Describe a download; raise `ValueError` for a part below 1, or a path of a directory."""
    if part is not None and part < 1:
        raise ValueError("part numbers start at 1")
    if isinstance(to, str | os.PathLike):
        to = Path(to)
        if to.is_dir():
            raise ValueError("to is the path of a file, and this is a directory")
    return RecordingDownload(recording_id, to, part)


@define
class _Sink:
    """Writes the bytes of one part, from `position` on."""

    file: WritesBytes
    must_be_last: bool
    position: int = 0
    size: int | None = None
    skipped: int = 0

    def is_wanted(self, status: int, headers: Mapping[str, str]) -> bool:
        """Return whether a response continues the part.

        Raises `ValueError` where more parts follow and none was chosen, `UnexpectedResponse` where the size
        or the range does not fit the bytes before.
        """
        if status not in (200, 206):
            return False
        if self.must_be_last and _next_of(headers) is not None:
            raise ValueError("this recording has several parts: give a path, or say which part")
        found = _RANGE.fullmatch(headers.get("content-range", "")) if status == 206 else None
        length = _LENGTH.fullmatch(headers.get("content-length", ""))
        first = int(found[1]) if found else 0
        size = int(found[2]) if found else int(length[0]) if length and status == 200 else None
        if size is None or first > self.position or self.size not in (None, size):
            raise UnexpectedResponse("the recording has changed since its download began", status=status)
        self.size, self.skipped = size, self.position - first
        return True

    def take(self, piece: bytes) -> None:
        """Write the bytes that are not written yet."""
        fresh = memoryview(piece)[self.skipped :]
        self.skipped = max(0, self.skipped - len(piece))
        while fresh:
            written = self.file.write(bytes(fresh))
            count = written if isinstance(written, int) else len(fresh)
            self.position += count
            fresh = fresh[count:]

    @property
    def is_whole(self) -> bool:
        """Whether the part is complete."""
        return self.position == self.size


def _next_of(headers: Mapping[str, str]) -> str | None:
    found = _NEXT.search(headers.get("link", ""))
    return found[1] if found else None


@frozen
class RecordingDownload:
    """See `RecordingOperations.download`."""

    recording_id: Id
    to: Path | WritesBytes
    part: int | None

    def steps(self, means: exchange.Means) -> exchange.Steps[Download]:
        """Download the wanted parts."""
        if not isinstance(self.to, Path):
            sink = _Sink(self.to, must_be_last=self.part is None)
            has_more = yield from self._part(self.part or 1, sink, means)
            return Download(sink.position, (), has_more)
        number, size_bytes, paths, has_more = self.part or 1, 0, [], True
        while has_more:
            name = self.to.name if number == (self.part or 1) else f"{self.to.stem}-{number}{self.to.suffix}"
            path = self.to.with_name(name)
            sink, has_more = yield from self._file(number, path, means)
            size_bytes, number = size_bytes + sink.position, number + 1
            paths.append(path)
            if self.part is not None:
                break
        return Download(size_bytes, tuple(paths), has_more)

    def _file(
        self, number: int, path: Path, means: exchange.Means
    ) -> Generator[exchange.Step, Any, tuple[_Sink, bool]]:
        partial = path.with_name(f".{path.name}.{uuid4().hex}.part")
        try:
            with partial.open("xb") as file:
                sink = _Sink(file, must_be_last=False)
                has_more = yield from self._part(number, sink, means)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
        return sink, has_more

    def _part(self, number: int, sink: _Sink, means: exchange.Means) -> Generator[exchange.Step, Any, bool]:
        """Fetch a part; return whether another follows. Only attempts without progress count as failures."""
        about: Call[None] = Call("GET", path_of("downloads", "recordings", self.recording_id), type(None))
        failures = 0
        while True:
            before = sink.position
            reply = yield from self._attempt(number, sink)
            if isinstance(reply, exchange.HttpResponse) and reply.status in (200, 206) and sink.is_whole:
                return _next_of(reply.headers) is not None
            failures = 1 if sink.position > before else failures + 1
            error = _error_of(about, reply)
            error.attempts = failures
            if not exchange.is_retryable(error) or failures >= means.policy.max_attempts:
                raise error
            yield exchange.Pause(means.policy.wait_s(failures, error.retry_after_s, means.jitter()))

    def _attempt(
        self, number: int, sink: _Sink
    ) -> Generator[exchange.Step, Any, exchange.HttpResponse | exchange.NoResponse]:
        link: DownloadUrl = yield read(path_of("recordings", self.recording_id, "download-url"), DownloadUrl)
        url = link.url
        reply: exchange.HttpResponse | exchange.NoResponse
        for _ in range(number - 1):  # the response of each part links to the next
            reply = yield exchange.Fetch("HEAD", url, _HEADERS, _is_success, _ignore)
            if isinstance(reply, exchange.NoResponse) or not _is_success(reply.status, {}):
                return reply
            following = _next_of(reply.headers)
            if following is None:
                raise ValueError(f"this recording has no part {number}")
            url = following
        span = {"Range": f"bytes={sink.position}-"} if sink.position else {}
        reply = yield exchange.Fetch("GET", url, _HEADERS | span, sink.is_wanted, sink.take)
        return reply


def _is_success(status: int, _: Mapping[str, str]) -> bool:
    return status == 200


def _ignore(_: bytes) -> None:
    """Take the body of a HEAD, which has none."""


def _error_of(about: Call[None], reply: exchange.HttpResponse | exchange.NoResponse) -> MeetcoreError:
    if isinstance(reply, exchange.HttpResponse) and reply.status in (200, 206):
        reply = exchange.NoResponse("the download ended before its end")
    try:
        exchange.read_response(about, reply)
    except MeetcoreError as error:
        return error
    raise AssertionError("a success is no error")  # pragma: no cover


@frozen
class NoteWait:
    """See `NoteOperations.wait`. A list may be empty at first; its newest note counts."""

    ask: Call[Note] | Call[Page[Note]]
    timeout_s: float

    def steps(self, means: exchange.Means) -> exchange.Steps[Note]:
        """Poll until the note is completed, has failed, or time is up."""
        ends_at, pause_s = means.clock() + self.timeout_s, _FIRST_PAUSE_S
        while True:
            found: Note | Page[Note] = yield self.ask
            note = found if isinstance(found, Note) else next(iter(found.data), None)
            if note is not None and note.status == NoteStatus.COMPLETED:
                return note
            if note is not None and note.status == NoteStatus.FAILED:
                raise NoteFailed(note.error or "the note failed", note=note)
            left_s = ends_at - means.clock()
            if left_s <= 0:
                raise WaitTimedOut(f"no completed note within {self.timeout_s:g} s", note=note)
            yield exchange.Pause(min(pause_s, left_s))
            pause_s = min(_LONGEST_PAUSE_S, pause_s * _GROWTH)
