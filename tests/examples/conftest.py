"""Databases for the examples, which bring their own tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from examples.shop import credits, limits, webhooks
from examples.shop.tables import open_database
from tests.support import servers
from tests.unit.domain.conftest import far_from_utc

__all__ = ["SHOP", "engine", "far_from_utc"]

# Their import declares the tables that a database is opened with.
SHOP = (credits, limits, webhooks)


@pytest.fixture(params=["sqlite", "postgresql"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """A database of the shop."""
    if request.param == "sqlite":
        opened = open_database(f"sqlite:///{tmp_path / 'shop.sqlite3'}")
        yield opened
        opened.dispose()
        return
    with servers.fresh_database(request.getfixturevalue("postgres_server_url")) as url:
        opened = open_database(url.replace("postgresql://", "postgresql+psycopg://", 1))
        yield opened
        opened.dispose()
