"""The database's records of deliveries, queried directly."""

from __future__ import annotations

from collections import Counter

import psycopg

from tests.support.program import Site


def ask(site: Site, statement: str, *values: object) -> list[tuple[object, ...]]:
    """Query the database."""
    with psycopg.connect(site.database_url, autocommit=True) as connection:
        return connection.execute(statement.encode(), values).fetchall()


def statuses(site: Site, *account_ids: str) -> Counter[str]:
    """Count the deliveries of these accounts by status."""
    statement = "SELECT status FROM deliveries WHERE account_id = ANY(%s::uuid[])"
    return Counter(str(status) for (status,) in ask(site, statement, list(account_ids)))


def claims(site: Site) -> set[tuple[object, ...]]:
    """Return the unrecorded claims: delivery and token."""
    return set(ask(site, "SELECT id, lease_token FROM deliveries WHERE lease_token IS NOT NULL"))
