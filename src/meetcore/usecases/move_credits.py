"""What operators do with balances: top-ups and adjustments, as requests to post them."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from attrs import frozen

from meetcore.domain.members.audit import ActionOrigin, AuditEntry, Detail
from meetcore.domain.money import ledger
from meetcore.domain.money.ledger import Entry, Funds, Posting
from meetcore.domain.money.transfers import Transfer
from meetcore.domain.webhooks.events import Event
from meetcore.usecases.audit import action_of
from meetcore.usecases.credit_postings import Posted, PostingRequest
from meetcore.usecases.outbox import events_of
from meetcore.usecases.runtime import Runtime


@frozen
class ToppedUp:
    """A top-up in the ledger. `is_new` is false when the reference had been topped up before."""

    entry: Entry
    balance: int
    is_new: bool

    @classmethod
    def of(cls, posted: Posted) -> "ToppedUp":
        """The top-up that was posted."""
        return cls(posted.entry, posted.balance, posted.is_new)


@frozen
class Adjusted:
    """An adjustment in the ledger. `is_new` is false when the reference had been adjusted before."""

    entry: Entry
    balance: int
    is_new: bool

    @classmethod
    def of(cls, posted: Posted) -> "Adjusted":
        """The adjustment that was posted."""
        return cls(posted.entry, posted.balance, posted.is_new)


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

    def decide(funds: Funds, existing: Transfer | None) -> Posting:
        return ledger.top_up(funds, transfer_id, name, amount, now, existing, runtime.chain_key)

    def describe(posting: Posting, entry: Entry) -> tuple[Sequence[Event], AuditEntry]:
        action = action_of(
            runtime, now, origin, "credits.topped_up", account_id, transfer_id, amount=entry.amount, **details
        )
        return events_of(runtime, now, posting), action

    return PostingRequest(account_id, ledger.top_up_operation(name), transfer_id, decide, describe)


def adjustment_request(
    runtime: Runtime, origin: ActionOrigin, now: datetime, account_id: UUID, amount: int, reason: str,
    reference: str | None,
) -> PostingRequest:  # fmt: skip
    """Correct a balance by hand once for each reference; without one, once.

    Raises:
        InvalidReason: see `ledger.adjustment_about`.
    """
    about = ledger.adjustment_about(reason)
    transfer_id = runtime.new_id(now)
    operation = ledger.adjustment_operation(reference or str(transfer_id))

    def decide(funds: Funds, existing: Transfer | None) -> Posting:
        return ledger.adjust(funds, transfer_id, operation, amount, about, now, existing, runtime.chain_key)

    def describe(posting: Posting, entry: Entry) -> tuple[Sequence[Event], AuditEntry]:
        action = action_of(
            runtime, now, origin, "credits.adjusted", account_id, transfer_id,
            amount=entry.amount, reason=about.id,
        )  # fmt: skip
        return events_of(runtime, now, posting), action

    return PostingRequest(account_id, operation, transfer_id, decide, describe)
