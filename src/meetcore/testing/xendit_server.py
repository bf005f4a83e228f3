"""A stand-in for Xendit: payment sessions, payments, transactions and refunds over HTTP on loopback.

In a test::

    async with xendit_stand_in() as xendit:
        gateway = XenditGateway(xendit.secret_key, xendit.url)
        xendit.faults.plan(Fault("drop", "refund", is_done=True))

As a process, `python -m meetcore.testing.xendit_server --port 8703` prints one line when it is ready. See
`gateway_stand_in` for faults and switches. It enforces Xendit's rules: amounts by the currency's decimals,
HTTPS for return addresses, ten minutes at least until the expiry. A session has no idempotency key: a
repeated request makes a second one. A refund has one.
"""

import base64
import json
import secrets
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID, uuid4

from attrs import define, field

from meetcore.testing.gateway_stand_in import (
    NOTICE_SECRET,
    PAYER,
    SECRET,
    GatewayRefusal,
    GatewayStandIn,
    Notice,
)
from meetcore.testing.stand_in import Reply, Request, as_json, port_option, run_stand_in, utc_now

_DECIMALS: Final = {"IDR": 0, "VND": 0}
_COUNTRIES: Final = {"IDR": "ID", "PHP": "PH", "VND": "VN", "THB": "TH", "SGD": "SG", "MYR": "MY"}
_SHORTEST: Final = timedelta(minutes=10)


@define
class _Session:
    id: str
    wanted: dict[str, Any]
    status: str = "ACTIVE"
    payment_id: str | None = None
    request_id: str | None = None


@define
class _Payment:
    id: str
    request_id: str
    reference: str
    amount: float
    currency: str
    refunds: list[dict[str, Any]] = field(factory=list)
    is_charged_back: bool = False


