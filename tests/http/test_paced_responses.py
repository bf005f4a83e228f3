"""Files that pages send: one for each account, made gently, and cut with a reader that holds them."""

import asyncio
from collections.abc import AsyncGenerator
from uuid import UUID, uuid4

import httpx
import pytest
from starlette.types import Message, Receive, Scope, Send

from meetcore.adapters.api.streams import ABORT, PacedResponse
from meetcore.domain.errors import Unprocessable
from meetcore.domain.notes.downloads import DownloadLimits
from meetcore.usecases.requests.export_records import gently, in_place, take_place
from tests.support.api_harness import BASE_URL, Customer
from tests.support.visitors import Visitors


async def pieces(count: int = 3, took_s: float = 0.0) -> AsyncGenerator[bytes, None]:
    for _ in range(count):
        await asyncio.sleep(took_s)
        yield b"x" * 1024


@pytest.mark.parametrize(
    "limits",
    [DownloadLimits(rate_window_s=0.2), DownloadLimits(longest_s=0.2)],
    ids=["too slowly", "too long"],
)
async def test_a_reader_that_takes_nothing_loses_its_place(limits: DownloadLimits) -> None:
    account, was_aborted = uuid4(), asyncio.Event()
    running: set[UUID] = set()
    made = in_place(pieces(), take_place(running, account, 1))
    assert running == {account}

    async def receive() -> Message:
        await was_aborted.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            await asyncio.Event().wait()

    answer = PacedResponse(made, {}, "text/csv", limits)
    async with asyncio.timeout(5):
        scope = {"type": "http", "path": "/dashboard/ledger.csv", "extensions": {ABORT: was_aborted.set}}
        await answer(scope, receive, send)
    assert was_aborted.is_set()
    assert running == set()


async def test_an_account_has_one_place_and_a_process_few() -> None:
    running: set[UUID] = set()
    accounts = [uuid4() for _ in range(4)]
    places = [take_place(running, account, 3) for account in accounts[:3]]
    for account in (accounts[0], accounts[3]):
        with pytest.raises(Unprocessable):
            take_place(running, account, 3)
    for _ in range(2):
        places[0].release()
    take_place(running, accounts[3], 3)
    assert running == set(accounts[1:])
    with pytest.raises(Unprocessable):
        take_place(running, accounts[0], 3)


async def test_a_file_that_is_never_read_leaves_its_place() -> None:
    running: set[UUID] = set()
    in_place(pieces(), take_place(running, uuid4(), 1))
    assert running == set()


async def test_what_makes_a_file_rests_most_of_the_time() -> None:
    clock = asyncio.get_running_loop().time
    start = clock()
    assert len([piece async for piece in gently(pieces(4, took_s=0.05))]) == 4
    assert clock() - start >= 4 * 0.05 * 4 * 0.9


async def test_many_downloads_of_a_ledger_are_one_at_a_time(customer: Customer, visitors: Visitors) -> None:
    browser, path = await visitors.member(customer.account_id), "/dashboard/ledger.csv"
    has_begun, may_end = asyncio.Event(), asyncio.Event()

    async def slow_reader(scope: Scope, receive: Receive, send: Send) -> None:
        async def taken(message: Message) -> None:
            if message["type"] == "http.response.body":
                has_begun.set()
                await may_end.wait()
            await send(message)

        await visitors.service(scope, receive, taken)

    transport = httpx.ASGITransport(slow_reader)
    async with httpx.AsyncClient(
        transport=transport, base_url=BASE_URL, cookies=browser.http.cookies
    ) as reader:
        first = asyncio.create_task(reader.get(path))
        await has_begun.wait()
        assert [(await browser.get(path)).status_code for _ in range(4)] == [409] * 4
        may_end.set()
        assert (await first).status_code == 200
    assert (await browser.get(path)).status_code == 200, "the place is free again"
