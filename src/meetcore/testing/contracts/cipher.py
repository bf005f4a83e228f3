"""What every cipher is held against.

`ReversibleCipherContract` holds for a cipher for tests, too: open what it sealed, in its context only.
`CipherContract` asks for authenticated encryption on top. A cipher without authentication
subclasses the first, which declares it.
"""

from collections.abc import Callable

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from meetcore.ports.cipher import Cipher, CipherRefused

_plain = st.binary(max_size=300)
_contexts = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


def _refuses(cipher: Cipher, sealed: bytes, context: str) -> bool:
    """Whether it does not open, for the one reason that the port knows."""
    try:
        cipher.open(sealed, context)
    except CipherRefused:
        return True
    return False


def _check(prove: Callable[[], None]) -> None:
    # Hypothesis inside the test and not around it: pytest makes one object and one fixture for each test.
    settings(deadline=None)(prove)()


@pytest.mark.asyncio
class ReversibleCipherContract:
    """The suite for a `Cipher` that hides nothing. Give it the fixture `cipher`::

    class TestMyPretendCipher(ReversibleCipherContract):
        @pytest.fixture
        def cipher(self) -> Cipher:
            return MyPretendCipher()
    """

    async def test_what_is_sealed_opens(self, cipher: Cipher) -> None:
        @given(_plain, _contexts)
        @example(b"", "")
        @example(b"\0", "account/1")
        @example(b" \r\n", "é")
        @example(b"\xff" * 100_000, "account/1")
        def holds(plain: bytes, context: str) -> None:
            assert cipher.open(cipher.seal(plain, context), context) == plain

        _check(holds)

    async def test_it_opens_in_its_own_context_only(self, cipher: Cipher) -> None:
        @given(_plain, _contexts, _contexts)
        @example(b"", "account/1", "account/2")
        @example(b"", "a/" * 100 + "1", "a/" * 100 + "2")
        @example(b"", "account/1", "account/")
        @example(b"", "", "account")
        def holds(plain: bytes, context: str, other: str) -> None:
            assume(context != other)
            assert _refuses(cipher, cipher.seal(plain, context), other)

        _check(holds)

    async def test_a_context_that_differs_in_one_character_is_another(self, cipher: Cipher) -> None:
        @given(_plain, _contexts, _contexts, st.permutations("ab1/é 名"))
        def holds(plain: bytes, before: str, after: str, two: list[str]) -> None:
            one, other = (before + character + after for character in two[:2])
            assert _refuses(cipher, cipher.seal(plain, one), other)
            assert _refuses(cipher, cipher.seal(plain, one), before + after)

        _check(holds)

    async def test_foreign_bytes_are_refused(self, cipher: Cipher) -> None:
        @given(st.binary(max_size=80), _contexts)
        def holds(sealed: bytes, context: str) -> None:
            assert _refuses(cipher, sealed, context)

        _check(holds)

    async def test_a_context_ends_where_it_ends(self, cipher: Cipher) -> None:
        @given(_plain, _contexts, st.sampled_from(["", "\n", "\0", "|", "/", ":"]), _contexts.filter(bool))
        def holds(plain: bytes, context: str, mark: str, tail: str) -> None:
            # What stands before the value must not pass for the value's beginning, nor the other way round.
            longer = context + mark + tail
            for lead in ("", tail, tail + mark, mark + tail + mark):
                value = lead.encode() + plain
                assert _refuses(cipher, cipher.seal(value, context), longer)
                assert _refuses(cipher, cipher.seal(value, longer), context)

        _check(holds)


class CipherContract(ReversibleCipherContract):
    """The suite for a `Cipher` that keeps secrets. Give it the fixture `cipher`::

    class TestMyCipher(CipherContract):
        @pytest.fixture
        def cipher(self) -> Cipher:
            return MyCipher(os.urandom(32))
    """

    async def test_a_flipped_bit_anywhere_is_refused(self, cipher: Cipher) -> None:
        @given(_plain, st.data())
        def holds(plain: bytes, data: st.DataObject) -> None:
            sealed = bytearray(cipher.seal(plain, "account/1"))
            bit = data.draw(st.integers(0, len(sealed) * 8 - 1))
            sealed[bit // 8] ^= 1 << bit % 8
            assert _refuses(cipher, bytes(sealed), "account/1")

        _check(holds)

    async def test_a_cut_value_is_refused(self, cipher: Cipher) -> None:
        @given(_plain, st.data())
        def holds(plain: bytes, data: st.DataObject) -> None:
            sealed = cipher.seal(plain, "")
            assert _refuses(cipher, sealed[: data.draw(st.integers(0, len(sealed) - 1))], "")

        _check(holds)

    async def test_a_longer_value_is_refused(self, cipher: Cipher) -> None:
        @given(_plain, st.binary(min_size=1, max_size=40))
        def holds(plain: bytes, more: bytes) -> None:
            sealed = cipher.seal(plain, "")
            assert _refuses(cipher, sealed + more, "")
            assert _refuses(cipher, more + sealed, "")

        _check(holds)

    async def test_the_same_text_never_looks_the_same(self, cipher: Cipher) -> None:
        assert len({cipher.seal(b"x", "c") for _ in range(100)}) == 100

    async def test_the_text_cannot_be_read(self, cipher: Cipher) -> None:
        @given(st.binary(min_size=12, max_size=300))
        def holds(plain: bytes) -> None:
            sealed = cipher.seal(plain, "c")
            pieces = {plain[at : at + 12] for at in range(len(plain) - 11)}
            assert not any(piece in sealed for piece in pieces)

        _check(holds)
