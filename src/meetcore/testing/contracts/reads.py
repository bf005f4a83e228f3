"""What a test reads of a store through its ports: one transaction each, nothing kept.

Owns the questions that several suites ask. What lies behind the ports, the rig reads.
"""

from meetcore.domain.meetings.meetings import Meeting
from meetcore.domain.money.ledger import Funds
from meetcore.ports.meetings import CreationView, MeetingView
from meetcore.testing.contracts.store_rig import LedgerAccess, Rig
from meetcore.testing.contracts.transactions import Customer, MeetingSpec, query_of


async def funds_of(rig: LedgerAccess, customer: Customer) -> Funds:
    """A customer's funds as the ledger loads them."""
    async with rig.store.begin() as tx:
        return (await tx.postings.load_locked(customer.account_id, [])).funds


async def creation(rig: Rig, customer: Customer, spec: MeetingSpec | None = None) -> CreationView:
    """Load what the decision on a new meeting would read."""
    async with rig.store.begin() as tx:
        return await tx.meetings.load_creation(query_of(customer, spec or MeetingSpec()))


async def cancel_view(rig: Rig, meeting: Meeting, key: str | None = None) -> MeetingView | None:
    """Load what a cancellation would read."""
    async with rig.store.begin() as tx:
        return await tx.meetings.load_locked(meeting.account_id, meeting.id, key)


async def money(rig: Rig, customer: Customer) -> tuple[int, int, int, int]:
    """Balance, held, and what the key spent and holds of its day, in credits."""
    view = await creation(rig, customer)
    return view.funds.balance, view.funds.held, view.usage.spent, view.usage.held


async def is_free(rig: Rig, customer: Customer, spec: MeetingSpec | None = None) -> bool:
    """Whether a host is free for a meeting."""
    return bool((await creation(rig, customer, spec)).free_hosts)
