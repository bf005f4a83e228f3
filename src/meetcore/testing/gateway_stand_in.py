"""The shared part of the stand-ins of payment gateways: faults, what customers do, and notifications.

Faults beside those of `stand_in`::

    late    responds after `late_s` seconds
    canned  responds 200 with `body`; an HTTP status may have one, too

With `is_done`, or `late`, the work is done before the fault: a page or a refund is made and not reported.

A payment is named by our id. What customers and banks do is a method of `GatewayStandIn`, and a switch::

    POST /stand-in/payments/{id}/pay       {"amount", "currency"}: what was ordered, unless they say otherwise
    POST /stand-in/payments/{id}/fail, /expire, /reverse
    GET  /stand-in/payments/{id}           money that was sent back, and the notifications with their headers
    POST /stand-in/payments/{id}/notify    {"url", "which", "times", "forged"}: sends notifications

Each change signs a notification and sends none: `notices` has all of them, in order, for a test to send once,
twice, late, in another order, forged, or never. Amounts are in the units of `meetcore.domain.payments`.
"""

import asyncio
from abc import abstractmethod
from collections import Counter, deque
from collections.abc import Mapping
from typing import Any, ClassVar, Final
from uuid import UUID

from attrs import define, field, frozen

from meetcore.testing import stand_in

SECRET: Final = "stand-in-secret"
NOTICE_SECRET: Final = "stand-in-notices"
PAYER: Final = ("4811111111111114", "481111******1114", "Rina Wijaya", "rina@example.com", "0812345678")
"""What a customer types on a gateway's page, which none of our records may have."""


@define
class Fault(stand_in.PlannedFault):
    """A planned fault."""

    CALLS: ClassVar[tuple[str, ...]] = ("open", "find", "refund")
    FAULTS: ClassVar[tuple[str, ...]] = (*stand_in.BROKEN, "late", "canned")

    is_done: bool = False
    late_s: float = 30.0
    body: str = ""

    @property
    def does_the_work(self) -> bool:
        """Whether the work is done all the same."""
        return self.is_done or self.fault in ("late", "cut", "huge")


@frozen
class Notice:
    """A signed notification."""

    body: bytes = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)


class GatewayRefusal(Exception):
    """The stand-in's answer of a 4xx."""

    def __init__(self, status: int, body: object) -> None:
        super().__init__(status)
        self.reply = stand_in.as_json(body, status)


