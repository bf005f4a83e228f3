"""Read the settings, and refuse impossible ones with the names of their variables."""

import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from traceback import walk_tb
from typing import Any, Final, TypeVar

import attrs

from meetcore.adapters.settings import plugins
from meetcore.adapters.settings.names import (
    PREFIX,
    check_names,
    misspelt_variables,
    read_file,
    unknown_variables,
)
from meetcore.adapters.settings.settings import Settings
from meetcore.ports.plugins import SecretStr, SettingsRefused

__all__ = ["load_own_settings", "load_settings", "strange_variables"]

S = TypeVar("S")

_TRUTHS: Final = {
    **dict.fromkeys(("true", "t", "yes", "y", "on", "1"), True),
    **dict.fromkeys(("false", "f", "no", "n", "off", "0"), False),
}
_READERS: Final[dict[Any, tuple[Callable[[Any], object], str]]] = {
    int: (lambda value: int(str(value)), "a whole number"),
    float: (float, "a number"),
    bool: (lambda value: _TRUTHS[str(value).lower()], "true or false"),
    str: (str, "a text"),
    SecretStr: (SecretStr, "a text"),
}
"""Readers of a value by its type, from the text of a variable or a TOML value."""


def load_settings() -> Settings:
    """Read the settings: the environment wins over the file, and a later file over an earlier one.

    Raises `SettingsRefused` where values are impossible, a name is misspelt, or the file is not there.
    """
    types = plugins.field_types(Settings)
    table = _read_files(types)
    known = _known(types, table | _from_environment(types), table)
    if misspelt := misspelt_variables(os.environ, known):
        raise SettingsRefused("; ".join(misspelt))
    try:
        check_names(table, known)
    except ValueError as error:
        raise SettingsRefused(f"{PREFIX}CONFIG_FILE: {error}") from None
    return _made(Settings, types, table)


def load_own_settings(kind: type[S]) -> S:
    """Read the settings that an adapter of others declares, from where those of the service are.

    Raises `SettingsRefused` where one is missing or impossible, or the declaration is.
    """
    types = plugins.field_types(kind)
    ours = sorted(types.keys() & plugins.field_types(Settings).keys())
    wrong = ours or [name for name, each in types.items() if each not in _READERS]
    if wrong:
        fault = (
            "are settings of the service: begin each with the name of the adapter"
            if ours
            else "are not of a type that can be read: str, SecretStr, int, float or bool"
        )
        raise SettingsRefused(f"{kind.__module__}.{kind.__qualname__}: {', '.join(wrong)} {fault}")
    return _made(kind, types, _read_files(plugins.field_types(Settings)))


def strange_variables(settings: Settings) -> list[str]:
    """List the variables of the environment that begin with our prefix and are no setting."""
    types = plugins.field_types(Settings)
    return unknown_variables(os.environ, _known(types, attrs.asdict(settings, recurse=False), {}))


def _known(types: Mapping[str, Any], chosen: Mapping[str, object], given: Collection[str]) -> Collection[str]:
    """Return the names of settings; those of chosen adapters are looked up only where any is not ours."""
    if not unknown_variables(os.environ, types) and types.keys() >= set(given):
        return types.keys()
    return types.keys() | {
        name for kind in plugins.own_settings(chosen) for name in plugins.field_types(kind)
    }


def _read_files(types: Mapping[str, Any]) -> dict[str, object]:
    given: dict[str, object] = {}
    for file in filter(None, os.environ.get(f"{PREFIX}CONFIG_FILE", "").split(":")):
        if not Path(file).is_file():
            raise SettingsRefused(f"{PREFIX}CONFIG_FILE names a file that is not there: {file}")
        try:
            given |= read_file(Path(file), types)
        except ValueError as error:
            raise SettingsRefused(f"{PREFIX}CONFIG_FILE: {error}") from None
    return given


def _from_environment(types: Mapping[str, Any]) -> dict[str, object]:
    variables = {name: f"{PREFIX}{name.upper()}" for name in types}
    return {name: os.environ[each] for name, each in variables.items() if each in os.environ}


def _made(kind: type[S], types: Mapping[str, Any], table: Mapping[str, object]) -> S:
    given = {name: table[name] for name in types if name in table} | _from_environment(types)
    values: dict[str, Any] = {}
    faults = []
    for name, value in given.items():
        read, form = _READERS[types[name]]
        try:
            values[name] = read(value)
        except (ValueError, TypeError, KeyError):
            faults.append(f"{PREFIX}{name.upper()} must be {form}")
    required = [each.name for each in attrs.fields(kind) if each.default is attrs.NOTHING]  # type: ignore[arg-type]
    faults += [f"{PREFIX}{name.upper()} is not set" for name in required if name not in given]
    if faults:
        raise SettingsRefused("; ".join(faults))
    try:
        return kind(**values)
    except (ValueError, TypeError) as error:
        raise SettingsRefused(str(error) if kind is Settings else _fault(error, types, values)) from None


def _fault(error: Exception, types: Collection[str], values: Mapping[str, Any]) -> str:
    """Return the text of another's validator, with the name of its variable and without the value."""
    text = str(error.args[0]) if error.args else type(error).__name__
    arguments = [each for frame, _ in walk_tb(error.__traceback__) for each in frame.f_locals.values()]
    names = [each.name for each in arguments if isinstance(each, attrs.Attribute) and each.name in types]
    if names:
        name, variable = names[-1], f"{PREFIX}{names[-1].upper()}"
        if f"'{name}'" in text:  # of a validator of attrs
            value = values.get(name, "")
            text = text.partition(f" ({value!r} ")[0].partition(f" (got {value!r}")[0]
            text = text.removesuffix(f": {value}").replace(f"'{name}'", variable)
        elif variable not in text:
            text = f"{variable}: {text}"
    for secret in filter(None, values.values()):
        text = text.replace(secret, repr(secret)) if isinstance(secret, SecretStr) else text
    return text
