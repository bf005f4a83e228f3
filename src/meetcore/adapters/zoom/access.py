"""Which account at Zoom, and how it is reached. Owns no connection."""

from attrs import field, frozen

__all__ = ["ZoomAccess"]


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
