"""A stand-in for Stripe: Checkout Sessions, PaymentIntents, refunds and webhooks over HTTP on loopback.

In a test::

    async with stripe_stand_in() as stripe:
        gateway = StripeGateway(stripe.secret_key, stripe.url)
        stripe.faults.plan(Fault("drop", "open", is_done=True))

As a process, `python -m meetcore.testing.stripe_server --port 8704` prints one line when it is ready. See
`gateway_stand_in` for faults and switches. It enforces Stripe's rules: idempotency keys with the request that
they belong to, 30 minutes to 24 hours for a session, refunds up to what was received.
"""

import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, Final
from urllib.parse import parse_qsl
from uuid import UUID

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

_HUNDREDTHS: Final = frozenset({"idr", "isk", "ugx"})
_QUERY: Final = re.compile(r"metadata\['payment_id'\]:'([^']+)'")
_SHORTEST_S: Final = 30 * 60
_LONGEST_S: Final = 24 * 60 * 60


@define
class _Intent:
    id: str
    amount: int
    currency: str
    status: str
    metadata: dict[str, str]
    received: int = 0
    refunds: list[dict[str, Any]] = field(factory=list)
    is_disputed: bool = False


@define
class _Session:
    id: str
    reference: str
    amount: int
    currency: str
    expires_at: int
    metadata: dict[str, str]
    email: str
    status: str = "open"
    payment_status: str = "unpaid"
    intent: _Intent | None = None