class XenditStandIn(GatewayStandIn):
    """A running stand-in."""

    def __init__(
        self, secret_key: str = SECRET, token: str = NOTICE_SECRET, now: Callable[[], datetime] = utc_now
    ) -> None:
        super().__init__()
        self.secret_key, self.token, self._now = secret_key, token, now
        self.sessions: list[_Session] = []
        self.payments: list[_Payment] = []
        self._refund_status = "SUCCEEDED"

    def call_of(self, request: Request) -> str:
        """Tell by the path; a refund begins with what `find` asks, and is planned by its own request."""
        match request.method, request.segments:
            case "POST", ("sessions",):
                return "open"
            case "GET", ("sessions" | "v3", *_) | ("transactions",):
                return "find"
            case "POST", ("refunds",):
                return "refund"
            case _:
                return "unknown"

    def carry_out(self, request: Request) -> Reply:
        """Check the key, and do the work."""
        token = base64.b64encode(f"{self.secret_key}:".encode()).decode()
        if request.headers.get("authorization") != f"Basic {token}":
            raise _refusal(401, "INVALID_API_KEY", "API key is not authorized for this API")
        match request.method, request.segments:
            case "POST", ("sessions",):
                return self._open(request.json)
            case "GET", ("sessions", session_id):
                return as_json(self._shown(self._session(session_id)))
            case "GET", ("v3", "payments", payment_id):
                if request.headers.get("api-version") != "2024-11-11":
                    raise _refusal(400, "API_VALIDATION_ERROR", "api-version is required")
                return as_json(_shown_payment(self._payment("id", payment_id)))
            case "GET", ("transactions",):
                wanted = request.query.get("reference_id")
                return as_json({"has_more": False, "data": self._transactions(wanted), "links": []})
            case "POST", ("refunds",):
                key = request.headers.get("idempotency-key", "")
                return self._by_key[key][1] if key in self._by_key else self._refund(request.json, key)
            case _:
                raise _refusal(404, "DATA_NOT_FOUND", "no such path")

    def _open(self, wanted: dict[str, Any]) -> Reply:
        decimals = _DECIMALS.get(wanted["currency"], 2)
        if wanted["amount"] <= 0 or round(wanted["amount"], decimals) != wanted["amount"]:
            raise _refusal(400, "INVALID_AMOUNT", "Amount must be greater than zero")
        if _COUNTRIES.get(wanted["currency"]) != wanted["country"]:
            raise _refusal(400, "INVALID_CURRENCY", "The provided currency is not supported")
        if any(not wanted[name].startswith("https://") for name in wanted if name.endswith("_return_url")):
            raise _refusal(400, "INVALID_URL", "Please provide a valid HTTPS URL")
        if datetime.fromisoformat(wanted["expires_at"]) < self._now() + _SHORTEST:
            raise _refusal(400, "INVALID_EXPIRY_DATE", "expires_at must be at least 10 minutes in the future")
        session = _Session(f"ps-{secrets.token_hex(12)}", wanted)
        self.sessions.append(session)
        self.opened.add(wanted["reference_id"])
        return as_json(self._shown(session), 201)

    def _session(self, session_id: str) -> _Session:
        for session in self.sessions:
            if session.id == session_id:
                return session
        raise _refusal(404, "DATA_NOT_FOUND", "Session not found")

    def _payment(self, name: str, value: str) -> _Payment:
        for payment in self.payments:
            if getattr(payment, name) == value:
                return payment
        raise _refusal(404, "DATA_NOT_FOUND", "ID specified in request cannot be found.")

    def _shown(self, session: _Session) -> dict[str, Any]:
        named = (
            "reference_id",
            "session_type",
            "currency",
            "amount",
            "country",
            "mode",
            "locale",
            "description",
        )
        return {
            "payment_session_id": session.id, "created": "2026-12-01T02:00:00Z",
            "updated": "2026-12-01T02:00:00Z", **{name: session.wanted.get(name) for name in named},
            "expires_at": session.wanted["expires_at"], "status": session.status,
            "payment_link_url": f"{self.url}/checkout/{session.id}", "payment_token_id": None,
            "payment_id": session.payment_id, "payment_request_id": session.request_id,
            "business_id": "661f87c614802d6c402cd82d",
        }  # fmt: skip

    def _transactions(self, reference: str | None) -> list[dict[str, Any]]:
        found = []
        for payment in self.payments:
            about = {
                "product_id": payment.id, "channel_code": "CARDS", "account_identifier": PAYER[1],
                "currency": payment.currency, "settlement_status": "PENDING",
                "product_data": {"payment_request_id": payment.request_id},
            }  # fmt: skip
            money = {"amount": payment.amount, "reference_id": payment.reference}
            found.append({"type": "PAYMENT", "status": "SUCCESS", **about, **money})
            if payment.is_charged_back:
                found.append({"type": "CHARGEBACK", "status": "SUCCESS", **about, **money})
            for refund in payment.refunds:
                money = {"amount": refund["amount"], "reference_id": refund["reference_id"]}
                about |= {"product_id": refund["id"]}
                status = {"SUCCEEDED": "SUCCESS"}.get(refund["status"], refund["status"])
                found.append({"type": "REFUND", "status": status, **about, **money})
        return [each for each in found if reference in (None, each["reference_id"])]

    def _refund(self, wanted: dict[str, Any], key: str) -> Reply:
        payment = self._payment("request_id", wanted["payment_request_id"])
        sent = sum(each["amount"] for each in payment.refunds)
        if wanted["amount"] + sent > payment.amount or wanted["currency"] != payment.currency:
            text = "Refund amount must be less than or equal to unrefunded capture amount."
            raise _refusal(400, "REFUND_AMOUNT_EXCEEDED", text)
        refund = {
            "id": f"rfd-{uuid4()}", "payment_request_id": payment.request_id, "payment_id": payment.id,
            "reference_id": wanted["reference_id"], "channel_code": "CARDS", "currency": payment.currency,
            "amount": wanted["amount"], "status": self._refund_status, "reason": wanted["reason"],
            "failure_code": None,
        }  # fmt: skip
        payment.refunds.append(refund)
        reply = as_json({**refund, "status": "PENDING"})
        self._by_key[key] = b"", reply
        self._notify_refund(payment)
        return reply

    def _notify_refund(self, payment: _Payment) -> None:
        for refund in payment.refunds:
            if refund["status"] != "PENDING":
                self._notify(payment.reference, f"refund.{refund['status'].lower()}", refund)

    def hold_refunds(self) -> None:
        """Let refunds stay under way."""
        self._refund_status = "PENDING"

    def end_refund(self, payment_id: UUID, *, is_sent: bool) -> None:
        """Let the refunds of a payment be sent, or fail."""
        payment = self._payment("reference", str(payment_id))
        for refund in payment.refunds:
            refund["status"] = "SUCCEEDED" if is_sent else "FAILED"
        self._notify_refund(payment)

    def _notify(self, reference: str, event: str, data: dict[str, Any]) -> None:
        about = {
            "event": event, "business_id": "661f87c614802d6c402cd82d", "created": "2026-12-01T02:00:00Z",
            "data": {**data, "customer": {"email": PAYER[3], "name": PAYER[2]}},
        }  # fmt: skip
        self._keep(reference, about)

    def _keep(self, reference: str, about: dict[str, Any]) -> None:
        headers = {"Content-Type": "application/json", "x-callback-token": self.token}
        self.keep_notice(reference, Notice(json.dumps(about).encode(), headers))

    def _of(self, payment_id: UUID) -> list[_Session]:
        return [each for each in self.sessions if each.wanted["reference_id"] == str(payment_id)]

    def pay(self, payment_id: UUID, amount: int | None = None, currency: str | None = None) -> None:
        """Pay in the latest session; raises `ValueError` where it is over."""
        self._pay(self._of(payment_id)[-1], amount, currency)

    def _pay(self, session: _Session, amount: int | None = None, currency: str | None = None) -> None:
        if session.status != "ACTIVE":
            raise ValueError("this session is over")
        wanted = session.wanted
        currency = currency or wanted["currency"]
        paid = wanted["amount"] if amount is None else amount / 10 ** _DECIMALS.get(currency, 2)
        payment = _Payment(f"py-{uuid4()}", f"pr-{uuid4()}", wanted["reference_id"], paid, currency)
        self.payments.append(payment)
        session.status, session.payment_id, session.request_id = "COMPLETED", payment.id, payment.request_id
        self._notify(payment.reference, "payment_session.completed", self._shown(session))
        self._notify(payment.reference, "payment.capture", _shown_payment(payment))

    def pay_everywhere(self, payment_id: UUID) -> int:
        """Pay in each session: each takes money."""
        active = [each for each in self._of(payment_id) if each.status == "ACTIVE"]
        for session in active:
            self._pay(session)
        return len(active)

    def _end(self, payment_id: UUID, status: str) -> None:
        for session in self._of(payment_id):
            session.status = status
            self._notify(str(payment_id), "payment_session.expired", self._shown(session))

    def fail(self, payment_id: UUID) -> None:
        """Cancel the sessions."""
        self._end(payment_id, "CANCELED")

    def expire(self, payment_id: UUID) -> None:
        """Let the sessions expire."""
        self._end(payment_id, "EXPIRED")

    def reverse(self, payment_id: UUID) -> None:
        """Let the card's bank charge the payment back."""
        payment = self._payment("reference", str(payment_id))
        payment.is_charged_back = True
        body = {
            "event": "dispute.action_required", "id": f"mi-dspt-{uuid4()}", "channel_code": "CARDS",
            "status": "ACTION_REQUIRED", "currency": payment.currency, "payment_id": payment.id,
            "amount": {"initial": str(payment.amount), "terminal": None}, "category": {"name": "fraud"},
        }  # fmt: skip
        self._keep(payment.reference, body)

    def sent_back(self, payment_id: UUID) -> int:
        """Sum the refunds."""
        paid = [each for each in self.payments if each.reference == str(payment_id)]
        return sum(
            round(refund["amount"] * 10 ** _DECIMALS.get(each.currency, 2))
            for each in paid
            for refund in each.refunds
            if refund["status"] != "FAILED"
        )

    def forged(self, notice: Notice) -> Notice:
        """Carry another token."""
        return Notice(notice.body, {**notice.headers, "x-callback-token": "another token"})


