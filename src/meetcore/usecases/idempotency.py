"""Idempotent requests: how repeated requests get one result (spec 4, idempotency).

An answer is bytes that the driving adapter renders once and gets back at every replay, whatever it
put into them. Owns the lookup of earlier answers, not their format.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar
from uuid import UUID

from attrs import evolve, field, frozen

from meetcore.domain.errors import DomainError, IdempotencyKeyReused, ServiceUnavailable
from meetcore.domain.requests.idempotency import IdempotencyRecord, Verdict, decide
from meetcore.ports.idempotency import Claim, KeyView
from meetcore.ports.store import Store, Transaction

__all__ = [
    "Answer",
    "Done",
    "IdempotentRequest",
    "KeyLookup",
    "Render",
    "check_key",
    "key_record",
    "no_preparation",
    "run_once",
    "store_first_replay",
    "store_refusal",
]

P = TypeVar("P")

Render = Callable[[object], bytes]
"""Turns an outcome, a record or a `DomainError`, into the bytes that are answered and replayed."""


@frozen
class IdempotentRequest:
    """What identifies a request over its retries: the caller's key, if any, and the fingerprint.

    `wait_until` is the event loop's time at which it stops waiting for a duplicate; None where it has not
    waited yet.
    """

    key: str | None
    fingerprint: bytes
    render: Render = field(repr=False)
    wait_until: float | None = None

    def deadline(self, wait_s: float) -> float:
        """The event loop's time until which it waits: `wait_s` from now, or earlier where it has waited."""
        latest = asyncio.get_running_loop().time() + wait_s
        return latest if self.wait_until is None else min(latest, self.wait_until)

    def claim(self, subject_id: UUID) -> Claim | None:
        """Return the claim of the key for work on a record; `None` without a key."""
        return None if self.key is None else Claim(self.key, self.fingerprint, subject_id)


@frozen
class Answer:
    """The rendered bytes, and whether an earlier request made them. `due` deliveries wait for a worker."""

    payload: bytes = field(repr=False)
    is_replay: bool = False
    due: int = 0


@frozen
class Done:
    """The result of a piece of work. `due` deliveries wait for a worker."""

    outcome: object
    due: int = 0


@frozen
class KeyLookup:
    """The result of a key's lookup: replay, start the work, or handle unfinished work."""

    verdict: Verdict
    record: IdempotencyRecord | None


def check_key(view: KeyView, request_key: IdempotentRequest) -> KeyLookup:
    """Decide what a key's record means for this request.

    Raises:
        IdempotencyKeyReused: the key belongs to another request (spec 4, idempotency rule 2).
    """
    verdict = decide(view.record, request_key.fingerprint, view.now)
    if verdict is Verdict.REJECT:
        raise IdempotencyKeyReused(
            "This Idempotency-Key was used for a different request. Use a new key for a new intent."
        )
    return KeyLookup(verdict, view.record)


def key_record(
    request_key: IdempotentRequest, answer: bytes | None, subject_id: UUID | None = None
) -> IdempotencyRecord:
    """The record of a key: done with an answer, or only bound without one.

    Raises:
        ValueError: the request has no key.
    """
    if request_key.key is None:
        raise ValueError("a request without a key is not remembered")
    return IdempotencyRecord(
        request_key.key, request_key.fingerprint, answer is not None, subject_id, None, answer
    )


async def store_refusal(
    tx: Transaction, account_id: UUID, request_key: IdempotentRequest, refusal: DomainError
) -> bytes | None:
    """Store a refusal under its key: the answer if it is final, only the binding if it is temporary.

    Returns:
        The rendered answer of a final refusal; `None` for a temporary one, which the caller raises.
    """
    payload = request_key.render(refusal) if refusal.is_final else None
    if request_key.key is not None:
        await tx.idempotency.save(account_id, key_record(request_key, payload))
    return payload


async def no_preparation() -> None:
    """The preparation of work that needs none."""


async def run_once(
    store: Store,
    account_id: UUID,
    request_key: IdempotentRequest,
    work: Callable[[Transaction, P], Awaitable[Done]],
    prepare: Callable[[], Awaitable[P]],
) -> Answer:
    """Do work of one transaction at most once for each key.

    `prepare` runs before the transaction and may use the network; `work` must decide before it
    writes, so that a refusal leaves nothing behind but what is remembered of it.

    Raises:
        IdempotencyKeyReused: see `check_key`.
        DomainError: a temporary refusal of `prepare` or `work`.
    """
    if request_key.key is not None:
        async with store.begin() as tx:
            if answer := await _replay(tx, account_id, request_key):
                return answer
    try:
        prepared = await prepare()
    except DomainError as error:
        return await _store_early_refusal(store, account_id, request_key, error)
    async with store.begin() as tx:
        if answer := await _replay(tx, account_id, request_key):
            return answer
        try:
            done = await work(tx, prepared)
        except DomainError as error:
            refusal, payload = error, await store_refusal(tx, account_id, request_key, error)
        else:
            payload = request_key.render(done.outcome)
            if request_key.key is not None:
                await tx.idempotency.save(account_id, key_record(request_key, payload))
            return Answer(payload, due=done.due)
    if payload is None:
        raise refusal
    return Answer(payload)


async def _replay(tx: Transaction, account_id: UUID, request_key: IdempotentRequest) -> Answer | None:
    if request_key.key is None:
        return None
    lookup = check_key(await tx.idempotency.load(account_id, request_key.key), request_key)
    if lookup.verdict is Verdict.CLAIM:
        return None
    if lookup.record is None or lookup.record.answer is None:
        raise ServiceUnavailable("The first request with this key is still in progress.", 1)
    return Answer(lookup.record.answer, is_replay=True)


async def _store_early_refusal(
    store: Store, account_id: UUID, request_key: IdempotentRequest, refusal: DomainError
) -> Answer:
    if request_key.key is not None:
        async with store.begin() as tx:
            # A duplicate may have come further meanwhile: its result is the first result.
            if answer := await _replay(tx, account_id, request_key):
                return answer
            payload = await store_refusal(tx, account_id, request_key, refusal)
            if payload is not None:
                return Answer(payload)
    raise refusal


async def store_first_replay(
    store: Store, account_id: UUID, request_key: IdempotentRequest, outcome: object
) -> Answer:
    """Render the first replay of work that another process finished, and keep it for the next ones."""
    payload = request_key.render(outcome)
    if request_key.key is None:
        return Answer(payload, is_replay=True)
    async with store.begin() as tx:
        record = (await tx.idempotency.load(account_id, request_key.key)).record
        if record is not None and record.is_done and record.answer is None:
            await tx.idempotency.save(account_id, evolve(record, answer=payload))
        elif record is not None and record.answer is not None:
            payload = record.answer
    return Answer(payload, is_replay=True)
