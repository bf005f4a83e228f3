"""How a session reads and writes values: the same wherever it is opened, whatever server, database, role or
environment set.

The encoding is a parameter of the connection, which wins over the environment. The server reports the settings
that libpq's variables (`PGDATESTYLE`, `PGTZ`) change after the options were read; these are set again where they
differ. A database in another encoding than UTF-8 is refused: it gives bytes for text, or loses characters.
"""

from collections.abc import Mapping
from typing import Any, Final

import psycopg
from psycopg.pq.abc import PGconn

VALUES: Final[Mapping[str, str]] = {
    "timezone": "UTC",
    "datestyle": "ISO,MDY",
    "intervalstyle": "postgres",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "standard_conforming_strings": "on",
    "array_nulls": "on",
    "transform_null_equals": "off",
}
"""The settings that change how values are read and written, by name."""

ENCODING: Final[dict[str, Any]] = {"client_encoding": "UTF8"}
"""The parameter of every connection."""

_PARAMETERS: Final[Mapping[str, bytes]] = {
    "timezone": b"TimeZone", "datestyle": b"DateStyle", "intervalstyle": b"IntervalStyle",
    "standard_conforming_strings": b"standard_conforming_strings",
}  # fmt: skip


class EncodingRefused(Exception):
    """The database is not in UTF-8; the message says what to do."""


def check_encoding(pgconn: PGconn) -> None:
    """Raise `EncodingRefused` for a database that is not in UTF-8."""
    encoding = (pgconn.parameter_status(b"server_encoding") or b"UTF8").decode()
    if encoding != "UTF8":
        raise EncodingRefused(
            f"the database is in {encoding}: make another with CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0"
        )


def is_same(wanted: str, value: str) -> bool:
    """Return whether a setting has a value, whatever its case and blanks."""
    return value.replace(" ", "").upper() == wanted.replace(" ", "").upper()


def corrections(pgconn: PGconn) -> str:
    """Return the statement that sets what the environment changed; empty where it changed nothing."""
    changed = []
    for name, parameter in _PARAMETERS.items():
        value = pgconn.parameter_status(parameter)
        if value is not None and not is_same(VALUES[name], value.decode()):
            changed.append(f"set_config('{name}', '{VALUES[name]}', false)")
    return f"SELECT {', '.join(changed)}" if changed else ""


def correct(connection: psycopg.Connection[Any]) -> None:
    """Set what the environment changed of a session."""
    if statement := corrections(connection.pgconn):
        connection.execute(statement.encode(), prepare=False)


ALL: Final = "SELECT " + ", ".join(
    f"set_config('{name}', '{value}', false)" for name, value in VALUES.items()
)
"""The statement that sets all of them, in a session that was begun without options."""
