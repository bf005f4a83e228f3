"""Forgetting, in every store: what is past its time goes, what still runs stays."""

from meetcore.testing.contracts import HousekeepingContract, IdempotencyMachineContract


class TestHousekeeping(HousekeepingContract):
    """In memory and in Postgres."""


class TestIdempotencyMachine(IdempotencyMachineContract):
    """In memory and in Postgres."""
