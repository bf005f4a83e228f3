"""A client of the API (`pip install 'meetcore[client]'`): typed, blocking or awaited.

::

    Client, AsyncClient   the operations of the API
    verify_webhook        verifies and reads a delivery
    MeetcoreError         the root of the errors; see `errors`
    Meeting, ...          the records; see `records`

A call that changes something has one idempotency key for all its attempts, so that a retry never pays twice.
After 429 and 503 the client waits at least `Retry-After`, up to a limit. The API key is in no message, log
line or `repr`.

The client imports the rules that both sides share (`meetcore.domain`), attrs and httpx. Nothing of the
service imports it.
"""

try:
    from meetcore.client.clients import AsyncClient, Client
except ModuleNotFoundError as missing:
    if missing.name != "httpx":
        raise
    raise ImportError("meetcore.client needs httpx: pip install 'meetcore[client]'") from missing
from meetcore.client import errors, records
from meetcore.client.descriptors import AsyncPages, AsyncResponsePages, Pages, ResponsePages
from meetcore.client.errors import *  # noqa: F403  (the tree, by its own `__all__`)
from meetcore.client.operations import MeetingFlags
from meetcore.client.records import *  # noqa: F403  (likewise)
from meetcore.client.webhooks import SignatureRejected, WebhookEvent, verify_webhook

__all__ = [
    "AsyncClient",
    "AsyncPages",
    "AsyncResponsePages",
    "Client",
    "MeetingFlags",
    "Pages",
    "ResponsePages",
]
__all__ += ["SignatureRejected", "WebhookEvent", "verify_webhook"]
__all__ += errors.__all__
__all__ += records.__all__