class GatewayStandIn(stand_in.StandIn[Fault]):
    """A gateway in memory. `calls` counts the requests of each kind, `requests` has the latest of them.

    Both have those that met a fault.
    """

    def __init__(self) -> None:
        super().__init__(Fault)
        self.calls: Counter[str] = Counter()
        self.requests: deque[stand_in.Request] = deque(maxlen=100)
        self.notices: dict[str, list[Notice]] = {}
        self.opened: set[str] = set()  # ids of payments that have a page
        self._by_key: dict[str, tuple[bytes, stand_in.Reply]] = {}

    def forget_keys(self) -> None:
        """Let the time of the idempotency keys pass."""
        self._by_key.clear()

    @abstractmethod
    def call_of(self, request: stand_in.Request) -> str:
        """Return which of `Fault.CALLS` a request is, or another word for what has no faults."""

    @abstractmethod
    def carry_out(self, request: stand_in.Request) -> stand_in.Reply:
        """Do the work of a request; raises `GatewayRefusal`."""

    @abstractmethod
    def pay(self, payment_id: UUID, amount: int | None = None, currency: str | None = None) -> None:
        """Let a customer pay on the latest page: what was ordered, unless another amount is given."""

    @abstractmethod
    def pay_everywhere(self, payment_id: UUID) -> int:
        """Let customers pay on every page of a payment; return how often money was taken."""

    @abstractmethod
    def fail(self, payment_id: UUID) -> None:
        """Let a payment fail for good."""

    @abstractmethod
    def expire(self, payment_id: UUID) -> None:
        """Let the time of a payment run out."""

    @abstractmethod
    def reverse(self, payment_id: UUID) -> None:
        """Let a bank take the money of a paid payment back."""

    def hold_refunds(self) -> None:
        """Let refunds from now on stay under way until `end_refund`.

        Only the stand-in of a gateway whose refunds take time has this; at Midtrans they are final at once.
        """
        raise NotImplementedError

    def end_refund(self, payment_id: UUID, *, is_sent: bool) -> None:
        """Let a refund be sent, or fail, whatever its state."""
        raise NotImplementedError

    @abstractmethod
    def sent_back(self, payment_id: UUID) -> int:
        """Return the money that was sent back by refunds."""

    @abstractmethod
    def forged(self, notice: Notice) -> Notice:
        """Return a notification with the signature of another key."""

    def keep_notice(self, payment_id: str, notice: Notice) -> None:
        """Keep what a gateway would send now."""
        self.notices.setdefault(payment_id, []).append(notice)

    async def answer(self, request: stand_in.Request) -> stand_in.Reply | None:
        """Respond as the gateway does; None drops the connection."""
        call = self.call_of(request)
        self.calls[call] += 1
        self.requests.append(request)
        fault = self.faults.due(call, request.body) if call in Fault.CALLS else None
        if fault is None:
            return self._done(request)
        reply = self._done(request) if fault.does_the_work else stand_in.as_json({"status": "not done"})
        return await _faulty(fault, request, reply)

    def _done(self, request: stand_in.Request) -> stand_in.Reply:
        try:
            return self.carry_out(request)
        except GatewayRefusal as refusal:
            return refusal.reply
        except KeyError as missing:
            return stand_in.as_json({"error": {"message": f"Missing required param: {missing}."}}, 400)

    async def handle(self, request: stand_in.Request) -> stand_in.Reply | None:
        """Respond to a request of a client, or of a test."""
        match request.method, request.segments:
            case _, ("stand-in", "payments", payment_id, *_) if payment_id not in self.opened:
                return stand_in.as_json({"error": f"no page was opened for the payment {payment_id}"}, 400)
            case "POST", ("stand-in", "payments", payment_id, "notify"):
                wanted = request.json
                if payment_id not in self.notices or "url" not in wanted:
                    return stand_in.as_json({"error": "pay first, or let it end, and give a url"}, 400)
                statuses = await self.notify(
                    wanted["url"], UUID(payment_id), *wanted.get("which", ()),
                    times=int(wanted.get("times", 1)), is_forged=bool(wanted.get("forged")),
                )  # fmt: skip
                return stand_in.as_json(statuses)
        try:
            return await super().handle(request)
        except GatewayRefusal as refusal:  # by a switch
            return refusal.reply

    async def notify(
        self, url: str, payment_id: UUID, *which: int, times: int = 1, is_forged: bool = False
    ) -> list[int]:
        """Send notifications by their numbers, the latest where none is named; return the statuses."""
        import httpx  # not of what the stand-in itself needs

        notices = self.notices[str(payment_id)]
        chosen = [notices[number] for number in which] or notices[-1:]
        statuses = []
        async with httpx.AsyncClient(trust_env=False) as http:
            for notice in chosen * times:
                sent = self.forged(notice) if is_forged else notice
                response = await http.post(url, content=sent.body, headers=dict(sent.headers))
                statuses.append(response.status_code)
        return statuses

    def switch(self, request: stand_in.Request) -> stand_in.Switch | None:
        """Return the action of a path of the table above."""
        steps: dict[str, Any] = {"fail": self.fail, "expire": self.expire, "reverse": self.reverse}
        match request.method, *request.segments[1:]:
            case "POST", "payments", payment_id, "pay":
                wanted = request.json
                return lambda: self.pay(UUID(payment_id), wanted.get("amount"), wanted.get("currency"))
            case "POST", "payments", payment_id, step if step in steps:
                return lambda: steps[step](UUID(payment_id))
            case "GET", "payments", payment_id:
                return lambda: {
                    "sent_back": self.sent_back(UUID(payment_id)),
                    "notices": [
                        {"content": each.body.decode(), "headers": dict(each.headers)}
                        for each in self.notices.get(payment_id, ())
                    ],
                }
            case _:
                return None


async def _faulty(fault: Fault, request: stand_in.Request, reply: stand_in.Reply) -> stand_in.Reply | None:
    """Apply a fault to the right response; None drops the connection."""
    match fault.fault:
        case "late":
            await asyncio.sleep(fault.late_s)
            return reply
        case "canned":
            return stand_in.Reply(200, fault.body.encode(), {"Content-Type": "application/json"})
        case status if status.isdigit() and fault.body:
            return stand_in.Reply(int(status), fault.body.encode(), {"Content-Type": "application/json"})
        case status if status.isdigit():
            return stand_in.as_json(
                {"error": {"message": "as planned"}, "error_code": "AS_PLANNED"}, int(status)
            )
        case _:
            return await stand_in.broken(fault, request, reply)
