"""Stripe as a `PaymentGateway`, by Checkout Sessions.

A payment's id is the session's `client_reference_id`, and metadata of the PaymentIntent, the charge and the
refund; a dispute names the PaymentIntent alone. The page belongs to an idempotency key, which Stripe keeps
for 24 hours at least; a session lives 24 hours at most.

=================================================  ===========================================================
session                                            meaning
=================================================  ===========================================================
payment_status paid, nothing of the charge back    paid: what the PaymentIntent has received
a charge refunded in part or whole, or disputed    reversed
status open                                        pending
status expired                                     expired
status complete, PaymentIntent processing          pending: a bank takes days
status complete, PaymentIntent needs a new method  failed
=================================================  ===========================================================

Notifications are verified by Stripe's library: `Stripe-Signature` covers the body and a time.
"""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar, cast

import msgspec
import stripe
from attrs import frozen

from meetcore.adapters.gateway_calls import BUDGET_S, GatewayHttp, below, kept_body, looking, payment_id
from meetcore.adapters.stripe.client import Missing, from_stripe, make_client, outcomes, to_stripe
from meetcore.domain.payments.payments import GatewayAnswer, GatewayStatus, Payment
from meetcore.domain.payments.refunds import Refund, RefundState
from meetcore.ports import payments
from meetcore.ports.observability import NO_TRACING, Tracing

NAME: Final = "stripe"
PAYMENT_ID: Final = "payment_id"
"""The name of our id in metadata."""
_SOONER: Final = timedelta(minutes=2)
"""A session ends earlier by this, so that a clock of ours that is fast makes none of over 24 hours."""
_REFUNDS: Final = {
    "succeeded": RefundState.SENT, "failed": RefundState.FAILED, "canceled": RefundState.FAILED,
}  # fmt: skip
"""States of refunds; in others they are under way."""

T = TypeVar("T")

_CHARGE: Final = below(
    "id", "amount", "amount_refunded", "currency", "status", "refunded", "disputed", "failure_code",
    payment_method_details=below("type"), metadata=below(PAYMENT_ID),
)  # fmt: skip
_INTENT: Final = below(
    "id", "amount", "amount_received", "currency", "status", metadata=below(PAYMENT_ID), latest_charge=_CHARGE
)
KEPT: Final = below(
    "id", "object", "client_reference_id", "status", "payment_status", "amount_total", "currency", "created",
    "expires_at", "charge", "reason", payment_intent=_INTENT,
)  # fmt: skip
"""What is kept of a session for operators."""
KEPT_EVENT: Final = below(
    "id", "type", "created", "livemode", "api_version", data=below(object={**_CHARGE, **_INTENT, **KEPT})
)
"""What is kept of a notification."""


@frozen
class _Method:
    type: str = ""


@frozen
class _Charge:
    refunded: bool = False
    disputed: bool = False
    amount_refunded: int = 0
    payment_method_details: _Method | None = None


@frozen
class _Intent:
    id: str
    status: str
    currency: str
    amount_received: int = 0
    amount: int = 0
    latest_charge: _Charge | str | None = None

    @property
    def charge(self) -> _Charge:
        """Its latest charge."""
        return self.latest_charge if isinstance(self.latest_charge, _Charge) else _Charge()


@frozen
class _Session:
    id: str
    status: str
    payment_status: str
    currency: str
    amount_total: int
    client_reference_id: str | None = None
    url: str | None = None
    payment_intent: _Intent | str | None = None

    @property
    def intent(self) -> _Intent | None:
        """Its PaymentIntent, which the first attempt makes."""
        return self.payment_intent if isinstance(self.payment_intent, _Intent) else None


