"""A program's request for a grant, as it waits for a member's answer."""

from __future__ import annotations

from uuid import uuid4

from meetcore.composition.application import Application
from meetcore.domain.requests.keys import Scope


async def a_request_for_a_grant(application: Application, name: str = "Asisten Rapat") -> str:
    """Return the id of a request of a new program."""
    uri = "https://agent.example/callback"
    client = await application.grants.clients.register(uuid4().hex, name, [uri])
    path = await application.grants.ask(client.id, uri, None, "x" * 43, [Scope.MEETINGS_READ])
    return path.rpartition("/")[2]
