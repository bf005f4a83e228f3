"""A stand-in for Midtrans: Snap and the Core API over HTTP on loopback, with faults on demand.

In a test::

    async with midtrans_stand_in() as midtrans:
        gateway = MidtransGateway(MidtransAccess.at(midtrans.server_key, midtrans.url))
        midtrans.faults.plan(Fault("drop", "open", is_done=True))

As a process, `python -m meetcore.testing.midtrans_server --port 8702` prints one line when it is ready. See
`gateway_stand_in` for faults and switches. It enforces Midtrans's rules: one order id is paid once, the
status knows an order from the first attempt to pay it on, a refund key is used once.
"""

import base64
import hashlib
import json
import secrets
from contextlib import AbstractAsyncContextManager
from typing import Any, Final
from uuid import UUID

from attrs import define, field

from meetcore.testing.gateway_stand_in import PAYER, SECRET, GatewayRefusal, GatewayStandIn, Notice
from meetcore.testing.stand_in import Reply, Request, as_json, port_option, run_stand_in

_CODES: Final = {"settlement": "200", "capture": "200", "pending": "201", "deny": "202", "expire": "407"}


@define
class _Order:
    """An order; `status` is None until a payment method is chosen."""

    order_id: str
    gross_amount: int
    pages: list[str] = field(factory=list)
    status: str | None = None
    fraud_status: str = "accept"
    paid: int | None = None
    currency: str = "IDR"
    refunds: dict[str, int] = field(factory=dict)


