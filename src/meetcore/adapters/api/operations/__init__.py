"""The operations of the API: each one declaration, its handler beside it, one module for each aggregate.

Routing, the OpenAPI document, the pages under `/docs` and the tools of agents derive from `OPERATIONS`.
Authenticating, counting and decoding happen before a handler runs.
"""

from typing import Final

from meetcore.adapters.api.operation import Operation
from meetcore.adapters.api.operations import (
    account,
    credits,
    deliveries,
    events,
    meetings,
    notes,
    recordings,
    webhooks,
)

__all__ = ["OPERATIONS"]

OPERATIONS: Final[tuple[Operation, ...]] = (
    account.get_me,
    account.list_pricing_tiers,
    meetings.create_meeting,
    meetings.list_meetings,
    meetings.get_meeting,
    meetings.cancel_meeting,
    credits.get_credits,
    credits.list_transactions,
    credits.estimate_credits,
    recordings.list_recordings,
    recordings.get_recording,
    recordings.get_download_url,
    recordings.delete_recording,
    notes.create_note,
    notes.list_notes,
    notes.get_note,
    webhooks.register_webhook,
    webhooks.list_webhooks,
    webhooks.get_webhook,
    webhooks.update_webhook,
    webhooks.remove_webhook,
    webhooks.rotate_webhook_secret,
    webhooks.test_webhook,
    deliveries.list_deliveries,
    deliveries.get_delivery,
    deliveries.resend_delivery,
    deliveries.recover_deliveries,
    events.list_events,
    events.get_event,
)
"""Every operation, in the order of the documentation."""
