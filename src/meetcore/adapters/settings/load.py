"""Read the settings, and refuse impossible ones with the names of their variables."""

import os
import re
from pathlib import Path

import attrs
import cattrs
import typed_settings
from typed_settings.converters import register_attrs_hook_factory, register_secret_hook, to_bool
from typed_settings.exceptions import InvalidSettingsError, TsError

from meetcore.adapters.settings import kinds
from meetcore.adapters.settings.names import PREFIX, check_file, misspelt_variables, unknown_variables
from meetcore.adapters.settings.settings import Settings, SettingsRefused

__all__ = ["load_settings", "strange_variables"]

_KINDS = {int: "a whole number", float: "a number", bool: "true or false"}
_OPTION = re.compile(r"for option '(\w+)'")


def load_settings() -> Settings:
    """Read the settings.

    Raises:
        SettingsRefused: one or more values are impossible, a name is misspelt, or the file is not there.
    """
    if misspelt := misspelt_variables(os.environ, _names()):
        raise SettingsRefused("; ".join(misspelt))
    for name in filter(None, os.environ.get(f"{PREFIX}CONFIG_FILE", "").split(":")):
        if not Path(name).is_file():
            raise SettingsRefused(f"{PREFIX}CONFIG_FILE names a file that is not there: {name}")
        try:
            check_file(Path(name), _names())
        except ValueError as error:
            raise SettingsRefused(f"{PREFIX}CONFIG_FILE: {error}") from None
    try:
        loaders = typed_settings.default_loaders(
            "meetcore", config_files_var=f"{PREFIX}CONFIG_FILE", env_prefix=PREFIX
        )
        return typed_settings.load_settings(Settings, loaders, converter=_converter())
    except InvalidSettingsError as error:
        raise SettingsRefused("; ".join(_describe(each) for each in error.exceptions)) from None
    except TsError as error:
        raise SettingsRefused(
            f"{PREFIX}CONFIG_FILE cannot be read as settings: {type(error).__name__}"
        ) from None


def _converter() -> cattrs.Converter:
    """Read the types of the fields above; the library's default converter imports pydantic too (0.06 s)."""
    converter = cattrs.Converter()
    register_attrs_hook_factory(converter)
    register_secret_hook(converter)
    converter.register_structure_hook(bool, to_bool)
    return converter


def strange_variables() -> list[str]:
    """List the variables of the environment that begin with our prefix and are no setting."""
    return unknown_variables(os.environ, _names())


def _names() -> list[str]:
    return [attribute.name for attribute in attrs.fields(Settings)]


def _describe(error: BaseException) -> str:
    text = str(error)
    if option := _OPTION.search(text):
        kind = kinds.plain_type(getattr(attrs.fields(Settings), option[1]).type)
        return f"{PREFIX}{option[1].upper()} must be {_KINDS.get(kind, 'of another type')}"
    named = re.findall(rf"{PREFIX}\w+ must be [^\n]*", text)
    return "; ".join(named) or "the settings do not fit"
