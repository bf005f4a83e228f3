"""The registered video providers: each has everything that the service needs of it."""

from contextlib import AsyncExitStack

import pytest
from attrs import evolve

from meetcore.adapters.settings import SecretStr, Settings
from meetcore.adapters.settings.plugins import PROVIDERS
from meetcore.composition.plugins import ServiceParts
from meetcore.composition.providers import open_provider, webhook_parsers

NAMES = ("jitsi", "sandbox", "zoom")
ZOOM = Settings(zoom_account_id="a", zoom_client_id="b", zoom_client_secret=SecretStr("c"))


def test_ours_are_registered() -> None:
    assert tuple(PROVIDERS.own_names()) == NAMES


@pytest.mark.parametrize("name", NAMES)
async def test_a_provider_and_its_files_are_of_one_name(name: str) -> None:
    settings = evolve(ZOOM, provider=name)
    pool: object = object()  # nothing is asked of it
    async with AsyncExitStack() as stack:
        parts = ServiceParts(settings, (bytes(32),), pool)  # type: ignore[arg-type]
        provider, files = open_provider(parts, stack)
        assert provider.abilities.name == files.provider == name


@pytest.mark.parametrize("chosen", NAMES)
def test_webhooks_of_zoom_are_taken_wherever_its_secret_is_set(chosen: str) -> None:
    assert webhook_parsers(Settings(provider=chosen)) == {}
    token = SecretStr("t0ken")
    assert webhook_parsers(Settings(provider=chosen, zoom_webhook_token=token)).keys() == {"zoom"}
