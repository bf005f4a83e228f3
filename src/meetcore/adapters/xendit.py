"""Xendit as a `PaymentGateway`, by payment sessions of the mode `PAYMENT_LINK`.

Xendit recommends them over invoices (`/v2/invoices`), which it calls legacy. A payment's id is the reference
of its session. Whether the session is over is the session's word; whether money moved is that of the payment
in it, and of the transactions of the account under the same reference: they also show money that was paid in
a session whose address was lost, refunds, and reversals. The API key needs the permission to read
transactions.

A session has no documented idempotency key, and is not found by its reference: a repeated checkout may make
a second session. The address of the first was not handed out then.

Notifications are verified by the token that each carries in `x-callback-token`. It covers neither the body
nor a time: an old notification may be sent again, which only makes the payment be asked about. The reference
of a session, of its payment and of the refund is the payment's id; a dispute names Xendit's id of the payment
in the session, and is no envelope around an object.
"""

import base64
import hmac
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, TypeVar

import msgspec
from attrs import frozen

from meetcore.adapters.bounded_http import HttpResponse
from meetcore.adapters.gateway_calls import (
    BUDGET_S,
    GatewayHttp,
    below,
    kept_body,
    looking,
    payment_id,
    whole_units,
)
from meetcore.domain.payments.payments import GatewayAnswer, GatewayStatus, Payment
from meetcore.domain.payments.refunds import Refund, RefundState
from meetcore.ports import payments
from meetcore.ports.observability import NO_TRACING, Tracing

NAME: Final = "xendit"
API_URL: Final = "https://api.xendit.co"

_COUNTRIES: Final = {"IDR": "ID", "PHP": "PH", "VND": "VN", "THB": "TH", "SGD": "SG", "MYR": "MY"}
"""Currencies of sessions, with the one country of each; dollars have several."""
CURRENCIES: Final = tuple(_COUNTRIES)
"""The currencies that are taken."""
_DECIMALS: Final = {"IDR": 0, "VND": 0}
"""Decimals of a unit of ours; two in other currencies."""
_SESSION_ID: Final = re.compile(r"ps-[0-9a-z-]{1,64}")
_OVER: Final = {"EXPIRED": GatewayStatus.EXPIRED, "CANCELED": GatewayStatus.FAILED}
_NOT_PAID: Final = {
    "FAILED": GatewayStatus.FAILED, "CANCELED": GatewayStatus.FAILED, "EXPIRED": GatewayStatus.EXPIRED,
}  # fmt: skip
_REFUNDS: Final = {
    "SUCCEEDED": RefundState.SENT, "SUCCESS": RefundState.SENT, "PENDING": RefundState.UNDER_WAY,
    "FAILED": RefundState.FAILED, "CANCELLED": RefundState.FAILED, "VOIDED": RefundState.FAILED,
    "REVERSED": RefundState.FAILED,
}  # fmt: skip
"""States of refunds, and of their transactions; in others they are under way."""
_DUPLICATE: Final = "DUPLICATE_ERROR"
_LATER: Final = frozenset({"REFUND_IN_PROGRESS", "TEMPORARILY_UNAVAILABLE"})

T = TypeVar("T")

KEPT: Final = below(
    "payment_session_id", "payment_id", "payment_request_id", "reference_id", "status", "amount",
    "request_amount", "currency", "country", "channel_code", "failure_code", "created", "updated",
    "expires_at", "id", "reason", "type", "cashflow", "product_id", "settlement_status",
    "due_date", "note", category=below("name"),
    captures=below("capture_id", "capture_amount", "capture_timestamp"),
)  # fmt: skip
"""What is kept of a session, a payment, a refund or a transaction for operators."""


@frozen
class _Error:
    error_code: str = ""


@frozen
class _Session:
    payment_session_id: str
    reference_id: str
    status: str
    amount: Decimal
    currency: str
    payment_link_url: str | None = None
    payment_id: str | None = None
    payment_request_id: str | None = None


