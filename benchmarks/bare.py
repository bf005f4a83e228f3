"""The floor of `GET /me`: one Starlette route with one SELECT by primary key, and nothing else.

Server, sessions and number of connections are as in `meetcore serve`; the pool is the driver's own.
"""

import argparse
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from psycopg import AsyncConnection
from psycopg.rows import DictRow
from psycopg_pool import AsyncConnectionPool
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from meetcore.adapters.postgres.pool import make_pool
from meetcore.adapters.settings import Settings

SELECT = "SELECT user_id::text, email, full_name, balance FROM accounts WHERE id = %(id)s"


def bare_app(database_url: str, account_id: str) -> Starlette:
    size = Settings().database_pool_size
    pool = AsyncConnectionPool[AsyncConnection[DictRow]](
        database_url,
        kwargs=make_pool(database_url, max_size=size).kwargs,
        min_size=1,
        max_size=size,
        open=False,
    )

    async def show(_: Request) -> JSONResponse:
        async with pool.connection() as connection:
            cursor = await connection.execute(SELECT, {"id": account_id})
            return JSONResponse(await cursor.fetchone())

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with pool:
            yield

    return Starlette(routes=[Route("/api/v1/me", show)], lifespan=lifespan)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("database_url")
    parser.add_argument("account_id")
    parser.add_argument("--port", type=int, required=True)
    arguments = parser.parse_args()
    uvicorn.run(
        bare_app(arguments.database_url, arguments.account_id), port=arguments.port, loop="uvloop",
        http="httptools", lifespan="on", access_log=False, server_header=False, log_level="warning",
    )  # fmt: skip


if __name__ == "__main__":
    main()
