"""`python -m benchmarks.cluster`: three nodes of RabbitMQ on this machine, one of which is killed.

For queues of both types: how long a notification takes until the broker confirms it, and how long none
wakes a worker when the node dies that leads the queue. The nodes are its own, on free ports, in a temporary
directory.
"""

from __future__ import annotations

import os
import shutil
import signal
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path

import dramatiq
import structlog
from attrs import frozen

from meetcore.adapters.queue.broker import broker_from_url, queue_named
from meetcore.adapters.queue.worker import NotificationConsumer
from meetcore.adapters.queue.worker_notifier import DramatiqWorkerNotifier
from tests.support.program import free_port, until
from tests.support.servers import rabbitmq_answers

PROGRAMS = Path("/usr/lib/rabbitmq/bin")
NODES = 3
START_S = 240.0
CALM_S, WATCHED_S = 3.0, 25.0

log = structlog.get_logger()


@frozen
class Node:
    """A node of a cluster."""

    name: str
    port: int
    process: subprocess.Popen[bytes]
    env: dict[str, str]

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}/"

    def ctl(self, *words: str) -> str:
        command = [str(PROGRAMS / "rabbitmqctl"), "--quiet", "-n", self.name, *words]
        return subprocess.run(command, env=self.env, check=True, capture_output=True, text=True).stdout

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)


@contextmanager
def node(number: int, directory: Path) -> Iterator[Node]:
    """A node of a name and ports of its own."""
    name, port = f"meetcore{number}-{os.getpid()}@localhost", free_port()
    home = directory / str(number)
    home.mkdir()
    (home / "plugins").write_text("[].")
    (directory / "rabbitmq.conf").write_text("loopback_users.guest = true\n")
    env = {
        "PATH": os.environ["PATH"], "HOME": str(directory), "RABBITMQ_NODENAME": name,
        "RABBITMQ_NODE_PORT": str(port), "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_DIST_PORT": str(free_port()),
        "RABBITMQ_MNESIA_BASE": str(home), "RABBITMQ_LOG_BASE": str(home),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "plugins"),
        "RABBITMQ_CONFIG_FILE": str(directory / "rabbitmq"), "RABBITMQ_PID_FILE": str(home / "pid"),
    }  # fmt: skip
    with (home / "out").open("wb") as out:
        process = subprocess.Popen(
            [str(PROGRAMS / "rabbitmq-server")], env=env, stdout=out, stderr=out, start_new_session=True
        )
    made = Node(name, port, process, env)
    try:
        yield made
    finally:
        if process.poll() is None:
            made.kill()


@contextmanager
def cluster(directory: Path) -> Iterator[list[Node]]:
    """Three nodes that have joined."""
    with ExitStack() as stack:
        nodes: list[Node] = []
        for number in range(1, NODES + 1):
            each = stack.enter_context(node(number, directory))
            until(lambda each=each: rabbitmq_answers(each.url), each.name, START_S, every_s=0.5)  # type: ignore[misc]
            if nodes:
                each.ctl("stop_app")
                each.ctl("join_cluster", nodes[0].name)
                each.ctl("start_app")
            nodes.append(each)
        yield nodes


def confirmed_ms(broker: dramatiq.Broker, queue: str, number: int = 200) -> list[float]:
    """How long each of some notifications takes until it is confirmed."""
    took = []
    for _ in range(number):
        began = time.perf_counter()
        broker.enqueue(dramatiq.Message(queue, queue, (), {}, {}))
        took.append((time.perf_counter() - began) * 1e3)
    return took


def leader(node: Node, queue: str) -> str:
    """The name of the node that leads a queue: where its process is."""
    rows = node.ctl("list_queues", "name", "pid").splitlines()
    (pid,) = (row.split("\t")[1] for row in rows if row.startswith(f"{queue}\t"))
    return pid.strip("<>").partition("@")[0] + "@localhost"


def gap_s(nodes: list[Node], is_quorum: bool) -> tuple[float, float]:
    """Kill the node that leads a queue: the longest time without a wake, and that before the kill."""
    url = ";".join(each.url for each in nodes)
    queue = queue_named("meetcore.wake", is_quorum=is_quorum)
    wakes: list[float] = []
    broker = broker_from_url(url, is_quorum=is_quorum)
    consumer = NotificationConsumer(
        broker_from_url(url, is_quorum=is_quorum), {queue: lambda: wakes.append(time.monotonic())}, log
    )
    notifier = DramatiqWorkerNotifier(broker, log, queue=queue, spacing_s=0.05, pause_s=0.5)
    is_over = threading.Event()

    def notify() -> None:
        while not is_over.wait(0.05):
            notifier.notify()

    consumer.start()
    thread = threading.Thread(target=notify)
    thread.start()
    try:
        until(lambda: len(wakes) > 20, "notifications arrive", 30)
        time.sleep(CALM_S)
        name = leader(nodes[0], queue)
        (victim,) = (each for each in nodes if each.name == name)
        victim.kill()
        killed = time.monotonic()
        time.sleep(WATCHED_S)
    finally:
        is_over.set()
        thread.join()
        notifier.close()
        consumer.stop()
        broker.close()
    before = [two - one for one, two in pairwise(wakes) if two < killed]
    after = [each for each in wakes if each > killed + 0.2]
    edges = [killed, *after, killed + WATCHED_S]
    return max(two - one for one, two in pairwise(edges)), max(before)


def main() -> None:
    """Print the figures of both types."""
    print("| queues | confirmed in, median | 99 of 100 | longest without a wake after the kill | before |")
    print("|---|---|---|---|---|", flush=True)
    for is_quorum in (False, True):
        directory = Path(tempfile.mkdtemp(prefix="meetcore-cluster-"))
        try:
            with cluster(directory) as nodes:
                broker = broker_from_url(nodes[0].url, is_quorum=is_quorum)
                took = confirmed_ms(broker, queue_named("meetcore.speed", is_quorum=is_quorum))
                broker.close()
                longest, before = gap_s(nodes, is_quorum)
            cuts = statistics.quantiles(took, n=100)
            kind = "quorum" if is_quorum else "classic"
            print(
                f"| {kind} | {cuts[49]:.1f} ms | {cuts[98]:.1f} ms | {longest:.1f} s | {before:.1f} s |",
                flush=True,
            )
        finally:
            shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
