"""Read the settings, and refuse impossible ones with the names of their variables."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import attrs

from meetcore.adapters.settings.kinds import SecretStr
from meetcore.adapters.settings.names import PREFIX, misspelt_variables, read_file, unknown_variables
from meetcore.adapters.settings.settings import Settings, SettingsRefused

__all__ = ["load_settings", "strange_variables"]

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
    types = {attribute.name: attribute.type for attribute in attrs.fields(Settings)}
    if misspelt := misspelt_variables(os.environ, types):
        raise SettingsRefused("; ".join(misspelt))
    given: dict[str, object] = {}
    for file in filter(None, os.environ.get(f"{PREFIX}CONFIG_FILE", "").split(":")):
        if not Path(file).is_file():
            raise SettingsRefused(f"{PREFIX}CONFIG_FILE names a file that is not there: {file}")
        try:
            given |= read_file(Path(file), types)
        except ValueError as error:
            raise SettingsRefused(f"{PREFIX}CONFIG_FILE: {error}") from None
    variables = {name: f"{PREFIX}{name.upper()}" for name in types}
    given |= {name: os.environ[each] for name, each in variables.items() if each in os.environ}
    values: dict[str, Any] = {}
    faults = []
    for name, value in given.items():
        read, kind = _READERS[types[name]]
        try:
            values[name] = read(value)
        except (ValueError, TypeError, KeyError):
            faults.append(f"{variables[name]} must be {kind}")
    if faults:
        raise SettingsRefused("; ".join(faults))
    try:
        return Settings(**values)
    except ValueError as error:
        raise SettingsRefused(str(error)) from None


def strange_variables() -> list[str]:
    """List the variables of the environment that begin with our prefix and are no setting."""
    return unknown_variables(os.environ, [attribute.name for attribute in attrs.fields(Settings)])
