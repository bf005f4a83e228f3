"""The rig of the memory store: an example of one, and a store to run machines on."""

from datetime import UTC, datetime
from uuid import UUID

from attrs import evolve

from meetcore.adapters.memory.audit import MemoryLedgerAudit
from meetcore.adapters.memory.clock import ManualClock
from meetcore.adapters.memory.entropy import SeededEntropy
from meetcore.adapters.memory.figures import MemoryFigures
from meetcore.adapters.memory.housekeeping import MemoryHousekeeping
from meetcore.adapters.memory.key_uses import MemoryKeyUses
from meetcore.adapters.memory.ledger_verification import MemoryVerificationLog
from meetcore.adapters.memory.partitions import MemoryPartitions
from meetcore.adapters.memory.queries import MemoryQueries
from meetcore.adapters.memory.registry import MemoryRegistry
from meetcore.adapters.memory.request_log import MemoryRequestLog
from meetcore.adapters.memory.restores import MemoryFence
from meetcore.adapters.memory.retention import MemoryRetention
from meetcore.adapters.memory.state import ConstraintBroken, MemoryState
from meetcore.adapters.memory.store import MemoryStore
from meetcore.domain.meetings.hosts import Host
from meetcore.domain.money.ledger import Entry, legs
from meetcore.domain.webhooks.deliveries import Delivery
from meetcore.ports.store import Store
from meetcore.testing.contracts.store_rig import Tampering

__all__ = ["MemoryRig"]

START = datetime(2026, 12, 1, 2, tzinfo=UTC)


def _forged(entry: Entry, tampering: Tampering) -> Entry:
    transfer = entry.transfer
    match tampering:
        case Tampering.AMOUNT:
            more = evolve(transfer, amount=transfer.amount + 1)
            return evolve(entry, transfer=more, amount=more.signed_amount)
        case Tampering.REVERSES:
            return evolve(entry, transfer=evolve(transfer, reverses=UUID(int=1)))
        case _:
            return evolve(entry, balance_after=entry.balance_after + 1)


class MemoryRig:
    """The memory adapters on one state. Fills `meetcore.testing.contracts.FullRig`.

    Args:
        clock: the store's clock; one that stands still at `START` when none.
    """

    refusal: type[Exception] = ConstraintBroken

    def __init__(self, clock: ManualClock | None = None) -> None:
        self.clock = ManualClock(START) if clock is None else clock
        self.state = MemoryState()
        self.store: Store = MemoryStore(self.clock, SeededEntropy(1), self.state)
        self.operator_store: Store = MemoryStore(self.clock, SeededEntropy(2), self.state, passes_fence=True)
        self.fence = MemoryFence()
        self.queries = MemoryQueries(self.state, self.clock)
        self.registry = MemoryRegistry(self.state)
        self.housekeeping = MemoryHousekeeping(self.state, self.clock)
        self.key_uses = MemoryKeyUses(self.state)
        self.request_log = MemoryRequestLog(self.state)
        self.retention = MemoryRetention(self.state, self.clock)
        self.audit = MemoryLedgerAudit(self.state)
        self.figures = MemoryFigures(self.state, self.clock)
        self.verification_log = MemoryVerificationLog(self.state, self.clock)
        self.partitions = MemoryPartitions(self.state)

    def now(self) -> datetime:
        """The clock's instant."""
        return self.clock.now()

    async def age_keys(self, seconds: float) -> None:
        """Move the clock: keys are as old as it says."""
        self.clock.advance(seconds)

    async def tamper(self, account_id: UUID, number: int, tampering: Tampering) -> None:
        """Replace stored data with something else."""
        async with self.state.change() as tables:
            match tampering:
                case Tampering.BALANCE | Tampering.HELD:
                    account = tables.accounts[account_id]
                    name = tampering.name.lower()
                    funds = evolve(account.funds, **{name: getattr(account.funds, name) + 1})
                    tables.accounts[account_id] = evolve(account, funds=funds)
                case Tampering.USAGE:
                    for place, usage in tables.usage.items():
                        if place[0] == account_id:
                            tables.usage[place] = evolve(usage, spent=usage.spent + 1)
                case Tampering.GONE:
                    del tables.entries[account_id, number]
                case _:
                    tables.entries[account_id, number] = _forged(
                        tables.entries[account_id, number], tampering
                    )

    async def reset(self) -> None:
        """Empty the tables that are not money."""
        async with self.state.change() as tables:
            tables.hosts.clear()
            tables.host_keys.clear()
            tables.creations.clear()
            tables.orphan_checks.clear()
            tables.meetings.clear()
            tables.reservations.clear()
            tables.endpoints.clear()
            tables.events.clear()
            tables.deliveries.clear()
            tables.attempts.clear()
            tables.provider_events.clear()
            tables.recordings.clear()
            tables.notes.clear()
            tables.transcript_chunks.clear()
            tables.mails.clear()
            tables.verification.clear()
            tables.removed.clear()
            tables.retention.clear()
            tables.restores.clear()

    async def begin_rounds(self) -> None:
        """Forget when the next rounds are due."""
        async with self.state.change() as tables:
            tables.retention.clear()

    async def put_hosts(self, *hosts: Host) -> None:
        """Put hosts in place as they are."""
        async with self.state.change() as tables:
            tables.hosts.update({host.id: host for host in hosts})

    async def until_lock_contended(self) -> None:
        """Return at once: here a transaction waits before it begins."""

    async def entries(self, account_id: UUID) -> list[Entry]:
        """An account's history in the order of its numbers."""
        found = self.state.committed.entries
        return [found[name] for name in sorted(found) if name[0] == account_id]

    async def legs(self, account_id: UUID) -> list[tuple[str, int]]:
        """Both legs of each transfer: derived, for the memory store keeps none."""
        entries = await self.entries(account_id)
        return [(leg.book.value, leg.amount) for entry in entries for leg in legs(entry.transfer)]

    async def holds(self, account_id: UUID) -> list[int]:
        """The credits of each open hold."""
        return [hold.amount for name, hold in self.state.committed.holds.items() if name[0] == account_id]

    async def deliveries(self, account_id: UUID) -> dict[UUID, Delivery]:
        """An account's deliveries by their ids."""
        stored = self.state.committed.deliveries.items()
        return {name[1]: one.delivery for name, one in stored if name[0] == account_id}

    async def attempts(self, account_id: UUID) -> list[int]:
        """The number of every attempt."""
        return [name[2] for name in self.state.committed.attempts if name[0] == account_id]
