"""Downloading a recording: all parts into files, or one part into an open file, resumed where it broke off.

A part goes into a file of another name first, so that a file of the final name is always whole. Each attempt
takes a link of its own, as links are over after 15 minutes, and asks for the bytes that are missing.
"""

import os
import re
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any, Final, Protocol
from uuid import uuid4

from attrs import define, frozen

from meetcore.client.calls import Call, Id, path_of, read
from meetcore.client.errors import MeetcoreError, UnexpectedResponse
from meetcore.client.exchange import HttpResponse, NoResponse, may_pass, understand
from meetcore.client.procedures import Fetch, Means, Pause, Step, Steps
from meetcore.client.records import Download, DownloadUrl

__all__ = ["RecordingDownload", "WritesBytes", "recording_download"]

_RANGE: Final = re.compile(r"bytes ([0-9]{1,18})-[0-9]{1,18}/([0-9]{1,18})", re.ASCII)
_LENGTH: Final = re.compile(r"[0-9]{1,18}", re.ASCII)
_NEXT: Final = re.compile(r'<([^<>]+)>\s*;\s*rel="?next"?', re.IGNORECASE)
# Bytes are counted as they are stored.
_HEADERS: Final = {"Accept": "*/*", "Accept-Encoding": "identity"}


class WritesBytes(Protocol):
    """A binary file that is open for writing."""

    def write(self, data: bytes, /) -> object:
        """Write, and return how many bytes were written, or None for all."""


def recording_download(
    recording_id: Id, to: "str | os.PathLike[str] | WritesBytes", part: int | None
) -> "RecordingDownload":
    """Describe a download.

    Raises:
        ValueError: the part or the place cannot be meant.
    """
    if part is not None and part < 1:
        raise ValueError("the first part is 1")
    if isinstance(to, str | os.PathLike):
        to = Path(to)
        if to.is_dir():
            raise ValueError("to is the path of a file, and this is a directory")
    return RecordingDownload(recording_id, to, part)


@define
class _Sink:
    """Takes the bytes of one part, from the position on that they are wanted from."""

    file: WritesBytes
    must_be_last: bool
    position: int = 0
    size: int | None = None
    skipped: int = 0

    def is_wanted(self, status: int, headers: Mapping[str, str]) -> bool:
        """Whether an answer goes on where the last one broke off.

        Raises:
            ValueError: more parts follow, and no part was chosen.
            UnexpectedResponse: it is another file, or another part of it.
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
            raise UnexpectedResponse(
                "the recording is another one than when its download began", status=status
            )
        self.size, self.skipped = size, self.position - first
        return True

    def take(self, piece: bytes) -> None:
        """Write what is not there yet."""
        fresh = memoryview(piece)[self.skipped :]
        self.skipped = max(0, self.skipped - len(piece))
        while fresh:
            written = self.file.write(bytes(fresh))
            count = written if isinstance(written, int) else len(fresh)
            self.position += count
            fresh = fresh[count:]

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing."""
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

    def steps(self, means: Means) -> Steps[Download]:
        """Download every part that is wanted."""
        if not isinstance(self.to, Path):
            sink = _Sink(self.to, must_be_last=self.part is None)
            has_more = yield from self._part(self.part or 1, sink, means)
            return Download(sink.position, (), has_more)
        number, size_bytes, paths, has_more = self.part or 1, 0, [], True
        while has_more:
            path = self.to if number == (self.part or 1) else _numbered(self.to, number)
            sink, has_more = yield from self._file(number, path, means)
            size_bytes, number = size_bytes + sink.position, number + 1
            paths.append(path)
            if self.part is not None:
                break
        return Download(size_bytes, tuple(paths), has_more)

    def _file(self, number: int, path: Path, means: Means) -> Generator[Step, Any, tuple[_Sink, bool]]:
        partial = path.with_name(f".{path.name}.{uuid4().hex}.part")
        try:
            with partial.open("xb") as file:
                sink = _Sink(file, must_be_last=False)
                has_more = yield from self._part(number, sink, means)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
        return sink, has_more

    def _part(self, number: int, sink: _Sink, means: Means) -> Generator[Step, Any, bool]:
        """Fetch a part whole and return whether another one follows.

        An attempt that made progress does not count against the limit of failures.
        """
        about: Call[None] = Call("GET", path_of("downloads", "recordings", self.recording_id), type(None))
        failures = 0
        while True:
            before = sink.position
            reply = yield from self._attempt(number, sink)
            if isinstance(reply, HttpResponse) and reply.status in (200, 206) and sink.is_whole:
                return _next_of(reply.headers) is not None
            failures = 1 if sink.position > before else failures + 1
            error = _error_of(about, reply)
            error.attempts = failures
            if not may_pass(error) or failures >= means.policy.max_attempts:
                raise error
            yield Pause(means.policy.wait_s(failures, error.retry_after_s, means.jitter()))

    def _attempt(self, number: int, sink: _Sink) -> Generator[Step, Any, HttpResponse | NoResponse]:
        link: DownloadUrl = yield read(path_of("recordings", self.recording_id, "download-url"), DownloadUrl)
        url: str | None = link.url
        reply: HttpResponse | NoResponse
        for _ in range(number - 1):  # each part's answer leads to the next one
            assert url is not None
            reply = yield Fetch("HEAD", url, _HEADERS, _is_success, _ignore)
            if isinstance(reply, NoResponse) or not _is_success(reply.status, {}):
                return reply
            url = _next_of(reply.headers)
            if url is None:
                raise ValueError(f"this recording has no part {number}")
        assert url is not None
        span = {"Range": f"bytes={sink.position}-"} if sink.position else {}
        reply = yield Fetch("GET", url, _HEADERS | span, sink.is_wanted, sink.take)
        return reply


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.stem}-{number}{path.suffix}")


def _is_success(status: int, _: Mapping[str, str]) -> bool:
    return status == 200


def _ignore(_: bytes) -> None:
    """A HEAD has no body."""


def _error_of(about: Call[None], reply: HttpResponse | NoResponse) -> MeetcoreError:
    if isinstance(reply, HttpResponse) and reply.status in (200, 206):
        reply = NoResponse("the download ended before its end")
    try:
        understand(about, reply)
    except MeetcoreError as error:
        return error
    raise AssertionError("a success is no error")  # pragma: no cover
