"""The suite of the ciphers on every adapter."""

import os

import pytest

from meetcore.adapters.memory.cipher import PlainCipher
from meetcore.adapters.secrets import KEY_BYTES, AesGcmCipher
from meetcore.testing.contracts.cipher import CipherContract, ReversibleCipherContract


class TestAesGcm(CipherContract):
    @pytest.fixture
    def cipher(self):
        return AesGcmCipher([os.urandom(KEY_BYTES)])


class TestAesGcmWhileKeysRotate(CipherContract):
    @pytest.fixture
    def cipher(self):
        return AesGcmCipher([os.urandom(KEY_BYTES) for _ in range(3)])


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


class TestPlain(ReversibleCipherContract):
    """It hides nothing and detects no change: for tests only."""

    @pytest.fixture
    def cipher(self):
        return PlainCipher()
