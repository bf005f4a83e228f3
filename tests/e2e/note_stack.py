"""Where notes are written for one test: a database, a broker, Zoom and an AI provider of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from attrs import frozen

from meetcore.adapters.postgres.migrate import migrate
from tests import servers
from tests.e2e.ai_stack import AiStack, ai_stack
from tests.e2e.program import Launcher, Site
from tests.e2e.receiver import Receiver
from tests.e2e.zoom_stack import ZoomStack, zoom_stack


@frozen
class NoteStacks:
    """What such a place is made with."""

    launcher: Launcher
    server_url: str
    receiver: Receiver
    directory: Path

    @contextmanager
    def open(
        self, *, zoom_s: float = 0.0, ai_s: float = 0.0, **settings: object
    ) -> Iterator[tuple[Site, ZoomStack, AiStack]]:
        """A place without hosts, in which no process of the program runs yet.

        Args:
            zoom_s: the seconds that every call takes at Zoom.
            ai_s: the seconds that every call takes at the AI provider.
            settings: what every process is set to besides. Media may take a whole processor.
        """
        with ExitStack() as stack:
            url = stack.enter_context(servers.fresh_database(self.server_url))
            migrate(url)
            zoom, ai = stack.enter_context(zoom_stack(zoom_s)), stack.enter_context(ai_stack(ai_s))
            broker = stack.enter_context(servers.own_redis(self.directory))
            own = {"broker_url": broker, "media_cpu_percent": 100}
            told = self.receiver.settings | zoom.settings | ai.settings | own | settings
            yield Site(self.launcher, url, told), zoom, ai
