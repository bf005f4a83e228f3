"""The adapters that packages of this environment register, and the settings that name them.

The adapters of this distribution win over others of the same name, and are found without reading the metadata
of every package.
"""

import re
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from typing import Any, Final, Generic, TypeVar

import attrs
from attrs import frozen

from meetcore.adapters.settings.kinds import Rule
from meetcore.adapters.settings.names import PREFIX
from meetcore.ports.ai import NoteWriter, Transcriber
from meetcore.ports.mails import Mailer
from meetcore.ports.plugins import (
    AnyGatewayPlugin,
    AnyProviderPlugin,
    GatewayPlugin,
    Plugin,
    ProviderPlugin,
    SettingsRefused,
)
from meetcore.ports.requests import RateCounters
from meetcore.ports.webhook_sender import WebhookSender

K = TypeVar("K", bound=Plugin[Any, Any])

_DISTRIBUTION: Final = "meetcore"
_PLACE: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


@cache
def _own_entry_points() -> metadata.EntryPoints:
    try:
        return metadata.distribution(_DISTRIBUTION).entry_points
    except metadata.PackageNotFoundError:  # a checkout that is not installed
        return metadata.EntryPoints()


@frozen(eq=False)
class Group(Generic[K]):
    """A group of entry points, each a plugin of this kind or a function that opens an adapter.

    `setting` names the chosen one; `absent` is the value that chooses none, or leaves it to other settings.
    """

    name: str
    setting: str
    kind: type[K]
    absent: str | None = None

    @property
    def variable(self) -> str:
        """The variable that names the chosen one."""
        return f"{PREFIX}{self.setting.upper()}"

    @property
    def rule(self) -> Rule:
        """The rule of the setting."""
        absent = "" if self.absent is None else f"{self.absent or 'empty'}, "
        must = f"must be {absent}the name of an installed adapter, or package.module:name of one"
        return Rule(must, self._check, with_reason=True)

    def own_names(self) -> list[str]:
        """List the names of this distribution's own."""
        return sorted(_own_entry_points().select(group=self.name).names)

    def is_foreign(self, name: str) -> bool:
        """Return whether a name is that of another distribution's adapter."""
        return name not in ("", self.absent, *self.own_names())

    def load(self, name: str) -> K:
        """Import a plugin by its name; raises `SettingsRefused` where it is unknown, broken or no plugin."""
        try:
            entry = self._find(name)
        except ValueError as error:
            raise SettingsRefused(f"{self.variable} {self.rule.must}: {error}") from None
        place = f"{self.variable} is {name}"
        try:
            found = entry.load()
        except Exception as error:  # importing runs code of others
            raise SettingsRefused(
                f"{place}, and {entry.value} cannot be imported ({type(error).__name__}: {error}): install "
                "its package in this environment, or fix it"
            ) from error
        if isinstance(found, self.kind):
            return found
        if isinstance(found, Plugin | type) or not callable(found):
            raise SettingsRefused(
                f"{place}, and {entry.value} is neither a {self.kind.__name__} of meetcore.ports.plugins nor "
                "a function that opens an adapter"
            )
        return self.kind(found)

    def distribution(self, name: str) -> str:
        """Return the name and the version of the distribution of a plugin."""
        entry = self._find(name)
        if entry.dist is not None:
            return f"{entry.dist.name} {entry.dist.version}"
        owners = metadata.packages_distributions().get(entry.module.partition(".")[0], [])
        return f"{owners[0]} {metadata.version(owners[0])}" if owners else "of no installed distribution"

    def _check(self, name: str) -> None:
        if name != self.absent:
            self._find(name)

    def _find(self, name: str) -> metadata.EntryPoint:
        if _PLACE.fullmatch(name):
            return metadata.EntryPoint(name, name, self.name)
        own = _own_entry_points().select(group=self.name, name=name)
        for found in own or metadata.entry_points(group=self.name, name=name):
            return found
        known = sorted({*self.own_names(), *metadata.entry_points(group=self.name).names})
        raise ValueError(f"known here are {', '.join(known) or 'none'}; see docs/adapters.md")


PROVIDERS: Final[Group[AnyProviderPlugin]] = Group("meetcore.providers", "provider", ProviderPlugin)
GATEWAYS: Final[Group[AnyGatewayPlugin]] = Group(
    "meetcore.gateways", "payment_gateway", GatewayPlugin, "none"
)
TRANSCRIBERS: Final[Group[Plugin[Any, Transcriber | None]]] = Group(
    "meetcore.transcribers", "transcriber", Plugin, ""
)
WRITERS: Final[Group[Plugin[Any, NoteWriter]]] = Group("meetcore.writers", "writer", Plugin, "")
MAILERS: Final[Group[Plugin[Any, Mailer]]] = Group("meetcore.mailers", "mailer", Plugin, "")
SENDERS: Final[Group[Plugin[Any, WebhookSender]]] = Group("meetcore.senders", "sender", Plugin)
RATE_COUNTERS: Final[Group[Plugin[Any, RateCounters]]] = Group(
    "meetcore.rate_counters", "rate_counters", Plugin, ""
)
GROUPS: Final[tuple[Group[Any], ...]] = (
    PROVIDERS, GATEWAYS, TRANSCRIBERS, WRITERS, MAILERS, SENDERS, RATE_COUNTERS,
)  # fmt: skip


def own_settings(chosen: Mapping[str, object]) -> list[type]:
    """Return the settings classes of the adapters of others that are chosen, by the names of the settings."""
    names = ((group, str(chosen.get(group.setting, ""))) for group in GROUPS)
    plugins = [group.load(name) for group, name in names if group.is_foreign(name)]
    return [plugin.settings for plugin in plugins if plugin.settings is not None]


def field_types(kind: type) -> dict[str, Any]:
    """Return the types of the fields of a settings class, by their names."""
    if any(isinstance(each.type, str) for each in attrs.fields(kind)):
        attrs.resolve_types(kind)
    return {each.name: each.type for each in attrs.fields(kind)}
