"""Midtrans as a `PaymentGateway`.

Snap gives a page for an order id; the status is asked from the Core API, which does not know a page on which
no payment method was chosen yet. One order id is paid at most once, whatever number of pages it has.

=============================================  ===============================================================
transaction_status                             meaning
=============================================  ===============================================================
settlement, capture with fraud_status accept   paid
capture with fraud_status challenge            pending: the operator decides in Midtrans's dashboard
pending, authorize                             pending
deny, expire, failure, cancel                  of one attempt: pending while Snap's page is open; then ended
deny, cancel of a payment that was paid        reversed
refund, chargeback, and the partial ones       reversed
=============================================  ===============================================================

Notifications are verified by their `signature_key`, the SHA-512 of order id, status code, gross amount and
server key, one after the other. It covers neither the status nor a time: an old one may be sent again, which
only makes the payment be asked about. One about a chargeback is a dispute: of a payment that was refunded in
part the status is not asked for any more.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import UUID

import msgspec
from attrs import field, frozen

from meetcore.adapters.bounded_http import HttpResponse
from meetcore.adapters.gateway_calls import (
    BUDGET_S,
    GatewayHttp,
    below,
    kept_body,
    kept_response,
    looking,
    payment_id,
    whole_units,
)
from meetcore.domain.meetings.schedule import WIB
from meetcore.domain.payments.payments import GatewayAnswer, GatewayStatus, Payment, PaymentStatus
from meetcore.domain.payments.refunds import Refund, RefundState
from meetcore.ports import payments
from meetcore.ports.observability import NO_TRACING, Tracing

NAME: Final = "midtrans"
CURRENCY: Final = "IDR"
"""The only currency of Midtrans, in whole rupiah."""
API_URL: Final = "https://api.midtrans.com"

# Some methods refuse other addresses, capital letters included; the field is optional.
_EMAIL: Final = re.compile(r"[a-z0-9!#$%&'*+/=?^_`{|}~.-]{1,64}@[a-z0-9.-]{1,180}", re.ASCII)
_SHORTEST_PAGE: Final = timedelta(minutes=5)
_LAST_WORDS: Final = timedelta(minutes=5)
"""How long after its expiry a page may still have an attempt under way."""
_PAID: Final = frozenset({"settlement", "capture"})
_CHARGEBACKS: Final = frozenset({"chargeback", "partial_chargeback"})
_REVERSED: Final = _CHARGEBACKS | {"refund", "partial_refund"}
_ENDED: Final = {
    "deny": GatewayStatus.FAILED, "failure": GatewayStatus.FAILED, "cancel": GatewayStatus.FAILED,
    "expire": GatewayStatus.EXPIRED,
}  # fmt: skip
_NOT_FOUND: Final = "404"
_TAKEN: Final = "order_id"

REASON: Final = "Refund of credits"
"""The reason of a refund, which GoPay shows to customers: never the operator's own words."""
METHODS: Final = (
    "credit_card", "echannel", "permata_va", "bca_va", "bni_va", "bri_va", "cimb_va", "danamon_va", "bsi_va",
    "seabank_va", "saqu_va", "gopay", "ovo", "shopeepay", "other_qris", "alfamart", "indomaret", "akulaku",
    "kredivo",
)  # fmt: skip
"""What customers can pay by, as far as the merchant has it: all that Midtrans names but `dana`.

The status of a payment by DANA can be asked by Midtrans's own id alone, which only a notification has.
"""

KEPT: Final = below(
    "order_id", "transaction_id", "transaction_status", "fraud_status", "status_code", "status_message",
    "payment_type", "gross_amount", "currency", "transaction_time", "settlement_time", "expiry_time",
    "refund_amount", "channel_response_code",
    refunds=below("refund_key", "refund_amount", "created_at", "refund_method", "bank_confirmed_at"),
)  # fmt: skip
"""What is kept of a transaction for operators."""


@frozen
class MidtransAccess:
    """The server key of a merchant, and the origins of the two APIs."""

    server_key: str = field(repr=False)
    api_url: str = API_URL
    snap_url: str = "https://app.midtrans.com"

    @classmethod
    def at(cls, server_key: str, origin: str) -> "MidtransAccess":
        """Return the access at the Core API's origin, empty for production; Snap is at `app.` beside it."""
        api = urlsplit(origin or API_URL)
        host = "app." + api.netloc.removeprefix("api.") if api.netloc.startswith("api.") else api.netloc
        return cls(server_key, f"{api.scheme}://{api.netloc}", f"{api.scheme}://{host}")


@frozen
class _Page:
    token: str
    redirect_url: str


