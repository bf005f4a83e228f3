"""Faults on demand: what a bad day of a third party looks like.

Two ways to ask for one. A developer writes it into a meeting's title, and the making of that meeting
meets it, whichever process makes it:

=====================  ==========================================================================
title contains         the provider
=====================  ==========================================================================
``[sandbox:refuse]``   says no; nothing is made (the caller sees 502 at once)
``[sandbox:timeout]``  makes the meeting, and its answer comes too late (502, then the reconciler
                       finds the meeting and finishes it)
``[sandbox:drop]``     makes the meeting, and the connection breaks before the answer (as above)
``[sandbox:lost]``     never hears of it, and nobody can tell (502, then the reconciler finds
                       nothing and undoes it)
=====================  ==========================================================================

A test plans them one by one for each kind of call. Owns which fault is due; what a fault does is the
provider's business.
"""

import re
from collections import defaultdict, deque
from enum import StrEnum
from uuid import UUID

from meetcore.ports.video_provider import ProviderOrder

__all__ = ["SandboxCall", "SandboxFault", "SandboxFaults", "fault_in_title"]


class SandboxFault(StrEnum):
    """How a call goes wrong."""

    REFUSE = "refuse"
    TIMEOUT = "timeout"
    DROP = "drop"
    LOST = "lost"

    @property
    def does_the_work(self) -> bool:
        """Whether the provider did what was asked all the same."""
        return self in (SandboxFault.TIMEOUT, SandboxFault.DROP)


class SandboxCall(StrEnum):
    """What is asked of the provider."""

    CREATE = "create"
    FIND = "find"
    REMOVE = "remove"
    END = "end"


_IN_TITLE = re.compile(rf"\[sandbox:({'|'.join(SandboxFault)})\]")


def fault_in_title(title: str) -> SandboxFault | None:
    """The first fault that a title asks for; a word that names none is just a title."""
    asked = _IN_TITLE.search(title)
    return None if asked is None else SandboxFault(asked[1])


class SandboxFaults:
    """Faults that wait for the next calls of each kind, in the memory of one process."""

    def __init__(self) -> None:
        self._planned: defaultdict[SandboxCall, deque[SandboxFault]] = defaultdict(deque)
        self._unmade: set[UUID] = set()

    def plan(self, call: SandboxCall, *faults: SandboxFault) -> None:
        """Let the next calls of this kind meet these faults, one each, in this order."""
        self._planned[call].extend(faults)

    def due(self, call: SandboxCall) -> SandboxFault | None:
        """Take the fault that this call meets, if any."""
        planned = self._planned[call]
        return planned.popleft() if planned else None

    def due_for(self, order: ProviderOrder) -> SandboxFault | None:
        """Take the fault that the making of this meeting meets: a planned one, else its title's.

        The meeting is there or not as its latest making says; those that went well are not kept.
        """
        fault = self.due(SandboxCall.CREATE) or fault_in_title(order.title)
        if fault is None or fault.does_the_work:
            self._unmade.discard(order.meeting_id)
        else:
            self._unmade.add(order.meeting_id)
        return fault

    def lets_exist(self, order: ProviderOrder) -> bool:
        """Whether a meeting can be there at all: none whose making was refused or lost is."""
        fault = fault_in_title(order.title)
        return order.meeting_id not in self._unmade and (fault is None or fault.does_the_work)
