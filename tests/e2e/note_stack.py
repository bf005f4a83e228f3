"""The stack for notes in one test: a database, a broker, Zoom and an AI provider of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from attrs import frozen

from tests.e2e.ai_stack import AiStack, ai_stack
from tests.e2e.receiver import Receiver
from tests.e2e.zoom_stack import ZoomStack, zoom_stack
from tests.support import servers
from tests.support.program import Launcher, Site


@frozen
class NoteStacks:
    """Opens stacks for notes: a database, a broker, Zoom and an AI provider."""

    launcher: Launcher
    server_url: str
    receiver: Receiver
    directory: Path

    @contextmanager
    def open(
        self, *, zoom_s: float = 0.0, ai_s: float = 0.0, **settings: object
    ) -> Iterator[tuple[Site, ZoomStack, AiStack]]:
        """Open a stack without hosts and running programs, with latencies in seconds per call."""
        with ExitStack() as stack:
            url = stack.enter_context(servers.owned_database(self.server_url))
            zoom, ai = stack.enter_context(zoom_stack(zoom_s)), stack.enter_context(ai_stack(ai_s))
            broker = stack.enter_context(servers.own_redis(self.directory))
            own = {"broker_url": broker, "media_cpu_percent": 100}
            all_settings = self.receiver.settings | zoom.settings | ai.settings | own | settings
            yield Site(self.launcher, url, all_settings), zoom, ai
