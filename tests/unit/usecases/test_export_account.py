"""Exports of accounts: each once at a time, and its place is free again whatever becomes of it."""

from __future__ import annotations

import asyncio
import gc
from uuid import UUID

import pytest

from meetcore.domain.errors import NotFound, Unprocessable
from tests.unit.usecases.application import ApplicationHarness


async def test_of_two_exports_at_once_one_is_made() -> None:
    harness = await ApplicationHarness().start()
    export, id_ = harness.process().account_data.export, harness.caller.account.id
    made = await asyncio.gather(export(id_), export(id_), return_exceptions=True)
    assert [isinstance(one, Unprocessable) for one in made] == [False, True]
    assert export.running == {id_}


async def test_an_export_that_never_streams_frees_its_place() -> None:
    harness = await ApplicationHarness().start()
    export, id_ = harness.process().account_data.export, harness.caller.account.id
    with pytest.raises(NotFound):
        await export(UUID(int=9))
    assert export.running == set()
    pieces = await export(id_)
    with pytest.raises(Unprocessable):
        await export(id_)
    del pieces
    gc.collect()
    assert export.running == set()


async def test_an_export_that_is_over_frees_no_place_of_the_next() -> None:
    harness = await ApplicationHarness().start()
    export, id_ = harness.process().account_data.export, harness.caller.account.id
    first = await export(id_)
    assert [piece async for piece in first]
    second = await export(id_)
    del first
    gc.collect()
    assert export.running == {id_}
    del second
