"""Settings from the environment (`MEETCORE_…`) or a TOML file, checked before anything starts.

The file is named by `MEETCORE_CONFIG_FILE` and has one table, `[meetcore]`, with the names below in
lower case. The environment wins. An impossible value is refused with the name of its variable;
secrets are never shown.
"""

from meetcore.adapters.settings.load import load_own_settings, load_settings, strange_variables
from meetcore.adapters.settings.names import PREFIX
from meetcore.adapters.settings.settings import DEFAULT_BASE_URL, Settings
from meetcore.ports.plugins import SecretStr, SettingsRefused

__all__ = [
    "DEFAULT_BASE_URL",
    "PREFIX",
    "SecretStr",
    "Settings",
    "SettingsRefused",
    "load_own_settings",
    "load_settings",
    "strange_variables",
]
