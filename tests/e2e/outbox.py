"""The database's records, queried directly."""

from __future__ import annotations

from collections import Counter
from threading import Lock

import psycopg

from tests.support.program import Site

_CONNECTIONS: dict[str, psycopg.Connection] = {}
_OPENING = Lock()


def ask(site: Site, statement: str, *values: object) -> list[tuple[object, ...]]:
    """Query the database on a cached connection."""
    url = site.database_url
    with _OPENING:
        if url not in _CONNECTIONS:
            _CONNECTIONS[url] = psycopg.connect(url, autocommit=True)
    return _CONNECTIONS[url].execute(statement.encode(), values).fetchall()


def close_connections() -> None:
    while _CONNECTIONS:
        _CONNECTIONS.popitem()[1].close()


def statuses(site: Site, *account_ids: str) -> Counter[str]:
    """Count the deliveries of these accounts by status."""
    statement = "SELECT status FROM deliveries WHERE account_id = ANY(%s::uuid[])"
    return Counter(str(status) for (status,) in ask(site, statement, list(account_ids)))


def claims(site: Site) -> set[tuple[object, ...]]:
    """Return the unrecorded claims: delivery and token."""
    return set(ask(site, "SELECT id, lease_token FROM deliveries WHERE lease_token IS NOT NULL"))
