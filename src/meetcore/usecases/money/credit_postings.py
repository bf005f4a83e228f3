"""Post top-ups and adjustments: by one statement where the account is unchanged, else under its lock.

The funds that a posting left are remembered. The next posting of the account is decided on them and written
by one statement that commits by itself, if the account is still as remembered and has no such operation. Else
the decision is made again under the account's lock: so is every refusal, every known operation, and, for its
mails, a posting that makes credits low.

Requests for an account that come while it is posted to are decided together, each on the funds that the one
before it leaves, and the postings of several accounts at one time are one statement. Between processes the
store decides. `turns` bounds the waiting.

Processor time of a top-up: 770 µs of sixteen callers on 64 accounts, 1 690 without common statements and
2 620 under locks alone; 530 µs on one account, and 3 630 without turns.
"""

from collections.abc import Callable, Mapping, Sequence
from contextvars import Context, copy_context
from datetime import datetime
from typing import Final
from uuid import UUID

from attrs import define, evolve, field, frozen

from meetcore.domain.errors import DomainError, own_copy
from meetcore.domain.members.audit import ActionOrigin, AuditEntry, Detail
from meetcore.domain.money import ledger, transfers, views
from meetcore.domain.money.ledger import CreditsFellLow, Entry, Funds, Posting
from meetcore.domain.webhooks.events import Event
from meetcore.ports.store import CommitLost, OutcomeUnknown, Store, StoreUnavailable, Transaction
from meetcore.usecases.members.audit import action_of
from meetcore.usecases.money.turns import FailedBatch, Turns, failure_of_waiting
from meetcore.usecases.runtime import LowMails, Runtime, ignore, repeated_when_lost

REMEMBERED: Final = 1_000
"""Accounts whose funds are remembered."""


@frozen(eq=False)
class PostingRequest:
    """An operation on an account, under the id of the transfer that is to be made for it.

    `decide` makes a posting of the funds and of the transfer that the ledger has under the operation;
    `describe` the events and the audit entry of a posting that is to be written. Both run in the context of
    the request, and may run twice.
    """

    account_id: UUID
    operation: str
    transfer_id: UUID
    decide: Callable[[Funds, transfers.Transfer | None], Posting]
    describe: Callable[[Posting, Entry], tuple[Sequence[Event], AuditEntry]]
    context: Context = field(factory=copy_context)


@frozen
class Posted:
    """An entry in the ledger, and the balance that it left; the present one where the reference was known.

    `due` counts the deliveries and mails that became due with the batch.
    """

    entry: Entry
    balance: int
    is_new: bool
    due: int = 0


@frozen
class _Decided:
    """The outcomes of requests, one for each, and the postings to write, if there are any."""

    funds: Funds
    outcomes: list[Posted | Exception]
    postings: views.AccountPostings | None
    facts: Sequence[CreditsFellLow] = ()

    @property
    def is_refused(self) -> bool:
        return any(isinstance(each, Exception) for each in self.outcomes)

    def written(self, due: int) -> list[Posted | Exception]:
        """Return the outcomes, each new one with the deliveries that became due: callers may be gone."""
        return [
            evolve(each, due=due) if isinstance(each, Posted) and each.is_new else each
            for each in self.outcomes
        ]


