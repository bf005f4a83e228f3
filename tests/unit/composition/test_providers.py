"""The registered video providers: each has everything that the service needs of it."""

import sys
from contextlib import AsyncExitStack
from types import SimpleNamespace

import pytest
from attrs import evolve

from meetcore.adapters.jitsi import JitsiProvider
from meetcore.adapters.settings import SecretStr, Settings, SettingsRefused
from meetcore.adapters.settings.plugins import PROVIDERS
from meetcore.composition.plugins import ServiceParts, check_name
from meetcore.composition.providers import open_provider, webhook_parsers
from meetcore.domain.meetings.meetings import ProviderAbilities
from meetcore.ports.plugins import Context

NAMES = tuple(PROVIDERS.own_names())
ZOOM = Settings(zoom_account_id="a", zoom_client_id="b", zoom_client_secret=SecretStr("c"))


@pytest.mark.parametrize("name", NAMES)
async def test_a_provider_and_its_files_are_of_one_name(name: str) -> None:
    settings = evolve(ZOOM, provider=name)
    pool: object = object()  # nothing is asked of it
    async with AsyncExitStack() as stack:
        parts = ServiceParts(settings, (bytes(32),), pool)  # type: ignore[arg-type]
        provider, files = open_provider(parts, stack)
        assert provider.abilities.name == files.provider == name


def open_jitsi(_: Context[None]) -> JitsiProvider:
    return JitsiProvider("https://rooms.example", bytes(32))


class Rooms(JitsiProvider):
    @property
    def abilities(self) -> ProviderAbilities:
        return evolve(super().abilities, name="rooms")


def open_rooms(_: Context[None]) -> Rooms:
    return Rooms("https://rooms.example", bytes(32))


async def test_a_provider_of_others_has_a_name_of_its_own_and_no_recordings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = SimpleNamespace(open_rooms=open_rooms, open_jitsi=open_jitsi)
    monkeypatch.setitem(sys.modules, "rooms", module)
    async with AsyncExitStack() as stack:
        provider, files = open_provider(ServiceParts(Settings(provider="rooms:open_rooms")), stack)
        assert provider.abilities.name == files.provider == "rooms"
        with pytest.raises(
            SettingsRefused, match="the adapter calls itself jitsi: give it a name of its own"
        ):
            open_provider(ServiceParts(Settings(provider="rooms:open_jitsi")), stack)


def test_a_provider_is_registered_under_its_name() -> None:
    with pytest.raises(
        SettingsRefused, match="MEETCORE_PROVIDER is zoom, and the adapter calls itself rooms"
    ):
        check_name(PROVIDERS, "zoom", "rooms")


@pytest.mark.parametrize("chosen", NAMES)
def test_webhooks_of_zoom_are_taken_wherever_its_secret_is_set(chosen: str) -> None:
    assert webhook_parsers(Settings(provider=chosen)) == {}
    token = SecretStr("t0ken")
    assert webhook_parsers(Settings(provider=chosen, zoom_webhook_token=token)).keys() == {"zoom"}
