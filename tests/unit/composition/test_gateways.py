"""The table of payment gateways: each has everything that the service needs of it."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest

from meetcore.adapters.settings import SecretStr, Settings, SettingsRefused
from meetcore.adapters.settings.plugins import GATEWAYS
from meetcore.composition import gateways
from meetcore.composition.plugins import ServiceParts

SECRETS: dict[str, Any] = {
    "payment_gateway_secret": SecretStr("k3y"),
    "payment_gateway_webhook_secret": SecretStr("t0ken"),
}
REMOTE = tuple(name for name in GATEWAYS.own_names() if name != "sandbox")


async def test_none_is_none() -> None:
    async with AsyncExitStack() as stack:
        assert gateways.open_gateway(ServiceParts(Settings()), stack) is None
    assert gateways.notification_parsers(Settings()) == {}


@pytest.mark.parametrize("name", REMOTE)
async def test_a_gateway_and_its_parser_are_of_one_name(name: str) -> None:
    settings = Settings(payment_gateway=name, **SECRETS)
    async with AsyncExitStack() as stack:
        opened = gateways.open_gateway(ServiceParts(settings), stack)
        assert opened is not None
        assert opened.name == name
    assert gateways.notification_parsers(settings).keys() == {name}


@pytest.mark.parametrize("name", REMOTE)
def test_what_a_gateway_needs_is_named(name: str) -> None:
    for secret in SECRETS:
        settings = Settings(
            payment_gateway=name, **{other: SECRETS[other] for other in SECRETS if other != secret}
        )
        if (name, secret) == ("midtrans", "payment_gateway_webhook_secret"):
            gateways.find_gateway(settings)
            continue
        with pytest.raises(SettingsRefused, match=f"needs MEETCORE_{secret.upper()} too"):
            gateways.find_gateway(settings)


def test_stripe_needs_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    missing: Callable[[str], ModuleSpec | None] = lambda _: None  # noqa: E731
    monkeypatch.setattr("meetcore.composition.gateways.find_spec", missing)
    with pytest.raises(SettingsRefused, match=r"pip install 'meetcore\[payments\]'"):
        gateways.find_gateway(Settings(payment_gateway="stripe", **SECRETS))
    gateways.find_gateway(Settings(payment_gateway="xendit", **SECRETS))


@pytest.mark.parametrize(("name", "currency", "is_taken"), [
    ("midtrans", "IDR", True), ("midtrans", "SGD", False), ("xendit", "SGD", True), ("xendit", "USD", False),
    ("stripe", "USD", True), ("sandbox", "XYZ", True),
])  # fmt: skip
def test_a_currency_that_the_gateway_does_not_take_is_not_sold(
    tmp_path: Path, name: str, currency: str, is_taken: bool
) -> None:
    file = tmp_path / "tiers.toml"
    for table in (
        f'[[package]]\nid = "a"\ncredits = 1\nprice = 1\ncurrency = "{currency}"',
        f'[free_amount]\ncredits_from = 1\ncredits_to = 2\nprice_per_credit = 1\ncurrency = "{currency}"',
    ):
        file.write_text(table)
        settings = Settings(payment_gateway=name, tiers_file=str(file), **SECRETS)
        if is_taken:
            assert gateways.find_gateway(settings) is GATEWAYS.load(name)
            continue
        with pytest.raises(SettingsRefused, match=f"sells credits for {currency}; {name} takes IDR"):
            gateways.find_gateway(settings)