@define
class CreditPostings:
    """Posts to accounts, one turn of each account after another. Calls `report` with each failed batch."""

    store: Store
    report: Callable[[FailedBatch], object] = ignore
    low_mails: LowMails | None = None
    _known: dict[UUID, Funds] = field(factory=dict, init=False, repr=False)
    _accounts: Turns[UUID, PostingRequest, Posted | Exception] = field(init=False, repr=False)
    _statements: Turns[None, views.AccountPostings, int | Exception | None] = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._accounts = Turns(self._take_turn)
        self._statements = Turns(self._write_together)

    async def post(self, request: PostingRequest) -> Posted:
        """Post once for each operation; raise what `decide` does.

        Raises `OutcomeUnknown`: whether it was kept is not known.
        """
        outcome = await self._accounts.run(request.account_id, request)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def _take_turn(
        self, account_id: UUID, requests: Sequence[PostingRequest]
    ) -> Sequence[Posted | Exception]:
        funds, lost, due = self._known.pop(account_id, None), None, None
        if funds is not None:
            decided = _decide(funds, {}, requests)
            has_mails = bool(decided.facts) and self.low_mails is not None
            if decided.postings is not None and not decided.is_refused and not has_mails:
                try:
                    due = await self._statements.run(None, decided.postings)
                except CommitLost as error:
                    lost = error
                else:
                    if isinstance(due, int):
                        self._remember(decided.funds)
                        return decided.written(due)
        try:
            outcomes = await self._post_isolated(account_id, requests, is_reported=due is not None)
        except StoreUnavailable as error:
            if lost is None:
                raise
            raise OutcomeUnknown("the statement was lost, and the store is away") from error
        # A statement that was lost may still be under way. It finds its operation known or the funds changed,
        # but where nothing was written here, it may not.
        if lost is None:
            return outcomes
        return [own_copy(lost) if isinstance(each, Exception) else each for each in outcomes]

    async def _post_isolated(
        self, account_id: UUID, requests: Sequence[PostingRequest], *, is_reported: bool
    ) -> Sequence[Posted | Exception]:
        """Post under the account's lock, each alone where they cannot be written together."""
        try:
            return await self._post_locked(account_id, requests)
        except StoreUnavailable:
            raise
        except Exception as fault:  # noqa: BLE001  # a fault of one is not one of the others
            if len(requests) == 1:
                return [fault]
            if not is_reported and not isinstance(fault, DomainError):  # such as an account that is not there
                self.report(FailedBatch("postings", len(requests), fault))
        outcomes: list[Posted | Exception] = []
        failure: StoreUnavailable | None = None
        for each in requests:
            if failure is not None:
                outcomes.append(own_copy(failure))
                continue
            try:
                outcomes += await self._post_locked(account_id, [each])
            except Exception as fault:  # noqa: BLE001  # the same
                outcomes.append(fault)
                failure = failure_of_waiting(fault)
        return outcomes

    async def _post_locked(
        self, account_id: UUID, requests: Sequence[PostingRequest]
    ) -> Sequence[Posted | Exception]:
        """Post under the account's lock; where the commit was lost, find its outcome.

        The lock is free once the lost transaction has ended. Then each request finds the transfer of its own
        id, or nothing was kept and it is posted.
        """
        try:
            return await self._commit(account_id, requests)
        except CommitLost:
            pass
        try:
            return await self._commit(account_id, requests)
        except Exception as error:
            raise OutcomeUnknown("the commit was lost, and its outcome was not found") from error

    @repeated_when_lost
    async def _commit(
        self, account_id: UUID, requests: Sequence[PostingRequest]
    ) -> Sequence[Posted | Exception]:
        async with self.store.begin() as tx:
            decided, due = await _decide_locked(tx, account_id, requests, self.low_mails)
        self._remember(decided.funds)
        return decided.written(due)

    async def _write_together(
        self, _: None, postings: Sequence[views.AccountPostings]
    ) -> Sequence[int | Exception | None]:
        """Write the postings of accounts by one statement; return how many deliveries of each became due.

        What was not written is to be decided under its lock: `None` where the account has changed, a fault
        where the statement failed, whosever it is.
        """
        try:
            async with self.store.at_once() as tx:
                written = await tx.postings.append_if_unchanged(postings)
        except StoreUnavailable:
            raise
        except Exception as fault:  # noqa: BLE001  # nothing was written: under its lock the faulty one fails alone
            self.report(FailedBatch("postings", len(postings), fault))
            return [fault] * len(postings)
        return [written.get(each.after.account_id) for each in postings]

    def _remember(self, funds: Funds) -> None:
        self._known.pop(funds.account_id, None)  # the latest is the last
        self._known[funds.account_id] = funds
        if len(self._known) > REMEMBERED:
            del self._known[next(iter(self._known))]


async def post_within(tx: Transaction, runtime: Runtime, request: PostingRequest) -> Posted:
    """Post in a transaction of the caller's; raise what `decide` does."""
    decided, due = await _decide_locked(tx, request.account_id, [request], runtime.low_mails)
    outcome = decided.written(due)[0]
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


