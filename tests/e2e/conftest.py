"""The running program, with a database for each module, of a role that owns it and is no superuser."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.note_stack import NoteStacks
from tests.e2e.outbox import close_connections
from tests.e2e.receiver import Receiver, receiving
from tests.support import servers
from tests.support.program import Launcher, Site

# Of an image, where one was made: see scripts/try_packages.py.
collect_ignore = [] if "MEETCORE_TEST_IMAGE" in os.environ else ["test_image.py"]

# Started first, so that none of them is left running alone at the end.
LONGEST = (
    "note_steps", "note_storm", "pages", "agents", "metrics", "note_crowd", "delivery_storm", "fuzz",
    "notes", "client_wheel", "passkeys", "keyboard", "restore", "neighbours", "drain", "meeting_steps",
    "crash", "traces", "flows", "database_away", "cli", "database_frozen", "dev", "parent_killed",
    "kit_outside", "delivery", "meeting_storm", "logs", "long_recording",
)  # fmt: skip


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order test files so that parallel processes finish soonest; behind PgBouncer, drop tests of a direct
    connection.
    """
    if "MEETCORE_TEST_POOLER_PORT" in os.environ:
        direct = [item for item in items if item.get_closest_marker("direct")]
        config.hook.pytest_deselected(items=direct)
        items[:] = [item for item in items if item not in direct]
    place = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path.stem.removeprefix("test_"), len(LONGEST)))


@pytest.fixture(scope="session")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launcher]:
    launcher = Launcher(tmp_path_factory.mktemp("program"))
    yield launcher
    launcher.close()


@pytest.fixture(scope="module", autouse=True)
def _connections() -> Iterator[None]:
    yield
    close_connections()


@pytest.fixture(scope="module")
def site(launcher: Launcher, postgres_server_url: str) -> Iterator[Site]:
    with servers.owned_database(postgres_server_url) as url:
        site = Site(launcher, url)
        site.cli("host", "add", "--provider-user-id", "host-1", "--capacity", 1000)
        yield site


@pytest.fixture
def receiver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Receiver]:
    with receiving(tmp_path_factory.mktemp("receiver")) as receiver:
        yield receiver


@pytest.fixture
def note_places(
    launcher: Launcher, postgres_server_url: str, receiver: Receiver, tmp_path: Path
) -> NoteStacks:
    return NoteStacks(launcher, postgres_server_url, receiver, tmp_path)
