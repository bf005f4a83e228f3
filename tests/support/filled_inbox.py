"""The inboxes of `meetcore dev` with a verified delivery, one that is not, and a mail."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from starlette.routing import Route
from starlette.testclient import TestClient

from meetcore.adapters.dev_inbox import InboxApp, MailInbox, inbox_routes
from meetcore.adapters.mail_texts import TemplateMailTexts
from meetcore.domain.mails.contents import SignInLink
from meetcore.domain.mails.views import OutgoingMail
from meetcore.domain.notes.notes import Language
from meetcore.domain.webhooks.signature import new_secret, signing_headers
from tests.support.program import run_apart

MAIL_ID: Final = UUID(int=1)
_SECRET: Final = new_secret(bytes(32))
_BODY: Final = b'{"type": "meeting.created", "data": {"title": "Rapat"}}'


def filled_inbox() -> list[Route]:
    """Return the routes of both inboxes."""
    inbox, mails = InboxApp(_secrets), MailInbox()
    signed = signing_headers(_SECRET, "event-1", _BODY, int(time.time()))
    with TestClient(inbox) as sender:
        for headers in (signed, {}):
            sender.post("/hooks", content=_BODY, headers=headers | {"X-Service-Event": "meeting.created"})
    run_apart(mails.send(_mail()))
    return inbox_routes(inbox, mails=mails)


async def _secrets(_url: str) -> list[str]:
    return [_SECRET]


def _mail() -> OutgoingMail:
    now = datetime.now(UTC)
    link = SignInLink("https://meet.example/dashboard/sign-in/a", now)
    text = TemplateMailTexts("meet.example").write(link, Language.ENGLISH)
    return OutgoingMail(MAIL_ID, "dewi@example.com", text.subject, text.text, text.html, "en", now)