async def _decide_locked(
    tx: Transaction, account_id: UUID, requests: Sequence[PostingRequest], low_mails: LowMails | None
) -> tuple[_Decided, int]:
    view = await tx.postings.load_locked(account_id, [each.operation for each in requests])
    decided = _decide(view.funds, view.entries, requests)
    if decided.postings is None:
        return decided, 0
    due = (await tx.postings.append_if_unchanged([decided.postings]))[account_id]
    if decided.facts and low_mails is not None:
        due += await low_mails(tx, decided.facts[-1])
    return decided, due


def _decide(before: Funds, entries: Mapping[str, Entry], requests: Sequence[PostingRequest]) -> _Decided:
    """Decide on requests one after another, each on the funds that the one before it leaves."""
    funds, known = before, dict(entries)
    outcomes: list[Posted | Exception] = []
    made: list[Entry] = []
    events: list[Event] = []
    actions: list[AuditEntry] = []
    facts: list[CreditsFellLow] = []
    for each in requests:
        try:
            posting, described, action = each.context.run(_decide_one, each, funds, known.get(each.operation))
        except Exception as refusal:  # noqa: BLE001  # it is raised where the request is waited for
            outcomes.append(refusal)
            continue
        if posting.entry is None:
            there = known[each.operation]
            # It may be its own, where the connection was lost when it was written.
            outcomes.append(Posted(there, funds.balance, is_new=there.transfer.id == each.transfer_id))
            continue
        funds, known[each.operation] = posting.funds, posting.entry
        made.append(posting.entry)
        events += described
        actions += action
        facts += posting.facts
        outcomes.append(Posted(posting.entry, funds.balance, is_new=True))
    postings = views.AccountPostings(before, funds, made, events, actions) if made else None
    return _Decided(funds, outcomes, postings, facts)


def _decide_one(
    request: PostingRequest, funds: Funds, there: Entry | None
) -> tuple[Posting, Sequence[Event], Sequence[AuditEntry]]:
    posting = request.decide(funds, None if there is None else there.transfer)
    if posting.entry is None:
        return posting, (), ()
    events, action = request.describe(posting, posting.entry)
    return posting, events, (action,)


def top_up_request(
    runtime: Runtime, origin: ActionOrigin, now: datetime, account_id: UUID, amount: int,
    reference: str | None, reason: str | None,
) -> PostingRequest:  # fmt: skip
    """Top an account up once for each reference; without one, once."""
    transfer_id = runtime.new_id(now)
    name = reference or str(transfer_id)
    details: dict[str, Detail] = {"reference": name}
    if reason is not None:
        details["reason"] = reason

    def decide(funds: Funds, existing: transfers.Transfer | None) -> Posting:
        return ledger.top_up(funds, transfer_id, name, amount, now, existing, runtime.chain_key)

    describe = describing(runtime, now, origin, "credits.topped_up", account_id, transfer_id, **details)
    return PostingRequest(account_id, ledger.top_up_operation(name), transfer_id, decide, describe)


def adjustment_request(
    runtime: Runtime, origin: ActionOrigin, now: datetime, account_id: UUID, amount: int, reason: str,
    reference: str | None,
) -> PostingRequest:  # fmt: skip
    """Correct a balance by hand once for each reference; without one, once. See `ledger.adjustment_about`."""
    about = ledger.adjustment_about(reason)
    transfer_id = runtime.new_id(now)
    operation = ledger.adjustment_operation(reference or str(transfer_id))

    def decide(funds: Funds, existing: transfers.Transfer | None) -> Posting:
        return ledger.adjust(funds, transfer_id, operation, amount, about, now, existing, runtime.chain_key)

    describe = describing(runtime, now, origin, "credits.adjusted", account_id, transfer_id, reason=about.id)
    return PostingRequest(account_id, operation, transfer_id, decide, describe)


def describing(
    runtime: Runtime, now: datetime, origin: ActionOrigin, action: str, account_id: UUID, transfer_id: UUID,
    **details: Detail,
) -> Callable[[Posting, Entry], tuple[Sequence[Event], AuditEntry]]:  # fmt: skip
    """Return what describes a posting: its events, and the audit entry of an action with its amount."""

    def describe(posting: Posting, entry: Entry) -> tuple[Sequence[Event], AuditEntry]:
        # And with it every record: few commands of operators need one.
        from meetcore.usecases.webhooks.events import events_of

        done = action_of(
            runtime, now, origin, action, account_id, transfer_id, amount=entry.amount, **details
        )
        return events_of(runtime, now, posting), done

    return describe
