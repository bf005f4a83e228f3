"""A simulated video provider for development and tests; there is no video.

`provider` makes, finds and ends meetings, `faults` simulates failures, `state` and `postgres_state` store
states, `pages` is the join page, `recording_files` has the recording of every session. `gateway` is a payment
gateway without money, `payment_pages` are its pages.
"""

from meetcore.adapters.sandbox.faults import SandboxCall, SandboxFault, SandboxFaults
from meetcore.adapters.sandbox.provider import SandboxProvider
from meetcore.adapters.sandbox.recording_files import SandboxRecordingFiles
from meetcore.adapters.sandbox.state import SandboxMeetingState, SandboxSession, SandboxState

__all__ = [
    "SandboxCall",
    "SandboxFault",
    "SandboxFaults",
    "SandboxMeetingState",
    "SandboxProvider",
    "SandboxRecordingFiles",
    "SandboxSession",
    "SandboxState",
]
