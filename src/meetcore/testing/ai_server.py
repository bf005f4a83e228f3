"""A stand-in for an AI provider that speaks OpenAI's API, in a test or as a process of its own.

In a test::

    async with ai_stand_in() as ai:
        writer = OpenAiNoteWriter(
            AiAccess(ai.base_url, ai.models.api_key, ai.models.transcribes, ai.models.writes), log,
            now=clock.now,
        )
        ai.faults.plan(Fault("rate_limit", "completions"))

As a process, `python -m meetcore.testing.ai_server --port 8701` prints one line when it is ready;
`meetcore.testing.ai.admin` lists the paths by which another process reads and turns it.

Everything is in memory and gone with it. Standard library and attrs only.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from attrs import frozen

from meetcore.testing.ai.admin import AiAdmin
from meetcore.testing.ai.api import AiApi, Models, Tally
from meetcore.testing.ai.faults import Fault
from meetcore.testing.planned_faults import Faults
from meetcore.testing.wire import Reply, Request, serving

__all__ = ["AiStandIn", "Fault", "Models", "ai_stand_in"]


@frozen
class AiStandIn:
    """A stand-in under way.

    Attributes:
        url: where it is, without a path.
        api: what was asked of it.
    """

    url: str
    api: AiApi

    @property
    def base_url(self) -> str:
        """What stands for `https://api.openai.com/v1`."""
        return f"{self.url}/v1"

    @property
    def models(self) -> Models:
        """The key and the models that it knows."""
        return self.api.models

    @property
    def faults(self) -> Faults[Fault]:
        """What the next calls meet."""
        return self.api.faults

    @property
    def tally(self) -> Tally:
        """What was asked."""
        return self.api.tally


@asynccontextmanager
async def ai_stand_in(
    models: Models | None = None, latency_s: float = 0.0, port: int = 0
) -> AsyncIterator[AiStandIn]:
    """Run a stand-in on loopback while the context lasts, on a free port unless one is given."""
    api = AiApi(models or Models(), latency_s)
    admin = AiAdmin(api)

    async def answer(request: Request) -> Reply | None:
        if request.segments[0] == "stand-in":
            return admin.answer(request)
        return await api.answer(request)

    async with serving(answer, port) as taken:
        yield AiStandIn(f"http://127.0.0.1:{taken}", api)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m meetcore.testing.ai_server", description=__doc__)
    known = Models()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency-s", type=float, default=0.0)
    parser.add_argument("--api-key", default=known.api_key)
    return parser.parse_args()


async def _run(options: argparse.Namespace) -> None:
    async with ai_stand_in(Models(api_key=options.api_key), options.latency_s, options.port) as ai:
        ready = {
            "base_url": ai.base_url, "admin_url": f"{ai.url}/stand-in",
            "transcribe_model": ai.models.transcribes, "write_model": ai.models.writes,
        }  # fmt: skip
        sys.stdout.write(json.dumps(ready) + "\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    try:
        asyncio.run(_run(_arguments()))
    except KeyboardInterrupt:
        pass  # that is how it ends
