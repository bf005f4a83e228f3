"""What a session needs, and how it gets it behind a pooler that lends connections for one transaction each.

PgBouncer in transaction mode refuses start-up options, or drops them silently, and a statement that was prepared on
one connection is unknown to the next. There the role has the settings, and nothing is prepared.
"""

from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg import sql

from meetcore.adapters.postgres.pool import (
    application_name,
    network_parameters,
    sent_settings,
    session_options,
    session_settings,
    translated,
)

__all__ = ["MissingSettings", "check_role_settings", "check_sent_settings"]

# The present settings of a session; limits in milliseconds.
_READ = """
SELECT lower(name), CASE unit WHEN 'ms' THEN setting::bigint END AS limit_ms, setting, current_user
FROM pg_settings WHERE lower(name) = ANY(%(names)s::text[])
"""


class MissingSettings(Exception):
    """A session lacks settings that it needs; the message says what to do."""


def check_role_settings(url: str, deadline_s: int) -> None:
    """Make sure that the role has the settings of each session by itself. A shorter time limit will do, too.

    Raises:
        MissingSettings: it has not.
        StoreUnavailable: the database does not answer.
    """
    wanted = session_settings(deadline_s)
    role, lacking = _lacking(url, wanted)
    if lacking:
        statements = "; ".join(_alter(role, name, wanted[name]) for name in lacking)
        raise MissingSettings(
            f"behind a pooler the role itself must have what each session needs; run: {statements}"
        )


def check_sent_settings(url: str, deadline_s: int) -> None:
    """Make sure that a session has the settings that it is begun with, as none has behind a pooler that drops them.

    Raises:
        MissingSettings: it has not.
        StoreSessionRefused: a pooler refuses them.
        StoreUnavailable: the database does not answer.
    """
    _, lacking = _lacking(url, sent_settings(deadline_s), options=session_options(url, deadline_s))
    if lacking:
        raise MissingSettings(
            f"a pooler drops what a session is begun with ({', '.join(lacking)}): set "
            "MEETCORE_DATABASE_POOLER=transaction, or name PostgreSQL itself in MEETCORE_DATABASE_URL"
        )


def _lacking(url: str, wanted: Mapping[str, str], **options: str) -> tuple[str, list[str]]:
    """Return the role of a session, and the names of the settings that it has not."""
    shown: dict[str, Any] = (
        network_parameters(url) | {"application_name": application_name("check")} | options
    )
    with translated(), psycopg.connect(url, autocommit=True, **shown) as connection:
        connection.prepare_threshold = None
        rows = connection.execute(_READ.encode(), {"names": list(wanted)}).fetchall()
    lacking = [name for name, limit_ms, value, _ in rows if not _is_as_wanted(wanted[name], limit_ms, value)]
    return rows[0][3], lacking


def _is_as_wanted(wanted: str, limit_ms: int | None, value: str) -> bool:
    """Whether a setting has the value, or is a time limit of at most as long."""
    if limit_ms is None:
        return value.upper() == wanted.upper()
    return 0 < limit_ms <= 1000 * int(wanted.removesuffix("s"))


def _alter(role: str, name: str, value: str) -> str:
    statement = sql.SQL("ALTER ROLE {} SET {} = {}").format(
        sql.Identifier(role), sql.Identifier(name), sql.Literal(value)
    )
    return statement.as_string()
