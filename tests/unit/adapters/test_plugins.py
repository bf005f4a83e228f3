"""Adapters that other packages register: found by their names, and refused with what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from meetcore.adapters.settings import (
    Settings,
    SettingsRefused,
    load_own_settings,
    load_settings,
    plugins,
    strange_variables,
)
from meetcore.adapters.settings.plugins import GROUPS, MAILERS, PROVIDERS
from meetcore.composition.adapter_checks import check_adapters, check_foreign
from meetcore.composition.doctor import SERVICE_CHECKS, result_of
from meetcore.composition.plugins import describe
from meetcore.ports.figures import HealthStatus
from meetcore.ports.plugins import Plugin, ProviderPlugin

MODULE = """
from types import SimpleNamespace
from attrs import field, frozen, validators
from meetcore.ports.figures import HealthStatus
from meetcore.ports.plugins import Plugin, ProviderPlugin, SecretStr, SettingsRefused

@frozen
class {name}Settings:
    {name}_url: str = field(validator=validators.matches_re("https://.*"))
    {name}_token: SecretStr = field()
    {name}_seats: "int" = field(default=7, validator=validators.ge(1))
    {name}_is_dry: bool = False
    {name}_region: str = field(default="eu", validator=validators.in_(("eu", "us")))
    {name}_code: str = field(default="none", validator=validators.min_len(3))

    @{name}_token.validator
    def _check_token(self, attribute, value):
        if " " in value:
            raise ValueError(f"{{value}} has a space")

@frozen
class Clashing:
    base_url: str = ""

@frozen
class Odd:
    {name}_list: list = field(factory=list)

async def check(context):
    if context.settings.{name}_seats > 100:
        raise SettingsRefused("too many seats")
    return f"{{context.settings.{name}_seats}} seats at {{context.base_url}}"

def open_it(context):
    return context

def open_provider(_):
    return SimpleNamespace(abilities=SimpleNamespace(name="{name}"))

