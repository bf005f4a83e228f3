"""The table of video providers: each has everything that the service needs of it."""

from contextlib import AsyncExitStack

import pytest
from attrs import evolve

from meetcore.adapters.settings import PROVIDERS as NAMES
from meetcore.adapters.settings import SecretStr, Settings
from meetcore.composition.providers import PROVIDERS, open_provider, webhook_parsers
from meetcore.ports.observability import NO_TRACING

ZOOM = Settings(zoom_account_id="a", zoom_client_id="b", zoom_client_secret=SecretStr("c"))


def test_a_provider_that_may_be_set_is_in_the_table() -> None:
    assert set(PROVIDERS) == set(NAMES)


@pytest.mark.parametrize("name", list(PROVIDERS))
async def test_a_provider_and_its_files_are_of_one_name(name: str) -> None:
    settings = evolve(ZOOM, provider=name)
    pool: object = None  # nothing is asked of it
    async with AsyncExitStack() as stack:
        provider, files = open_provider(settings, pool, (bytes(32),), NO_TRACING, stack)  # type: ignore[arg-type]
        assert provider.abilities.name == files.provider == name


@pytest.mark.parametrize("chosen", list(PROVIDERS))
def test_webhooks_of_zoom_are_taken_wherever_its_secret_is_set(chosen: str) -> None:
    assert webhook_parsers(Settings(provider=chosen)) == {}
    token = SecretStr("t0ken")
    assert webhook_parsers(Settings(provider=chosen, zoom_webhook_token=token)).keys() == {"zoom"}
