"""Which account at Zoom, how it is reached, and the log for operators. Owns no connection."""

from typing import Protocol

from attrs import field, frozen


class Log(Protocol):
    """A structlog logger or one like it."""

    def warning(self, event: str, /, **fields: object) -> object:
        """Write one line."""


@frozen
class ZoomAccess:
    """A server-to-server application of one account.

    `api_url` ends with the version of the API and without a slash.
    """

    account_id: str
    client_id: str
    client_secret: str = field(repr=False)
    api_url: str = "https://api.zoom.us/v2"
    oauth_url: str = "https://zoom.us/oauth/token"
