"""Dependencies of every use case: the time, random bytes, new ids, the ledger's key, metrics and traces."""

from datetime import datetime
from uuid import UUID

from attrs import frozen

from meetcore.domain.ids import RANDOM_BYTES, uuid7
from meetcore.domain.money.chain_keys import ChainKey
from meetcore.ports.clock import Clock
from meetcore.ports.entropy import Entropy
from meetcore.ports.metrics import NO_METRICS, Metrics
from meetcore.ports.tracing import NO_TRACING, Tracing


@frozen
class Runtime:
    """Clock and entropy, and the ids made of both; entries of the ledger are chained under `chain_key`.

    `metrics` and `tracing` take what an operator watches.
    """

    clock: Clock
    entropy: Entropy
    chain_key: ChainKey | None = None
    metrics: Metrics = NO_METRICS
    tracing: Tracing = NO_TRACING

    def now(self) -> datetime:
        """The present instant, in UTC."""
        return self.clock.now()

    def new_id(self, at: datetime) -> UUID:
        """A UUIDv7 of that instant."""
        return uuid7(at, self.entropy.token_bytes(RANDOM_BYTES))

    def jitter(self) -> float:
        """A number from [0, 1)."""
        return int.from_bytes(self.entropy.token_bytes(6), "big") / (1 << 48)
