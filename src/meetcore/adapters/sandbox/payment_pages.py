"""The payment page of the sandbox gateway, in place of a gateway's site.

A click changes the payment at the gateway, then notifies the service as a gateway would: once, twice, or
never. A payment that failed or expired can still be paid, late, and with another amount: what a service makes
of that is what the page is for. The token in the address keeps out clients that only know or guess an id.
"""

from collections.abc import Awaitable, Callable
from html import escape
from typing import Final
from uuid import UUID

from attrs import frozen
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from meetcore.adapters.sandbox.gateway import SandboxGateway, SandboxPayment
from meetcore.adapters.sandbox.page_shell import HEADERS, render_page
from meetcore.domain.ids import is_id
from meetcore.domain.payments.payments import GatewayStatus
from meetcore.ports.payments import Notification

OnNotification = Callable[[Notification], Awaitable[object]]
"""Passes a notification to the service."""

MAX_NOTIFICATIONS: Final = 3


def payment_routes(gateway: SandboxGateway, on_notification: OnNotification) -> list[Route]:
    """Serve the pages: `GET /sandbox/payments/{id}?t=`, `POST …/pay`, `…/fail` and `…/expire`.

    `notify` in the query of a POST is how often the service is notified, once by default; `amount` of
    `…/pay` is what is paid, the right amount by default.
    """
    pages = _Pages(gateway, on_notification)
    path = "/sandbox/payments/{payment_id}"
    return [
        Route(path, pages.show, methods=["GET"]),
        Route(f"{path}/pay", pages.pay, methods=["POST"]),
        Route(f"{path}/fail", pages.fail, methods=["POST"]),
        Route(f"{path}/expire", pages.expire, methods=["POST"]),
    ]


@frozen
class _Pages:
    gateway: SandboxGateway
    on_notification: OnNotification

    async def show(self, request: Request) -> Response:
        payment = await self._admitted(request)
        if payment is None:
            return _unknown()
        token = self.gateway.token(payment.payment_id)
        page = payment_page(payment, self.gateway.status_of(payment), token)
        return HTMLResponse(page, headers=HEADERS)

    async def pay(self, request: Request) -> Response:
        payment = await self._admitted(request)
        if payment is None:
            return _unknown()
        amount = _whole(request.query_params.get("amount"), payment.amount, 10**15)
        await self.gateway.state.pay(payment.payment_id, amount, payment.currency)
        return await self._notify(request, payment)

    async def fail(self, request: Request) -> Response:
        return await self._end(request, GatewayStatus.FAILED)

    async def expire(self, request: Request) -> Response:
        return await self._end(request, GatewayStatus.EXPIRED)

    async def _end(self, request: Request, status: GatewayStatus) -> Response:
        payment = await self._admitted(request)
        if payment is None:
            return _unknown()
        await self.gateway.state.end(payment.payment_id, status)
        return await self._notify(request, payment)

    async def _notify(self, request: Request, payment: SandboxPayment) -> Response:
        times = _whole(request.query_params.get("notify"), 1, MAX_NOTIFICATIONS)
        now = await self.gateway.state.get(payment.payment_id)
        for _ in range(times if now is not None else 0):
            await self.on_notification(self.gateway.notification(now or payment))
        # Relative, for a proxy that serves the application below a path.
        back = f"../{payment.payment_id}?t={self.gateway.token(payment.payment_id)}"
        return RedirectResponse(back, status_code=303, headers=HEADERS)

    async def _admitted(self, request: Request) -> SandboxPayment | None:
        """Return the payment of a valid link."""
        text = request.path_params["payment_id"]
        if not is_id(text):
            return None
        payment_id = UUID(text)
        if not self.gateway.is_token(payment_id, request.query_params.get("t", "")):
            return None
        return await self.gateway.state.get(payment_id)


def _whole(text: str | None, default: int, most: int) -> int:
    """Read a number of a query; the default where it is none, or too large."""
    if text is None or not (text.isascii() and text.isdigit()) or len(text) > 16:
        return default
    return min(int(text), most)


def _unknown() -> Response:
    return HTMLResponse(render_page("No such payment", _UNKNOWN), status_code=404, headers=HEADERS)


_PAYMENT: Final = """
<p class="kind">Sandbox payment</p>
<h1>{description}</h1>
<span class="chip {style}">{word}</span>
<dl>
<dt>Amount</dt><dd>{amount}</dd>
<dt>Until</dt><dd>{until}</dd>
</dl>
<div class="buttons">
<form method="post" action="{id}/pay?t={token}"><button{pay}>Pay</button></form>
<form method="post" action="{id}/fail?t={token}"><button{end}>Let it fail</button></form>
<form method="post" action="{id}/expire?t={token}"><button{end}>Let it expire</button></form>
</div>
<p class="note">No money moves here: the buttons report to the service what a payment gateway would.
<a href="{back}">Back to the service</a></p>
<details class="note"><summary>As gateways go wrong</summary>
<div class="buttons">
<form method="post" action="{id}/pay?t={token}&amp;notify=0"><button>Pay, notify never</button></form>
<form method="post" action="{id}/pay?t={token}&amp;notify=2"><button>Pay, notify twice</button></form>
<form method="post" action="{id}/pay?t={token}&amp;amount=1"><button>Pay 1 {currency} only</button></form>
</div></details>
"""

_UNKNOWN: Final = """
<p class="kind">Sandbox payment</p>
<h1>This link opens no payment</h1>
<p>It may be cut short or belong to another installation. Use the whole link, with everything after the
question mark.</p>
"""

_WORDS: Final = {
    GatewayStatus.PENDING: "To be paid",
    GatewayStatus.PAID: "Paid",
    GatewayStatus.FAILED: "Failed",
    GatewayStatus.EXPIRED: "Expired",
    GatewayStatus.REVERSED: "Money sent back",
}


def payment_page(payment: SandboxPayment, status: GatewayStatus, token: str) -> str:
    """Render the page of a payment."""
    is_open = status is GatewayStatus.PENDING
    content = _PAYMENT.format(
        id=payment.payment_id,
        token=escape(token),
        description=escape(payment.description),
        style="started" if status is GatewayStatus.PAID else "ended" if not is_open else "scheduled",
        word=_WORDS[status],
        amount=f"{payment.amount:,} {escape(payment.currency)}",
        currency=escape(payment.currency),
        until=f"{payment.expires_at:%Y-%m-%d %H:%M} UTC",
        pay=' class="first"' if is_open else "",
        end="" if is_open else " disabled",
        back=escape(payment.return_url),
    )
    return render_page(f"{escape(payment.description)} · {_WORDS[status]}", content)
