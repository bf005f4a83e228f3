"""Posts webhooks over asyncio, to addresses vetted for each attempt and to nothing else.

`sender` makes the attempt, `resolver` asks the system for names, as many at a time as `lookup_limits` lets
it, `dialling` connects to the vetted addresses, `pool` keeps the connections, `semaphore` bounds the posts
under way, `connection` writes a request and reads the answer on one of them, `answers` turns what came back
into what is kept, `local_faults` finds our own failures. Retries, signatures and states are decided
elsewhere.
"""

from typing import TYPE_CHECKING, Any

from meetcore.adapters.webhook_sender.lookup_limits import LookupLimits
from meetcore.adapters.webhook_sender.resolver import SystemResolver

if TYPE_CHECKING:
    from meetcore.adapters.webhook_sender.sender import AsyncioWebhookSender

__all__ = ["AsyncioWebhookSender", "LookupLimits", "SystemResolver"]


def __getattr__(name: str) -> Any:
    """Import the sender on first use: a program that posts nothing is spared it."""
    if name != "AsyncioWebhookSender":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from meetcore.adapters.webhook_sender.sender import AsyncioWebhookSender

    return AsyncioWebhookSender