class StripeStandIn(GatewayStandIn):
    """A running stand-in."""

    def __init__(
        self, secret_key: str = SECRET, secret: str = NOTICE_SECRET, now: Callable[[], datetime] = utc_now
    ) -> None:
        super().__init__()
        self.secret_key, self.secret, self._now = secret_key, secret, now
        self.sessions: list[_Session] = []
        self._refund_status = "succeeded"

    def call_of(self, request: Request) -> str:
        """Tell by the path; a refund begins with what `find` asks, and is planned by its own request."""
        match request.method, request.segments:
            case "POST", ("v1", "checkout", "sessions"):
                return "open"
            case "GET", ("v1", "checkout", "sessions", _) | ("v1", "payment_intents", "search"):
                return "find"
            case "POST", ("v1", "refunds"):
                return "refund"
            case _:
                return "unknown"

    def carry_out(self, request: Request) -> Reply:
        """Check the key, and do the work once for an idempotency key, which belongs to one request."""
        if request.headers.get("authorization") != f"Bearer {self.secret_key}":
            raise _refusal(401, None, "Invalid API Key provided")
        key = request.headers.get("idempotency-key")
        if request.method != "POST" or key is None:
            return self._answer(request)
        if key not in self._by_key:
            self._by_key[key] = request.body, self._answer(request)
        earlier, reply = self._by_key[key]
        if earlier != request.body:
            error = {"type": "idempotency_error", "message": "Keys can only be used with the same parameters"}
            raise GatewayRefusal(400, {"error": error})
        return reply

    def _answer(self, request: Request) -> Reply:
        form = dict(parse_qsl(request.body.decode()))
        match request.method, request.segments:
            case "POST", ("v1", "checkout", "sessions"):
                return self._open(form)
            case "GET", ("v1", "checkout", "sessions"):
                return as_json(_list([self._shown(each) for each in self.sessions[-1:]]))
            case "GET", ("v1", "checkout", "sessions", session_id):
                return as_json(self._shown(self._session(session_id), is_expanded=True))
            case "GET", ("v1", "payment_intents", "search"):
                found = _QUERY.search(request.query["query"])
                wanted = found[1] if found else ""
                return as_json(
                    _list([_shown_intent(each) for each in self._intents(wanted)], "search_result")
                )
            case "GET", ("v1", "refunds"):
                intent = self._intent(request.query["payment_intent"])
                return as_json(_list(intent.refunds))
            case "POST", ("v1", "refunds"):
                return self._refund(form)
            case _:
                raise _refusal(404, "url_invalid", "Unrecognized request URL")

    def _open(self, form: dict[str, str]) -> Reply:
        expires_at = int(form["expires_at"])
        lives_s = expires_at - self._now().timestamp()
        if not _SHORTEST_S <= lives_s <= _LONGEST_S:
            raise _refusal(400, None, "The `expires_at` timestamp must be between 30 minutes and 24 hours")
        price = "line_items[0][price_data]"
        session = _Session(
            f"cs_test_{secrets.token_hex(16)}", form["client_reference_id"],
            int(form[f"{price}[unit_amount]"]) * int(form["line_items[0][quantity]"]),
            form[f"{price}[currency]"], expires_at,
            {"payment_id": form["payment_intent_data[metadata][payment_id]"]}, form["customer_email"],
        )  # fmt: skip
        self.sessions.append(session)
        self.opened.add(session.reference)
        return as_json(self._shown(session))

    def _session(self, session_id: str) -> _Session:
        for session in self.sessions:
            if session.id == session_id:
                return session
        raise _refusal(404, "resource_missing", f"No such checkout.session: {session_id}")

    def _intents(self, payment_id: str) -> list[_Intent]:
        return [each.intent for each in self.sessions if each.intent and each.reference == payment_id]

    def _intent(self, intent_id: str) -> _Intent:
        for session in self.sessions:
            if session.intent is not None and session.intent.id == intent_id:
                return session.intent
        raise _refusal(404, "resource_missing", "No such payment_intent")

    def _shown(self, session: _Session, *, is_expanded: bool = False) -> dict[str, Any]:
        intent = session.intent
        shown = None if intent is None else _shown_intent(intent) if is_expanded else intent.id
        url = f"{self.url}/c/pay/{session.id}" if session.status == "open" else None
        return {
            "id": session.id, "object": "checkout.session", "amount_subtotal": session.amount,
            "amount_total": session.amount, "client_reference_id": session.reference,
            "created": 1796090400, "currency": session.currency, "customer_email": session.email,
            "customer_details": {"email": PAYER[3], "name": PAYER[2], "phone": PAYER[4]},
            "expires_at": session.expires_at, "livemode": False, "metadata": session.metadata,
            "mode": "payment", "payment_intent": shown, "payment_status": session.payment_status,
            "status": session.status, "url": url,
        }  # fmt: skip

    def _refund(self, form: dict[str, str]) -> Reply:
        intent = self._intent(form["payment_intent"])
        amount = int(form["amount"])
        if amount + sum(each["amount"] for each in intent.refunds) > intent.received:
            raise _refusal(400, "charge_already_refunded", "Refund amount is greater than unrefunded amount")
        refund = {
            "id": f"re_{secrets.token_hex(12)}", "object": "refund", "amount": amount,
            "currency": intent.currency, "payment_intent": intent.id, "status": self._refund_status,
            "reason": form["reason"], "metadata": {"payment_id": form["metadata[payment_id]"]},
        }  # fmt: skip
        intent.refunds.append(refund)
        self._notify(form["metadata[payment_id]"], "charge.refunded", _shown_intent(intent)["latest_charge"])
        return as_json(refund)

    def hold_refunds(self) -> None:
        """Let refunds stay under way."""
        self._refund_status = "pending"

    def end_refund(self, payment_id: UUID, *, is_sent: bool) -> None:
        """Let the refunds of a payment be sent, or fail."""
        for intent in self._intents(str(payment_id)):
            for refund in intent.refunds:
                refund["status"] = "succeeded" if is_sent else "failed"
                self._notify(str(payment_id), "refund.updated" if is_sent else "refund.failed", refund)

    def _notify(self, reference: str, kind: str, about: dict[str, Any]) -> None:
        event = {
            "id": f"evt_{secrets.token_hex(12)}", "object": "event", "api_version": "2026-10-28.endive",
            "created": int(self._now().timestamp()), "type": kind, "livemode": False,
            "data": {"object": about},
        }  # fmt: skip
        self.keep_notice(reference, self._signed(json.dumps(event), self.secret))

    def _signed(self, body: str, secret: str) -> Notice:
        at = int(self._now().timestamp())
        mac = hmac.new(secret.encode(), f"{at}.{body}".encode(), hashlib.sha256).hexdigest()
        headers = {"Content-Type": "application/json", "Stripe-Signature": f"t={at},v1={mac}"}
        return Notice(body.encode(), headers)

    def _of(self, payment_id: UUID) -> list[_Session]:
        return [each for each in self.sessions if each.reference == str(payment_id)]

    def pay(self, payment_id: UUID, amount: int | None = None, currency: str | None = None) -> None:
        """Pay in the latest session; raises `ValueError` where it is over."""
        self._pay(self._of(payment_id)[-1], amount, currency)

    def _pay(self, session: _Session, amount: int | None = None, currency: str | None = None) -> None:
        if session.status != "open":
            raise ValueError("this session is over")
        paid_in = (currency or session.currency).lower()
        paid = session.amount if amount is None else amount * (100 if paid_in in _HUNDREDTHS else 1)
        session.intent = _Intent(
            f"pi_{secrets.token_hex(12)}", paid, paid_in, "succeeded", session.metadata, paid
        )
        session.status, session.payment_status = "complete", "paid"
        self._notify(session.reference, "checkout.session.completed", self._shown(session))

    def attempt(self, payment_id: UUID, status: str) -> None:
        """Let a customer order a transfer, which comes to this status of a PaymentIntent."""
        for session in self._of(payment_id):
            session.intent = _Intent(
                f"pi_{secrets.token_hex(12)}", session.amount, session.currency, status, session.metadata
            )
            session.status = "complete"
            self._notify(session.reference, "checkout.session.completed", self._shown(session))

    def pay_everywhere(self, payment_id: UUID) -> int:
        """Pay in each session: each takes money."""
        open_ones = [each for each in self._of(payment_id) if each.status == "open"]
        for session in open_ones:
            self._pay(session)
        return len(open_ones)

    def fail(self, payment_id: UUID) -> None:
        """Let a transfer that was ordered on the page fail."""
        self.attempt(payment_id, "requires_payment_method")

    def expire(self, payment_id: UUID) -> None:
        """Let the sessions expire."""
        for session in self._of(payment_id):
            session.status = "expired"
            self._notify(session.reference, "checkout.session.expired", self._shown(session))

    def reverse(self, payment_id: UUID) -> None:
        """Let the card's holder dispute the payment."""
        for intent in self._intents(str(payment_id)):
            intent.is_disputed = True
            dispute = {
                "id": f"du_{secrets.token_hex(12)}", "object": "dispute", "amount": intent.amount,
                "charge": f"ch_{intent.id[3:]}", "currency": intent.currency, "metadata": {},
                "payment_intent": intent.id, "reason": "fraudulent", "status": "needs_response",
            }  # fmt: skip
            self._notify(str(payment_id), "charge.dispute.created", dispute)

    def sent_back(self, payment_id: UUID) -> int:
        """Sum the refunds."""
        return sum(
            refund["amount"] // (100 if each.currency in _HUNDREDTHS else 1)
            for each in self._intents(str(payment_id))
            for refund in each.refunds
            if refund["status"] != "failed"
        )

    def forged(self, notice: Notice) -> Notice:
        """Sign with another secret."""
        return self._signed(notice.body.decode(), "another secret")