class StripeGateway:
    """Takes payments through the account of a secret key; `budget_s` bounds each call."""

    def __init__(
        self, secret_key: str, origin: str = "", *, budget_s: float = BUDGET_S, tracing: Tracing = NO_TRACING
    ) -> None:
        self._http = GatewayHttp(NAME, budget_s, tracing)
        self._api = make_client(secret_key, origin, self._http).v1

    @property
    def name(self) -> str:
        return NAME

    async def open_checkout(self, order: payments.CheckoutOrder) -> payments.Checkout:
        """Make the session of a payment; a repeat gets the same one."""
        params = cast(Any, _session_request(order))
        async with self._http.budget():
            with outcomes():
                made = await self._api.checkout.sessions.create_async(
                    params, {"idempotency_key": f"checkout-{order.payment_id}"}
                )
        session = _read(made, _Session)
        if not session.url or session.client_reference_id != str(order.payment_id):
            raise payments.GatewayUnknown("stripe: a session without a page")
        return payments.Checkout(session.id, session.url)

    async def find(self, payment: Payment) -> payments.GatewayRecord | None:
        async with self._http.budget():
            found = await self._session(payment)
            if found is None:
                return await self._find_lost(payment)
        return payments.GatewayRecord(_answer(_read(found, _Session)), kept_body(found.to_dict(), KEPT))

    async def _session(self, payment: Payment) -> stripe.StripeObject | None:
        if payment.reference is None:
            return None
        try:
            with outcomes():
                found = await self._api.checkout.sessions.retrieve_async(
                    payment.reference, {"expand": ["payment_intent.latest_charge"]}
                )
        except Missing:
            return None
        if _read(found, _Session).client_reference_id != str(payment.id):
            raise payments.GatewayUnknown("stripe: the session is of another payment")
        return found

    async def _find_lost(self, payment: Payment) -> payments.GatewayRecord | None:
        """Look for what was paid in a session whose address was lost."""
        found = await self._lost_intent(payment)
        if found is None:
            return None
        intent = _read(found, _Intent)
        is_paid = intent.status == "succeeded"
        answer = _answer_of_intent(intent) if is_paid else _said(intent, _status_of_intent(intent))
        return payments.GatewayRecord(answer, kept_body(found.to_dict(), _INTENT))

    async def _lost_intent(self, payment: Payment) -> stripe.StripeObject | None:
        """Search a PaymentIntent by our id; Stripe finds it a minute after it was made."""
        query = f"metadata['{PAYMENT_ID}']:'{payment.id}'"
        with outcomes():
            found = await self._api.payment_intents.search_async(
                {"query": query, "expand": ["data.latest_charge"]}
            )
            return next(iter(found.data), None)

    async def refund(self, payment: Payment, refund: Refund) -> RefundState:
        """Send money back; an earlier refund of this payment is looked for first."""
        async with self._http.budget():
            with looking():
                intent = await self._paid_intent(payment)
                made = None if intent is None else await self._earlier_refund(payment, intent)
            if intent is None:
                raise payments.GatewayRefused("stripe: nothing was paid")
            with outcomes():
                if made is None:
                    made = await self._api.refunds.create_async(
                        {
                            "payment_intent": intent,
                            "amount": to_stripe(refund.amount, payment.currency),
                            "reason": "requested_by_customer",
                            "metadata": {PAYMENT_ID: str(payment.id)},
                        },
                        {"idempotency_key": f"refund-{payment.id}"},
                    )
                return _REFUNDS.get(made.status or "", RefundState.UNDER_WAY)

    async def _earlier_refund(self, payment: Payment, intent: str) -> stripe.Refund | None:
        with outcomes():
            earlier = await self._api.refunds.list_async({"payment_intent": intent, "limit": 100})
            return next((each for each in earlier.data if _is_of(each, payment)), None)

    async def _paid_intent(self, payment: Payment) -> str | None:
        session = await self._session(payment)
        lost = await self._lost_intent(payment) if session is None else None
        intent = _read(session, _Session).intent if session is not None else None
        if lost is not None:
            intent = _read(lost, _Intent)
        return intent.id if intent is not None and intent.status == "succeeded" else None

    async def check(self) -> None:
        """List one session; raises `GatewayRefused` and `GatewayUnknown`."""
        async with self._http.budget():
            with outcomes():
                await self._api.checkout.sessions.list_async({"limit": 1})

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()


def _session_request(order: payments.CheckoutOrder) -> Mapping[str, Any]:
    """Return the parameters of a session: the same for a repeat, or its idempotency key is refused."""
    metadata = {PAYMENT_ID: str(order.payment_id)}
    price = {
        "currency": order.currency.lower(),
        "unit_amount": to_stripe(order.amount, order.currency),
        "product_data": {"name": order.description},
    }
    return {
        "mode": "payment",
        "client_reference_id": str(order.payment_id),
        "line_items": [{"quantity": 1, "price_data": price}],
        "customer_email": order.customer_email,
        "metadata": metadata,
        "payment_intent_data": {"metadata": metadata},
        "adaptive_pricing": {"enabled": False},
        "expires_at": int((order.expires_at - _SOONER).timestamp()),
        "success_url": order.return_url,
        "cancel_url": order.return_url,
        "locale": order.language,
    }


