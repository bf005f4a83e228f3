"""States of a sandbox meeting after its creation, its sessions, and simulated failures with real delays.

::

    (nothing yet) ─→ STARTED ←→ LEFT ─→ REMOVED
        │               └──→ ENDED ←──┘
        ├──────────────────────→ ENDED
        └──→ REMOVED

Creation stores nothing, so a meeting that was only created has no state. Each start begins a session; leaving
or ending the meeting ends it. ENDED is for good: a meeting that ends before anyone started it has a session
that ends at once, so that a demonstration gets a recording.

A developer requests a failure of the provider in a meeting's title, for its creation, in any process:

====================  ===========================================================================
title contains        the provider
====================  ===========================================================================
``[sandbox:refuse]``  refuses at once; nothing is made (502)
``[sandbox:hang]``    never answers; nothing is made (502 after 10 s; the reconciler finds nothing
                      and undoes it)
``[sandbox:late]``    makes the meeting, answers after the time limit (502 after 10 s; the
                      reconciler finds the meeting and finishes it); ``timeout`` is the same
``[sandbox:drop]``    makes the meeting, breaks the connection before the answer (502 at once,
                      then as above)
``[sandbox:lost]``    never gets the request; the outcome is unknown (502 at once, then undone)
====================  ===========================================================================

A test plans them for each kind of call, including a host that is ``full`` for the day. A title cannot request
that one: the next host would get the same title, and all hosts would be marked full.
"""

import re
from collections import defaultdict, deque
from datetime import datetime
from enum import StrEnum
from typing import Final, Protocol
from uuid import UUID

from attrs import frozen

from meetcore.domain.meetings.views import ProviderOrder

MAX_SESSIONS: Final = 100
"""How many sessions of one meeting can be started: anyone with the link can."""


class SandboxMeetingState(StrEnum):
    """The last state."""

    STARTED = "started"
    LEFT = "left"
    ENDED = "ended"
    REMOVED = "removed"


STEPS: Final = frozenset(
    {
        (None, SandboxMeetingState.STARTED),
        (None, SandboxMeetingState.ENDED),
        (None, SandboxMeetingState.REMOVED),
        (SandboxMeetingState.STARTED, SandboxMeetingState.LEFT),
        (SandboxMeetingState.STARTED, SandboxMeetingState.ENDED),
        (SandboxMeetingState.LEFT, SandboxMeetingState.STARTED),
        (SandboxMeetingState.LEFT, SandboxMeetingState.ENDED),
        (SandboxMeetingState.LEFT, SandboxMeetingState.REMOVED),
    }
)
"""From, to. Other pairs are illegal and change nothing."""


@frozen
class SandboxSession:
    """A session; `removed_files` are the files of its recording that were removed."""

    id: str
    started_at: datetime
    ended_at: datetime | None = None
    removed_files: frozenset[str] = frozenset()


def session_id(provider_meeting_id: str, number: int) -> str:
    """Return the id of a meeting's session, numbered from 1."""
    return f"{provider_meeting_id}-{number}"


class SandboxState(Protocol):
    """Stores states and host keys; of concurrent changes one wins. May raise `StoreUnavailable`."""

    async def get(self, provider_meeting_id: str) -> SandboxMeetingState | None:
        """Return the last state, `None` before the first."""

    async def put(
        self, provider_meeting_id: str, state: SandboxMeetingState, at: datetime | None = None
    ) -> bool:
        """Take a step of `STEPS`, now or `at` an earlier instant; return whether this call took it."""

    async def host_key(self, provider_user_id: str) -> str | None:
        """Return a host's key, `None` before the first."""

    async def put_host_key(self, provider_user_id: str, host_key: str) -> None: ...

    async def sessions(self, provider_meeting_id: str) -> tuple[SandboxSession, ...]:
        """Return the sessions of a meeting in the order of time."""

    async def remove_file(self, provider_meeting_id: str, provider_file_id: str) -> None:
        """Record that a file was removed; idempotent."""


class SandboxFault(StrEnum):
    """A failure of a call."""

    REFUSE = "refuse"
    HANG = "hang"
    LATE = "late"
    DROP = "drop"
    LOST = "lost"
    FULL = "full"

    @property
    def does_the_work(self) -> bool:
        """Whether the work is done in spite of the fault."""
        return self in (SandboxFault.LATE, SandboxFault.DROP)

    @property
    def keeps_waiting(self) -> bool:
        """Whether no answer comes within the caller's time limit."""
        return self in (SandboxFault.HANG, SandboxFault.LATE)


class SandboxCall(StrEnum):
    """A kind of call."""

    CREATE = "create"
    FIND = "find"
    REMOVE = "remove"
    END = "end"
    SET_HOST_KEY = "set_host_key"
    FIND_FILES = "find_files"
    OPEN_FILE = "open_file"
    REMOVE_FILE = "remove_file"


_BY_WORD: Final = {fault.value: fault for fault in SandboxFault if fault is not SandboxFault.FULL} | {
    "timeout": SandboxFault.LATE  # an older name
}
_IN_TITLE: Final = re.compile(rf"\[sandbox:({'|'.join(_BY_WORD)})\]")


def fault_in_title(title: str) -> SandboxFault | None:
    """Return the first fault that a title names."""
    match = _IN_TITLE.search(title)
    return None if match is None else _BY_WORD[match[1]]


class SandboxFaults:
    """Planned faults by kind of call, in the memory of one process."""

    def __init__(self) -> None:
        self._planned: defaultdict[SandboxCall, deque[SandboxFault]] = defaultdict(deque)
        self._unmade: set[UUID] = set()

    def plan(self, call: SandboxCall, *faults: SandboxFault) -> None:
        """Plan faults for the next calls of this kind, in order; `FULL` is for creations alone."""
        if SandboxFault.FULL in faults and call is not SandboxCall.CREATE:
            raise ValueError(f"{SandboxFault.FULL} is a fault of {SandboxCall.CREATE}, not of {call}")
        self._planned[call].extend(faults)

    def due(self, call: SandboxCall) -> SandboxFault | None:
        """Take the fault due for this call."""
        planned = self._planned[call]
        return planned.popleft() if planned else None

    def due_for(self, order: ProviderOrder) -> SandboxFault | None:
        """Take the fault due for this creation: a planned one, else its title's. The latest one decides."""
        fault = self.due(SandboxCall.CREATE) or fault_in_title(order.title)
        if fault is None or fault.does_the_work:
            self._unmade.discard(order.meeting_id)
        else:
            self._unmade.add(order.meeting_id)
        return fault

    def lets_exist(self, order: ProviderOrder) -> bool:
        """Return whether a meeting exists: its creation was neither refused nor lost."""
        fault = fault_in_title(order.title)
        return order.meeting_id not in self._unmade and (fault is None or fault.does_the_work)
