"""The payment page of the sandbox gateway, in place of a gateway's site.

A click changes the payment at the gateway, notifies the service as a gateway would, and leads back to it.
Where the service is notified never or twice, or another amount is paid, the page stays. A payment that failed
or expired can still be paid, late, and with another amount: what a service makes of that is what the page is
for. The token in the address keeps out clients that only know or guess an id.
"""

from collections.abc import Awaitable, Callable, Mapping
from html import escape
from typing import Final
from urllib.parse import urlsplit
from uuid import UUID

from attrs import frozen
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from meetcore.adapters.catalogues import format_money
from meetcore.adapters.sandbox.gateway import SandboxGateway, SandboxPayment
from meetcore.adapters.sandbox.page_shell import HEADERS, page_language, render_page, template
from meetcore.domain.ids import is_id
from meetcore.domain.meetings.schedule import WIB
from meetcore.domain.notes.notes import Language
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
            return _unknown(request)
        token = self.gateway.token(payment.payment_id)
        page = payment_page(payment, self.gateway.status_of(payment), token, page_language(request))
        return HTMLResponse(page, headers=_headers(payment))

    async def pay(self, request: Request) -> Response:
        payment = await self._admitted(request)
        if payment is None:
            return _unknown(request)
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
            return _unknown(request)
        await self.gateway.state.end(payment.payment_id, status)
        return await self._notify(request, payment)

    async def _notify(self, request: Request, payment: SandboxPayment) -> Response:
        times = _whole(request.query_params.get("notify"), 1, MAX_NOTIFICATIONS)
        now = await self.gateway.state.get(payment.payment_id)
        for _ in range(times if now is not None else 0):
            await self.on_notification(self.gateway.notification(now or payment))
        back = payment.return_url
        if {"notify", "amount"} & request.query_params.keys():
            # Relative, for a proxy that serves the application below a path.
            back = f"../{payment.payment_id}?t={self.gateway.token(payment.payment_id)}"
        return RedirectResponse(back, status_code=303, headers=_headers(payment))

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


def _headers(payment: SandboxPayment) -> dict[str, str]:
    """Return the headers of a payment's page, whose forms lead back to the service.

    Chromium applies `form-action` to the redirect that answers a form, too.
    """
    service = urlsplit(payment.return_url)
    allowed = f"form-action 'self' {service.scheme}://{service.netloc}"
    policy = HEADERS["Content-Security-Policy"].replace("form-action 'self'", allowed)
    return HEADERS | {"Content-Security-Policy": policy}


def _unknown(request: Request) -> Response:
    language = page_language(request)
    title, text = _TEXTS[language]["unknown"], _TEXTS[language]["use_whole_link"]
    content = template("unknown.html").format(kind=_TEXTS[language]["kind"], title=title, text=text)
    return HTMLResponse(render_page(title, content, language.value), status_code=404, headers=HEADERS)


_TEXTS: Final[Mapping[Language, Mapping[str, str]]] = {
    Language.ENGLISH: {
        "kind": "Sandbox payment", "amount_label": "Amount", "arrived_label": "Arrived",
        "until_label": "To be paid until",
        "pay": "Pay", "fail": "Let it fail", "expire": "Let it expire",
        "note": "No money moves here: the buttons report to the service what a payment gateway would, and "
        "lead back to it.",
        "back_text": "Back to the service", "wrong": "As gateways go wrong", "never": "Pay, notify never",
        "twice": "Pay, notify twice", "least": "Pay {amount} only",
        "unknown": "This link opens no payment",
        "use_whole_link": "It may be cut short or belong to another installation. Use the whole link, with "
        "everything after the question mark.",
        "pending": "To be paid", "paid": "Paid", "failed": "Failed", "expired": "Expired",
        "reversed": "Money sent back",
    },
    Language.INDONESIAN: {
        "kind": "Pembayaran sandbox", "amount_label": "Jumlah", "arrived_label": "Diterima",
        "until_label": "Harus dibayar sampai",
        "pay": "Bayar", "fail": "Gagalkan", "expire": "Biarkan kedaluwarsa",
        "note": "Tidak ada uang yang berpindah di sini: tombol-tombol ini melaporkan kepada layanan apa yang "
        "akan dilaporkan gerbang pembayaran, lalu kembali ke layanan.",
        "back_text": "Kembali ke layanan", "wrong": "Jika gerbang pembayaran bermasalah",
        "never": "Bayar, tanpa pemberitahuan", "twice": "Bayar, beri tahu dua kali",
        "least": "Bayar {amount} saja",
        "unknown": "Tautan ini tidak membuka pembayaran apa pun",
        "use_whole_link": "Tautan mungkin terpotong atau milik instalasi lain. Gunakan seluruh tautan, "
        "dengan semua yang ada setelah tanda tanya.",
        "pending": "Menunggu pembayaran", "paid": "Lunas", "failed": "Gagal", "expired": "Kedaluwarsa",
        "reversed": "Uang dikembalikan",
    },
}  # fmt: skip
"""The texts of the page; the states have the names of `GatewayStatus`."""


def payment_page(
    payment: SandboxPayment, status: GatewayStatus, token: str, language: Language = Language.ENGLISH
) -> str:
    """Render the page of a payment."""
    is_open, texts = status is GatewayStatus.PENDING, _TEXTS[language]
    word = texts[status.value]
    least = texts["least"].format(amount=_money(1, payment.currency, language))
    arrived = ""
    if payment.paid_amount is not None:
        paid = _money(payment.paid_amount, payment.paid_currency or payment.currency, language)
        arrived = f"<dt>{texts['arrived_label']}</dt><dd>{escape(paid)}</dd>\n"
    content = template("payment.html").format_map(
        {
            **texts,
            "id": payment.payment_id,
            "token": escape(token),
            "description": escape(payment.description),
            "style": "started" if status is GatewayStatus.PAID else "scheduled" if is_open else "ended",
            "word": word,
            "amount": escape(_money(payment.amount, payment.currency, language)),
            "arrived": arrived,
            "least": escape(least),
            "until": f"{payment.expires_at.astimezone(WIB):%Y-%m-%d %H:%M} WIB",
            "pay_class": ' class="first"' if is_open else "",
            "disabled": "" if is_open else " disabled",
            "back": escape(payment.return_url),
        }
    )
    return render_page(f"{escape(payment.description)} · {word}", content, language.value)


def _money(amount: int, currency: str, language: Language) -> str:
    """Format money as the dashboard does; in its smallest unit where the extra `web` is not installed."""
    try:
        return format_money(amount, currency, language)
    except ImportError:
        return f"{amount} {currency}"
