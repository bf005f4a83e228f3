"""A webhook as a plain task of Celery or dramatiq that posts by httpx, without a service of its own.

Runs in the virtual environment of the peers, in two roles: the harness enqueues so many posts to a Redis
broker, starts a worker of the same package, waits until each was posted, and prints posts a second and the
worker's processor time. A task signs its body, posts it over TLS on connections that stay open, tries again
when it fails, and counts in Redis. No database is written: nothing records an attempt, and what the broker
loses is lost.
"""

import argparse
import json
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

_PLACE = Path(__file__)
_BODY = '{"x":"' + "y" * 1016 + '"}'
_SETTINGS = ("PEERS_REDIS", "PEERS_URL", "PEERS_CA", "PEERS_SECRET", "PEERS_COUNTER", "PEERS_THREADS")
_TIMEOUT_S = 120.0
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class _Poster:
    """Posts signed bodies and counts them; made in the worker, on first use."""

    def __init__(self) -> None:
        context = ssl.create_default_context(cafile=os.environ["PEERS_CA"])
        context.check_hostname = False  # the address is dialled instead of the name
        self._client = httpx.Client(verify=context)
        self._redis = redis.Redis.from_url(os.environ["PEERS_REDIS"])
        self._webhook = Webhook(os.environ["PEERS_SECRET"])

    def post(self, event_id: str) -> None:
        now = datetime.now(UTC)
        headers = {
            "webhook-id": event_id,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": self._webhook.sign(event_id, now, _BODY),
        }
        self._client.post(os.environ["PEERS_URL"], content=_BODY, headers=headers).raise_for_status()
        self._redis.incr(os.environ["PEERS_COUNTER"])


_posters: list[_Poster] = []


def _post(event_id: str) -> None:
    if not _posters:
        _posters.append(_Poster())
    _posters[0].post(event_id)


def _celery() -> tuple[Any, Any]:
    import celery

    app = celery.Celery("plain_task", broker=os.environ["PEERS_REDIS"])
    app.conf.update(task_ignore_result=True, task_acks_late=True, broker_connection_retry_on_startup=True)
    app.conf.task_default_queue = os.environ["PEERS_COUNTER"] + "-queue"
    return app, app.task(name="post", autoretry_for=(httpx.HTTPError,), retry_backoff=True)(_post)


def _dramatiq() -> tuple[Any, Any]:
    import dramatiq
    from dramatiq.brokers.redis import RedisBroker

    broker = RedisBroker(url=os.environ["PEERS_REDIS"], namespace=os.environ["PEERS_COUNTER"])
    dramatiq.set_broker(broker)
    return broker, dramatiq.actor(actor_name="post", queue_name="posts")(_post)


def _worker_command(package: str) -> list[str]:
    threads = os.environ["PEERS_THREADS"]
    if package == "celery":
        options = ["--pool", "threads", "--concurrency", threads, "--loglevel", "error"]
        return [sys.executable, "-m", "celery", "-A", "plain_task:app", "worker", *options]
    return [sys.executable, "-m", "dramatiq", "plain_task", "--processes", "1", "--threads", threads]


def _tree_cpu_s(pid: int) -> float:
    """Processor seconds of a process and its children, the ones that ended included."""
    total, left = 0, [pid]
    while left:
        one = left.pop()
        fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        total += sum(map(int, fields[11:15]))
        left += map(int, Path(f"/proc/{one}/task/{one}/children").read_text().split())
    return total / _TICKS_PER_S


def _measure(package: str, count: int) -> dict[str, float]:
    store, counter = redis.Redis.from_url(os.environ["PEERS_REDIS"]), os.environ["PEERS_COUNTER"]
    _, task = _celery() if package == "celery" else _dramatiq()
    send = task.delay if package == "celery" else task.send
    for number in range(count):
        send(f"event-{number}")
    child = subprocess.Popen(
        _worker_command(package), cwd=_PLACE.parent, env=os.environ | {"PEERS_PACKAGE": package},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        return _watched(store, counter, count, child)
    finally:
        child.terminate()
        child.wait(30)
        for name in store.scan_iter(f"{counter}*"):
            store.delete(name)


def _watched(
    store: redis.Redis, counter: str, count: int, child: subprocess.Popen[bytes]
) -> dict[str, float]:
    # From the first tenth on: by then the worker has started, and its connections are open.
    first, began, cpu_s, deadline = 0, 0.0, 0.0, time.monotonic() + _TIMEOUT_S
    while (done := int(store.get(counter) or 0)) < count:
        if child.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"{done} of {count} posts were made")
        if not began and done >= count // 10:
            first, began, cpu_s = done, time.monotonic(), _tree_cpu_s(child.pid)
        time.sleep(0.005)
    if not began:
        raise RuntimeError(f"{count} posts are too few to be timed")
    posts = count - first
    return {
        "per_s": posts / (time.monotonic() - began),
        "cpu_us": (_tree_cpu_s(child.pid) - cpu_s) / posts * 1e6,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("package", choices=("celery", "dramatiq"))
    parser.add_argument("count", type=int)
    asked = parser.parse_args()
    missing = [name for name in _SETTINGS if name not in os.environ]
    if missing:
        raise SystemExit(f"set {', '.join(missing)}")
    print(json.dumps(_measure(asked.package, asked.count)))


if __name__ == "__main__":
    main()
elif os.environ.get("PEERS_PACKAGE") == "celery":  # imported by a worker
    app, _ = _celery()
else:
    broker, _ = _dramatiq()
