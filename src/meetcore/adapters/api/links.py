"""The URLs of downloads, as the API returns them and the server routes them."""

from typing import Final
from urllib.parse import urlencode

from meetcore.usecases.download_recording import SignedLink

DOWNLOADS: Final = "/downloads/recordings"
"""The path under which downloads lie, outside the API."""


def download_url(base_url: str, signed: SignedLink) -> str:
    """Build the URL of a download link.

    Args:
        base_url: what the service is reached by from outside, without a final slash.
    """
    link = signed.link
    query = {
        "account": str(link.account_id), "part": link.part, "expires": link.expires,
        "signature": signed.signature,
    }  # fmt: skip
    return f"{base_url}{DOWNLOADS}/{link.recording_id}?{urlencode(query)}"
