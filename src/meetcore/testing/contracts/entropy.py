"""What every source of random bytes is held against.

No test can prove that bytes are unpredictable. These find a source that is broken: bytes that repeat, come in
another number, or leave out values, as text in hexadecimal or base64 does.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meetcore.ports.entropy import Entropy


@pytest.mark.asyncio
class EntropyContract:
    """The suite for one `Entropy`. Give it the fixture `entropy`::

    class TestMyEntropy(EntropyContract):
        @pytest.fixture
        def entropy(self) -> Entropy:
            return MyEntropy()
    """

    async def test_it_returns_the_requested_number_of_bytes(self, entropy: Entropy) -> None:
        @settings(deadline=None)
        @given(st.integers(0, 5000))
        def holds(count: int) -> None:
            drawn = entropy.token_bytes(count)
            assert isinstance(drawn, bytes)
            assert len(drawn) == count

        holds()

    async def test_no_two_draws_are_alike(self, entropy: Entropy) -> None:
        assert len({entropy.token_bytes(16) for _ in range(2000)}) == 2000

    async def test_nothing_repeats_inside_a_draw(self, entropy: Entropy) -> None:
        drawn = entropy.token_bytes(16 * 2000)
        assert len({drawn[at : at + 16] for at in range(0, len(drawn), 16)}) == 2000

    async def test_every_byte_occurs_at_every_place_of_a_key(self, entropy: Entropy) -> None:
        # A value that is missing by chance: once in e**58 runs, for all 32 places of all 256 values together.
        keys = [entropy.token_bytes(32) for _ in range(17_000)]
        assert all(len({key[place] for key in keys}) == 256 for place in range(32))
