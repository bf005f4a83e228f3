"""A database of SQLAlchemy: SQLite, or PostgreSQL as `postgresql+psycopg://...`.

SQLite needs two things of everybody who keeps money in it: transactions that write from their beginning, for
it has no row locks, and instants that come back with their time zone.
"""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, DateTime, Dialect, Engine, MetaData, Table, create_engine, event
from sqlalchemy.types import TypeDecorator

__all__ = ["Instant", "metadata", "never_changes", "open_database"]

metadata = MetaData()


class Instant(TypeDecorator[datetime]):
    """An instant in UTC. SQLite keeps no time zone and returns none, which the ledger refuses."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Write UTC."""
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Read UTC; PostgreSQL returns the time zone of the session."""
        return None if value is None else value.replace(tzinfo=value.tzinfo or UTC).astimezone(UTC)


def open_database(url: str) -> Engine:
    """Connect, and make the tables that are not there."""
    engine = create_engine(url)
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _set_up)
        event.listen(engine, "begin", _begin)
    metadata.create_all(engine)
    return engine


def _set_up(connection: Any, _: object) -> None:
    connection.isolation_level = None  # the driver begins nothing by itself
    # Triggers fire for a row that REPLACE takes away, too: by default it would slip past them.
    connection.execute("PRAGMA recursive_triggers = ON")
    connection.execute("PRAGMA busy_timeout = 20000")


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def never_changes(table: Table) -> None:
    """Have the database refuse to change or delete rows, whether by program, in a shell or by mistake."""
    name, refused = table.name, f"{table.name} are append-only"
    guards = {
        "sqlite": [
            f"CREATE TRIGGER {name}_{change} BEFORE {change} ON {name}"
            f" BEGIN SELECT RAISE(ABORT, '{refused}'); END"
            for change in ("UPDATE", "DELETE")
        ],
        "postgresql": [
            f"CREATE FUNCTION {name}_refused() RETURNS trigger LANGUAGE plpgsql AS"
            f" $$BEGIN RAISE '{refused}' USING ERRCODE = 'restrict_violation'; END$$",
            f"CREATE TRIGGER {name}_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON {name}"
            f" EXECUTE FUNCTION {name}_refused()",
        ],
    }

    def add(_: object, connection: Connection, **__: object) -> None:
        for guard in guards[connection.dialect.name]:
            connection.exec_driver_sql(guard)

    event.listen(table, "after_create", add)
