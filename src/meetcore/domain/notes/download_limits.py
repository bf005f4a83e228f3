"""Limits on downloads: how many streams run at once, and how slow a reader may be.

A stream holds a socket, a connection to the provider and a task until its reader is done. Without
these limits the slow readers of one link take all of them.
"""

from typing import Final

from attrs import frozen

from meetcore.domain.errors import TooManyDownloads

__all__ = ["DownloadLimits"]

RETRY_AFTER_S: Final = 10


@frozen
class DownloadLimits:
    """The limits. A rate is measured over `rate_window_s` seconds that the service waited for the reader."""

    streams_per_link: int = 4
    streams_per_account: int = 20
    min_bytes_per_s: int = 16 * 1024
    rate_window_s: float = 60.0

    def check_streams(self, of_link: int, of_account: int) -> None:
        """Refuse another stream where so many run already.

        Raises:
            TooManyDownloads: the link or its account has as many as it may have.
        """
        if of_link >= self.streams_per_link:
            raise TooManyDownloads("of this link", self.streams_per_link, RETRY_AFTER_S)
        if of_account >= self.streams_per_account:
            raise TooManyDownloads("of this account", self.streams_per_account, RETRY_AFTER_S)

    def is_too_slow(self, taken_bytes: int, waited_s: float) -> bool:
        """Return whether a reader is to be cut off; never before a whole window was spent waiting for it.

        Waiting time counts, not total time: a slow source is not the reader's fault.
        """
        return waited_s >= self.rate_window_s and taken_bytes < self.min_bytes_per_s * waited_s
