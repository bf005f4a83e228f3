"""The suite of the ciphers on every adapter."""

import os
from collections.abc import Callable

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from meetcore.adapters.secrets import KEY_BYTES, AesGcmCipher
from meetcore.ports.runtime import Cipher, CipherRefused
from tests.support.fakes import PlainCipher

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


@pytest.fixture(params=[1, 3])
def secret_cipher(request: pytest.FixtureRequest) -> Cipher:
    """A cipher with one key, and one while keys rotate."""
    return AesGcmCipher([os.urandom(KEY_BYTES) for _ in range(request.param)])


@pytest.fixture(params=[0, 1, 3])
def cipher(request: pytest.FixtureRequest) -> Cipher:
    """The same, and the one that hides nothing and detects no change: for tests only."""
    return (
        AesGcmCipher([os.urandom(KEY_BYTES) for _ in range(request.param)])
        if request.param
        else PlainCipher()
    )


async def test_what_is_sealed_opens(cipher: Cipher) -> None:
    @given(_plain, _contexts)
    @example(b"", "")
    @example(b"\0", "account/1")
    @example(b" \r\n", "é")
    @example(b"\xff" * 100_000, "account/1")
    def holds(plain: bytes, context: str) -> None:
        assert cipher.open(cipher.seal(plain, context), context) == plain

    _check(holds)


async def test_it_opens_in_its_own_context_only(cipher: Cipher) -> None:
    @given(_plain, _contexts, _contexts)
    @example(b"", "account/1", "account/2")
    @example(b"", "a/" * 100 + "1", "a/" * 100 + "2")
    @example(b"", "account/1", "account/")
    @example(b"", "", "account")
    def holds(plain: bytes, context: str, other: str) -> None:
        assume(context != other)
        assert _refuses(cipher, cipher.seal(plain, context), other)

    _check(holds)


async def test_foreign_bytes_are_refused(cipher: Cipher) -> None:
    @given(st.binary(max_size=80), _contexts)
    def holds(sealed: bytes, context: str) -> None:
        assert _refuses(cipher, sealed, context)

    _check(holds)


async def test_a_context_ends_where_it_ends(cipher: Cipher) -> None:
    @given(_plain, _contexts, st.sampled_from(["", "\n", "\0", "|", "/", ":"]), _contexts.filter(bool))
    def holds(plain: bytes, context: str, mark: str, tail: str) -> None:
        # What stands before the value must not pass for the value's beginning, nor the other way round.
        longer = context + mark + tail
        for lead in ("", tail, tail + mark, mark + tail + mark):
            value = lead.encode() + plain
            assert _refuses(cipher, cipher.seal(value, context), longer)
            assert _refuses(cipher, cipher.seal(value, longer), context)

    _check(holds)


async def test_a_value_with_a_flipped_bit_cut_or_made_longer_is_refused(secret_cipher: Cipher) -> None:
    @given(_plain, st.sampled_from(["", "account/1"]), st.binary(min_size=1, max_size=40), st.data())
    def holds(plain: bytes, context: str, more: bytes, data: st.DataObject) -> None:
        sealed = secret_cipher.seal(plain, context)
        bit = data.draw(st.integers(0, len(sealed) * 8 - 1))
        flipped = bytearray(sealed)
        flipped[bit // 8] ^= 1 << bit % 8
        for changed in (bytes(flipped), sealed[: bit // 8], sealed + more, more + sealed):
            assert _refuses(secret_cipher, changed, context)

    _check(holds)


async def test_the_same_text_never_looks_the_same(secret_cipher: Cipher) -> None:
    assert len({secret_cipher.seal(b"x", "c") for _ in range(100)}) == 100


async def test_the_text_cannot_be_read(secret_cipher: Cipher) -> None:
    @given(st.binary(min_size=12, max_size=300))
    def holds(plain: bytes) -> None:
        sealed = secret_cipher.seal(plain, "c")
        pieces = {plain[at : at + 12] for at in range(len(plain) - 11)}
        assert not any(piece in sealed for piece in pieces)

    _check(holds)


@pytest.mark.parametrize("text", [b"", b"a text"])
def test_a_value_names_its_key_to_whoever_lacks_it(text: bytes) -> None:
    key, another = AesGcmCipher([b"k" * KEY_BYTES]), AesGcmCipher([b"a" * KEY_BYTES])
    sealed = key.seal(text, "")
    assert another.key_id_of(sealed) == key.key_ids[0]
    assert another.key_id_of(b"\x02" + sealed[1:]) is None
    assert another.key_id_of(key.seal(b"", "")[:-1]) is None
    assert another.key_id_of(b"") is None


def test_a_plain_value_names_the_one_key() -> None:
    cipher = PlainCipher()
    assert (cipher.key_id_of(cipher.seal(b"", "a")),) == cipher.key_ids
    assert cipher.key_id_of(b"a value") is None
