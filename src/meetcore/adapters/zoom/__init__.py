"""Zoom as the provider: its API behind the port, and its events.

`provider` fills `VideoProvider` over `calls` (one request, its repeats and its outcomes) and `tokens` (who we
are). Nothing of Zoom's own words goes further than the log.
"""

from meetcore.adapters.zoom.access import ZoomAccess
from meetcore.adapters.zoom.provider import ZoomProvider

__all__ = ["ZoomAccess", "ZoomProvider"]