@frozen
class _Capture:
    capture_amount: Decimal


@frozen
class _Payment:
    payment_id: str
    status: str
    request_amount: Decimal
    currency: str
    channel_code: str = ""
    captures: tuple[_Capture, ...] = ()

    @property
    def amount(self) -> Decimal:
        """What was captured, or is to be paid where nothing was."""
        return sum((each.capture_amount for each in self.captures), Decimal()) or self.request_amount


@frozen
class _Product:
    payment_request_id: str | None = None


@frozen
class _Transaction:
    type: str
    status: str
    amount: Decimal
    currency: str
    product_id: str = ""
    channel_code: str | None = None
    product_data: _Product | None = None

    @property
    def is_receipt(self) -> bool:
        """Whether money of a payment has arrived."""
        return self.type == "PAYMENT" and self.status == "SUCCESS"

    @property
    def is_refund(self) -> bool:
        return self.type == "REFUND" and self.status in ("SUCCESS", "PENDING")

    @property
    def is_reversal(self) -> bool:
        """Whether money of a payment went back, or is on its way."""
        is_void = self.type == "PAYMENT" and self.status in ("VOIDED", "REVERSED")
        return is_void or self.is_refund or (self.type == "CHARGEBACK" and self.status != "FAILED")


@frozen
class _Transactions:
    data: tuple[_Transaction, ...] = ()


@frozen
class _Refund:
    status: str = ""
    failure_code: str | None = None


@frozen
class _Found:
    """Everything that Xendit says of a payment, with the bodies that said so."""

    session: _Session | None
    payment: _Payment | None
    transactions: Sequence[_Transaction]
    bodies: Sequence[bytes]

    @property
    def request_id(self) -> str | None:
        """The payment request whose money can be sent back."""
        if self.session is not None and self.session.payment_request_id and self.payment is not None:
            return self.session.payment_request_id
        ids = (each.product_data.payment_request_id for each in self.transactions if each.product_data)
        return next((each for each in ids if each), None)


