"""The floor of `GET /me`: one Starlette route with one SELECT by primary key, and nothing else.

Server, sessions and number of connections are as in `meetcore serve`; the pool is the driver's own.
"""

import sys
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

_SELECT = "SELECT user_id::text, email, full_name, balance FROM accounts WHERE id = %(id)s"


def bare_app(database_url: str, account_id: str) -> Starlette:
    """An application with that route."""
    size = Settings().database_pool_size
    kwargs = make_pool(database_url, max_size=size).kwargs
    pool = AsyncConnectionPool[AsyncConnection[DictRow]](
        database_url, kwargs=kwargs, min_size=1, max_size=size, open=False
    )

    async def show(_: Request) -> JSONResponse:
        async with pool.connection() as connection:
            cursor = await connection.execute(_SELECT, {"id": account_id})
            return JSONResponse(await cursor.fetchone())

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with pool:
            yield

    return Starlette(routes=[Route("/api/v1/me", show)], lifespan=lifespan)


if __name__ == "__main__":
    _, url, account, _, port = sys.argv
    uvicorn.run(
        bare_app(url, account), port=int(port), loop="uvloop", http="httptools", lifespan="on",
        access_log=False, server_header=False, log_level="warning",
    )  # fmt: skip
