"""Idempotent requests: repeated requests get one result (rules 4/idem-replay and 4/idem-reused).

Every mutating operation follows one protocol, in the transaction that decides:

1. `check_key` compares the request with the record of its key: claim, wait, take over, replay or reject.
2. The work decides. A record or a final refusal is the outcome, and is stored under the key as data
   (`store_outcome`); of a temporary refusal only the binding of the key is stored (`store_refusal`). A
   created meeting is its own outcome: nothing that `POST /meetings` returned of it changes in its row.
3. A repeated request gets the stored outcome, whatever has changed since.

`run_once` is the protocol for work of one transaction. Work that calls the provider between two transactions
(`create_meeting`, `cancel_meeting`) claims the key in its first one and stores the outcome in its last one.

`DuplicateLimit` bounds the duplicates of a running request that wait in this process, without a database
connection. Between processes, the record of the key decides.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Mapping
from contextlib import asynccontextmanager
from typing import Final, TypeVar
from uuid import UUID

from attrs import asdict, define, evolve, field, frozen
from attrs.converters import optional

from meetcore.domain.errors import DomainError, IdempotencyKeyReused, ServiceUnavailable
from meetcore.domain.fields import as_json
from meetcore.domain.requests.idempotency import (
    DUPLICATE_WAIT_S,
    MAX_WAITING_DUPLICATES,
    IdempotencyRecord,
    Verdict,
    decide,
    next_look_s,
)
from meetcore.domain.requests.views import Claim, KeyView
from meetcore.ports.queries import Queries
from meetcore.ports.runtime import WorkerNotifier
from meetcore.ports.store import Store, Transaction

T = TypeVar("T")

_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


@frozen
class IdempotentRequest:
    """The identity of a request over its retries: the caller's key, if any, and the fingerprint.

    `request_id` is part of a stored refusal. `wait_until` is the event loop's time at which the request stops
    waiting for a duplicate; `None` where it has not waited yet.
    """

    key: str | None
    fingerprint: bytes
    request_id: str = ""
    wait_until: float | None = None

    def deadline(self, wait_s: float) -> float:
        """Return the event loop's time until which it waits: `wait_s` from now, or earlier."""
        latest = asyncio.get_running_loop().time() + wait_s
        return latest if self.wait_until is None else min(latest, self.wait_until)

    def claim(self, subject_id: UUID) -> Claim | None:
        """Return the claim of the key for work on a record; `None` without a key."""
        return None if self.key is None else Claim(self.key, self.fingerprint, subject_id)


@frozen
class Refusal:
    """A final refusal with the id of the request that was refused first."""

    code: str
    message: str
    details: Mapping[str, object]
    request_id: str


@frozen
class Outcome:
    """The final result of a mutating operation: a record, or a refusal.

    `record` is `None` where there is nothing to return. `is_replay` marks the outcome of an earlier request.
    `due` counts the deliveries that wait for a worker.
    """

    record: Mapping[str, object] | None = field(default=None, repr=False, converter=optional(as_json))
    refusal: Refusal | None = None
    is_replay: bool = False
    due: int = 0


@frozen
class KeyLookup:
    """The result of a key's lookup: replay, start the work, or handle unfinished work."""

    verdict: Verdict
    record: IdempotencyRecord | None

    @property
    def replay(self) -> Outcome | None:
        """The stored outcome, if there is one; that of a meeting's creation is made of the meeting."""
        if self.verdict is not Verdict.REPLAY or self.record is None or self.record.encoded_outcome is None:
            return None
        return evolve(decode_outcome(self.record.encoded_outcome), is_replay=True)

    @property
    def subject_id(self) -> UUID | None:
        """The record that the first request makes or changes."""
        return None if self.record is None else self.record.subject_id