@frozen
class _Errors:
    error_messages: tuple[str, ...] = ()


@frozen
class _Code:
    status_code: str = ""
    transaction_status: str = ""


@frozen
class _Refund:
    refund_key: str = ""


@frozen
class _Transaction:
    order_id: str
    transaction_status: str
    gross_amount: Decimal
    status_code: str = ""
    fraud_status: str = "accept"
    currency: str = CURRENCY  # amounts are documented to be in IDR where the field is missing
    payment_type: str = ""
    refunds: tuple[_Refund, ...] = ()


class MidtransGateway:
    """Takes payments in rupiah through Midtrans; `budget_s` bounds each call."""

    def __init__(
        self,
        access: MidtransAccess,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        budget_s: float = BUDGET_S,
        tracing: Tracing = NO_TRACING,
    ) -> None:
        token = base64.b64encode(f"{access.server_key}:".encode()).decode()
        self._headers = {"Accept": "application/json", "Authorization": f"Basic {token}"}
        self._access = access
        self._now = now
        self._http = GatewayHttp(NAME, budget_s, tracing)

    @property
    def name(self) -> str:
        return NAME

    async def open_checkout(self, order: payments.CheckoutOrder) -> payments.Checkout:
        """Make Snap's page for the payment's order id.

        A repeat within five minutes gets the same page by its idempotency key. After that, Midtrans may make
        another page of the same order, of which one is paid; or it says that the order id is taken, which is
        `GatewayUnknown`: the page is there, and its address is lost.
        """
        if order.currency != CURRENCY:
            raise payments.GatewayRefused(f"midtrans: takes {CURRENCY} only")
        now = self._now()
        if order.expires_at - now < _SHORTEST_PAGE:
            raise payments.GatewayRefused(
                "midtrans: too late for a page, which is open for five minutes at least"
            )
        url = f"{self._access.snap_url}/snap/v1/transactions"
        headers = {**self._headers, "Idempotency-Key": str(order.payment_id)}
        async with self._http.budget():
            response = await self._http.ask("POST", url, headers, json=_page_request(order, now))
        if response.status == 202:
            raise payments.GatewayUnknown("midtrans: the same request is under way")
        if not response.is_done:
            raise self._page_refused(response)
        page = self._http.decoded(response, _Page)
        return payments.Checkout(str(order.payment_id), page.redirect_url)

    def _page_refused(self, response: HttpResponse) -> Exception:
        messages = self._http.fault(response, _Errors).error_messages
        if any(_TAKEN in text and ("taken" in text or "utilized" in text) for text in messages):
            return payments.GatewayUnknown("midtrans: the order id is taken, its page is there")
        return self._http.refusal(response)

    async def find(self, payment: Payment) -> payments.GatewayRecord | None:
        async with self._http.budget():
            response, transaction = await self._status(payment.id)
        if transaction is None:
            # Nothing notifies of a page that was never used; it is known from its expiry alone.
            is_over = payment.reference is not None and not self._is_open(payment)
            return (
                payments.GatewayRecord(GatewayAnswer(GatewayStatus.EXPIRED, 0, CURRENCY)) if is_over else None
            )
        answer = GatewayAnswer(
            self._status_of(payment, transaction),
            whole_units(transaction.gross_amount, 0),
            transaction.currency,
            transaction.payment_type,
        )
        return payments.GatewayRecord(answer, kept_response(response, KEPT))

    async def _status(self, payment_id: UUID) -> tuple[HttpResponse, _Transaction | None]:
        url = f"{self._access.api_url}/v2/{payment_id}/status"
        response = await self._http.ask("GET", url, self._headers)
        read = self._http.decoded if response.is_done else self._http.fault
        said = read(response, _Code)
        if not said.transaction_status:
            self._require_unknown(response, said.status_code)
            return response, None
        transaction = self._http.decoded(response, _Transaction)
        if transaction.order_id != str(payment_id):
            raise payments.GatewayUnknown("midtrans: the answer is about another order")
        return response, transaction

    def _require_unknown(self, response: HttpResponse, code: str) -> None:
        """Raise for an answer without a transaction, unless it says that the order is unknown."""
        if code == _NOT_FOUND:
            return
        if response.status == 404 or (response.is_done and not code.startswith("4")):
            raise payments.GatewayUnknown(f"midtrans: no transaction, status code {code}")
        raise self._http.refusal(response, code)

    def _status_of(self, payment: Payment, transaction: _Transaction) -> GatewayStatus:
        status = transaction.transaction_status.lower()
        if status in _PAID:
            return _PAID_BY_FRAUD_STATUS.get(transaction.fraud_status.lower(), GatewayStatus.PENDING)
        if status in _REVERSED:
            return GatewayStatus.REVERSED
        if status in _ENDED and payment.status is PaymentStatus.PAID:
            return GatewayStatus.REVERSED
        if status in _ENDED and not self._is_open(payment):
            return _ENDED[status]
        return GatewayStatus.PENDING

    def _is_open(self, payment: Payment) -> bool:
        """Return whether Snap lets the customer make another attempt."""
        return self._now() < payment.expires_at + _LAST_WORDS

    async def refund(self, payment: Payment, refund: Refund) -> RefundState:
        """Send money back, under the payment's id as refund key.

        A card's payment can be refunded when it is settled, on the next day; until then it is
        `GatewayUnknown`, so that it is asked for again.
        """
        url = f"{self._access.api_url}/v2/{payment.id}/refund"
        headers = {**self._headers, "Idempotency-Key": f"refund-{payment.id.hex}"}
        body = {"refund_key": str(payment.id), "amount": refund.amount, "reason": REASON}
        async with self._http.budget():
            response = await self._http.ask("POST", url, headers, json=body)
            read = self._http.decoded if response.is_done else self._http.fault
            code = read(response, _Code).status_code
            if response.is_done and code == "200":
                return RefundState.SENT
            if code.startswith("5") or code == "429":
                raise payments.GatewayUnknown(f"midtrans: status code {code}")
            with looking():
                _, transaction = await self._status(payment.id)
        if transaction is not None and any(
            each.refund_key == str(payment.id) for each in transaction.refunds
        ):
            return RefundState.SENT  # a repeat is refused as a duplicate
        if transaction is not None and transaction.transaction_status.lower() == "capture":
            raise payments.GatewayUnknown("midtrans: the payment is not settled yet")
        if response.status == 202:
            raise payments.GatewayUnknown("midtrans: the same refund is under way")
        raise self._http.refusal(response, code)

    async def check(self) -> None:
        """Ask for an order that is not there; raises `GatewayRefused` and `GatewayUnknown`."""
        async with self._http.budget():
            await self._status(UUID(int=0))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()


