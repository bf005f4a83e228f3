"""The sandbox's state, in memory and in a database."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from attrs import evolve

from meetcore.adapters.postgres.migrate import migrate
from meetcore.adapters.postgres.pool import make_pool
from meetcore.adapters.sandbox import SandboxMeetingState, SandboxSession
from meetcore.adapters.sandbox.postgres_state import PostgresSandboxState
from meetcore.adapters.sandbox.state import STEPS, session_id


@asynccontextmanager
async def postgres_state(url: str) -> AsyncIterator[PostgresSandboxState]:
    """Migrate a database, and keep the state there."""
    migrate(url)
    pool = make_pool(url, min_size=0, max_size=8)
    await pool.open()
    try:
        yield PostgresSandboxState(pool)
    finally:
        await pool.close()


class MemorySandboxState:
    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._now = now
        self._states: dict[str, SandboxMeetingState] = {}
        self._host_keys: dict[str, str] = {}
        self._sessions: dict[str, list[SandboxSession]] = {}

    async def get(self, provider_meeting_id: str) -> SandboxMeetingState | None:
        return self._states.get(provider_meeting_id)

    async def put(
        self, provider_meeting_id: str, state: SandboxMeetingState, at: datetime | None = None
    ) -> bool:
        if (self._states.get(provider_meeting_id), state) not in STEPS:
            return False
        self._states[provider_meeting_id] = state
        self._hold(provider_meeting_id, state, at or self._now())
        return True

    def _hold(self, name: str, state: SandboxMeetingState, now: datetime) -> None:
        sessions = self._sessions.setdefault(name, [])
        if state is not SandboxMeetingState.STARTED and sessions and sessions[-1].ended_at is None:
            sessions[-1] = evolve(sessions[-1], ended_at=now)
        is_over = state is SandboxMeetingState.ENDED
        if state is SandboxMeetingState.STARTED or (is_over and not sessions):
            id_ = session_id(name, len(sessions) + 1)
            sessions.append(SandboxSession(id_, now, now if is_over else None))

    async def host_key(self, provider_user_id: str) -> str | None:
        return self._host_keys.get(provider_user_id)

    async def put_host_key(self, provider_user_id: str, host_key: str) -> None:
        self._host_keys[provider_user_id] = host_key

    async def sessions(self, provider_meeting_id: str) -> tuple[SandboxSession, ...]:
        return tuple(self._sessions.get(provider_meeting_id, ()))

    async def remove_file(self, provider_meeting_id: str, provider_file_id: str) -> None:
        self._sessions[provider_meeting_id] = [
            evolve(one, removed_files=one.removed_files | {provider_file_id})
            for one in self._sessions[provider_meeting_id]
        ]
