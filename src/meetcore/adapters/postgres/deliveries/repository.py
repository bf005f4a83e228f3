"""The repository of deliveries, from its parts."""

from meetcore.adapters.postgres.deliveries.claim import DeliveryClaims
from meetcore.adapters.postgres.deliveries.record import AttemptRecords
from meetcore.adapters.postgres.deliveries.sweep import DeliverySweep


class PostgresDeliveryRepository(DeliveryClaims, AttemptRecords, DeliverySweep):
    """The outbox as the worker sees it."""
