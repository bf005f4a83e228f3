"""Where and with what figures were taken: processor, memory, versions, day. No names of hosts, no paths."""

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psycopg
import redis

from benchmarks.places import database_server, rate_store

__all__ = ["describe_machine"]


def describe_machine() -> dict[str, Any]:
    """What a reader needs to know beside figures."""
    with database_server() as url, psycopg.connect(url) as connection:
        row = connection.execute("SHOW server_version").fetchone()
        assert row is not None
    with rate_store(set()) as redis_url, redis.Redis.from_url(redis_url) as client:
        of_redis: Any = client.info("server")
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "cpu": _first(Path("/proc/cpuinfo"), "model name") or platform.machine(),
        "cores": os.cpu_count(),
        "memory_gb": round(int(_first(Path("/proc/meminfo"), "MemTotal").split()[0]) / 1024**2),
        "python": platform.python_version(),
        "postgresql": row[0].split()[0],
        "redis": of_redis["redis_version"],
        "meetcore": version("meetcore"),
    }


def _first(file: Path, label: str) -> str:
    lines = (line.partition(":") for line in file.read_text("utf-8").splitlines())
    return next((text.strip() for name, _, text in lines if name.strip() == label), "0")
