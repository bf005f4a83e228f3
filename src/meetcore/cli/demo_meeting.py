"""What a new demo account holds at first: a meeting that took place, its recording, notes and deliveries.

Made through the API and the sandbox's join page, as a customer's program and a host would. The recording and
its notes follow within seconds, by the worker.
"""

from datetime import datetime
from typing import Final
from urllib.parse import urlsplit

import httpx

from meetcore.domain.meetings.schedule import WIB
from meetcore.domain.webhooks.events import EventKind

TITLE: Final = "Weekly product meeting"
TIER: Final = "standard-100"
EVENTS: Final = (EventKind.RECORDING_READY, EventKind.NOTE_COMPLETED)
"""Others than those of the printed line, which registers a webhook of its own."""

_MINUTE_S: Final = 60
_LEAD_S: Final = 10
"""The start is at least so far ahead: one that is past when the request is read would be refused."""
_TIMEOUT_S: Final = 10


async def hold_demo_meeting(base_url: str, key: str, webhook_url: str, now: datetime) -> None:
    """Register a webhook, and make, start and end a meeting with a recording and notes.

    Args:
        base_url: of the service that is up.
        key: of the demo account.
        webhook_url: receives what becomes of the recording.
        now: the meeting is made for the next minute, the earliest start that the API allows.

    Raises:
        httpx.HTTPError: a step was refused or not answered.
    """
    minutes = (now.timestamp() + _LEAD_S) // _MINUTE_S + 1
    at = datetime.fromtimestamp(minutes * _MINUTE_S, WIB)
    body = {
        "title": TITLE, "date": f"{at:%Y-%m-%d}", "start_time": f"{at:%H:%M}", "pricing_tier_id": TIER,
        "with_recording": True, "auto_notulen": True,
    }  # fmt: skip
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=base_url, trust_env=False, timeout=_TIMEOUT_S) as http:
        hook = {"url": webhook_url, "event_types": [kind.value for kind in EVENTS]}
        (await http.post("/api/v1/webhooks", json=hook, headers=headers)).raise_for_status()
        made = (await http.post("/api/v1/meetings", json=body, headers=headers)).raise_for_status()
        page = urlsplit(made.json()["join_url"])
        for button in ("start", "end"):
            answer = await http.post(f"{page.path}/{button}?{page.query}")
            if answer.status_code >= httpx.codes.BAD_REQUEST:
                answer.raise_for_status()
