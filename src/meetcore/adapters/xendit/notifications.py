"""Notifications of Xendit, verified by the token that each carries in `x-callback-token`.

The token covers neither the body nor a time: an old notification may be sent again, which only makes the
payment be asked about. The reference of a session, of its payment and of the refund is the payment's id; a
dispute names Xendit's id of the payment in the session, and is no envelope around an object.
"""

import hmac
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from meetcore.adapters.gateway_calls import below, kept_body, payment_id
from meetcore.adapters.xendit.gateway import KEPT
from meetcore.ports.payments import (
    Notification,
    NotificationInvalid,
    NotificationMalformed,
    NotificationParser,
)

_TOKEN: Final = "x-callback-token"  # noqa: S105  (a header's name)
# The documented notification of a refund has the whole notification once more in its data.
_KEPT: Final = below("event", "created", "business_id", data={**KEPT, "data": KEPT})


def xendit_notifications(token: str) -> NotificationParser:
    """Return the parser of notifications with an account's verification token, which is not empty."""
    if not token:
        raise ValueError("the verification token of Xendit is empty")

    def read(body: bytes, headers: Mapping[str, str], now: datetime) -> Notification | None:
        given = {name.lower(): value for name, value in headers.items()}.get(_TOKEN, "")
        if not hmac.compare_digest(token.encode(), given.encode("utf-8", "replace")):
            raise NotificationInvalid("the token is wrong")
        try:
            said: Any = msgspec.json.decode(body)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise NotificationMalformed("not JSON") from error
        match said:
            case {"event": str(event), "payment_id": str(paid)} if event.startswith("dispute."):
                kept = kept_body(said, {**_KEPT, **KEPT})
                return Notification(None, kept, transaction_id=paid, is_dispute=True)
            case {"event": str(), "data": {"data": {"reference_id": reference}}}:
                known = payment_id(reference)
            case {"event": str(), "data": {"reference_id": reference}}:
                known = payment_id(reference)
            case {"event": str(), "data": dict()}:
                known = None
            case _:
                raise NotificationMalformed("not one of Xendit's notifications")
        return None if known is None else Notification(known, kept_body(said, _KEPT))

    return read