_PAID_BY_FRAUD_STATUS: Final = {"accept": GatewayStatus.PAID, "": GatewayStatus.PAID}


def _page_request(order: payments.CheckoutOrder, now: datetime) -> Mapping[str, Any]:
    minutes = (order.expires_at - now) // timedelta(minutes=1)
    begin = now.astimezone(WIB).strftime("%Y-%m-%d %H:%M:%S %z")
    item = order.description.replace("|", " ")[:50]
    customer = {"first_name": order.customer_name[:30]}
    if _EMAIL.fullmatch(email := order.customer_email.lower()):
        customer["email"] = email
    return {
        "transaction_details": {"order_id": str(order.payment_id), "gross_amount": order.amount},
        "item_details": [{"id": "credits", "price": order.amount, "quantity": 1, "name": item}],
        "customer_details": customer,
        "credit_card": {"secure": True},
        "enabled_payments": METHODS,
        "callbacks": {"finish": order.return_url},
        "expiry": {"start_time": begin, "unit": "minutes", "duration": minutes},
        "page_expiry": {"unit": "minutes", "duration": minutes},
    }


@frozen
class _Signed:
    order_id: str
    status_code: str
    gross_amount: str
    signature_key: str = field(repr=False)
    transaction_status: object = None


def midtrans_notifications(server_key: str) -> payments.NotificationParser:
    """Return the parser of notifications that are signed with a merchant's key, which is not empty."""
    if not server_key:
        raise ValueError("the server key of Midtrans is empty")

    def read(body: bytes, headers: Mapping[str, str], now: datetime) -> payments.Notification | None:
        try:
            signed = msgspec.json.decode(body, type=_Signed)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise payments.NotificationInvalid("no signature of Midtrans") from error
        text = signed.order_id + signed.status_code + signed.gross_amount + server_key
        expected = hashlib.sha512(text.encode("utf-8", "replace")).hexdigest()
        given = signed.signature_key.lower().encode("utf-8", "replace")
        if not hmac.compare_digest(expected.encode(), given):
            raise payments.NotificationInvalid("the signature is wrong")
        known = payment_id(signed.order_id)
        is_dispute = str(signed.transaction_status).lower() in _CHARGEBACKS
        return None if known is None else payments.Notification(known, _kept(body), is_dispute=is_dispute)

    return read


def _kept(body: bytes) -> str:
    try:
        return kept_body(msgspec.json.decode(body), KEPT)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise payments.NotificationMalformed from error
