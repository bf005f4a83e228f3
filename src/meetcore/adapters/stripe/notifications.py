"""Notifications of Stripe, verified by its library: `Stripe-Signature` covers the body and a time."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec
import stripe

from meetcore.adapters.gateway_calls import kept_body, payment_id
from meetcore.adapters.stripe.gateway import KEPT_EVENT, PAYMENT_ID
from meetcore.ports.payments import (
    Notification,
    NotificationInvalid,
    NotificationMalformed,
    NotificationParser,
)

TOLERANCE_S: Final = 300
_HEADER: Final = "stripe-signature"
_TIME: Final = re.compile(r"(?:^|,)t=([0-9]{1,12})(?:,|$)", re.ASCII)


def stripe_notifications(secret: str) -> NotificationParser:
    """Return the parser of notifications that are signed with an endpoint's secret, which is not empty."""
    if not secret:
        raise ValueError("the signing secret of Stripe is empty")

    def read(body: bytes, headers: Mapping[str, str], now: datetime) -> Notification | None:
        given = {name.lower(): value for name, value in headers.items()}.get(_HEADER, "")
        _verify(body, given, secret, now)
        try:
            event: Any = msgspec.json.decode(body)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise NotificationMalformed("not JSON") from error
        match event:
            case {
                "object": "event",
                "data": {"object": {"object": "dispute", "payment_intent": str(intent)}},
            }:
                kept = kept_body(event, KEPT_EVENT)
                return Notification(None, kept, transaction_id=intent, is_dispute=True)
            case {"object": "event", "type": str(), "data": {"object": dict(about)}}:
                known = _payment_of(about)
            case _:
                raise NotificationMalformed("not one of Stripe's events")
        return None if known is None else Notification(known, kept_body(event, KEPT_EVENT))

    return read


def _verify(body: bytes, header: str, secret: str, now: datetime) -> None:
    """Raise `NotificationInvalid`; the time is compared with `now`, not with the clock of the library."""
    at = _TIME.search(header)
    if at is None or not header.isascii():
        raise NotificationInvalid("no signature of Stripe")
    try:
        stripe.WebhookSignature.verify_header(body, header, secret, tolerance=None)
    except (stripe.SignatureVerificationError, UnicodeDecodeError) as error:
        raise NotificationInvalid("the signature is wrong") from error
    if abs(now.timestamp() - int(at[1])) > TOLERANCE_S:
        raise NotificationInvalid("the time is too far off")


def _payment_of(about: Mapping[str, Any]) -> Any:
    metadata = about.get("metadata")
    named = metadata.get(PAYMENT_ID) if isinstance(metadata, dict) else None
    return payment_id(about.get("client_reference_id")) or payment_id(named)