def _read(found: stripe.StripeObject, kind: type[T]) -> T:
    try:
        return msgspec.convert(found.to_dict(), kind)
    except (msgspec.ValidationError, AttributeError, TypeError):
        raise payments.GatewayUnknown("stripe: no documented answer") from None


def _is_of(refund: stripe.Refund, payment: Payment) -> bool:
    metadata: Any = refund.to_dict().get("metadata")
    return isinstance(metadata, dict) and metadata.get(PAYMENT_ID) == str(payment.id)


def _answer(session: _Session) -> GatewayAnswer:
    intent = session.intent
    if session.payment_status != "unpaid":
        if intent is not None:
            return _answer_of_intent(intent)
        return _said(session, GatewayStatus.PAID)
    if session.status == "expired":
        return _said(session, GatewayStatus.EXPIRED)
    is_over = session.status == "complete" and intent is not None
    return _said(session, _status_of_intent(intent) if is_over and intent else GatewayStatus.PENDING)


def _said(said: _Session | _Intent, status: GatewayStatus) -> GatewayAnswer:
    amount = said.amount_total if isinstance(said, _Session) else said.amount
    currency = said.currency.upper()
    return GatewayAnswer(status, from_stripe(amount, currency), currency)


def _answer_of_intent(intent: _Intent) -> GatewayAnswer:
    """Return what a paid PaymentIntent has received, or that it went back."""
    charge, currency = intent.charge, intent.currency.upper()
    is_back = charge.refunded or charge.disputed or charge.amount_refunded > 0
    status = GatewayStatus.REVERSED if is_back else GatewayStatus.PAID
    method = charge.payment_method_details
    return GatewayAnswer(
        status, from_stripe(intent.amount_received, currency), currency, method.type if method else "",
        intent.id,
    )  # fmt: skip


def _status_of_intent(intent: _Intent) -> GatewayStatus:
    is_over = intent.status in ("requires_payment_method", "canceled")
    return GatewayStatus.FAILED if is_over else GatewayStatus.PENDING


TOLERANCE_S: Final = 300
_HEADER: Final = "stripe-signature"
_TIME: Final = re.compile(r"(?:^|,)t=([0-9]{1,12})(?:,|$)", re.ASCII)


def stripe_notifications(secret: str) -> payments.NotificationParser:
    """Return the parser of notifications that are signed with an endpoint's secret, which is not empty."""
    if not secret:
        raise ValueError("the signing secret of Stripe is empty")

    def read(body: bytes, headers: Mapping[str, str], now: datetime) -> payments.Notification | None:
        given = {name.lower(): value for name, value in headers.items()}.get(_HEADER, "")
        _verify(body, given, secret, now)
        try:
            event: Any = msgspec.json.decode(body)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise payments.NotificationMalformed("not JSON") from error
        match event:
            case {
                "object": "event",
                "data": {"object": {"object": "dispute", "payment_intent": str(intent)}},
            }:
                kept = kept_body(event, KEPT_EVENT)
                return payments.Notification(None, kept, transaction_id=intent, is_dispute=True)
            case {"object": "event", "type": str(), "data": {"object": dict(about)}}:
                known = _payment_of(about)
            case _:
                raise payments.NotificationMalformed("not one of Stripe's events")
        return None if known is None else payments.Notification(known, kept_body(event, KEPT_EVENT))

    return read


def _verify(body: bytes, header: str, secret: str, now: datetime) -> None:
    """Raise `NotificationInvalid`; the time is compared with `now`, not with the clock of the library."""
    at = _TIME.search(header)
    if at is None or not header.isascii():
        raise payments.NotificationInvalid("no signature of Stripe")
    try:
        # The library takes the first time, in any spelling of Python: so that it is the one that is compared.
        stripe.WebhookSignature.verify_header(body, f"t={at[1]},{header}", secret, tolerance=None)
    except (stripe.SignatureVerificationError, UnicodeDecodeError) as error:
        raise payments.NotificationInvalid("the signature is wrong") from error
    if abs(now.timestamp() - int(at[1])) > TOLERANCE_S:
        raise payments.NotificationInvalid("the time is too far off")


def _payment_of(about: Mapping[str, Any]) -> Any:
    metadata = about.get("metadata")
    named = metadata.get(PAYMENT_ID) if isinstance(metadata, dict) else None
    return payment_id(about.get("client_reference_id")) or payment_id(named)
