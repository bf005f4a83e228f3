"""Where the benchmarks run: databases of their own, and a Redis whose counters they take away again."""

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import psycopg
import redis
from psycopg import sql

from meetcore.adapters.embedded_postgres import EmbeddedPostgres
from meetcore.adapters.postgres.migrate import migrate
from tests.support.servers import own_redis, redis_answers, with_path

__all__ = ["database_server", "empty_database", "fresh_database", "rate_store"]

REDIS_URL = "redis://127.0.0.1:6379/14"


@contextmanager
def database_server() -> Iterator[str]:
    """The server that the environment names, else one of our own."""
    if given := os.environ.get("MEETCORE_TEST_DATABASE_URL") or os.environ.get("MEETCORE_DATABASE_URL"):
        yield given
        return
    place = Path(tempfile.mkdtemp(prefix="meetcore-bench-"))
    place.chmod(0o711)
    try:
        with EmbeddedPostgres(place / "data") as url:
            yield url
    finally:
        shutil.rmtree(place, ignore_errors=True)


@contextmanager
def empty_database(server_url: str) -> Iterator[str]:
    """A new database, dropped at the end."""
    name = sql.Identifier(f"meetcore_bench_{secrets.token_hex(6)}")
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(name))
    try:
        yield with_path(server_url, name.as_string().strip('"'))
    finally:
        with psycopg.connect(server_url, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name))


@contextmanager
def fresh_database(server_url: str) -> Iterator[str]:
    """A new database with our schema, dropped at the end."""
    with empty_database(server_url) as url:
        migrate(url)
        yield url


@contextmanager
def rate_store(key_ids: set[UUID]) -> Iterator[str]:
    """A Redis for the counters; at the end the counters of these keys are deleted.

    Args:
        key_ids: filled by the caller while it runs.
    """
    url = os.environ.get("MEETCORE_TEST_REDIS_URL") or REDIS_URL
    if not redis_answers(url):
        with tempfile.TemporaryDirectory() as place, own_redis(Path(place)) as own:
            yield own
        return
    try:
        yield url
    finally:
        texts = {key_id.hex for key_id in key_ids}
        with redis.Redis.from_url(url) as client:
            for name in client.scan_iter(match="meetcore:rate:*", count=1000):
                if any(part in texts for part in name.decode().split(":")):
                    client.delete(name)
