"""Posts webhooks over aiohttp, to addresses vetted for each attempt and to nothing else.

`sender` makes the attempt, `resolver` asks the system for names, `dialling` pins the attempt to its vetted
addresses, `pool` keeps the connections, `exchange` writes and reads on one of them, `answers` turns what
came back into what is kept, `shortage` tells our own failures apart. Retries, signatures and states are
decided elsewhere.
"""

from meetcore.adapters.webhook_sender.resolver import SystemResolver
from meetcore.adapters.webhook_sender.sender import AiohttpWebhookSender

__all__ = ["AiohttpWebhookSender", "SystemResolver"]