class XenditGateway:
    """Takes payments through the account of a secret key; `budget_s` bounds each call."""

    def __init__(
        self, secret_key: str, origin: str = "", *, budget_s: float = BUDGET_S, tracing: Tracing = NO_TRACING
    ) -> None:
        token = base64.b64encode(f"{secret_key}:".encode()).decode()
        self._headers = {"Accept": "application/json", "Authorization": f"Basic {token}"}
        self._url = origin or API_URL
        self._http = GatewayHttp(NAME, budget_s, tracing)

    @property
    def name(self) -> str:
        return NAME

    async def open_checkout(self, order: payments.CheckoutOrder) -> payments.Checkout:
        """Make a session; a repeat may make a second one, see the module."""
        if order.currency not in CURRENCIES:
            raise payments.GatewayRefused(f"xendit: takes {', '.join(CURRENCIES)}")
        async with self._http.budget():
            response = await self._post("/sessions", _session_request(order), str(order.payment_id))
        if not response.is_done:
            raise self._refusal(response)
        session = self._http.decoded(response, _Session)
        if not session.payment_link_url or session.reference_id != str(order.payment_id):
            raise payments.GatewayUnknown("xendit: a session without a page")
        return payments.Checkout(session.payment_session_id, session.payment_link_url)

    async def find(self, payment: Payment) -> payments.GatewayRecord | None:
        async with self._http.budget():
            found = await self._find(payment)
        answer = _answer(payment, found)
        return None if answer is None else payments.GatewayRecord(answer, _kept(found.bodies))

    async def _find(self, payment: Payment) -> _Found:
        bodies: list[bytes] = []
        session = await self._session(payment, bodies)
        paid = None
        if session is not None and session.payment_id:
            path = f"/v3/payments/{session.payment_id}"
            paid = await self._get(path, _Payment, bodies, {"api-version": "2024-11-11"})
            if paid is None:
                raise payments.GatewayUnknown("xendit: a session names a payment that is not there")
        path = f"/transactions?reference_id={payment.id}&limit=50"
        moved = await self._get(path, _Transactions, bodies)
        return _Found(session, paid, () if moved is None else moved.data, bodies)

    async def _session(self, payment: Payment, bodies: list[bytes]) -> _Session | None:
        if payment.reference is None or not _SESSION_ID.fullmatch(payment.reference):
            return None
        session = await self._get(f"/sessions/{payment.reference}", _Session, bodies)
        if session is not None and session.reference_id != str(payment.id):
            raise payments.GatewayUnknown("xendit: the session is of another payment")
        return session

    async def _get(
        self, path: str, kind: type[T], bodies: list[bytes], headers: Mapping[str, str] | None = None
    ) -> T | None:
        response = await self._http.ask("GET", self._url + path, {**self._headers, **(headers or {})})
        if response.status == 404 and self._http.decoded(response, _Error).error_code:
            return None
        if not response.is_done:
            raise self._refusal(response)
        found = self._http.decoded(response, kind)
        bodies.append(response.body)
        return found

    async def _post(self, path: str, body: object, key: str) -> HttpResponse:
        headers = {**self._headers, "Content-Type": "application/json", "idempotency-key": key}
        return await self._http.ask("POST", self._url + path, headers, content=_ENCODER.encode(body))

    def _refusal(self, response: HttpResponse) -> payments.GatewayRefused:
        return self._http.refusal(response, self._http.fault(response, _Error).error_code or None)

    async def refund(self, payment: Payment, refund: Refund) -> RefundState:
        """Send money back, under the payment's id as reference and idempotency key.

        An earlier refund under this reference is looked for first.
        """
        async with self._http.budget():
            with looking():
                found = await self._find(payment)
            made = next((each for each in found.transactions if each.type == "REFUND"), None)
            if made is not None:
                return _REFUNDS.get(made.status, RefundState.UNDER_WAY)
            if found.request_id is None:
                raise payments.GatewayRefused("xendit: nothing was paid")
            body = {
                "payment_request_id": found.request_id, "reference_id": str(payment.id),
                "amount": _major(refund.amount, payment.currency), "currency": payment.currency,
                "reason": "REQUESTED_BY_CUSTOMER",
            }  # fmt: skip
            response = await self._post("/refunds", body, f"refund-{payment.id}")
        if not response.is_done:
            if self._http.fault(response, _Error).error_code in _LATER:
                raise payments.GatewayUnknown("xendit: refunds are not taken now")
            raise self._refusal(response)
        made_now = self._http.decoded(response, _Refund)
        if made_now.failure_code == _DUPLICATE:  # another one may have been sent: an operator looks
            raise self._http.refusal(response, made_now.failure_code)
        return _REFUNDS.get(made_now.status, RefundState.UNDER_WAY)

    async def check(self) -> None:
        """Read one transaction of the account; raises `GatewayRefused` and `GatewayUnknown`."""
        async with self._http.budget():
            await self._get("/transactions?limit=1", _Transactions, [])

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()


_ENCODER: Final = msgspec.json.Encoder(decimal_format="number")


def _major(amount: int, currency: str) -> Decimal:
    return Decimal(amount).scaleb(-_DECIMALS.get(currency, 2))


def _units(amount: Decimal, currency: str) -> int:
    return whole_units(amount, _DECIMALS.get(currency, 2))


