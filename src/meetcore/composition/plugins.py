"""Opening the adapters that the settings name: ours and those of other packages, by one contract.

Ours declare `ServiceParts` as their settings: those of the service, and more of the process.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from traceback import extract_tb
from typing import TYPE_CHECKING, Any, TypeVar

import structlog
from attrs import field, frozen

from meetcore.adapters.settings import PREFIX, Settings, SettingsRefused, load_own_settings, plugins
from meetcore.adapters.system import SystemClock
from meetcore.ports.observability import NO_TRACING
from meetcore.ports.plugins import Context, Plugin

if TYPE_CHECKING:
    from meetcore.adapters.postgres.pool import Pool
    from meetcore.adapters.webhook_sender import AsyncioWebhookSender
    from meetcore.ports import ai, mails, payments, recording_files, requests, video_provider, webhook_sender
    from meetcore.ports.observability import Tracing

P = TypeVar("P")

DOCUMENTS_AT_ONCE = 8
DOCUMENT_S = 5.0

log = structlog.get_logger("meetcore")


@frozen(eq=False)
class ServiceParts:
    """The settings and the keys of a service and, in one that runs, its pool and its way to receivers."""

    settings: Settings
    keys: tuple[bytes, ...] = field(default=(), repr=False)
    pool: Pool | None = None
    resolver: webhook_sender.Resolver | None = None
    dial_overrides: Mapping[str, tuple[str, int]] = field(factory=dict)


@frozen(eq=False, kw_only=True)
class OwnPorts:
    """Ports that a program makes by itself; those that are `None` are opened as the settings name them.

    The program opens and closes them. A `provider` without `files` has no recordings; with a `webhook_parser`
    it posts to `/provider-events/<its name>`, a `gateway` with a `notification_parser` to
    `/payment-events/<its name>`.
    """

    provider: video_provider.VideoProvider | None = None
    files: recording_files.RecordingFiles | None = None
    webhook_parser: video_provider.WebhookParser | None = None
    gateway: payments.PaymentGateway | None = None
    notification_parser: payments.NotificationParser | None = None
    transcriber: ai.Transcriber | None = None
    note_writer: ai.NoteWriter | None = None
    mailer: mails.Mailer | None = None
    sender: webhook_sender.WebhookSender | None = None
    counters: requests.RateCounters | None = None


def own_settings(plugin: Plugin[Any, Any], parts: ServiceParts) -> Any:
    """Return the settings that a plugin declares, read and checked; raises `SettingsRefused`."""
    if plugin.settings is None or plugin.settings is ServiceParts:
        return plugin.settings and parts
    return load_own_settings(plugin.settings)


def context_for(
    plugin: Plugin[Any, Any], parts: ServiceParts, stack: AsyncExitStack, tracing: Tracing = NO_TRACING
) -> Context[Any]:
    """Return the arguments of a plugin's `open`; raises `SettingsRefused`."""
    own = own_settings(plugin, parts)
    return Context(own, parts.settings.base_url, stack, SystemClock().now, log, tracing)


def open_named(
    group: plugins.Group[Plugin[Any, P]],
    name: str,
    parts: ServiceParts,
    stack: AsyncExitStack,
    tracing: Tracing = NO_TRACING,
) -> P:
    """Open the adapter of this name; raises `SettingsRefused`."""
    plugin = group.load(name)
    return opened(group, name, plugin, context_for(plugin, parts, stack, tracing))


def opened(group: plugins.Group[Any], name: str, plugin: Plugin[Any, P], context: Context[Any]) -> P:
    """Open a plugin that was loaded by this name; raises `SettingsRefused`."""
    with refusing(group, name):
        adapter = plugin.open(context)
    if isinstance(adapter, Coroutine):
        adapter.close()
        raise SettingsRefused(f"{group.variable} is {name}, and the function that opens it is async")
    return adapter


