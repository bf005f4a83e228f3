"""`python -m benchmarks.apart [SECONDS]`: two servers on hosts of their own, one of which vanishes.

Each host is a network namespace with a cable to a bridge; haproxy, with the file of deploy/, and the database
are on the bridge's side. A process that dies refuses connections at once; a host that vanishes is silent,
which no test on ports shows. Clients read and sell without a pause while the cable of one host is pulled and
put back. Needs root, iproute2 and haproxy, and makes nothing that outlives it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
from attrs import field, frozen

from benchmarks.places import database_server, fresh_database
from tests.e2e.customers import enrol, meeting_body
from tests.e2e.meeting_invariants import add_hosts
from tests.support.balancer import balanced_hosts
from tests.support.program import PROGRAM, START_S, Launcher, Site, at_port, until

NETWORK = "10.77.0"
BRIDGE = "mc-bridge"
PORT = 8000
CLIENTS = 4
CALM_S, GONE_S = 8.0, 50.0
NOTICED_S = 3.0
"""By then the balancer has asked the lost host, without an answer."""

PATIENCE_S = 45.0
"""How long a client waits: longer than haproxy does for a server."""


@frozen
class Answered:
    """One request: when it was sent, how long it took, its status or 0."""

    sent_s: float
    took_s: float
    status: int


@frozen
class Clients:
    """Clients that ask without a pause until they are stopped."""

    answers: list[Answered] = field(factory=list)
    is_over: threading.Event = field(factory=threading.Event)

    def run(self, url: str, key: str, is_selling: bool) -> None:
        headers = {"Authorization": f"Bearer {key}"}
        with httpx.Client(
            base_url=f"{url}/api/v1", headers=headers, trust_env=False, timeout=PATIENCE_S
        ) as http:
            while not self.is_over.is_set():
                sent = time.monotonic()
                try:
                    answer = http.post("/meetings", json=meeting_body()) if is_selling else http.get("/me")
                    status = answer.status_code
                except httpx.TransportError:
                    status = 0
                self.answers.append(Answered(sent, time.monotonic() - sent, status))


def ip(*words: object) -> None:
    subprocess.run(["ip", *map(str, words)], check=True)


@contextmanager
def hosts(number: int) -> Iterator[list[str]]:
    """Network namespaces with an address each, on one bridge; returns their names."""
    names = [f"mc-host{each}" for each in range(1, number + 1)]
    with ExitStack() as stack:
        ip("link", "add", BRIDGE, "type", "bridge")
        stack.callback(ip, "link", "del", BRIDGE)
        ip("addr", "add", f"{NETWORK}.1/24", "dev", BRIDGE)
        ip("link", "set", BRIDGE, "up")
        for each, name in enumerate(names, 1):
            ip("netns", "add", name)
            stack.callback(ip, "netns", "del", name)
            ip("link", "add", cable(name), "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("link", "set", cable(name), "master", BRIDGE, "up")
            ip("-n", name, "addr", "add", f"{NETWORK}.{each + 1}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                ip("-n", name, "link", "set", device, "up")
        yield names


def cable(name: str) -> str:
    """The bridge's end of a host's cable."""
    return f"{name}-c"


@contextmanager
def serving(site: Site, name: str, address: str, directory: Path) -> Iterator[None]:
    """The API on a host."""
    env = site.env(trusted_proxies=f"{NETWORK}.0/24", log_level="warning", base_url=f"http://{NETWORK}.1")
    words = [*PROGRAM, "serve", "--host", address, "--port", str(PORT)]
    with (directory / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(["ip", "netns", "exec", name, *words], env=env, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)


@contextmanager
def reachable(database_url: str, directory: Path) -> Iterator[str]:
    """The database at an address of the bridge, through a relay of its own."""
    server = httpx.URL(database_url.replace("postgresql:", "http:"))
    file = directory / "relay.cfg"
    file.write_text(
        "defaults\n mode tcp\n timeout connect 2s\n timeout client 1h\n timeout server 1h\n"
        f"listen database\n bind {NETWORK}.1:5432\n server database {server.host}:{server.port or 5432}\n"
    )
    relay = subprocess.Popen(["haproxy", "-db", "-f", str(file)], stderr=subprocess.DEVNULL)
    try:
        yield at_port(database_url, 5432).replace("127.0.0.1", f"{NETWORK}.1")
    finally:
        relay.terminate()
        relay.wait(10)


def watched(url: str, keys: list[str], lost: str, gone_s: float) -> None:
    """Load both servers, take one away and bring it back."""
    clients = Clients()
    threads = [
        threading.Thread(target=clients.run, args=(url, key, bool(each % 2))) for each, key in enumerate(keys)
    ]
    for thread in threads:
        thread.start()
    time.sleep(CALM_S)
    ip("link", "set", cable(lost), "down")
    gone = time.monotonic()
    time.sleep(gone_s)
    ip("link", "set", cable(lost), "up")
    back = time.monotonic()
    time.sleep(CALM_S)
    clients.is_over.set()
    for thread in threads:
        thread.join()
    report(clients.answers, gone, back)


def report(answers: list[Answered], gone: float, back: float) -> None:
    """Print what the clients saw before, while and after the host was away."""
    print("| sent | requests | not answered 200 or 201 | after more than 2 s | the longest |")
    print("|---|---|---|---|---|")
    noticed = gone + NOTICED_S
    parts = {
        "before": (0.0, gone - 1),
        "from a second before the loss to three after it": (gone - 1, noticed),
        "until the host was back": (noticed, back),
        "after that": (back, back + 1e9),
    }
    for name, (first, end) in parts.items():
        sent = [each for each in answers if first <= each.sent_s < end]
        bad = sorted(each.status for each in sent if each.status not in (200, 201))
        slow = sum(each.took_s > 2 for each in sent)
        longest = max((each.took_s for each in sent), default=0.0)
        print(f"| {name} | {len(sent)} | {len(bad)} {bad or ''} | {slow} | {longest:.1f} s |")


def main(arguments: list[str]) -> None:
    """Lose a host for some seconds."""
    gone_s = float(arguments[0]) if arguments else GONE_S
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url = stack.enter_context(fresh_database(stack.enter_context(database_server())))
        launcher = Launcher(directory)
        stack.callback(launcher.close)
        site = Site(launcher, url)
        add_hosts(site, 100)
        keys = [enrol(site, 10**7)[2] for _ in range(CLIENTS)]
        names = stack.enter_context(hosts(2))
        far = Site(launcher, stack.enter_context(reachable(url, directory)))
        addresses = [f"{NETWORK}.{each}" for each in range(2, 2 + len(names))]
        for name, address in zip(names, addresses, strict=True):
            stack.enter_context(serving(far, name, address, directory))
        servers = [f"{address}:{PORT}" for address in addresses]
        front, _ = stack.enter_context(balanced_hosts(servers, directory))
        for server in servers:
            until(lambda server=server: is_ready(f"http://{server}"), "a server is ready", START_S)  # type: ignore[misc]
        until(lambda: is_ready(front), "the balancer is up", START_S)
        watched(front, keys, names[0], gone_s)


def is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", trust_env=False, timeout=5).status_code == 200
    except httpx.TransportError:
        return False


if __name__ == "__main__":
    os.environ["PATH"] += ":/usr/sbin"
    main(sys.argv[1:])
