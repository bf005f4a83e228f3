"""The sandbox's state in memory."""

from collections.abc import Callable
from datetime import UTC, datetime

from attrs import evolve

from meetcore.adapters.sandbox import SandboxEnding, SandboxMeetingState
from meetcore.adapters.sandbox.state import STEPS


class MemorySandboxState:
    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._now = now
        self._states: dict[str, SandboxMeetingState] = {}
        self._host_keys: dict[str, str] = {}
        self._endings: dict[str, SandboxEnding] = {}

    async def get(self, provider_meeting_id: str) -> SandboxMeetingState | None:
        return self._states.get(provider_meeting_id)

    async def put(self, provider_meeting_id: str, state: SandboxMeetingState) -> bool:
        if (self._states.get(provider_meeting_id), state) not in STEPS:
            return False
        self._states[provider_meeting_id] = state
        if state is SandboxMeetingState.ENDED:
            self._endings[provider_meeting_id] = SandboxEnding(self._now())
        return True

    async def host_key(self, provider_user_id: str) -> str | None:
        return self._host_keys.get(provider_user_id)

    async def put_host_key(self, provider_user_id: str, host_key: str) -> None:
        self._host_keys[provider_user_id] = host_key

    async def ending(self, provider_meeting_id: str) -> SandboxEnding | None:
        return self._endings.get(provider_meeting_id)

    async def remove_file(self, provider_meeting_id: str, provider_file_id: str) -> None:
        known = self._endings[provider_meeting_id]
        removed = known.removed_files | {provider_file_id}
        self._endings[provider_meeting_id] = evolve(known, removed_files=removed)
