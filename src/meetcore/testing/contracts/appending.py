"""Append one entry that was decided on, as the tests of several suites do."""

from meetcore.domain.money.ledger import Funds, Posting
from meetcore.domain.webhooks.events import Event
from meetcore.ports.postings import AccountPostings
from meetcore.testing.contracts.store_rig import LedgerTransaction


async def append_one(tx: LedgerTransaction, before: Funds, posting: Posting, *events: Event) -> int | None:
    """Append an entry; how many deliveries are due, `None` where nothing was written.

    Args:
        tx: the transaction.
        before: the funds that were decided on.
        posting: what was decided: an entry, and the funds that it leaves.
        events: what is to be written with it.
    """
    assert posting.entry is not None
    postings = AccountPostings(before, posting.funds, [posting.entry], events)
    return (await tx.postings.append_if_unchanged([postings])).get(before.account_id)
