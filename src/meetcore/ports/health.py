"""What is well and what is not: the servers that a process needs, and how long its work has waited."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from enum import StrEnum

from attrs import frozen

__all__ = ["CheckHealth", "HealthCheck", "HealthStatus", "Queue", "QueueName", "Queues"]


class HealthStatus(StrEnum):
    """How one thing stands. What was skipped could not be checked."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"


@frozen
class HealthCheck:
    """The outcome of a check, by its name. The message says what to do; it holds no secret and no address."""

    name: str
    status: HealthStatus
    message: str


CheckHealth = Callable[[], Awaitable[Sequence[HealthCheck]]]
"""Checks everything that a process needs, within some seconds."""


class QueueName(StrEnum):
    """Work that waits for its time in the store."""

    DELIVERIES = "deliveries"
    MAILS = "mails"
    NOTES = "notes"
    RECORDINGS = "recordings"
    PROVIDER_EVENTS = "provider_events"
    MEETINGS = "meetings"
    REMOVALS = "removals"


@frozen
class Queue:
    """Work of one kind that is due: how much of it, and since when the longest of it has been.

    More than a thousand are counted as a thousand and one.
    """

    name: QueueName
    due: int
    oldest_due_at: datetime | None


@frozen
class Queues:
    """Every queue, the store's time, its schema, and since when its oldest transaction is open."""

    now: datetime
    schema: int
    oldest_transaction_at: datetime | None
    queues: Sequence[Queue]
