"""A video provider on this machine: for development, for tests, for trying the service out.

`provider` makes, finds and ends meetings, `links` gives their addresses, `faults` simulates faults of a third
party, `state` and `postgres_state` store what happened to a meeting, `pages` is the join page that stands in
for the provider's own, `recording_files` has the one recording that every meeting gets. There is no video.
"""

from meetcore.adapters.sandbox.faults import SandboxCall, SandboxFault, SandboxFaults
from meetcore.adapters.sandbox.provider import SandboxProvider
from meetcore.adapters.sandbox.recording_files import SandboxRecordingFiles
from meetcore.adapters.sandbox.state import (
    MemorySandboxState,
    SandboxEnding,
    SandboxMeetingState,
    SandboxState,
)

__all__ = [
    "MemorySandboxState",
    "SandboxCall",
    "SandboxEnding",
    "SandboxFault",
    "SandboxFaults",
    "SandboxMeetingState",
    "SandboxProvider",
    "SandboxRecordingFiles",
    "SandboxState",
]
