"""A stand-in for Zoom, in a test or as a process of its own.

In a test::

    async with zoom_stand_in() as zoom:
        provider = ZoomProvider(
            ZoomAccess(
                zoom.credentials.account_id, zoom.credentials.client_id, zoom.credentials.client_secret,
                zoom.api_url, zoom.oauth_url,
            ),
            log, now=clock.now,
        )
        zoom.faults.plan(Fault("drop", "create", is_done=True))

As a process, `python -m meetcore.testing.zoom_server --port 8700` prints one line when it is ready;
`meetcore.testing.zoom.admin` lists the paths by which another process reads and turns it.

Everything is in memory and gone with it. Itself standard library and attrs only; its package needs the extra
`testing`.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime

from attrs import frozen

from meetcore.testing.planned_faults import Faults
from meetcore.testing.wire import Reply, Request, serving
from meetcore.testing.zoom.account import StandInMeeting, Terms, ZoomAccount, utc_now
from meetcore.testing.zoom.admin import ZoomAdmin
from meetcore.testing.zoom.api import Credentials, ZoomApi
from meetcore.testing.zoom.faults import Fault

__all__ = ["Credentials", "Fault", "Terms", "ZoomStandIn", "zoom_stand_in"]


@frozen
class ZoomStandIn:
    """A stand-in under way.

    Attributes:
        url: where it is, without a path.
        api: what was asked of it.
    """

    url: str
    api: ZoomApi

    @property
    def api_url(self) -> str:
        """What stands for `https://api.zoom.us/v2`."""
        return f"{self.url}/v2"

    @property
    def oauth_url(self) -> str:
        """What stands for `https://zoom.us/oauth/token`."""
        return f"{self.url}/oauth/token"

    @property
    def credentials(self) -> Credentials:
        """Who may ask for a token."""
        return self.api.credentials

    @property
    def account(self) -> ZoomAccount:
        """What exists."""
        return self.api.account

    @property
    def terms(self) -> Terms:
        """What can be turned."""
        return self.api.account.terms

    @property
    def faults(self) -> Faults[Fault]:
        """What the next calls meet."""
        return self.api.faults

    def record(
        self,
        meeting: StandInMeeting,
        file_id: str,
        file_type: str,
        content: bytes,
        start: datetime,
        end: datetime,
    ) -> None:
        """Add a file to a meeting's recording; `file_type` is Zoom's: MP4, M4A, TRANSCRIPT."""
        self.account.contents[file_id] = content
        meeting.recording_files.append(
            {
                "id": file_id,
                "meeting_id": meeting.uuid,
                "recording_start": start.strftime("%Y-%m-%dT%H:%M:%SZ"),
                "recording_end": end.strftime("%Y-%m-%dT%H:%M:%SZ"),
                "file_type": file_type,
                "file_size": len(content),
                "download_url": f"{self.url}/rec/download/{file_id}",
                "status": "completed",
            }
        )

    @property
    def meetings(self) -> list[StandInMeeting]:
        """The meetings that exist, in the order in which they were made."""
        self.account.land()
        return [each for each in self.account.meetings.values() if each.status != "deleted"]


@asynccontextmanager
async def zoom_stand_in(
    terms: Terms | None = None,
    credentials: Credentials | None = None,
    port: int = 0,
    now: Callable[[], datetime] = utc_now,
) -> AsyncIterator[ZoomStandIn]:
    """Run a stand-in on loopback while the context lasts, on a free port unless one is given.

    Args:
        terms: what can be turned.
        credentials: who may ask for a token.
        port: 0 for a free one.
        now: the clock by which creations are counted and come late.
    """
    api = ZoomApi(ZoomAccount(terms or Terms(), now), Faults(), credentials or Credentials())
    admin = ZoomAdmin(api)

    async def answer(request: Request) -> Reply | None:
        if request.segments[0] == "stand-in":
            return admin.answer(request)
        return await api.answer(request)

    async with serving(answer, port) as taken, serving(api.answer) as files:
        api.files_url = f"http://127.0.0.1:{files}"
        yield ZoomStandIn(f"http://127.0.0.1:{taken}", api)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m meetcore.testing.zoom_server", description=__doc__)
    known, terms = Credentials(), Terms()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency-s", type=float, default=terms.latency_s)
    parser.add_argument("--per-second", type=int, default=terms.per_second)
    parser.add_argument("--creations-per-user-day", type=int, default=terms.creations_per_user_day)
    parser.add_argument("--account-id", default=known.account_id)
    parser.add_argument("--client-id", default=known.client_id)
    parser.add_argument("--client-secret", default=known.client_secret)
    return parser.parse_args()


async def _run(options: argparse.Namespace) -> None:
    terms = Terms(
        latency_s=options.latency_s,
        per_second=options.per_second,
        creations_per_user_day=options.creations_per_user_day,
    )
    known = Credentials(options.account_id, options.client_id, options.client_secret)
    async with zoom_stand_in(terms, known, options.port) as zoom:
        ready = {"api_url": zoom.api_url, "oauth_url": zoom.oauth_url, "admin_url": f"{zoom.url}/stand-in"}
        sys.stdout.write(json.dumps(ready) + "\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    try:
        asyncio.run(_run(_arguments()))
    except KeyboardInterrupt:
        pass  # that is how it ends
