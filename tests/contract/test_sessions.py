"""How a database, a role or the environment writes values by itself changes nothing."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

import psycopg
import pytest
from psycopg import sql

from meetcore.adapters.postgres import session
from meetcore.adapters.postgres.migrate import migrate, missing
from meetcore.adapters.postgres.pool import make_pool, sent_settings
from meetcore.adapters.postgres.pooler import check_sent_settings, other_values
from meetcore.adapters.postgres.roles import describe_role
from tests.support import servers

FOREIGN = {
    "datestyle": "German", "intervalstyle": "iso_8601", "bytea_output": "escape", "extra_float_digits": "-10",
    "standard_conforming_strings": "off", "timezone": "Asia/Tokyo", "client_encoding": "LATIN1",
    "array_nulls": "off", "transform_null_equals": "on",
}  # fmt: skip
VARIABLES = {"PGDATESTYLE": "German", "PGTZ": "Asia/Tokyo", "PGCLIENTENCODING": "LATIN1"}
VALUES = """SELECT timestamptz '2026-11-27 10:11:12.5+07' AS at, interval '1 day 02:03:04' AS length,
    '\\xff00'::bytea AS bytes, 0.1::float8 + 0.2::float8 AS number, %(text)s::text AS text,
    '{NULL}'::text[] AS list,
    (timestamptz '2026-11-27 10:11:12.5+07')::text AS shown"""
TEXT = "Rapat \N{EN DASH} anggaran 🎉 \\"
EXPECTED = {
    "at": datetime(2026, 11, 27, 3, 11, 12, 500_000, UTC),
    "length": timedelta(days=1, hours=2, minutes=3, seconds=4),
    "bytes": b"\xff\x00", "number": 0.1 + 0.2, "text": TEXT, "list": [None],
    "shown": "2026-11-27 03:11:12.5+00",
}  # fmt: skip


@pytest.fixture
def foreign_url(postgres_server_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A database that writes values in its own way, in an environment that does, too."""
    with servers.fresh_database(postgres_server_url) as url:
        with psycopg.connect(url, autocommit=True) as connection:
            for name, value in FOREIGN.items():
                connection.execute(
                    sql.SQL("ALTER DATABASE {} SET {} = {}").format(
                        sql.Identifier(connection.info.dbname), sql.Identifier(name), sql.Literal(value)
                    )
                )
        for variable, value in VARIABLES.items():
            monkeypatch.setenv(variable, value)
        yield url


@pytest.mark.direct
def test_a_session_asks_for_how_values_are_written(foreign_url: str) -> None:
    async def read() -> dict[str, Any]:
        async with make_pool(foreign_url, max_size=1) as pool:
            [row] = await pool.read(VALUES, {"text": TEXT})
            [found] = await pool.read(
                "SELECT jsonb_object_agg(lower(name), setting) AS it FROM pg_settings", {}
            )
            for name, value in session.VALUES.items():
                assert session.is_same(value, found["it"][name]), name
            return row

    assert sent_settings(foreign_url, 12).items() >= session.VALUES.items()
    assert asyncio.run(read()) == EXPECTED
    check_sent_settings(foreign_url, 12)
    assert other_values(foreign_url).keys() == session.VALUES.keys() - {"timezone"}


@pytest.mark.direct
def test_migrations_and_checks_of_the_role_read_the_same(foreign_url: str) -> None:
    assert migrate(foreign_url)
    assert missing(foreign_url) == migrate(foreign_url) == []
    describe_role(foreign_url)


OF_PLANNER = {"plan_cache_mode": "auto", "enable_seqscan": "on", "jit": "on"}


@pytest.mark.direct
@pytest.mark.parametrize("named", [[], ["plan_cache_mode"], [*OF_PLANNER]], ids=len)
def test_an_address_turns_settings_of_the_planner_off_and_no_others(
    database_url: str, named: list[str]
) -> None:
    asked = " ".join(f"-c {name}={OF_PLANNER[name]}" for name in named)
    url = with_options(database_url, f"{asked} -c jit_above_cost=7 -c statement_timeout=1h")

    async def read() -> dict[str, str]:
        async with make_pool(url, max_size=1) as pool:
            [found] = await pool.read("SELECT jsonb_object_agg(name, setting) AS it FROM pg_settings", {})
            return dict(found["it"])

    found = asyncio.run(read())
    wanted = {"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "jit": "off"}
    assert {name: found[name] for name in wanted} == wanted | {name: OF_PLANNER[name] for name in named}
    assert (found["statement_timeout"], found["jit_above_cost"]) == ("10000", "7")
    check_sent_settings(url, 12)


def with_options(url: str, options: str) -> str:
    at = urlsplit(url)
    return urlunsplit(at._replace(query="&".join(filter(None, (at.query, f"options={quote(options)}")))))
