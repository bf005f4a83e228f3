"""A webhook as a plain task of Celery or dramatiq that posts by httpx, without a service of its own.

Runs in the virtual environment of the peers: `peer_posts.py PACKAGE COUNT`. Enqueues so many posts to a Redis
broker, starts a worker of the same package, waits until each was posted, and prints posts a second and the
worker's µs of processor time for each. A task signs its body, posts it over TLS on connections that stay
open, tries again when it fails, and counts in Redis. Nothing records an attempt, and what the broker loses is
lost.
"""

import os
import ssl
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import redis
from standardwebhooks import Webhook

_BODY = '{"x":"' + "y" * 1016 + '"}'
_REDIS, _URL, _CA, _SECRET = (os.environ[f"PEERS_{name}"] for name in ("REDIS", "URL", "CA", "SECRET"))
_COUNTER = "peers-posts"
_THREADS = "16"
_TIMEOUT_S = 120.0
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_clients: list[tuple[httpx.Client, redis.Redis, Webhook]] = []


def _post(event_id: str) -> None:
    if not _clients:  # in the worker, on first use
        context = ssl.create_default_context(cafile=_CA)
        context.check_hostname = False  # the address is dialled instead of the name
        _clients.append((httpx.Client(verify=context), redis.Redis.from_url(_REDIS), Webhook(_SECRET)))
    http, store, webhook = _clients[0]
    now = datetime.now(UTC)
    headers = {
        "webhook-id": event_id, "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": webhook.sign(event_id, now, _BODY),
    }  # fmt: skip
    http.post(_URL, content=_BODY, headers=headers).raise_for_status()
    store.incr(_COUNTER)


def _celery() -> tuple[Any, Any]:
    import celery

    app = celery.Celery("peer_posts", broker=_REDIS)
    app.conf.update(task_ignore_result=True, task_acks_late=True, broker_connection_retry_on_startup=True)
    return app, app.task(name="post", autoretry_for=(httpx.HTTPError,), retry_backoff=True)(_post)


def _dramatiq() -> tuple[Any, Any]:
    import dramatiq
    from dramatiq.brokers.redis import RedisBroker

    broker = RedisBroker(url=_REDIS, namespace="peers")
    dramatiq.set_broker(broker)
    return broker, dramatiq.actor(actor_name="post", queue_name="posts")(_post)


def _worker_command(package: str) -> list[str]:
    if package == "celery":
        options = ["--pool", "threads", "--concurrency", _THREADS, "--loglevel", "error"]
        return [sys.executable, "-m", "celery", "-A", "peer_posts:app", "worker", *options]
    return [sys.executable, "-m", "dramatiq", "peer_posts", "--processes", "1", "--threads", _THREADS]


def _tree_cpu_s(pid: int) -> float:
    """Processor seconds of a process and its children, the ones that ended included."""
    total, left = 0, [pid]
    while left:
        one = left.pop()
        fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        total += sum(map(int, fields[11:15]))
        left += map(int, Path(f"/proc/{one}/task/{one}/children").read_text().split())
    return total / _TICKS_PER_S


def _measure(package: str, count: int) -> tuple[float, float]:
    store = redis.Redis.from_url(_REDIS)
    store.delete(_COUNTER)
    _, task = _celery() if package == "celery" else _dramatiq()
    for number in range(count):
        (task.delay if package == "celery" else task.send)(f"event-{number}")
    environment = os.environ | {"PEERS_PACKAGE": package}
    child = subprocess.Popen(
        _worker_command(package), cwd=Path(__file__).parent, env=environment, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        # From the first tenth on: by then the worker has started, and its connections are open.
        first, began, cpu_s, deadline = 0, 0.0, 0.0, time.monotonic() + _TIMEOUT_S
        while (done := int(store.get(_COUNTER) or 0)) < count:
            if child.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{done} of {count} posts were made")
            if not began and done >= count // 10:
                first, began, cpu_s = done, time.monotonic(), _tree_cpu_s(child.pid)
            time.sleep(0.005)
        posts = count - first
        return posts / (time.monotonic() - began), (_tree_cpu_s(child.pid) - cpu_s) / posts * 1e6
    finally:
        child.terminate()
        child.wait(30)


if __name__ == "__main__":
    print(*_measure(sys.argv[1], int(sys.argv[2])))
elif os.environ.get("PEERS_PACKAGE") == "celery":  # imported by a worker
    app, _ = _celery()
else:
    broker, _ = _dramatiq()
