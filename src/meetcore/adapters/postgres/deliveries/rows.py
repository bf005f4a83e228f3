"""Deliveries and their attempts as rows."""

from meetcore.adapters.postgres.columns import Columns
from meetcore.domain.webhooks.deliveries import Attempt, Delivery

__all__ = ["ATTEMPT", "DELIVERY"]

DELIVERY = Columns(Delivery, "d", "delivery_", renamed={"next_attempt_at": "due_at"})

# As its customer may see it: without the address that was dialled.
ATTEMPT = Columns(Attempt, "a", "attempt_", without=("address", "retry_after_s"))
