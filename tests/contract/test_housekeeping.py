"""Housekeeping in every store: what is past its retention is deleted, what still runs is kept."""

from meetcore.testing.contracts import HousekeepingContract, IdempotencyMachineContract


class TestHousekeeping(HousekeepingContract):
    """In memory and in Postgres."""


class TestIdempotencyMachine(IdempotencyMachineContract):
    """In memory and in Postgres."""
