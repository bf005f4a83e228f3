"""The settings that a session needs, and how it gets them behind a pooler that lends connections for one transaction each.

PgBouncer in transaction mode refuses start-up options, or drops them silently, and a statement that was prepared on
one connection is unknown to the next. There the role has the settings, and nothing is prepared.
"""

from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg import sql

from meetcore.adapters.postgres import session
from meetcore.adapters.postgres.pool import (
    application_name,
    network_parameters,
    sent_settings,
    session_options,
    session_settings,
    translated,
)

__all__ = ["MissingSettings", "check_role_settings", "check_sent_settings", "other_values"]

# The present settings of a session; limits in milliseconds.
_READ = """
SELECT lower(name), CASE unit WHEN 'ms' THEN setting::bigint END AS limit_ms, setting, current_user
FROM pg_settings WHERE lower(name) = ANY(%(names)s::text[])
"""


class MissingSettings(Exception):
    """A session lacks settings that it needs; the message says what to do."""


def check_role_settings(url: str, deadline_s: int) -> None:
    """Raise `MissingSettings` unless the role itself has each session's settings, or a shorter time limit."""
    wanted = session_settings(deadline_s)
    role, lacking = _lacking(url, wanted)
    if lacking:
        statements = "; ".join(_alter(role, name, wanted[name]) for name in lacking)
        raise MissingSettings(
            f"behind a pooler the role itself must have what each session needs; run: {statements}"
        )


def check_sent_settings(url: str, deadline_s: int) -> None:
    """Raise `MissingSettings` where a session lacks the settings that it is begun with, as by some poolers.

    A pooler that refuses them raises `StoreSessionRefused`.
    """
    _, lacking = _lacking(url, sent_settings(url, deadline_s), options=session_options(url, deadline_s))
    if lacking:
        raise MissingSettings(
            f"a pooler drops what a session is begun with ({', '.join(lacking)}): set "
            "MEETCORE_DATABASE_POOLER=transaction, or name PostgreSQL itself in MEETCORE_DATABASE_URL"
        )


def _lacking(url: str, wanted: Mapping[str, str], **options: str) -> tuple[str, list[str]]:
    """Return the role of a session, and the names of the settings that it has not."""
    shown: dict[str, Any] = (
        network_parameters(url) | session.ENCODING | {"application_name": application_name("check")} | options
    )
    with translated(), psycopg.connect(url, autocommit=True, **shown) as connection:
        connection.prepare_threshold = None
        if options:
            session.correct(connection)
        rows = connection.execute(_READ.encode(), {"names": list(wanted)}).fetchall()
    lacking = [name for name, limit_ms, value, _ in rows if not _is_as_wanted(wanted[name], limit_ms, value)]
    return rows[0][3], lacking


def other_values(url: str) -> dict[str, str]:
    """Return how a session reads and writes values that asks for nothing, by setting, where ours differ."""
    wanted = dict(session.VALUES)
    shown = network_parameters(url) | {"application_name": application_name("check"), "options": ""}
    with translated(), psycopg.connect(url, autocommit=True, **shown) as connection:
        connection.prepare_threshold = None
        rows = connection.execute(_READ.encode(), {"names": list(wanted)}).fetchall()
    del wanted["timezone"]  # which differs on most servers
    return {
        name: value
        for name, _, value, _ in rows
        if name in wanted and not session.is_same(wanted[name], value)
    }


def _is_as_wanted(wanted: str, limit_ms: int | None, value: str) -> bool:
    """Return whether a setting has the value, or is a time limit of at most as long."""
    if limit_ms is None:
        return session.is_same(wanted, value)
    return 0 < limit_ms <= 1000 * int(wanted.removesuffix("s"))


def _alter(role: str, name: str, value: str) -> str:
    statement = sql.SQL("ALTER ROLE {} SET {} = {}").format(
        sql.Identifier(role), sql.Identifier(name), sql.Literal(value)
    )
    return statement.as_string()
