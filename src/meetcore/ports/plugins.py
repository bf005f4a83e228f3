"""The contract between the service and an adapter that it opens: ours and those of other packages.

An adapter is offered as a function that opens it, or as a plugin where it has settings or more. A setting
names it, by an entry point of a group or as `package.module:name`::

    group                     setting                    kind               opens
    meetcore.providers        MEETCORE_PROVIDER          ProviderPlugin     ports.video_provider.VideoProvider
    meetcore.gateways         MEETCORE_PAYMENT_GATEWAY   GatewayPlugin      ports.payments.PaymentGateway
    meetcore.transcribers     MEETCORE_TRANSCRIBER       Plugin             ports.ai.Transcriber
    meetcore.writers          MEETCORE_WRITER            Plugin             ports.ai.NoteWriter
    meetcore.mailers          MEETCORE_MAILER            Plugin             ports.mails.Mailer
    meetcore.senders          MEETCORE_SENDER            Plugin             ports.webhook_sender.WebhookSender
    meetcore.rate_counters    MEETCORE_RATE_COUNTERS     Plugin             ports.requests.RateCounters
"""

from collections.abc import Awaitable, Callable, Collection
from contextlib import AsyncExitStack
from datetime import datetime
from typing import Any, Generic, TypeVar

from attrs import field, frozen

from meetcore.ports.observability import NO_TRACING, Log, Tracing
from meetcore.ports.payments import NotificationParser, PaymentGateway
from meetcore.ports.recording_files import RecordingFiles
from meetcore.ports.video_provider import VideoProvider, WebhookParser

__all__ = ["Context", "GatewayPlugin", "Plugin", "ProviderPlugin", "SecretStr", "SettingsRefused"]

S = TypeVar("S")
P = TypeVar("P")
V = TypeVar("V", bound=VideoProvider)


class SecretStr(str):
    """A text that is not shown in the `repr` of what holds it."""

    def __repr__(self) -> str:
        return "'*******'" if self else "''"


class SettingsRefused(Exception):
    """A setting is impossible. The message names the variable and what it must be."""


@frozen(eq=False)
class Context(Generic[S]):
    """The arguments of a function that opens an adapter.

    `settings` are the adapter's own, `None` where its plugin declares none. `base_url` is the service's
    address. `stack` closes what is pushed on it when the process ends. `now` returns the present instant, in
    UTC; `log` and `tracing` are those of the process.
    """

    settings: S
    base_url: str
    stack: AsyncExitStack = field(repr=False)
    now: Callable[[], datetime]
    log: Log
    tracing: Tracing = NO_TRACING


@frozen(eq=False)
class Plugin(Generic[S, P]):
    """An adapter of one port.

    `open` returns the adapter without waiting: it is called on the event loop, at the start of a service and
    on first use by a command, and connects when it is first used. `settings` is an attrs class whose fields
    are variables: `acme_url` is `MEETCORE_ACME_URL`, of type `str`, `SecretStr`, `int`, `float` or `bool`; a
    field without a default is required, and a validator raises `ValueError`. `check` makes one harmless call
    for `meetcore doctor`, closes its connections, and returns a text for the operator; it raises
    `SettingsRefused` with the fault. Neither text may hold a secret.
    """

    open: Callable[[Context[S]], P]
    settings: type[S] | None = None
    check: Callable[[Context[S]], Awaitable[str]] | None = None


@frozen(eq=False)
class ProviderPlugin(Plugin[S, V]):
    """A video provider; its name in `ProviderAbilities` is the one that it is registered under.

    `files` returns the files of its recordings; without, there are none. `webhook_parser` returns the parser
    of what is posted to `/provider-events/<name>`, `None` where no secret to verify it by is set.
    """

    files: Callable[[V], RecordingFiles] | None = None
    webhook_parser: Callable[[S], WebhookParser | None] | None = None


@frozen(eq=False)
class GatewayPlugin(Plugin[S, PaymentGateway]):
    """A payment gateway; its `name` is the one that it is registered under.

    `parser` returns the parser of what is posted to `/payment-events/<name>`, `None` where no secret to
    verify it by is set. `currencies` returns the currencies that it takes; without, it takes any.
    """

    parser: Callable[[S], NotificationParser | None] | None = None
    currencies: Callable[[], Collection[str]] | None = None


AnyProviderPlugin = ProviderPlugin[Any, Any]
AnyGatewayPlugin = GatewayPlugin[Any]
