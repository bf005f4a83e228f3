"""The walk of a request, whatever wire it came on: let in, counted, carried out, and told what went wrong.

authenticate (401) → rate limit (429) → … → idempotency → the work; what lies between (the route, the scope,
decoding) is each wire's own. Owns the one instant of a request and the one verdict on it. Refuses to know
what a request looks like.
"""

from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Any

import structlog
from attrs import define, evolve, field, frozen

from meetcore.adapters.api.answers import Rendered, pack, render_error
from meetcore.adapters.api.calls import Call, Operation, answered
from meetcore.adapters.api.paging import Page
from meetcore.domain.errors import DomainError, InternalError, ServiceUnavailable
from meetcore.domain.idempotency import fingerprint
from meetcore.domain.rate_window import OperationClass, RateVerdict
from meetcore.ports.queries import NOTHING_ELSE, Caller, Peek
from meetcore.ports.store import StoreAway
from meetcore.usecases.admit import Admit
from meetcore.usecases.intent import Intent
from meetcore.usecases.world import World

__all__ = ["Asked", "Exchange", "Reception"]

STORE_AWAY_RETRY_AFTER_S = 5

log = structlog.get_logger("meetcore.api")


@define
class Exchange:
    """One request on its way: the one instant, the one verdict, and what the log needs."""

    request_id: str
    now: datetime
    verdict: RateVerdict
    rate_class: OperationClass
    key_id: str | None = None


@frozen
class Asked:
    """What is asked of an operation, decoded.

    `place` is the path with its ids in it, `path` those ids by name. `value` is the body as a JSON value and
    `body` what it was decoded to. `key` names the intent, if the caller named it. `options` are the values of
    those that were given.
    """

    place: str
    path: dict[str, str]
    value: Any = None
    body: Any = None
    key: str | None = None
    page: Page = field(factory=Page)
    options: Mapping[str, Any] = field(factory=dict)


@frozen
class Reception:
    """What every request passes, over any wire.

    Args:
        admit: who may come in, and how often.
        world: the clock, and new request ids.
        base_url: where the service is reached, without a slash at its end.
    """

    admit: Admit
    world: World
    base_url: str

    def open(self, rate_class: OperationClass) -> Exchange:
        """A request that has just arrived; its quota looks untouched until it is counted."""
        now = self.world.now()
        return Exchange(str(self.world.new_id(now)), now, self.admit.untouched(rate_class, now), rate_class)

    async def let_in(
        self, exchange: Exchange, authorization: str | None, peek: Peek = NOTHING_ELSE
    ) -> Caller:
        """Find out who asks, and count the request.

        Raises:
            InvalidApiKey: nobody that is known; nothing is counted.
            RateLimited: the quota of this minute is used up.
            StoreAway: the database does not answer.
        """
        caller = await self.admit.authenticate(authorization, exchange.now, peek)
        exchange.key_id = str(caller.key.id)
        exchange.verdict = await self.admit.count(caller.key.id, exchange.rate_class, exchange.now)
        if not exchange.verdict.is_allowed:
            raise self.admit.refusal(exchange.verdict)
        return caller

    async def judge_again(
        self, exchange: Exchange, authorization: str | None, peek: Peek = NOTHING_ELSE
    ) -> Caller:
        """Judge a request anew whose reading took so long that the first judgement may be outdated.

        The key is looked up again, and a request that goes on in another window than it was counted in is
        counted there, too. From here on the request's instant is the present one.

        Raises:
            InvalidApiKey: the key was revoked or expired meanwhile.
            RateLimited: the quota of the present window is used up.
            StoreAway: the database does not answer.
        """
        exchange.now = self.world.now()
        if exchange.now.timestamp() >= exchange.verdict.reset:
            return await self.let_in(exchange, authorization, peek)
        return await self.admit.authenticate(authorization, exchange.now, peek)

    async def carry_out(
        self, exchange: Exchange, caller: Caller, operation: Operation, asked: Asked
    ) -> tuple[Rendered, bool]:
        """Do what is asked: the answer, and whether an earlier request made it.

        Raises:
            DomainError: a refusal that is not kept under the intent's key.
        """
        intent = self._intent(exchange, operation, asked) if operation.is_mutating else None
        if intent is None or intent.key is None:
            return await self._handle(exchange, caller, operation, asked, intent)
        identity = (caller.account.id, intent.key, intent.fingerprint)
        async with self.admit.duplicates.turn(identity) as wait_until:
            waiting = evolve(intent, wait_until=wait_until)
            return await self._handle(exchange, caller, operation, asked, waiting)

    async def _handle(
        self, exchange: Exchange, caller: Caller, operation: Operation, asked: Asked, intent: Intent | None
    ) -> tuple[Rendered, bool]:
        call = Call(caller, exchange.now, asked.path, asked.body, intent, asked.page, asked.options)
        return answered(await operation.handle(call))

    def _intent(self, exchange: Exchange, operation: Operation, asked: Asked) -> Intent:
        # The same request over another wire is the same intent.
        chosen = "".join(f"?{name}={value}" for name, value in sorted(asked.options.items()))
        told = fingerprint(operation.method, asked.place + chosen, asked.value)
        return Intent(asked.key, told, partial(self._render, operation, exchange))

    def _render(self, operation: Operation, exchange: Exchange, outcome: object) -> bytes:
        if isinstance(outcome, DomainError):
            return pack(render_error(outcome, self.base_url, exchange.request_id))
        assert operation.present is not None
        return pack(operation.present(outcome, exchange.now))

    def refusal_of(self, error: Exception, exchange: Exchange) -> DomainError:
        """What the caller is told of an error; what only we may know is logged."""
        if isinstance(error, StoreAway):
            # One line, no traceback: an outage makes many of these, all alike.
            log.error("store away", request_id=exchange.request_id, cause=repr(error.__cause__))
            return ServiceUnavailable(
                "The service is temporarily unavailable. Try again soon.", STORE_AWAY_RETRY_AFTER_S
            )
        if isinstance(error, DomainError):
            if error.__cause__ is not None:
                log.warning(
                    "refused", request_id=exchange.request_id, code=error.code, cause=repr(error.__cause__)
                )
            return error
        log.error("fault", request_id=exchange.request_id, exc_info=error)
        return InternalError("Something went wrong at the service. Quote the request id to support.")

    def took_ms(self, exchange: Exchange) -> float:
        """Milliseconds since the request arrived."""
        return round((self.world.now() - exchange.now).total_seconds() * 1000, 1)