def _shown_payment(payment: _Payment) -> dict[str, Any]:
    return {
        "payment_id": payment.id, "business_id": "661f87c614802d6c402cd82d", "status": "SUCCEEDED",
        "reference_id": payment.reference, "payment_request_id": payment.request_id, "type": "PAY",
        "country": "ID", "currency": payment.currency, "request_amount": payment.amount,
        "channel_code": "CARDS", "capture_method": "AUTOMATIC",
        "channel_properties": {
            "card_details": {"masked_card_number": PAYER[1], "cardholder_email": PAYER[3]},
        },
        "captures": [{"capture_id": f"cap-{payment.id[3:]}", "capture_amount": payment.amount}],
        "payment_details": {"payer_name": PAYER[2], "payer_account_number": PAYER[0]},
    }  # fmt: skip


def _refusal(status: int, code: str, message: str) -> GatewayRefusal:
    return GatewayRefusal(status, {"error_code": code, "message": message})


def xendit_stand_in(
    secret_key: str = SECRET, token: str = NOTICE_SECRET, port: int = 0, now: Callable[[], datetime] = utc_now
) -> AbstractAsyncContextManager[XenditStandIn]:
    """Run a stand-in on loopback, on a free port for 0."""
    return XenditStandIn(secret_key, token, now).served(port)


def main() -> None:
    """Run it as a process."""
    port = port_option("meetcore.testing.xendit_server", __doc__)
    run_stand_in(
        xendit_stand_in(port=port),
        lambda one: {"url": one.url, "secret": one.secret_key, "webhook_secret": one.token},
    )


if __name__ == "__main__":
    main()
