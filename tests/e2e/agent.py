"""An MCP agent in its own process: the official client, driven line by line.

Standard input has one JSON document per line: the address, then each call; each gets one line of result. The
address is a URL with a key, a URL alone, to which it connects by OAuth, or a command that serves over stdio.
By OAuth it writes the address of the consent page, and reads the address to which the browser was sent. With
`agrees` there is a person who can be asked, and who says yes or no.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from mcp_types import ElicitResult

CALLBACK = "http://127.0.0.1:3000/callback"
ASKED: list[str] = []


def person(agrees: list[bool]) -> Any:
    """Return a callback that notes each question and gives these answers in turn."""

    async def answer(_: Any, params: Any) -> ElicitResult:
        ASKED.append(params.message)
        return ElicitResult(action="accept", content={}) if agrees.pop(0) else ElicitResult(action="decline")

    return answer


@asynccontextmanager
async def connected(place: dict[str, Any]) -> AsyncIterator[Client]:
    """Connect to the service."""
    options: dict[str, Any] = {"mode": place.get("mode", "auto")}
    if "agrees" in place:
        options["elicitation_callback"] = person(place["agrees"])
    if "command" in place:
        command, *arguments = place["command"]
        async with Client(
            StdioServerParameters(command=command, args=arguments, env=place["env"]), **options
        ) as client:
            yield client
        return
    given: dict[str, Any] = {"auth": by_oauth(place["url"])}
    if "key" in place:
        given = {"headers": {"Authorization": f"Bearer {place['key']}"}}
    async with (
        httpx2.AsyncClient(**given, timeout=30, trust_env=False) as http,
        Client(streamable_http_client(place["url"], http_client=http), **options) as client,
    ):
        yield client


class KeptTokens:
    """The storage of the official client, in memory."""

    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


def by_oauth(url: str) -> OAuthClientProvider:
    """Return the official client's authentication, which knows the URL and nothing else."""

    async def leave(place: str) -> None:
        print(json.dumps({"authorize": place}), flush=True)

    async def come_back() -> AuthorizationCodeResult:
        line = await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
        query = {
            name: values[0] for name, values in parse_qs(urlsplit(json.loads(line)["back"]).query).items()
        }
        if "error" in query:
            raise OAuthFlowError(query["error"])
        return AuthorizationCodeResult(code=query["code"], state=query.get("state"), iss=query.get("iss"))

    metadata = OAuthClientMetadata.model_validate(
        {"client_name": "Agent in Python", "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none"}
    )
    return OAuthClientProvider(url, metadata, KeptTokens(), leave, come_back)


async def answered(client: Client, request: dict[str, Any]) -> dict[str, Any]:
    """Execute one request and return its result."""
    try:
        if "read" in request:
            templates = (await client.list_resource_templates()).resource_templates
            read = await client.read_resource(request["read"])
            return {
                "templates": [each.uri_template for each in templates],
                "types": [each.mime_type for each in read.contents],
            }
        if "call" not in request:
            listed = await client.list_tools()
            return {
                "protocol": client.protocol_version,
                "instructions": client.session.instructions,
                "tools": {tool.name: tool.description for tool in listed.tools},
            }
        result = await client.call_tool(request["call"], request["arguments"])
    except MCPError as error:
        return {"refused": error.message, "data": error.data}
    text = next(part.text for part in result.content if part.type == "text")
    answer = {"is_error": result.is_error, "value": result.structured_content, "text": text}
    return answer | {"asked": [ASKED.pop() for _ in ASKED[:]]}


async def main() -> None:
    loop = asyncio.get_running_loop()
    place = json.loads(await loop.run_in_executor(None, sys.stdin.readline))
    async with connected(place) as client:
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            print(json.dumps(await answered(client, json.loads(line))), flush=True)


def first_reason(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error)


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except Exception as error:  # noqa: BLE001  (every error is reported to the test)
        print(json.dumps({"refused": first_reason(error)}), flush=True)
        sys.stdin.read()
