"""Call a payment gateway over HTTP: three outcomes, bounds of time and size, bodies without personal data.

=====================================  =======================================================================
response                               outcome
=====================================  =======================================================================
2xx                                    the response; a body of another form is `GatewayUnknown`
4xx                                    the response: nothing was done; the gateway's adapter interprets it
408, 409, 425, 429                     `GatewayUnknown`: it may succeed when it is repeated
3xx, 5xx, no whole response in time    `GatewayUnknown`
no connection                          `GatewayUnknown`: nothing was done, and a repeat may succeed
=====================================  =======================================================================

Texts of gateways appear in errors only where they cannot hold data of a payer. Nothing is repeated here.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from decimal import Decimal
from typing import Any, Final, TypeAlias, TypeVar
from uuid import UUID

import msgspec

from meetcore.adapters.bounded_http import BoundedHttp, HttpResponse, NoResponse, NotSent
from meetcore.ports.observability import NO_TRACING, Tracing
from meetcore.ports.payments import GatewayRefused, GatewayUnknown

BUDGET_S: Final = 8.0
"""Seconds for a call of the port with all its requests, below the lease of a look."""
MAX_RESPONSE_BYTES: Final = 256 * 1024
MAX_AMOUNT: Final = 10**15
"""The largest amount that is taken for one."""

_REPEATABLE: Final = frozenset({408, 409, 425, 429})
_KEPT_CHARS: Final = 300
_KEPT_ITEMS: Final = 20
_Fields: TypeAlias = Mapping[str, Any]

T = TypeVar("T")


class GatewayHttp:
    """Sends the requests of one gateway, whose `name` begins the texts of errors."""

    def __init__(self, name: str, budget_s: float = BUDGET_S, tracing: Tracing = NO_TRACING) -> None:
        self._name = name
        self._budget_s = budget_s
        self._http = BoundedHttp(
            max_bytes=MAX_RESPONSE_BYTES, connect_s=min(3.0, budget_s), whole_s=budget_s, tracing=tracing
        )

    @asynccontextmanager
    async def budget(self) -> AsyncIterator[None]:
        """Bound several requests together; raises `GatewayUnknown` when the time is over."""
        try:
            async with asyncio.timeout(self._budget_s):
                yield
        except TimeoutError:
            raise GatewayUnknown(f"{self._name}: no answer in time") from None

    async def send(self, method: str, url: str, headers: Mapping[str, str], **content: Any) -> HttpResponse:
        """Send one request; return a response of any status, or raise `GatewayUnknown` without one."""
        try:
            return await self._http.send(method, url, headers, **content)
        except (NotSent, NoResponse) as error:
            raise GatewayUnknown(f"{self._name}: {error}") from None

    async def ask(self, method: str, url: str, headers: Mapping[str, str], **content: Any) -> HttpResponse:
        """Send one request; return a response of the table's first two rows. Raises `GatewayUnknown`."""
        response = await self.send(method, url, headers, **content)
        status = response.status
        if status < 200 or 300 <= status < 400 or status >= 500 or status in _REPEATABLE:
            raise GatewayUnknown(f"{self._name}: status {status}")
        return response

    def decoded(self, response: HttpResponse, kind: type[T]) -> T:
        """Read a response of its documented form; raises `GatewayUnknown` for another one."""
        try:
            return msgspec.json.decode(response.body, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError):
            raise GatewayUnknown(f"{self._name}: no documented answer, status {response.status}") from None

    def fault(self, response: HttpResponse, kind: type[T]) -> T:
        """Read what a refusal says of itself; one without fields where it is not of the documented form."""
        try:
            return self.decoded(response, kind)
        except GatewayUnknown:
            return kind()

    def refusal(self, response: HttpResponse, code: object = None) -> GatewayRefused:
        """Make the error of a 4xx, with the gateway's code of the fault, if any."""
        return GatewayRefused(f"{self._name}: status {response.status}{code_text(code)}")

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()


@contextmanager
def looking() -> Iterator[None]:
    """Look for an earlier refund; raises `GatewayUnknown` where that is refused: it may be there."""
    try:
        yield
    except GatewayRefused as error:
        raise GatewayUnknown(str(error)) from None


def code_text(code: object) -> str:
    """Return a gateway's code of a fault for the end of an error's text: a word, never a sentence."""
    text = str(code)
    return f", {text}" if code is not None and text.replace("_", "").isalnum() and len(text) <= 64 else ""


def whole_units(amount: Decimal, decimals: int) -> int:
    """Return an amount with so many decimals in its smallest unit.

    Raises `GatewayUnknown` for what is not an amount, and for a fraction of that unit: rounded, it could pass
    for another amount.
    """
    if not amount.is_finite() or not 0 <= amount <= MAX_AMOUNT:
        raise GatewayUnknown("no amount of money")
    units = amount.scaleb(decimals)
    if units != units.to_integral_value():
        raise GatewayUnknown("an amount with a fraction of the currency's unit")
    return int(units)


def payment_id(text: object) -> UUID | None:
    """Return the id of a payment in a gateway's field; `None` for a reference of others."""
    try:
        found = UUID(str(text))
    except ValueError:
        return None
    return found if str(found) == text else None


def kept_body(value: object, fields: _Fields) -> str:
    """Return the allowed fields of a body as JSON, for operators.

    `fields` names them, with those of the object or the list of objects below each; everything else is left
    out, since it may be of a card, a bank account or a payer.
    """
    return json.dumps(_kept(value, fields))


def kept_response(response: HttpResponse, fields: _Fields) -> str:
    """Return the allowed fields of a response that was decoded before; see `kept_body`."""
    return kept_body(msgspec.json.decode(response.body), fields)


def _kept(value: object, fields: _Fields) -> object:
    match value:
        case dict():
            return {name: _kept(value[name], below) for name, below in fields.items() if name in value}
        case list():
            return [_kept(each, fields) for each in value[:_KEPT_ITEMS]]
        case str():
            return value[:_KEPT_CHARS]
        case _:
            return value


def below(*names: str, **more: _Fields) -> _Fields:
    """Name fields to keep: plain ones, and those with fields below them."""
    return {**dict.fromkeys(names, _PLAIN), **more}


_PLAIN: Final[_Fields] = {}