def _shown_intent(intent: _Intent) -> dict[str, Any]:
    sent = sum(each["amount"] for each in intent.refunds if each["status"] != "failed")
    card = {"brand": "visa", "last4": PAYER[0][-4:], "fingerprint": "Xt5EWLLDS7FJjR1c", "exp_year": 2030}
    charge = {
        "id": f"ch_{intent.id[3:]}", "object": "charge", "amount": intent.amount, "amount_refunded": sent,
        "currency": intent.currency, "refunded": 0 < intent.received <= sent, "disputed": intent.is_disputed,
        "status": "succeeded", "metadata": intent.metadata,
        "billing_details": {"email": PAYER[3], "name": PAYER[2], "phone": PAYER[4]},
        "payment_method_details": {"type": "card", "card": card},
    }  # fmt: skip
    return {
        "id": intent.id, "object": "payment_intent", "amount": intent.amount, "currency": intent.currency,
        "amount_received": intent.received, "status": intent.status, "metadata": intent.metadata,
        "receipt_email": PAYER[3], "latest_charge": charge if intent.received else None,
    }  # fmt: skip


def _list(data: list[dict[str, Any]], kind: str = "list") -> dict[str, Any]:
    return {"object": kind, "data": data, "has_more": False, "url": "/v1/"}


def _refusal(status: int, code: str | None, message: str) -> GatewayRefusal:
    return GatewayRefusal(
        status, {"error": {"type": "invalid_request_error", "code": code, "message": message}}
    )


def stripe_stand_in(
    secret_key: str = SECRET,
    secret: str = NOTICE_SECRET,
    port: int = 0,
    now: Callable[[], datetime] = utc_now,
) -> AbstractAsyncContextManager[StripeStandIn]:
    """Run a stand-in on loopback, on a free port for 0."""
    return StripeStandIn(secret_key, secret, now).served(port)


def main() -> None:
    """Run it as a process."""
    port = port_option("meetcore.testing.stripe_server", __doc__)
    run_stand_in(
        stripe_stand_in(port=port),
        lambda one: {"url": one.url, "secret": one.secret_key, "webhook_secret": one.secret},
    )


if __name__ == "__main__":
    main()
