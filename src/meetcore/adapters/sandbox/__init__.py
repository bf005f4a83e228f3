"""A simulated video provider for development and tests; there is no video.

`provider` makes, finds and ends meetings, `state` has their states and simulates failures, `postgres_state`
stores states and payments, `pages` is the join page, `recording_files` has the recording of every session.
`gateway` is a payment gateway without money, `payment_pages` are its pages.
"""

from meetcore.adapters.sandbox.provider import SandboxProvider
from meetcore.adapters.sandbox.recording_files import SandboxRecordingFiles
from meetcore.adapters.sandbox.state import (
    SandboxCall,
    SandboxFault,
    SandboxFaults,
    SandboxMeetingState,
    SandboxSession,
    SandboxState,
)  # fmt: skip

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
