"""Posts made in a process of their own, that has too little of something; the test looks at what it prints.

`descriptors`: none left. `memory`: many answers that are as large as a receiver can make them. Both print
what came of the posts as one JSON document.
"""

import argparse
import asyncio
import json
import os
import resource
from collections import Counter
from pathlib import Path

import uvloop

from meetcore.adapters.webhook_sender import AsyncioWebhookSender, SystemResolver
from meetcore.ports.webhook_sender import SenderFailed
from meetcore.testing.contracts.webhook_setting import HOST, LOOPBACK, a_post

LOOPS = {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}
_MOST_OPEN = 768


async def _outcome(sender: AsyncioWebhookSender, host: str) -> str:
    try:
        attempt = await sender.post(a_post(f"https://{host}/"))
    except SenderFailed:
        return "exhausted"
    return attempt.error or "ok"


async def without_descriptors(ca_file: str, port: int) -> dict[str, str]:
    """Post on a kept connection, on a new one, and to a name that must be looked up."""
    there = dict.fromkeys((HOST, "other.test"), ("127.0.0.1", port))
    resolver = SystemResolver()
    sender = AsyncioWebhookSender(resolver, [LOOPBACK], ca_file, dial_overrides=there)
    sender.open()
    outcomes = {"before": await _outcome(sender, HOST)}
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)  # the lowest number that is free
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, limits[1]))
    outcomes["kept connection"] = await _outcome(sender, HOST)
    outcomes["new connection"] = await _outcome(sender, "other.test")
    outcomes["lookup"] = await _outcome(sender, "localhost")
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    outcomes["after"] = await _outcome(sender, "other.test")
    await sender.close()
    await resolver.close()
    return outcomes


async def many(ca_file: str, port: int, posts: int, timeout_s: float) -> dict[str, object]:
    """Make so many posts at once; return how they ended and by how many MB the process grew at most."""
    there = {HOST: ("127.0.0.1", port)}
    resolver = SystemResolver()
    sender = AsyncioWebhookSender(
        resolver, [LOOPBACK], ca_file, timeout_s, there, max_connections=posts, max_open=_MOST_OPEN
    )
    sender.open()
    await _outcome(sender, HOST)
    before = _resident_mb()
    ends = asyncio.gather(*(_outcome(sender, HOST) for _ in range(posts)))
    peak = before
    while not ends.done():
        peak = max(peak, _resident_mb())
        await asyncio.sleep(0.02)
    outcomes = Counter(await ends)
    await sender.close()
    await resolver.close()
    return {"outcomes": outcomes, "grew_mb": max(peak, _resident_mb()) - before}


def _resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["descriptors", "memory"])
    parser.add_argument("loop", choices=LOOPS)
    parser.add_argument("ca_file")
    parser.add_argument("port", type=int)
    parser.add_argument("--posts", type=int, default=1)
    parser.add_argument("--timeout-s", type=float, default=10.0)
    options = parser.parse_args()
    with asyncio.Runner(loop_factory=LOOPS[options.loop]) as runner:
        if options.what == "descriptors":
            print(json.dumps(runner.run(without_descriptors(options.ca_file, options.port))))
        else:
            print(
                json.dumps(runner.run(many(options.ca_file, options.port, options.posts, options.timeout_s)))
            )


if __name__ == "__main__":
    main()
