"""Recordings of meetings: what files a provider has of one.

Owns what a file is. Refuses to fetch, to measure and to price.
"""

from datetime import datetime
from enum import StrEnum

from attrs import field, frozen

__all__ = ["FileKind", "RecordingFile"]


class FileKind(StrEnum):
    """What is in a file of a recording."""

    VIDEO = "video"
    AUDIO = "audio"
    TRANSCRIPT = "transcript"


@frozen
class RecordingFile:
    """One file of a recording, as the provider names it.

    A meeting that was paused has several of each kind; `starts_at` and `ends_at` tell which belong
    together. They are the provider's word and include pauses. `url` opens the file for whoever bears the
    provider's token.
    """

    provider_file_id: str
    kind: FileKind
    size_bytes: int
    starts_at: datetime
    ends_at: datetime
    url: str = field(repr=False)
