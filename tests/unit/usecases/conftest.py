"""Every test here may use the store."""

import pytest

from tests.support.postgres_rig import PostgresRig
from tests.unit.usecases.access_harness import AccessHarness
from tests.unit.usecases.application import ApplicationHarness
from tests.unit.usecases.note_scenario import NoteScenario, note_asked


@pytest.fixture(autouse=True)
def _opened(use_case_store: PostgresRig) -> None:
    """Open it."""


@pytest.fixture
async def harness() -> ApplicationHarness:
    """An application with one account of 100 credits and one host."""
    return await ApplicationHarness().start()


@pytest.fixture
async def at() -> AccessHarness:
    """The same, with those who sign in."""
    return await AccessHarness().start()


@pytest.fixture
async def one() -> NoteScenario:
    """A meeting that was recorded, and a note asked for."""
    return await note_asked()
