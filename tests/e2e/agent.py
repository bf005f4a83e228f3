"""An agent as a process of its own: the official client, told line by line what to call.

Standard input has one JSON document a line: where to go, then each call. Standard output answers each with a
line. Where to go is a URL with a key, or a command that speaks over its standard input and output.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client


@asynccontextmanager
async def connected(place: dict[str, Any]) -> AsyncIterator[Client]:
    """A conversation with the service."""
    mode = place.get("mode", "auto")
    if "command" in place:
        command, *words = place["command"]
        async with Client(
            StdioServerParameters(command=command, args=words, env=place["env"]), mode=mode
        ) as client:
            yield client
        return
    headers = {"Authorization": f"Bearer {place['key']}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30, trust_env=False) as http,
        Client(streamable_http_client(place["url"], http_client=http), mode=mode) as client,
    ):
        yield client


async def answered(client: Client, asked: dict[str, Any]) -> dict[str, Any]:
    """What came of a line."""
    try:
        if "call" not in asked:
            listed = await client.list_tools()
            return {
                "protocol": client.protocol_version,
                "instructions": client.session.instructions,
                "tools": {tool.name: tool.description for tool in listed.tools},
            }
        result = await client.call_tool(asked["call"], asked["arguments"])
    except MCPError as error:
        return {"refused": error.message, "data": error.data}
    text = next(part.text for part in result.content if part.type == "text")
    return {"is_error": result.is_error, "value": result.structured_content, "text": text}


async def main() -> None:
    """Converse until the input ends."""
    loop = asyncio.get_running_loop()
    place = json.loads(await loop.run_in_executor(None, sys.stdin.readline))
    async with connected(place) as client:
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            print(json.dumps(await answered(client, json.loads(line))), flush=True)


def told(error: BaseException) -> str:
    """The reason in a group of reasons."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error)


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except Exception as error:  # noqa: BLE001  (whatever it is, the test is told)
        print(json.dumps({"refused": told(error)}), flush=True)
        sys.stdin.read()
