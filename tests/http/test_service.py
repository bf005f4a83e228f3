"""The application around its requests: what is counted of them, and what the start leaves behind."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from meetcore.app import Service
from meetcore.ports.metrics import NoMetrics
from tests.support.api_harness import BASE_URL, SECRETS_KEY, settings_for, started


class InProgress(NoMetrics):
    """Counts requests in progress."""

    count = 0

    def begin_request(self) -> None:
        self.count += 1

    def end_request(self) -> None:
        self.count -= 1


@pytest.mark.parametrize("scope", [{"client": (None, 1)}, {"client": None}], ids=["no address", "no headers"])
async def test_a_request_that_cannot_be_read_is_not_in_progress_for_ever(scope: dict[str, Any]):
    service = Service()
    metrics = service._metrics = InProgress()

    async def never(*_: object) -> Any:
        raise AssertionError

    with pytest.raises((AttributeError, KeyError)):
        await service({"type": "http", "path": "/api/v1/me", **scope}, never, never)
    assert metrics.count == 0


@pytest.mark.parametrize("is_own_process", [True, False])
async def test_what_the_start_of_a_process_made_is_collected_no_more(
    migrated_url: str, monkeypatch: pytest.MonkeyPatch, is_own_process: bool
):
    """Not where a program serves beside other things: it would keep their garbage."""
    given = {"DATABASE_URL": migrated_url, "SECRETS_KEY": SECRETS_KEY, "BASE_URL": BASE_URL}
    for name, value in given.items():
        monkeypatch.setenv(f"MEETCORE_{name}", value)
    before = gc.get_freeze_count()
    try:
        async with started(Service() if is_own_process else Service(settings_for(migrated_url))):
            assert (gc.get_freeze_count() > before) == is_own_process
    finally:
        gc.unfreeze()
