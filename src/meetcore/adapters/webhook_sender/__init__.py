"""Posts webhooks over aiohttp, to addresses vetted for each attempt and to nothing else.

`sender` makes the attempt, `dialling` pins it to its vetted addresses, `answers` turns what came back
into what is kept, `resolver` asks the system for names. Retries, signatures and states are decided
elsewhere.
"""

from meetcore.adapters.webhook_sender.resolver import SystemResolver
from meetcore.adapters.webhook_sender.sender import AiohttpWebhookSender

__all__ = ["AiohttpWebhookSender", "SystemResolver"]