def check_key(view: KeyView, request: IdempotentRequest) -> KeyLookup:
    """Compare a key's record with this request.

    Raises `IdempotencyKeyReused`: the key belongs to another request (rule 4/idem-reused).
    """
    verdict = decide(view.record, request.fingerprint, view.now)
    if verdict is Verdict.REJECT:
        raise IdempotencyKeyReused(
            "This Idempotency-Key was used for a different request. Use a new key for a new intent."
        )
    return KeyLookup(verdict, view.record)


async def bind_key(
    tx: Transaction, account_id: UUID, request: IdempotentRequest, subject_id: UUID | None = None
) -> None:
    """Bind the key, if there is one, to the request, without an outcome."""
    if request.key is not None:
        record = IdempotencyRecord(request.key, request.fingerprint, subject_id=subject_id)
        await tx.idempotency.save(account_id, record)


async def store_outcome(
    tx: Transaction,
    account_id: UUID,
    request: IdempotentRequest,
    outcome: Outcome,
    subject_id: UUID | None = None,
) -> Outcome:
    """Store an outcome under the request's key, if there is one, and return it."""
    if request.key is not None:
        encoded_outcome = encode_outcome(outcome)
        record = IdempotencyRecord(request.key, request.fingerprint, True, subject_id, None, encoded_outcome)
        await tx.idempotency.save(account_id, record)
    return outcome


async def store_refusal(
    tx: Transaction, account_id: UUID, request: IdempotentRequest, refusal: DomainError
) -> Outcome | DomainError:
    """Store a final refusal as the outcome; of a temporary one, raised after the commit, bind the key."""
    step = refused(request, refusal)
    if isinstance(step, DomainError):
        await bind_key(tx, account_id, request)
        return step
    return await store_outcome(tx, account_id, request, step)


def refused(request: IdempotentRequest, refusal: DomainError) -> Outcome | DomainError:
    """Return a final refusal as the request's outcome, a temporary one as it is."""
    if not refusal.is_final:
        return refusal
    details = dict(refusal.details)
    return Outcome(refusal=Refusal(refusal.code, refusal.message, details, request.request_id))


async def decide_once(
    tx: Transaction,
    account_id: UUID,
    request: IdempotentRequest,
    decide: Callable[[Transaction], Awaitable[T]],
    view: KeyView | None = None,
) -> T | Outcome | KeyLookup | DomainError:
    """Decide in a transaction, unless another request with the key came first.

    `decide` must raise a refusal before it writes. `view` is the key's, where it has been read already.
    Returns the decision; the stored outcome of the first request; the lookup of a key whose first request is
    unfinished; or a temporary refusal, to be raised after the commit.
    """
    if view is None and request.key is not None:
        view = await tx.idempotency.load_locked(account_id, request.key)
    if view is not None:
        lookup = check_key(view, request)
        if lookup.verdict is not Verdict.CLAIM:
            return lookup.replay or lookup
    try:
        return await decide(tx)
    except DomainError as refusal:
        return await store_refusal(tx, account_id, request, refusal)


async def run_once(
    store: Store,
    account_id: UUID,
    request: IdempotentRequest,
    work: Callable[[Transaction], Awaitable[Outcome]],
    prepare: Callable[[], Awaitable[None]] | None = None,
    notifier: WorkerNotifier | None = None,
) -> Outcome:
    """Do work of one transaction at most once for each key; then notify of deliveries that became due.

    `prepare` runs before the transaction and may use the network; a request that only gets a replay does not
    prepare. `work` must decide before it writes, so that a refusal leaves nothing behind but its record. A
    temporary refusal of either is raised.
    """

    async def work_and_store(tx: Transaction) -> Outcome:
        return await store_outcome(tx, account_id, request, await work(tx))

    decide: Callable[[Transaction], Awaitable[Outcome]] = work_and_store
    if prepare is not None:
        if request.key is not None:
            async with store.begin() as tx:
                early = await decide_once(tx, account_id, request, _decide_nothing)
            if early is not None:
                return _finished(early)
        try:
            await prepare()
        except DomainError as refusal:
            if request.key is None:
                return _finished(refused(request, refusal))
            decide = refusing(refusal)
    async with store.begin() as tx:
        step = await decide_once(tx, account_id, request, decide)
    outcome = _finished(step)
    if outcome.due and notifier is not None:
        notifier.notify()
    return outcome


