"""The downloads that run in this process, counted for each link and each account."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar
from uuid import UUID

from attrs import define, field

from meetcore.domain.notes.download_limits import DownloadLimits
from meetcore.domain.notes.download_links import DownloadLink

T = TypeVar("T")


@define
class DownloadStreams:
    """Counts streams while they run."""

    limits: DownloadLimits = field(factory=DownloadLimits)
    _of_link: Counter[DownloadLink] = field(factory=Counter, init=False, repr=False)
    _of_account: Counter[UUID] = field(factory=Counter, init=False, repr=False)

    @contextmanager
    def one(self, link: DownloadLink) -> Iterator[None]:
        """Count a stream for as long as the context lasts, however it ends.

        Raises:
            TooManyDownloads: the link or its account has as many as it may have.
        """
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
        """How many run."""
        return self._of_account.total()


def _take_one(counts: Counter[T], name: T) -> None:
    counts[name] -= 1
    if not counts[name]:
        del counts[name]
