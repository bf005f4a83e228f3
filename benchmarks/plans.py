"""`POST /meetings` from an empty database on: what a creation costs when there are many meetings.

The database begins empty and vacuumed, so that every statement of the service is prepared on tables of which
the server knows that they hold nothing. A plan that depends on that shows as rows read through, as blocks and
as a rate that falls.
"""

import asyncio
import base64
import os
from collections.abc import Mapping
from contextlib import ExitStack
from uuid import UUID

import psycopg
from attrs import frozen

from benchmarks.load import Load, run_load
from benchmarks.places import database_server, fresh_database, rate_store
from benchmarks.processes import meetcore_serve
from benchmarks.report import Result
from benchmarks.seeds import SeededAccounts, furnish, wired

__all__ = ["PlanLoad", "measure_plans"]

# What the server counted of the tables: blocks looked at, and rows read in reading tables from end to end.
_COUNTED = """
SELECT (SELECT jsonb_object_agg(relname, heap_blks_hit + heap_blks_read + COALESCE(idx_blks_hit + idx_blks_read, 0))
        FROM pg_statio_user_tables),
    (SELECT jsonb_object_agg(relname, seq_tup_read) FROM pg_stat_user_tables)
"""


@frozen
class PlanLoad:
    """How many meetings are made, and how many requests each of the two figures is taken over."""

    meetings: int = 100_000
    turn: int = 4_000
    first: int = 100


@frozen
class _Turn:
    """A load with what it cost the database, of each creation."""

    load: Load
    blocks_of: Mapping[str, float]
    read_through: Mapping[str, float]

    @property
    def blocks(self) -> float:
        return sum(self.blocks_of.values())


def measure_plans(size: PlanLoad) -> list[Result]:
    """Compare the creations after the first ones with the last ones."""
    secrets_key = base64.urlsafe_b64encode(os.urandom(32)).decode()
    key_ids: set[UUID] = set()
    with ExitStack() as stack:
        server = stack.enter_context(database_server())
        url = stack.enter_context(fresh_database(server))
        redis_url = stack.enter_context(rate_store(key_ids))
        seeded = asyncio.run(_furnish(url, redis_url, secrets_key))
        key_ids |= seeded.key_ids
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("VACUUM")
        service = stack.enter_context(meetcore_serve(url, redis_url, secrets_key))
        run_load(service, "meetings", seeded.keys, requests=size.first)

        def turn() -> _Turn:
            before = _counted(url)
            load = run_load(service, "meetings", seeded.keys, requests=size.turn)
            return _turn(load, before, _counted(url))

        turns = [turn() for _ in range(max(2, -(-(size.meetings - size.first) // size.turn)))]
    first, last = turns[0], turns[-1]
    return [
        Result(
            f"POST /meetings, at {size.meetings:,} meetings, beside at {size.first}",
            last.load.rate, first.load.rate, "requests/s", "ratio ≥ 0.95",
            {
                "cpu_us_per_request": last.load.cpu_us_per_request,
                "floor_cpu_us_per_request": first.load.cpu_us_per_request,
                "blocks": last.blocks, "floor_blocks": first.blocks,
                "rows_read_through": {name: round(rows, 1) for name, rows in last.read_through.items()},
                "note": f"{first.blocks:.0f} blocks of tables and indexes each, then {last.blocks:.0f}, "
                f"the most more of {_grown(first, last)}; "
                f"rows read in reading tables through: {_text(last.read_through)}",
                "curve": [
                    (size.first + (number + 1) * size.turn, each.load.rate)
                    for number, each in enumerate(turns)
                ],
            },
        )
    ]  # fmt: skip


async def _furnish(url: str, redis_url: str, secrets_key: str) -> SeededAccounts:
    async with wired(url, redis_url, secrets_key) as application:
        return await furnish(application)


def _counted(url: str) -> tuple[Mapping[str, int], Mapping[str, int]]:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(_COUNTED).fetchone()
    assert row is not None
    return row[0], row[1]


def _turn(load: Load, before: tuple[Mapping[str, int], ...], after: tuple[Mapping[str, int], ...]) -> _Turn:
    blocks_of, read_through = (
        {name: (count - then.get(name, 0)) / load.requests for name, count in now.items()}
        for then, now in zip(before, after, strict=True)
    )
    return _Turn(load, blocks_of, {name: rows for name, rows in read_through.items() if rows > 0})


def _grown(first: _Turn, last: _Turn) -> str:
    """The table of which a creation looks at more blocks than at first, by the most."""
    more = {name: blocks - first.blocks_of.get(name, 0) for name, blocks in last.blocks_of.items()}
    name = max(more, key=lambda table: more[table])
    return f"{name} ({first.blocks_of.get(name, 0):.0f}, then {last.blocks_of[name]:.0f})"


def _text(read_through: Mapping[str, float]) -> str:
    return ", ".join(f"{rows:.1f} of {name}" for name, rows in read_through.items()) or "none"
