"""Adapters tried before a start, and by `meetcore doctor`: what a start would refuse is refused here.

Settings that belong together are looked at. Those adapters of others that the settings name are opened, as a
start opens them, and closed again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from contextlib import AsyncExitStack
from typing import Any

from meetcore.adapters.settings import Settings
from meetcore.adapters.settings.plugins import (
    GATEWAYS,
    GROUPS,
    MAILERS,
    PROVIDERS,
    RATE_COUNTERS,
    SENDERS,
    TRANSCRIBERS,
    WRITERS,
    Group,
)
from meetcore.composition.application import Part
from meetcore.composition.gateways import find_gateway, notification_parsers, open_gateway
from meetcore.composition.plugins import ServiceParts, context_for, names_of, open_named
from meetcore.composition.providers import (
    can_make_notes,
    oidc_clients,
    open_provider,
    sends_mails,
    webhook_parsers,
)


def check_adapters(settings: Settings, parts: Collection[Part]) -> None:
    """Make sure that a process for these parts can open its adapters; raises `SettingsRefused`."""
    settings.require_provider()
    find_gateway(settings)
    groups: list[Group[Any]] = [PROVIDERS, GATEWAYS]
    if Part.API in parts:
        settings.require_counters()
        oidc_clients(settings)
        groups.append(RATE_COUNTERS)
    if Part.WEBHOOKS in parts:
        sends_mails(settings)
        groups += [SENDERS, MAILERS]
    if Part.NOTES in parts and can_make_notes():
        settings.require_ai()
        groups += [TRANSCRIBERS, WRITERS]
    try_foreign(settings, groups)


def try_foreign(settings: Settings, groups: Iterable[Group[Any]] = GROUPS) -> None:
    """Open the adapters of others in these groups, and close them; raises `SettingsRefused`."""

    async def run() -> None:
        async with AsyncExitStack() as stack:
            for group, name in names_of(settings).items():
                if group in groups and group.is_foreign(name):
                    _open(group, name, settings, stack)

    asyncio.run(run())


async def check_foreign(group: Group[Any], settings: Settings) -> str:
    """Open the adapter of others that the settings name, run its check, return its text for the operator.

    Raises `SettingsRefused` with its fault.
    """
    name = names_of(settings)[group]
    plugin = group.load(name)
    async with AsyncExitStack() as stack:
        _open(group, name, settings, stack)
        if plugin.check is None:
            return f"{name}, which has no check"
        text: str = await plugin.check(context_for(plugin, ServiceParts(settings), stack))
        return text


def _open(group: Group[Any], name: str, settings: Settings, stack: AsyncExitStack) -> None:
    parts = ServiceParts(settings)
    if group is PROVIDERS:
        provider, _ = open_provider(parts, stack)
        webhook_parsers(settings, provider.abilities.name)
    elif group is GATEWAYS:
        open_gateway(parts, stack)
        notification_parsers(settings)
    else:
        open_named(group, name, parts, stack)