class MidtransStandIn(GatewayStandIn):
    """A running stand-in. `refuses_second_page`: whether Snap makes one page of an order only."""

    def __init__(self, server_key: str = SECRET) -> None:
        super().__init__()
        self.server_key = server_key
        self.orders: dict[str, _Order] = {}
        self.refuses_second_page = False

    def call_of(self, request: Request) -> str:
        """Tell by the path."""
        match request.segments:
            case ("snap", "v1", "transactions"):
                return "open"
            case ("v2", _, "status"):
                return "find"
            case ("v2", _, "refund"):
                return "refund"
            case _:
                return "unknown"

    def carry_out(self, request: Request) -> Reply:
        """Check the server key, and do the work once for an idempotency key."""
        token = base64.b64encode(f"{self.server_key}:".encode()).decode()
        if request.headers.get("authorization") != f"Basic {token}":
            text = "Access denied due to unauthorized transaction, please check client or server key"
            is_snap = request.segments[0] == "snap"
            body = {"error_messages": [text]} if is_snap else {"status_code": "401", "status_message": text}
            raise GatewayRefusal(401, body)
        key = request.headers.get("idempotency-key", "")
        if request.method == "POST" and key in self._by_key:
            return self._by_key[key][1]
        match request.segments:
            case ("snap", "v1", "transactions"):
                reply = self._open(request.json)
            case ("v2", order_id, "status"):
                return self._status(order_id)
            case ("v2", order_id, "refund"):
                reply = self._refund(order_id, request.json)
            case _:
                raise GatewayRefusal(404, {"status_code": "404"})
        if key:
            self._by_key[key] = b"", reply
        return reply

    def _open(self, wanted: dict[str, Any]) -> Reply:
        details = wanted["transaction_details"]
        order_id, amount = details["order_id"], details["gross_amount"]
        if sum(item["price"] * item["quantity"] for item in wanted["item_details"]) != amount:
            text = "transaction_details.gross_amount is not equal to the sum of item_details"
            raise GatewayRefusal(400, {"error_messages": [text]})
        order = self.orders.setdefault(order_id, _Order(order_id, amount))
        if order.paid is not None or (order.pages and self.refuses_second_page):
            text = "transaction_details.order_id has been paid and utilized, please use another order ID"
            raise GatewayRefusal(400, {"error_messages": [text]})
        token = secrets.token_hex(16)
        order.pages.append(token)
        self.opened.add(order_id)
        url = f"{self.url}/snap/v3/redirection/{token}"
        return as_json({"token": token, "redirect_url": url}, 201)

    def _status(self, order_id: str) -> Reply:
        order = self.orders.get(order_id)
        if order is None or order.status is None:
            text = "Transaction doesn't exist."
            return as_json({"status_code": "404", "status_message": text, "id": secrets.token_hex(8)}, 404)
        return as_json(self._transaction(order))

    def _transaction(self, order: _Order) -> dict[str, Any]:
        amount = order.gross_amount if order.paid is None else order.paid
        status = order.status or ""
        about: dict[str, Any] = {
            "status_code": _CODES.get(status, "200"), "status_message": "Success, transaction is found",
            "transaction_id": "249fc620-6017-4540-af7c-5a1c25788f46", "order_id": order.order_id,
            "payment_type": "credit_card", "transaction_time": "2026-12-01 09:00:00",
            "transaction_status": status, "fraud_status": order.fraud_status,
            "gross_amount": f"{amount}.00", "currency": order.currency, "merchant_id": "G123456",
            "masked_card": PAYER[1], "payer_phone_number": PAYER[4], "bank": "bni",
            "customer_details": {"full_name": PAYER[2], "email": PAYER[3]},
        }  # fmt: skip
        if order.refunds:
            about["refunds"] = [
                {"refund_key": key, "refund_amount": f"{amount}.00", "reason": "", "refund_method": "online"}
                for key, amount in order.refunds.items()
            ]
        text = order.order_id + about["status_code"] + about["gross_amount"] + self.server_key
        return about | {"signature_key": hashlib.sha512(text.encode()).hexdigest()}

    def _refund(self, order_id: str, wanted: dict[str, Any]) -> Reply:
        order = self.orders.get(order_id)
        if order is None or order.paid is None or order.status not in ("settlement", "partial_refund"):
            text = "Merchant cannot modify the status of the transaction"
            raise GatewayRefusal(412, {"status_code": "412", "status_message": text})
        key, amount = wanted["refund_key"], wanted["amount"]
        if key in order.refunds:
            raise GatewayRefusal(406, {"status_code": "406", "status_message": "Duplicate refund ID"})
        if amount + sum(order.refunds.values()) > order.paid:
            text = "Refund request is rejected due to invalid amount"
            raise GatewayRefusal(414, {"status_code": "414", "status_message": text})
        order.refunds[key] = amount
        is_whole = sum(order.refunds.values()) == order.paid
        self._change(order, "refund" if is_whole else "partial_refund")
        return as_json({**self._transaction(order), "status_code": "200", "refund_key": key})

    def _change(self, order: _Order, status: str) -> None:
        order.status = status
        body = json.dumps(self._transaction(order)).encode()
        self.keep_notice(order.order_id, Notice(body, {"Content-Type": "application/json"}))

    def _of(self, payment_id: UUID) -> _Order:
        return self.orders[str(payment_id)]

    def attempt(self, payment_id: UUID, status: str, fraud_status: str = "accept") -> None:
        """Let an attempt of a customer come to a status of Midtrans."""
        order = self._of(payment_id)
        order.fraud_status = fraud_status
        self._change(order, status)

    def pay(self, payment_id: UUID, amount: int | None = None, currency: str | None = None) -> None:
        """Settle the order; raises `ValueError` where it is paid."""
        order = self._of(payment_id)
        if order.paid is not None or not order.pages:
            raise ValueError("there is no page on which this order can be paid")
        order.paid = order.gross_amount if amount is None else amount
        order.currency = currency or order.currency
        self._change(order, "settlement")

    def pay_everywhere(self, payment_id: UUID) -> int:
        """Pay on each page; an order is paid once, whatever number of pages it has."""
        taken = 0
        for _ in self._of(payment_id).pages:
            try:
                self.pay(payment_id)
            except ValueError:
                continue
            taken += 1
        return taken

    def fail(self, payment_id: UUID) -> None:
        """Let the attempt be denied."""
        self.attempt(payment_id, "deny")

    def expire(self, payment_id: UUID) -> None:
        """Let the attempt expire."""
        self.attempt(payment_id, "expire")

    def reverse(self, payment_id: UUID) -> None:
        """Let the card's bank charge the payment back."""
        self.attempt(payment_id, "chargeback")

    def sent_back(self, payment_id: UUID) -> int:
        """Sum the refunds."""
        return sum(self._of(payment_id).refunds.values())

    def forged(self, notice: Notice) -> Notice:
        """Sign with another server key."""
        about = json.loads(notice.body)
        text = about["order_id"] + about["status_code"] + about["gross_amount"] + "another key"
        about["signature_key"] = hashlib.sha512(text.encode()).hexdigest()
        return Notice(json.dumps(about).encode(), notice.headers)


def midtrans_stand_in(
    server_key: str = SECRET, port: int = 0
) -> AbstractAsyncContextManager[MidtransStandIn]:
    """Run a stand-in on loopback, on a free port for 0."""
    return MidtransStandIn(server_key).served(port)


def main() -> None:
    """Run it as a process."""
    port = port_option("meetcore.testing.midtrans_server", __doc__)
    run_stand_in(midtrans_stand_in(port=port), lambda one: {"url": one.url, "secret": one.server_key})


if __name__ == "__main__":
    main()
