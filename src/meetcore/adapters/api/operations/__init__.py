"""The operations of the API: each one declaration, its handler beside it, one module for each room.

Routing, the OpenAPI document, the pages under `/docs` and the tools of agents derive from `OPERATIONS`.
Authenticating, counting and decoding happen before a handler runs; the scopes of the declaration are enforced
by `adapters.http.api_app` and `adapters.mcp.mcp_app`, each before it decodes.
"""

from typing import Final

from meetcore.adapters.api.operation import Operation
from meetcore.adapters.api.operations import meetings, money, notes, payments, webhooks

__all__ = ["OPERATIONS"]

OPERATIONS: Final[tuple[Operation, ...]] = (
    money.get_me,
    money.list_pricing_tiers,
    meetings.create_meeting,
    meetings.list_meetings,
    meetings.get_meeting,
    meetings.cancel_meeting,
    money.get_credits,
    money.list_transactions,
    money.estimate_credits,
    payments.list_credit_packages,
    payments.start_topup,
    payments.list_topups,
    payments.get_topup,
    notes.list_recordings,
    notes.get_recording,
    notes.get_download_url,
    notes.delete_recording,
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
    webhooks.list_deliveries,
    webhooks.get_delivery,
    webhooks.resend_delivery,
    webhooks.recover_deliveries,
    webhooks.list_events,
    webhooks.get_event,
)
"""Every operation, in the order of the documentation."""