def _session_request(order: payments.CheckoutOrder) -> Mapping[str, Any]:
    """Return the body of a new session, without data of the customer: it needs none."""
    body = {
        "reference_id": str(order.payment_id),
        "session_type": "PAY",
        "mode": "PAYMENT_LINK",
        "capture_method": "AUTOMATIC",
        "allow_save_payment_method": "DISABLED",
        "amount": _major(order.amount, order.currency),
        "currency": order.currency,
        "country": _COUNTRIES[order.currency],
        "expires_at": order.expires_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "locale": order.language,
        "description": order.description[:1000],
    }
    if order.return_url.startswith("https://"):  # others are refused
        body |= {"success_return_url": order.return_url, "cancel_return_url": order.return_url}
    return body


def _answer(payment: Payment, found: _Found) -> GatewayAnswer | None:
    received = {each.product_id: each for each in found.transactions if each.is_receipt}
    reversals = [each for each in found.transactions if each.is_reversal]
    if reversals:
        one = reversals[0]
        units = _units(one.amount, one.currency)
        return GatewayAnswer(GatewayStatus.REVERSED, units, one.currency, one.channel_code or "")
    if found.payment is not None and len(received) < 2:
        return _answer_of_payment(found.payment)
    if received:
        return _answer_of_receipts(payment, list(received.values()))
    if found.session is None:
        return None
    status = _OVER.get(found.session.status, GatewayStatus.PENDING)
    return GatewayAnswer(status, _units(found.session.amount, found.session.currency), found.session.currency)


def _answer_of_payment(paid: _Payment) -> GatewayAnswer:
    is_paid = paid.status == "SUCCEEDED"
    status = GatewayStatus.PAID if is_paid else _NOT_PAID.get(paid.status, GatewayStatus.PENDING)
    amount = _units(paid.amount, paid.currency)
    return GatewayAnswer(status, amount, paid.currency, paid.channel_code, paid.payment_id)


def _answer_of_receipts(payment: Payment, received: Sequence[_Transaction]) -> GatewayAnswer:
    """Sum what was paid in several sessions, or in one that is not known here.

    Money of another currency than the payment's goes first: it is the stranger fact.
    """
    one = next((each for each in received if each.currency != payment.currency), received[0])
    amount = sum((each.amount for each in received if each.currency == one.currency), Decimal())
    return GatewayAnswer(
        GatewayStatus.PAID, _units(amount, one.currency), one.currency, one.channel_code or "", one.product_id
    )


def _kept(bodies: Sequence[bytes]) -> str:
    fields = {**KEPT, "data": KEPT}
    return "\n".join(kept_body(msgspec.json.decode(body), fields) for body in bodies)


_TOKEN: Final = "x-callback-token"  # noqa: S105  (a header's name)
# The documented notification of a refund has the whole notification once more in its data.
_KEPT: Final = below("event", "created", "business_id", data={**KEPT, "data": KEPT})


def xendit_notifications(token: str) -> payments.NotificationParser:
    """Return the parser of notifications with an account's verification token, which is not empty."""
    if not token:
        raise ValueError("the verification token of Xendit is empty")

    def read(body: bytes, headers: Mapping[str, str], now: datetime) -> payments.Notification | None:
        given = {name.lower(): value for name, value in headers.items()}.get(_TOKEN, "")
        if not hmac.compare_digest(token.encode(), given.encode("utf-8", "replace")):
            raise payments.NotificationInvalid("the token is wrong")
        try:
            said: Any = msgspec.json.decode(body)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise payments.NotificationMalformed("not JSON") from error
        match said:
            case {"event": str(event), "payment_id": str(paid)} if event.startswith("dispute."):
                kept = kept_body(said, {**_KEPT, **KEPT})
                return payments.Notification(None, kept, transaction_id=paid, is_dispute=True)
            case {"event": str(), "data": {"data": {"reference_id": reference}}}:
                known = payment_id(reference)
            case {"event": str(), "data": {"reference_id": reference}}:
                known = payment_id(reference)
            case {"event": str(), "data": dict()}:
                known = None
            case _:
                raise payments.NotificationMalformed("not one of Xendit's notifications")
        return None if known is None else payments.Notification(known, kept_body(said, _KEPT))

    return read