def refusing(refusal: DomainError) -> Callable[[Transaction], Awaitable[Outcome]]:
    """Return a decision that is this refusal, made before the transaction."""

    async def decide(_: Transaction) -> Outcome:
        raise refusal

    return decide


async def _decide_nothing(_: Transaction) -> None:
    return None


def _finished(step: Outcome | KeyLookup | DomainError) -> Outcome:
    if isinstance(step, DomainError):
        raise step
    if isinstance(step, KeyLookup):
        raise ServiceUnavailable("The first request with this key is still in progress.", 1)
    return step


def encode_outcome(outcome: Outcome) -> bytes:
    """Encode an outcome as the data that is stored under a key."""
    if outcome.refusal is None:
        stored: dict[str, object] = {"record": outcome.record}
    else:
        stored = {"refusal": asdict(outcome.refusal)}
    return _encode(stored).encode()


def decode_outcome(stored: bytes) -> Outcome:
    """Decode an outcome from the data that is stored under a key."""
    data = json.loads(stored)
    return Outcome(refusal=Refusal(**data["refusal"])) if "refusal" in data else Outcome(data["record"])


_RETRY_AFTER_S: Final = 1


@define
class _Turn:
    lock: asyncio.Lock = field(factory=asyncio.Lock)
    waiting: int = 0


@define
class DuplicateLimit:
    """Run one request of each identity at a time; let at most `max_waiting` others wait for `wait_s`."""

    max_waiting: int = MAX_WAITING_DUPLICATES
    wait_s: float = DUPLICATE_WAIT_S
    _turns: dict[Hashable, _Turn] = field(factory=dict, init=False, repr=False)

    @asynccontextmanager
    async def turn(self, identity: Hashable) -> AsyncIterator[float]:
        """Wait until no other request with this identity runs here.

        Yields the event loop's time until which this request may still wait, for another process say. Raises
        `ServiceUnavailable`: as many requests wait already, or the running one takes too long.
        """
        deadline = asyncio.get_running_loop().time() + self.wait_s
        turn = self._turns.setdefault(identity, _Turn())
        if turn.lock.locked() and turn.waiting >= self.max_waiting:
            raise ServiceUnavailable(
                "Other requests wait already for the result of the same request. Try again.", _RETRY_AFTER_S
            )
        await self._wait(identity, turn, deadline)
        try:
            yield deadline
        finally:
            turn.lock.release()
            self._remove_if_idle(identity, turn)

    async def _wait(self, identity: Hashable, turn: _Turn, deadline: float) -> None:
        turn.waiting += 1
        try:
            async with asyncio.timeout_at(deadline):
                await turn.lock.acquire()
        except TimeoutError:
            raise ServiceUnavailable(
                "The first request is still in progress. Try again.", _RETRY_AFTER_S
            ) from None
        finally:
            turn.waiting -= 1
            self._remove_if_idle(identity, turn)

    def _remove_if_idle(self, identity: Hashable, turn: _Turn) -> None:
        if not turn.lock.locked() and not turn.waiting and self._turns.get(identity) is turn:
            del self._turns[identity]


async def wait_while_in_progress(
    queries: Queries, account_id: UUID, meeting_id: UUID, deadline: float, first_pause_s: float
) -> bool:
    """Wait, in growing pauses, for the process that works on a meeting; false when the deadline came first.

    No lock or database connection is held in the pauses. `deadline` is the event loop's time.
    """
    loop, pause_s = asyncio.get_running_loop(), first_pause_s
    while (left_s := deadline - loop.time()) > 0:
        await asyncio.sleep(min(pause_s, left_s))
        if not await queries.is_in_progress(account_id, meeting_id):
            return True
        pause_s = next_look_s(pause_s)
    return False
