"""The receiver that webhook senders are tested on: what it records, and how faults are attributed."""

import asyncio
import ssl
from pathlib import Path

import pytest

from meetcore.testing.receiver import OK, Authority, answering, receiving

REQUEST = b"POST /x HTTP/1.1\r\nContent-Length: 5\r\n\r\n"


async def ask(authority: Authority, port: int, request: bytes) -> bytes:
    context = ssl.create_default_context(cafile=authority.ca_file)
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=context, server_hostname="hooks.test"
    )
    writer.write(request)
    answer = await asyncio.wait_for(reader.read(1000), 10)  # whole: the answers here are one write
    writer.transport.abort()
    return answer


@pytest.mark.parametrize("request_head", [
    REQUEST, REQUEST.replace(b": ", b":"), REQUEST.replace(b"Content", b"X-Content-Length: 9\r\ncontent"),
])  # fmt: skip
async def test_it_writes_down_what_came_and_answers_in_bytes(tmp_path: Path, request_head: bytes):
    authority = Authority(tmp_path)
    async with receiving(authority.certified("hooks.test"), answering(OK)) as receiver:
        assert await ask(authority, receiver.port, request_head + b"a\0\r\n\xff") == OK
    assert (receiver.heads, receiver.bodies) == ([request_head], [b"a\0\r\n\xff"])
    assert (receiver.names, receiver.connections) == (["hooks.test"], 1)


async def test_its_authority_vouches_for_no_other_name(tmp_path: Path):
    authority = Authority(tmp_path)
    async with receiving(authority.certified("other.test"), answering(OK)) as receiver:
        with pytest.raises(ssl.SSLCertVerificationError):
            await ask(authority, receiver.port, REQUEST)
    assert receiver.heads == []


async def test_a_fault_of_its_behaviour_is_raised(tmp_path: Path):
    async def fail(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        raise ValueError("the behaviour's own")

    authority = Authority(tmp_path)
    with pytest.raises(ExceptionGroup) as caught:
        async with receiving(authority.certified("hooks.test"), fail) as receiver:
            await ask(authority, receiver.port, REQUEST + b"12345")
    assert caught.group_contains(ValueError, match="own")


async def test_it_ends_though_its_callers_do_not(tmp_path: Path):
    authority = Authority(tmp_path)
    context = ssl.create_default_context(cafile=authority.ca_file)
    async with receiving(authority.certified("hooks.test"), answering(OK)) as receiver:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", receiver.port, ssl=context, server_hostname="hooks.test"
        )
        writer.write(REQUEST + b"12345")
        assert await asyncio.wait_for(reader.readexactly(len(OK)), 10) == OK
    assert await asyncio.wait_for(reader.read(), 10) == b""
    writer.transport.abort()
