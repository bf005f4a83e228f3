"""Zoom as the provider: its API behind the port, and its events.

`provider` fills `VideoProvider` and `recording_files` fills `RecordingFiles`, over `calls` (one request, its
repeats and its outcomes) and `tokens` (who we are). Zoom's own texts go no further than the log.
"""

from meetcore.adapters.zoom.access import ZoomAccess
from meetcore.adapters.zoom.provider import ZoomProvider
from meetcore.adapters.zoom.recording_files import ZoomRecordingFiles
from meetcore.adapters.zoom.tokens import check_credentials

__all__ = ["ZoomAccess", "ZoomProvider", "ZoomRecordingFiles", "check_credentials"]
