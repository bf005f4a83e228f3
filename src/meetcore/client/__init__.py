"""A client of the API (`pip install meetcore-client`, or `'meetcore[client]'`): typed, blocking or awaited.

::

    Client, AsyncClient   the operations of the API
    verify_webhook        verifies a delivery, then reads it
    MeetcoreError         the root of what a call raises; see `errors`
    Meeting, ...          what the API answers with; see `records`

Guarantees: a call that changes something carries one idempotency key over all its attempts, so that a
retry never pays twice; 429 and 503 are waited out for at least `Retry-After`; nothing is tried for ever; the
API key is in no message, log line or `repr`.

Owns the customer's side. Of the service it imports only the rules that both sides share
(`meetcore.domain`), attrs and httpx, and nothing else; nothing of the service imports it.
"""

try:
    from meetcore.client.clients import AsyncClient, Client
except ModuleNotFoundError as missing:
    if missing.name != "httpx":
        raise
    raise ImportError("meetcore.client needs httpx: pip install 'meetcore[client]'") from missing
from meetcore.client.descriptors import AsyncPages, AsyncResponsePages, Pages, ResponsePages
from meetcore.client.errors import (
    ApiError,
    Conflict,
    ConnectionFailed,
    CreditCapExceeded,
    Gone,
    IdempotencyKeyReused,
    InsufficientCredits,
    InsufficientScope,
    InternalError,
    InvalidApiKey,
    InvalidEvent,
    InvalidRequest,
    MeetcoreError,
    NoteFailed,
    NotFound,
    RateLimited,
    ServiceUnavailable,
    TimedOut,
    UnexpectedResponse,
    Unprocessable,
    UpstreamError,
    WaitTimedOut,
)
from meetcore.client.rate_limit import RateLimit
from meetcore.client.records import (
    Account,
    AccountCredits,
    ActionItem,
    ApiKey,
    Attempt,
    Balance,
    BalanceChange,
    Cancellation,
    DailyCap,
    Decision,
    Delivery,
    DeliveryStatus,
    Download,
    DownloadUrl,
    Estimate,
    EstimateItem,
    Event,
    EventKind,
    Language,
    Meeting,
    MeetingStatus,
    Note,
    NoteStatus,
    Page,
    PricingTier,
    Recording,
    RecordingStatus,
    Recovery,
    Reference,
    Transaction,
    TransferKind,
    User,
    Utterance,
    Webhook,
)
from meetcore.client.response import Response
from meetcore.client.webhooks import SignatureRejected, WebhookEvent, verify_webhook

__all__ = [
    "Account",
    "AccountCredits",
    "ActionItem",
    "ApiError",
    "ApiKey",
    "AsyncClient",
    "AsyncPages",
    "AsyncResponsePages",
    "Attempt",
    "Balance",
    "BalanceChange",
    "Cancellation",
    "Client",
    "Conflict",
    "ConnectionFailed",
    "CreditCapExceeded",
    "DailyCap",
    "Decision",
    "Delivery",
    "DeliveryStatus",
    "Download",
    "DownloadUrl",
    "Estimate",
    "EstimateItem",
    "Event",
    "EventKind",
    "Gone",
    "IdempotencyKeyReused",
    "InsufficientCredits",
    "InsufficientScope",
    "InternalError",
    "InvalidApiKey",
    "InvalidEvent",
    "InvalidRequest",
    "Language",
    "MeetcoreError",
    "Meeting",
    "MeetingStatus",
    "NotFound",
    "Note",
    "NoteFailed",
    "NoteStatus",
    "Page",
    "Pages",
    "PricingTier",
    "RateLimit",
    "RateLimited",
    "Recording",
    "RecordingStatus",
    "Recovery",
    "Reference",
    "Response",
    "ResponsePages",
    "ServiceUnavailable",
    "SignatureRejected",
    "TimedOut",
    "Transaction",
    "TransferKind",
    "UnexpectedResponse",
    "Unprocessable",
    "UpstreamError",
    "User",
    "Utterance",
    "WaitTimedOut",
    "Webhook",
    "WebhookEvent",
    "verify_webhook",
]