PROVIDER = ProviderPlugin(open_provider, {name}Settings, check)
MISNAMED = ProviderPlugin(lambda _: SimpleNamespace(abilities=SimpleNamespace(name="zoom")))
AWAITED = ProviderPlugin(check)
EMPTY = ProviderPlugin(lambda _: None)
BROKEN = ProviderPlugin(lambda _: 1 / 0)
PARSES = ProviderPlugin(open_provider, webhook_parser=lambda _: 1 / 0)
CLASHING = ProviderPlugin(open_provider, Clashing)
ODD = ProviderPlugin(open_provider, Odd)
MAILER = Plugin(open_it)
NOTHING = 7
"""


@pytest.fixture
def acme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """An installed package, under a name of its own for each test: it registers a provider and a mailer."""
    name = f"acme{abs(hash(request.node.name)) % 10**8}"
    (tmp_path / f"{name}.py").write_text(MODULE.format(name=name))
    (tmp_path / "broken_acme.py").write_text("import no_such_package\n")
    info = tmp_path / f"{name}_meet-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-meet\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(
        f"[meetcore.providers]\n{name} = {name}:PROVIDER\nbroken = broken_acme:PROVIDER\n"
        f"zoom = broken_acme:PROVIDER\n[meetcore.mailers]\n{name} = {name}:open_it\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("MEETCORE_CONFIG_FILE", raising=False)
    return name


def test_a_registered_plugin_and_a_registered_function_are_loaded(acme: str) -> None:
    assert isinstance(PROVIDERS.load(acme), ProviderPlugin)
    mailer = MAILERS.load(acme)
    assert type(mailer) is Plugin
    assert mailer.open("context") == "context"  # type: ignore[arg-type,comparison-overlap]
    assert PROVIDERS.distribution(acme) == f"{acme}-meet 1.2"
    assert (PROVIDERS.is_foreign(acme), PROVIDERS.is_foreign("zoom")) == (True, False)


def test_a_place_in_a_module_needs_no_registration(acme: str) -> None:
    assert isinstance(PROVIDERS.load(f"{acme}:PROVIDER"), ProviderPlugin)
    assert isinstance(PROVIDERS.load(f"{acme}:open_it"), ProviderPlugin)
    assert PROVIDERS.distribution("attrs:frozen").startswith("attrs ")
    assert PROVIDERS.distribution(f"{acme}:PROVIDER") == "of no installed distribution"


def test_no_other_package_takes_the_name_of_ours(acme: str) -> None:
    assert PROVIDERS.distribution("zoom").startswith("meetcore ")
    assert isinstance(PROVIDERS.load("zoom"), ProviderPlugin)


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.setting)
def test_every_group_has_one_of_ours_and_each_can_be_imported(group: plugins.Group[Any]) -> None:
    assert group.own_names()
    for name in group.own_names():
        assert isinstance(group.load(name), group.kind)
        named: dict[str, Any] = {group.setting: name}
        assert getattr(Settings(**named), group.setting) == name


def test_a_name_that_is_not_registered_is_refused_with_the_known_ones(
    acme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEETCORE_PROVIDER", "zooom")
    with pytest.raises(SettingsRefused) as caught:
        load_settings()
    known = ", ".join(sorted([acme, "broken", "jitsi", "sandbox", "zoom"]))
    assert str(caught.value) == (
        "MEETCORE_PROVIDER must be the name of an installed adapter, or package.module:name of one: "
        f"known here are {known}; see docs/adapters.md"
    )


@pytest.mark.parametrize(("named", "message"), [
    ("broken", "cannot be imported (ModuleNotFoundError: No module named 'no_such_package')"),
    ("no_such_package:x", "cannot be imported (ModuleNotFoundError"),
    ("{acme}:missing", "cannot be imported (AttributeError"),
    ("{acme}:NOTHING", "is neither a ProviderPlugin of meetcore.ports.plugins nor a function"),
    ("{acme}:MAILER", "is neither a ProviderPlugin"),
    ("{acme}:Clashing", "is neither a ProviderPlugin"),
])  # fmt: skip
def test_what_cannot_be_used_is_refused_with_its_place(acme: str, named: str, message: str) -> None:
    name = named.format(acme=acme)
    with pytest.raises(SettingsRefused, match=f"^MEETCORE_PROVIDER is {name}, and ") as caught:
        PROVIDERS.load(name)
    assert message in str(caught.value)


@pytest.mark.parametrize("place", ["a.b", "a:b:c", "a:b.c", ":b", "a:", "a b:c"])
def test_a_malformed_place_is_refused(place: str) -> None:
    with pytest.raises(
        ValueError, match=r"^MEETCORE_PAYMENT_GATEWAY must be none, the name of an installed "
    ):
        Settings(payment_gateway=place)


def own(acme: str) -> Any:
    settings: Any = PROVIDERS.load(acme).settings
    return load_own_settings(settings)


def test_settings_of_its_own_are_read_from_environment_and_file(
    acme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(f'[meetcore]\nprovider = "{acme}"\n{acme}_token = "hunter2"\n{acme}-seats = 9\n')
    monkeypatch.setenv("MEETCORE_CONFIG_FILE", str(file))
    monkeypatch.setenv(f"MEETCORE_{acme.upper()}_URL", "https://a.example")
    monkeypatch.setenv(f"MEETCORE_{acme.upper()}_IS_DRY", "yes")
    settings = load_settings()
    assert settings.provider == acme
    assert not [name for name in strange_variables(settings) if acme.upper() in name]
    assert [name for name in strange_variables(Settings()) if acme.upper() in name]
    found = own(acme)
    assert [getattr(found, f"{acme}_{name}") for name in ("url", "token", "seats", "is_dry")] == [
        "https://a.example", "hunter2", 9, True,
    ]  # fmt: skip
    assert "hunter2" not in repr(found)


async def test_the_doctor_names_adapters_and_settings_and_no_secret(
    acme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(provider=acme)
    with pytest.raises(
        SettingsRefused, match=f"MEETCORE_{acme.upper()}_URL is not set; MEETCORE_.*_TOKEN is"
    ):
        describe(settings)
    monkeypatch.setenv(f"MEETCORE_{acme.upper()}_URL", "https://a.example")
    monkeypatch.setenv(f"MEETCORE_{acme.upper()}_TOKEN", "hunter2")
    text = describe(settings)
    assert f"provider {acme} ({acme}-meet 1.2) MEETCORE_{acme.upper()}_URL='https://a.example'" in text
    assert f"MEETCORE_{acme.upper()}_TOKEN='*******'" in text
    assert ", sender http (meetcore " in text
    assert "hunter2" not in text
    assert await check_foreign(PROVIDERS, settings) == "7 seats at http://127.0.0.1:8000"
    monkeypatch.setenv(f"MEETCORE_{acme.upper()}_SEATS", "101")
    with pytest.raises(SettingsRefused, match="too many seats"):
        await check_foreign(PROVIDERS, settings)
    assert await check_foreign(MAILERS, Settings(mailer=acme)) == f"{acme}, which has no check"


@pytest.mark.parametrize(("named", "message"), [
    (
        "MISNAMED",
        "MEETCORE_PROVIDER is {acme}:MISNAMED, and the adapter calls itself zoom: give it a name",
    ),
    ("AWAITED", "MEETCORE_PROVIDER is {acme}:AWAITED, and the function that opens it is async"),
    ("EMPTY", "MEETCORE_PROVIDER is {acme}:EMPTY, and it cannot be opened: AttributeError"),
    ("BROKEN", "MEETCORE_PROVIDER is {acme}:BROKEN, and it cannot be opened: ZeroDivisionError at "),
    ("PARSES", "MEETCORE_PROVIDER is {acme}:PARSES, and it cannot be opened: ZeroDivisionError at "),
    ("CLASHING", "{acme}.Clashing: base_url are settings of the service"),
    ("ODD", "{acme}.Odd: {acme}_list are not of a type that can be read"),
])  # fmt: skip
def test_what_a_start_refuses_the_doctor_finds(
    acme: str, monkeypatch: pytest.MonkeyPatch, named: str, message: str
) -> None:
    monkeypatch.setenv("MEETCORE_STRANGE", "")  # a warning hides no fault
    settings = Settings(provider=f"{acme}:{named}")
    with pytest.raises(SettingsRefused) as caught:
        check_adapters(settings, ())
    assert str(caught.value).startswith(message.format(acme=acme))
    found = result_of(SERVICE_CHECKS["provider"], settings)
    assert (found.status, found.message) == (HealthStatus.FAILED, str(caught.value))
    is_declaration = named in ("CLASHING", "ODD")
    status = result_of(SERVICE_CHECKS["settings"], settings).status
    assert (status is HealthStatus.FAILED) == is_declaration


@pytest.mark.parametrize(("name", "value", "message"), [
    ("URL", "ftp://user:pw@a", "_URL must match regex 'https://.*'"),
    ("SEATS", "seven", "_SEATS must be a whole number"),
    ("SEATS", "0", "_SEATS must be >= 1"),
    ("IS_DRY", "perhaps", "_IS_DRY must be true or false"),
    ("REGION", "mars", "_REGION must be in ('eu', 'us')"),
    ("CODE", "12", "Length of MEETCORE_{}_CODE must be >= 3: 2"),
    ("TOKEN", "hunter2 x", "_TOKEN: '*******' has a space"),
])  # fmt: skip
def test_an_impossible_setting_of_its_own_is_refused(
    acme: str, monkeypatch: pytest.MonkeyPatch, name: str, value: str, message: str
) -> None:
    monkeypatch.setenv(f"MEETCORE_{acme.upper()}_URL", "https://a.example")
    monkeypatch.setenv(f"MEETCORE_{acme.upper()}_TOKEN", "hunter2")
    monkeypatch.setenv(f"MEETCORE_{acme.upper()}_{name}", value)
    with pytest.raises(SettingsRefused) as caught:
        own(acme)
    rule = f"MEETCORE_{acme.upper()}{message}" if message.startswith("_") else message.format(acme.upper())
    assert str(caught.value) == rule


def test_a_misspelt_setting_of_its_own_is_refused(acme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEETCORE_PROVIDER", acme)
    monkeypatch.setenv(f"MEETCORE_{acme.upper()}_TOKN", "hunter2")
    with pytest.raises(SettingsRefused, match=f"did you mean MEETCORE_{acme.upper()}_TOKEN?"):
        load_settings()
