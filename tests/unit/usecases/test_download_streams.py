"""The downloads that run, counted for each link and each account."""

from contextlib import ExitStack
from uuid import UUID

import pytest
from attrs import evolve

from meetcore.domain.errors import TooManyDownloads
from meetcore.domain.notes.download_limits import DownloadLimits
from meetcore.domain.notes.download_links import DownloadLink
from meetcore.usecases.download_streams import DownloadStreams

LINK = DownloadLink(UUID(int=1), UUID(int=2), 1, 1_800_000_000)


def test_a_link_has_four_and_an_account_twenty() -> None:
    streams = DownloadStreams()
    with ExitStack() as stack:
        for part in range(1, 6):
            for _ in range(4):
                stack.enter_context(streams.one(evolve(LINK, part=part)))
        assert len(streams) == 20
        for part in (1, 6):
            with pytest.raises(TooManyDownloads), streams.one(evolve(LINK, part=part)):
                pass
        with streams.one(evolve(LINK, account_id=UUID(int=9))):
            pass
    assert len(streams) == 0


def test_a_stream_that_is_over_or_broke_makes_room() -> None:
    streams = DownloadStreams(DownloadLimits(streams_per_link=1, streams_per_account=1))
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), streams.one(LINK):
            raise ZeroDivisionError
        with streams.one(LINK), pytest.raises(TooManyDownloads), streams.one(LINK):
            pass
    assert not streams._of_link
    assert not streams._of_account
