"""Download a recording without an API key, by a link that is valid for 15 minutes.

A recording that consists of several segments has a part for each. Whether it is still there is looked up when
a link is made and at each use: retention and deletion are not outlived by a link.

Owns which file a link gives access to. The HTTP adapter streams it from the provider.
"""

from datetime import datetime
from typing import Final
from uuid import UUID

from attrs import evolve, field, frozen

from meetcore.domain.errors import Gone, NotFound
from meetcore.domain.notes.download_links import LINK_LIFETIME, DownloadLink, is_over, is_signed_by, sign_link
from meetcore.domain.notes.recordings import Recording, RecordingFile, RecordingStatus, is_gone, segments
from meetcore.ports.queries import Queries
from meetcore.usecases.missing import missing

_UNKNOWN: Final = "This link leads to no recording. Copy the whole of it, or ask for another."


@frozen
class SignedLink:
    """A link and its signature."""

    link: DownloadLink
    signature: str = field(repr=False)


@frozen
class Download:
    """A file that may be fetched: part `link.part` of `parts`. `next_part` leads to the one behind it."""

    link: DownloadLink
    provider: str
    file: RecordingFile
    parts: int
    next_part: SignedLink | None


@frozen
class DownloadRecording:
    """Creates and verifies links.

    `keys` are secret bytes for this use alone: the first signs, all are accepted.
    """

    queries: Queries
    keys: tuple[bytes, ...] = field(repr=False)

    async def link(self, account_id: UUID, recording_id: UUID, now: datetime) -> SignedLink:
        """A link to the first part of an account's recording, good for 15 minutes from now.

        Raises:
            NotFound: the account has no such recording.
            Gone: it was deleted, or its retention is over.
        """
        recording = await self.queries.find_recording(account_id, recording_id)
        if recording is None:
            raise await missing(self.queries, account_id, recording_id, "recording")
        _check(recording, now, "No recording with this id.")
        return self._signed(_first_part(account_id, recording_id, now))

    def links(self, recording: Recording, now: datetime) -> list[SignedLink]:
        """A link to each part of a recording, good for 15 minutes from now; none where its files are gone."""
        if recording.status is RecordingStatus.MEASURING or is_gone(recording, now):
            return []
        first = _first_part(recording.account_id, recording.id, now)
        return [self._signed(evolve(first, part=number)) for number in range(1, len(segments(recording)) + 1)]

    async def __call__(self, signed: SignedLink, now: datetime) -> Download:
        """The file that a link leads to.

        A deleted recording is reported before an expired link: a new link would not help.

        Raises:
            NotFound: it is not a link of ours, or there is no such part.
            Gone: the recording was deleted, its retention is over, or the link is.
        """
        link = signed.link
        if not is_signed_by(self.keys, link, signed.signature):
            raise NotFound(_UNKNOWN)
        recording = _check(
            await self.queries.find_recording(link.account_id, link.recording_id), now, _UNKNOWN
        )
        if is_over(link, now.timestamp()):
            raise Gone("This link is over: it worked for 15 minutes. Ask for another.")
        found = segments(recording)
        if link.part > len(found):
            raise NotFound(_UNKNOWN)
        is_last = link.part == len(found)
        behind = None if is_last else self._signed(evolve(link, part=link.part + 1))
        return Download(link, recording.provider, found[link.part - 1].download, len(found), behind)

    def _signed(self, link: DownloadLink) -> SignedLink:
        return SignedLink(link, sign_link(self.keys[0], link))


def _first_part(account_id: UUID, recording_id: UUID, now: datetime) -> DownloadLink:
    return DownloadLink(account_id, recording_id, 1, int((now + LINK_LIFETIME).timestamp()))


def _check(recording: Recording | None, now: datetime, unknown: str) -> Recording:
    if recording is None or recording.status is RecordingStatus.MEASURING:
        raise NotFound(unknown)
    # Its retention may be over before a worker has expired it.
    if is_gone(recording, now):
        raise Gone("This recording was deleted, or is past its retention.")
    return recording
