"""The suite of the sources of random bytes on every adapter, and what is each one's own."""

import os

import pytest

from meetcore.adapters.memory.entropy import SeededEntropy
from meetcore.adapters.system import SystemEntropy
from meetcore.testing.contracts.entropy import EntropyContract


class TestSystem(EntropyContract):
    @pytest.fixture
    def entropy(self):
        return SystemEntropy()

    async def test_two_sources_have_nothing_in_common(self, entropy: SystemEntropy):
        drawn = {entropy.token_bytes(32), SystemEntropy().token_bytes(32), os.urandom(32)}
        assert len(drawn) == 3


class TestSeeded(EntropyContract):
    """Anybody can predict it: for tests only."""

    @pytest.fixture
    def entropy(self):
        return SeededEntropy(1)

    async def test_it_repeats_with_its_seed_and_not_with_another(self, entropy: SeededEntropy):
        again, other = SeededEntropy(1), SeededEntropy(2)
        for count in (32, 0, 7):
            assert entropy.token_bytes(count) == again.token_bytes(count)
        assert entropy.token_bytes(32) != other.token_bytes(32)
