"""A program that connects by OAuth, step by step; every parameter can be changed, as attacks need it."""

from __future__ import annotations

import base64
import hashlib
import secrets
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
from attrs import define, field

from tests.support.api_harness import BASE_URL
from tests.support.pages import Browser

CALLBACK = "https://agent.example/callback"
RESOURCE = f"{BASE_URL}/mcp"
BOOKING = {"scope:meetings:read": "on", "scope:meetings:write": "on"}


def challenge_of(verifier: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


@define
class Program:
    """A registered client; `verifier` is that of its present request."""

    line: httpx.AsyncClient
    client_id: str = ""
    redirect_uri: str = CALLBACK
    verifier: str = field(factory=lambda: secrets.token_urlsafe(32))

    async def register(self, **changes: Any) -> httpx.Response:
        metadata = {
            "client_name": "Agent of a test",
            "redirect_uris": [self.redirect_uri],
            "token_endpoint_auth_method": "none",
        }
        answer = await self.line.post("/oauth/register", json=metadata | changes)
        self.client_id = answer.json().get("client_id", "")
        return answer

    async def authorize(self, **changes: str | None) -> httpx.Response:
        asked = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": self.redirect_uri,
            "code_challenge": challenge_of(self.verifier),
            "code_challenge_method": "S256",
            "scope": "meetings:read meetings:write",
            "state": "s t&=1",
            "resource": RESOURCE,
        } | changes
        given = {name: value for name, value in asked.items() if value is not None}
        return await self.line.get("/oauth/authorize", params=given)

    async def question(self, **changes: str | None) -> str:
        """Ask for a grant and return the path of the page that answers."""
        answer = await self.authorize(**changes)
        assert answer.status_code == 302, answer.text
        return str(answer.headers["Location"])

    async def token(self, **fields: str | None) -> httpx.Response:
        given = {"client_id": self.client_id, **fields}
        return await self.line.post(
            "/oauth/token", data={name: value for name, value in given.items() if value is not None}
        )

    async def exchange(self, code: str, **changes: str | None) -> httpx.Response:
        fields: dict[str, str | None] = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.redirect_uri,
            "code_verifier": self.verifier,
            "resource": RESOURCE,
        }
        return await self.token(**fields | changes)

    async def refresh(self, token: str, **changes: str | None) -> httpx.Response:
        fields: dict[str, str | None] = {"grant_type": "refresh_token", "refresh_token": token}
        return await self.token(**fields | changes)

    async def code(self, browser: Browser, **fields: str) -> str:
        """Get a code with the consent of a member."""
        return answered(await allow(browser, await self.question(), **fields))["code"]

    async def connect(self, browser: Browser, **fields: str) -> dict[str, Any]:
        """Get the tokens of a new grant."""
        answer = await self.exchange(await self.code(browser, **fields))
        assert answer.status_code == 200, answer.text
        return dict(answer.json())


async def allow(browser: Browser, path: str, **fields: str) -> httpx.Response:
    return await browser.post(path, path, **(BOOKING | {"answer": "allow", "expires_in_days": "90"} | fields))


def answered(response: httpx.Response, callback: str = CALLBACK) -> dict[str, str]:
    """Return the parameters that a browser brings back to the program."""
    assert response.status_code == 303, response.text
    place = urlsplit(response.headers["Location"])
    assert f"{place.scheme}://{place.netloc}{place.path}" == callback
    return {name: values[0] for name, values in parse_qs(place.query).items()}
