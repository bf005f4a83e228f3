"""Notifications of Midtrans, verified by their `signature_key`.

It is the SHA-512 of order id, status code, gross amount and server key, one after the other. It covers
neither the status nor a time: an old one may be sent again, which only makes the payment be asked about.
"""

import hashlib
import hmac
from collections.abc import Mapping
from datetime import datetime

import msgspec
from attrs import field, frozen

from meetcore.adapters.gateway_calls import kept_body, payment_id
from meetcore.adapters.midtrans.gateway import KEPT
from meetcore.ports.payments import (
    Notification,
    NotificationInvalid,
    NotificationMalformed,
    NotificationParser,
)


@frozen
class _Signed:
    order_id: str
    status_code: str
    gross_amount: str
    signature_key: str = field(repr=False)


def midtrans_notifications(server_key: str) -> NotificationParser:
    """Return the parser of notifications that are signed with a merchant's key, which is not empty."""
    if not server_key:
        raise ValueError("the server key of Midtrans is empty")

    def read(body: bytes, headers: Mapping[str, str], now: datetime) -> Notification | None:
        try:
            signed = msgspec.json.decode(body, type=_Signed)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise NotificationInvalid("no signature of Midtrans") from error
        text = signed.order_id + signed.status_code + signed.gross_amount + server_key
        expected = hashlib.sha512(text.encode("utf-8", "replace")).hexdigest()
        given = signed.signature_key.lower().encode("utf-8", "replace")
        if not hmac.compare_digest(expected.encode(), given):
            raise NotificationInvalid("the signature is wrong")
        known = payment_id(signed.order_id)
        return None if known is None else Notification(known, _kept(body))

    return read


def _kept(body: bytes) -> str:
    try:
        return kept_body(msgspec.json.decode(body), KEPT)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise NotificationMalformed from error
