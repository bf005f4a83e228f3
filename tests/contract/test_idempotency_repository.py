"""Idempotency keys in every store: bound, claimed, done, each visible to later requests."""

import pytest

from meetcore.testing.contracts import IdempotencyRepositoryContract


@pytest.mark.spec("5/8", "4/idem-reused", "4/idem-replay")
class TestIdempotencyRepository(IdempotencyRepositoryContract):
    """In memory and in Postgres."""
