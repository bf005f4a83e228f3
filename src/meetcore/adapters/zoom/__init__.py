"""Zoom as a video provider: its API, its recording files and its webhooks.

`provider` implements `VideoProvider` and `recording_files` implements `RecordingFiles`, over `calls` (token,
requests, repeats, outcomes); `account` is what an operator has to set there. Zoom's own texts appear in the
log only.
"""

from meetcore.adapters.zoom.calls import ZoomAccess
from meetcore.adapters.zoom.provider import ZoomProvider
from meetcore.adapters.zoom.recording_files import ZoomRecordingFiles

__all__ = ["ZoomAccess", "ZoomProvider", "ZoomRecordingFiles"]
