"""A strain on a service: connections that repeat one request, answered or refused, until it is ended.

A process of its own, so that it does not share the processor time that is measured. Its argument is JSON: the
port, the number of connections and the head of the request. It prints a line at the first answer.
"""

import asyncio
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from attrs import frozen

from benchmarks.processes import ROOT, Program

__all__ = ["Strain", "strained"]

_LONGEST_S = 120.0
_WARM_UP_S = 0.3


@frozen
class Strain:
    """So many connections with a request, whose head has no `Host` and no end."""

    connections: int
    head: str


@contextmanager
def strained(service: Program, strain: Strain) -> Iterator[None]:
    """Keep a service under a strain.

    Raises:
        RuntimeError: the strain ended by itself.
    """
    arguments = json.dumps([service.port, strain.connections, strain.head])
    child = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.strain", arguments], cwd=ROOT, stdout=subprocess.PIPE
    )
    try:
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(_WARM_UP_S)
        yield
        if child.poll() is not None:
            raise RuntimeError("the strain ended by itself")
    finally:
        child.terminate()
        child.communicate()


async def _strain(port: int, connections: int, head: str) -> None:
    raw = f"{head}\r\nhost: 127.0.0.1\r\n\r\n".encode()
    async with asyncio.timeout(_LONGEST_S):
        await asyncio.gather(*(_keep_busy(port, raw) for _ in range(connections)))


async def _keep_busy(port: int, raw: bytes) -> None:
    """Repeat the request, over a new connection where the server closes the last one."""
    while True:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            while True:
                writer.write(raw)
                head = await reader.readuntil(b"\r\n\r\n")
                print("answered", flush=True)
                length = re.search(rb"content-length: (\d+)", head)
                await reader.readexactly(int(length[1]) if length else sys.maxsize)


if __name__ == "__main__":
    asyncio.run(_strain(*json.loads(sys.argv[1])))
