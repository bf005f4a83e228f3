"""Adapters tried before a start, and by `meetcore doctor`: what a start would refuse is refused here.

Settings that belong together are looked at. Those adapters of others that the settings name are opened, as a
start opens them, and closed again.

Whether webhooks can be posted from this machine, by a name server and by TLS, is found out without asking a
stranger: a name that cannot exist is looked up, and TLS is tried with the server of the video provider, or
with our own base URL. `doctor` shows the fault, a worker logs it when it starts.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Collection, Iterable
from contextlib import AsyncExitStack
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import structlog

from meetcore.adapters.settings import Settings, plugins
from meetcore.adapters.settings.plugins import SENDERS
from meetcore.adapters.tls import client_context
from meetcore.adapters.webhook_sender.resolver import answers_lookups
from meetcore.adapters.webhook_sender.trust import holds_authorities
from meetcore.composition import application, gateways, providers
from meetcore.composition.plugins import ServiceParts, context_for, names_of, open_named


def check_adapters(settings: Settings, parts: Collection[application.Part]) -> None:
    """Make sure that a process for these parts can open its adapters; raises `SettingsRefused`."""
    settings.require_provider()
    gateways.find_gateway(settings)
    groups: list[plugins.Group[Any]] = [plugins.PROVIDERS, plugins.GATEWAYS]
    if application.Part.API in parts:
        settings.require_counters()
        providers.oidc_clients(settings)
        groups.append(plugins.RATE_COUNTERS)
    if application.Part.WEBHOOKS in parts:
        providers.sends_mails(settings)
        groups += [plugins.SENDERS, plugins.MAILERS]
    if application.Part.NOTES in parts and providers.can_make_notes():
        settings.require_ai()
        groups += [plugins.TRANSCRIBERS, plugins.WRITERS]
    try_foreign(settings, groups)


def try_foreign(settings: Settings, groups: Iterable[plugins.Group[Any]] = plugins.GROUPS) -> None:
    """Open the adapters of others in these groups, and close them; raises `SettingsRefused`."""

    async def run() -> None:
        async with AsyncExitStack() as stack:
            for group, name in names_of(settings).items():
                if group in groups and group.is_foreign(name):
                    _open(group, name, settings, stack)

    asyncio.run(run())


async def check_foreign(group: plugins.Group[Any], settings: Settings) -> str:
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


def _open(group: plugins.Group[Any], name: str, settings: Settings, stack: AsyncExitStack) -> None:
    parts = ServiceParts(settings)
    if group is plugins.PROVIDERS:
        provider, _ = providers.open_provider(parts, stack)
        providers.webhook_parsers(settings, provider.abilities.name)
    elif group is plugins.GATEWAYS:
        gateways.open_gateway(parts, stack)
        gateways.notification_parsers(settings)
    else:
        open_named(group, name, parts, stack)


log = structlog.get_logger("meetcore.worker")

TIMEOUT_S = 5.0
_SERVERS = {
    "zoom": ("MEETCORE_ZOOM_API_URL", "zoom_api_url"),
    "jitsi": ("MEETCORE_JITSI_URL", "jitsi_url"),
    "sandbox": ("MEETCORE_BASE_URL", "base_url"),
}


def posting_fault(settings: Settings) -> str | None:
    """Return in one sentence why no webhook can be posted from here; `None` where nothing is known."""
    if not answers_lookups():
        return "no name server answers: check /etc/resolv.conf and that its servers are reached from here"
    context = client_context(settings.ca_file or None)
    if not holds_authorities(context, ssl.get_default_verify_paths().capath):
        return "there are no certificate authorities: install ca-certificates, or set MEETCORE_CA_FILE"
    variable, name = _SERVERS.get(settings.provider, _SERVERS["sandbox"])
    place = urlsplit(str(getattr(settings, name)))
    if place.scheme != "https" or place.hostname is None:
        return None
    fault = _handshake_fault(context, place.hostname, place.port or 443)
    return fault and f"{fault} of {variable}"


def _handshake_fault(context: ssl.SSLContext, host: str, port: int) -> str | None:
    try:
        with (
            socket.create_connection((host, port), TIMEOUT_S) as plain,
            context.wrap_socket(plain, server_hostname=host),
        ):
            return None
    except ssl.SSLCertVerificationError as error:
        return f"no TLS ({error.verify_message}; check this machine's clock and authorities) with the server"
    except socket.gaierror:
        return "no address is found for the name"
    except OSError as error:
        return f"no connection ({error.strerror or type(error).__name__}) to the server"


def warn_of_posting(settings: Settings) -> None:
    """Log from a thread of its own why no webhook can be posted from here; not for a sender of others."""
    if SENDERS.is_foreign(settings.sender):
        return

    def check() -> None:
        if fault := posting_fault(settings):
            log.error("webhooks in doubt", hint=fault)

    Thread(target=check, name="outbound", daemon=True).start()