@contextmanager
def refusing(group: plugins.Group[Any], name: str) -> Iterator[None]:
    """Raise `SettingsRefused` for any fault of an adapter that is opened.

    The message names the type of the fault and its line, not its text, which may hold a secret.
    """
    try:
        yield
    except SettingsRefused:
        raise
    except Exception as error:  # opening runs code of others
        _, _, *frames = extract_tb(error.__traceback__)
        place = f" at {frames[0].filename}, line {frames[0].lineno}" if frames else ""
        raise SettingsRefused(
            f"{group.variable} is {name}, and it cannot be opened: {type(error).__name__}{place}"
        ) from error


def check_name(group: plugins.Group[Any], name: str, own: str) -> None:
    """Make sure that an adapter's own name, which records keep, is that of its registration, and not ours."""
    if own != name and (":" not in name or own in group.own_names()):
        known = "a name of its own" if ":" in name else "the name that it is registered under"
        raise SettingsRefused(
            f"{group.variable} is {name}, and the adapter calls itself {own}: give it {known}"
        )


def names_of(settings: Settings) -> dict[plugins.Group[Any], str]:
    """Return the name of the adapter of each group that a service with these settings uses."""
    names = (
        settings.provider, settings.payment_gateway, settings.transcriber_name, settings.writer_name,
        settings.mailer_name, settings.sender, settings.counters_name,
    )  # fmt: skip
    pairs = zip(plugins.GROUPS, names, strict=True)
    return {group: name for group, name in pairs if name not in ("", "none")}


def describe(settings: Settings) -> str:
    """Name the adapters with their distributions, and the settings of their own without secrets.

    Raises `SettingsRefused` where a setting is missing or impossible.
    """
    found = []
    for group, name in names_of(settings).items():
        described = f"{group.setting} {name} ({group.distribution(name)})"
        if group.is_foreign(name):
            own = own_settings(group.load(name), ServiceParts(settings))
            names = () if own is None else plugins.field_types(type(own))
            described += "".join(f" {PREFIX}{each.upper()}={getattr(own, each)!r}" for each in names)
        found.append(described)
    return ", ".join(found)


def _open_postgres_counters(context: Context[ServiceParts]) -> requests.RateCounters:
    from meetcore.adapters.postgres.requests.rate_counters import PostgresRateCounters

    assert context.settings.pool is not None
    return PostgresRateCounters(context.settings.pool)


def _open_redis_counters(context: Context[ServiceParts]) -> requests.RateCounters:
    from meetcore.adapters.redis import RedisRateCounters  # an extra

    context.settings.settings.require_counters()
    counters = RedisRateCounters(str(context.settings.settings.rate_store_url))
    context.stack.push_async_callback(counters.aclose)
    return counters


def _open_http_sender(context: Context[ServiceParts]) -> webhook_sender.WebhookSender:
    # As many as the delivery worker keeps in flight: posts to hanging receivers must not delay others.
    most = context.settings.settings.webhook_posts_in_flight
    return _open_sender(context.settings, context.stack, max_connections=most)


def open_documents(parts: ServiceParts, stack: AsyncExitStack) -> webhook_sender.DocumentFetcher:
    """Open the fetcher of documents that strangers name: few at a time, each for some seconds."""
    seconds = {"max_wait_s": DOCUMENT_S, "timeout_s": DOCUMENT_S}
    return _open_sender(parts, stack, max_connections=DOCUMENTS_AT_ONCE, max_open=1, **seconds)


def _open_sender(parts: ServiceParts, stack: AsyncExitStack, **limits: Any) -> AsyncioWebhookSender:
    from meetcore.adapters.webhook_sender import AsyncioWebhookSender

    settings = parts.settings
    assert parts.resolver is not None
    sender = AsyncioWebhookSender(
        parts.resolver,
        settings.allowed_networks,
        denied_networks=settings.denied_networks,
        ca_file=settings.ca_file or None,
        dial_overrides=parts.dial_overrides,
        **limits,
    )
    sender.open()
    stack.push_async_callback(sender.close)
    return sender


POSTGRES_COUNTERS = Plugin(_open_postgres_counters, ServiceParts)
REDIS_COUNTERS = Plugin(_open_redis_counters, ServiceParts)
HTTP_SENDER = Plugin(_open_http_sender, ServiceParts)
