"""What the database says about deliveries, asked past the program."""

from __future__ import annotations

from collections import Counter

import psycopg

from tests.e2e.program import Site


def ask(site: Site, statement: str, *values: object) -> list[tuple[object, ...]]:
    """Ask the database."""
    with psycopg.connect(site.database_url, autocommit=True) as connection:
        return connection.execute(statement.encode(), values).fetchall()


def statuses(site: Site, *account_ids: str) -> Counter[str]:
    """How many deliveries of these accounts stand where."""
    statement = "SELECT status FROM deliveries WHERE account_id = ANY(%s::uuid[])"
    return Counter(str(status) for (status,) in ask(site, statement, list(account_ids)))


def claims(site: Site) -> set[tuple[object, ...]]:
    """The claims that nobody has recorded: delivery and token."""
    return set(ask(site, "SELECT id, lease_token FROM deliveries WHERE lease_token IS NOT NULL"))
