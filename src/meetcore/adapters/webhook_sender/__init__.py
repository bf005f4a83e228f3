"""Post webhooks over asyncio, to addresses vetted for each attempt.

`sender` makes an attempt, `resolver` looks up names, `dialling` connects, `pool` keeps connections,
`connection` writes a request and reads its response into an `Exchange`.
"""

from typing import TYPE_CHECKING, Any

from meetcore.adapters.webhook_sender.resolver import LookupLimits, SystemResolver

if TYPE_CHECKING:
    from meetcore.adapters.webhook_sender.sender import AsyncioWebhookSender

__all__ = ["AsyncioWebhookSender", "LookupLimits", "SystemResolver"]


def __getattr__(name: str) -> Any:
    """Import the sender on first use, to spare programs that post nothing."""
    if name != "AsyncioWebhookSender":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from meetcore.adapters.webhook_sender.sender import AsyncioWebhookSender

    return AsyncioWebhookSender
