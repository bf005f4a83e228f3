"""Downloads of recordings without an API key, by a link that is valid for 15 minutes.

A recording of several segments has a part for each. Whether it is still there is looked up when a link is
made and at each use: no link outlives retention or deletion. The HTTP adapter streams the file from the
provider.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from datetime import datetime
from math import inf
from typing import BinaryIO, Final, TypeVar
from uuid import UUID

from attrs import define, evolve, field, frozen

from meetcore.domain.errors import Gone, NotFound
from meetcore.domain.notes import downloads
from meetcore.domain.notes.recordings import Recording, RecordingFile, RecordingStatus, is_gone, segments
from meetcore.ports import observability, recording_files
from meetcore.ports.queries import Queries
from meetcore.usecases.requests.missing_records import missing

T = TypeVar("T")

_RESULTS: Final[dict[type[Exception], str]] = {
    recording_files.FilesUnavailable: "unavailable",
    recording_files.FileGone: "gone",
    recording_files.RangeUnsatisfiable: "out_of_range",
}


@frozen
class MeasuredFiles:
    """Calls other recording files. Fills `RecordingFiles`.

    `metrics` take each call and its result, and each file that broke off while it was read; `tracing` takes a
    span of each call. A file counts as opened once its first bytes can be read.
    """

    files: recording_files.RecordingFiles
    metrics: observability.Metrics = observability.NO_METRICS
    tracing: observability.Tracing = observability.NO_TRACING

    @property
    def provider(self) -> str:
        """Whose files these are."""
        return self.files.provider

    async def find(
        self, provider_meeting_id: str, session_ids: Iterable[str] = ()
    ) -> tuple[RecordingFile, ...]:
        """Return the files that are ready of a meeting's recording."""
        return await self._measured("files_find", self.files.find(provider_meeting_id, session_ids))

    @asynccontextmanager
    async def open(
        self, file: RecordingFile, wanted: recording_files.ByteRange | None = None
    ) -> AsyncIterator[recording_files.OpenFile]:
        """Read a file, or some of it."""
        async with AsyncExitStack() as stack:
            opening = stack.enter_async_context(self.files.open(file, wanted))
            opened = await self._measured("files_open", opening)
            chunks = self._read(opened.chunks)
            try:
                yield evolve(opened, chunks=chunks)
            finally:
                await chunks.aclose()

    async def remove(self, provider_meeting_id: str, file: RecordingFile) -> None:
        """Delete a file for good."""
        await self._measured("files_remove", self.files.remove(provider_meeting_id, file))

    async def _read(self, chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        clock = asyncio.get_running_loop().time
        start = clock()
        try:
            async for chunk in chunks:
                yield chunk
        except recording_files.FilesUnavailable:
            self._count("files_read", "unavailable", clock() - start)
            raise

    async def _measured(self, name: str, call: Awaitable[T]) -> T:
        clock = asyncio.get_running_loop().time
        start, result = clock(), "unknown"
        try:
            with self.tracing.span(f"provider {name}", provider=self.provider):
                found = await call
            result = "done"
        except tuple(_RESULTS) as error:
            result = next(name for kind, name in _RESULTS.items() if isinstance(error, kind))
            raise
        finally:
            self._count(name, result, clock() - start)
        return found

    def _count(self, name: str, result: str, duration_s: float) -> None:
        self.metrics.count(observability.PROVIDER_CALLS, name, result)
        self.metrics.observe(observability.PROVIDER_DURATION, duration_s, name)


COPY_WITHIN_S = 3600
"""An hour, and for a large file as long as it takes at the least rate: one that takes longer is trickled."""
LEAST_BYTES_PER_S = 512 * 1024


async def copy_file(
    files: recording_files.RecordingFiles, file: RecordingFile, into: BinaryIO, at_most: float = inf
) -> None:
    """Copy a provider's file of `at_most` bytes, chunk by chunk; raise as `RecordingFiles.open` does."""
    copied, within_s = 0, COPY_WITHIN_S + file.size_bytes / LEAST_BYTES_PER_S
    try:
        async with asyncio.timeout(within_s), files.open(file) as opened:
            async for chunk in opened.chunks:
                copied += await asyncio.to_thread(into.write, chunk)
                if copied > at_most:
                    raise recording_files.FilesUnavailable(f"a file of more than {at_most} bytes")
    except TimeoutError:
        raise recording_files.FilesUnavailable(f"a file that does not come within {within_s:.0f} s") from None
    into.seek(0)


@define
class DownloadStreams:
    """Counts streams while they run."""

    limits: downloads.DownloadLimits = field(factory=downloads.DownloadLimits)
    _of_link: Counter[downloads.DownloadLink] = field(factory=Counter, init=False, repr=False)
    _of_account: Counter[UUID] = field(factory=Counter, init=False, repr=False)

    @contextmanager
    def one(self, link: downloads.DownloadLink) -> Iterator[None]:
        """Count a stream while the context lasts; `TooManyDownloads` above the link's or account's limit."""
        account_id = link.account_id
        self.limits.check_streams(self._of_link[link], self._of_account[account_id])
        self._of_link[link] += 1
        self._of_account[account_id] += 1
        try:
            yield
        finally:
            _take_one(self._of_link, link)
            _take_one(self._of_account, account_id)

    def __len__(self) -> int:
        """Return how many run."""
        return self._of_account.total()


def _take_one(counts: Counter[T], name: T) -> None:
    counts[name] -= 1
    if not counts[name]:
        del counts[name]


_UNKNOWN: Final = "This link leads to no recording. Copy the whole of it, or ask for another."


@frozen
class SignedLink:
    """A link and its signature."""

    link: downloads.DownloadLink
    signature: str = field(repr=False)


@frozen
class Download:
    """A file that may be fetched: part `link.part` of `parts`. `next_part` leads to the one behind it."""

    link: downloads.DownloadLink
    provider: str
    file: RecordingFile
    parts: int
    next_part: SignedLink | None


@frozen
class DownloadRecording:
    """Creates and verifies links; the first of `keys`, secret bytes for this use alone, signs."""

    queries: Queries
    keys: tuple[bytes, ...] = field(repr=False)

    async def link(self, account_id: UUID, recording_id: UUID, now: datetime) -> SignedLink:
        """Return a link to the first part of an account's recording, good for 15 minutes from now.

        Raises `Gone`: it was deleted, or its retention is over (rule 7/410).
        """
        recording = await self.queries.find_recording(account_id, recording_id)
        if recording is None:
            raise await missing(self.queries, account_id, recording_id, "recording")
        _check(recording, now, "No recording with this id.")
        return self._signed(_first_part(account_id, recording_id, now))

    def links(self, recording: Recording, now: datetime) -> list[SignedLink]:
        """Return a link to each part of a recording, good for 15 minutes; none where its files are gone."""
        if recording.status is RecordingStatus.MEASURING or is_gone(recording, now):
            return []
        first = _first_part(recording.account_id, recording.id, now)
        return [self._signed(evolve(first, part=number)) for number in range(1, len(segments(recording)) + 1)]

    async def __call__(self, signed: SignedLink, now: datetime) -> Download:
        """Return the file that a link leads to.

        A deleted recording is reported before an expired link: a new link would not help.

        Raises:
            NotFound: it is not a link of ours, or there is no such part.
            Gone: the recording was deleted, its retention is over, or the link is (rule 7/410).
        """
        link = signed.link
        if not downloads.is_signed_by(self.keys, link, signed.signature):
            raise NotFound(_UNKNOWN)
        recording = _check(
            await self.queries.find_recording(link.account_id, link.recording_id), now, _UNKNOWN
        )
        if downloads.is_over(link, now.timestamp()):
            raise Gone("This link is over: it worked for 15 minutes. Ask for another.")
        found = segments(recording)
        if link.part > len(found):
            raise NotFound(_UNKNOWN)
        is_last = link.part == len(found)
        behind = None if is_last else self._signed(evolve(link, part=link.part + 1))
        return Download(link, recording.provider, found[link.part - 1].download, len(found), behind)

    def _signed(self, link: downloads.DownloadLink) -> SignedLink:
        return SignedLink(link, downloads.sign_link(self.keys[0], link))


def _first_part(account_id: UUID, recording_id: UUID, now: datetime) -> downloads.DownloadLink:
    return downloads.DownloadLink(
        account_id, recording_id, 1, int((now + downloads.LINK_LIFETIME).timestamp())
    )


def _check(recording: Recording | None, now: datetime, unknown: str) -> Recording:
    if recording is None or recording.status is RecordingStatus.MEASURING:
        raise NotFound(unknown)
    # Its retention may be over before a worker has expired it.
    if is_gone(recording, now):
        raise Gone("This recording was deleted, or is past its retention.")
    return recording
