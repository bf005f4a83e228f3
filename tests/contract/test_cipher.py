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


class TestPlain(ReversibleCipherContract):
    """It hides nothing and detects no change: for tests only."""

    @pytest.fixture
    def cipher(self):
        return PlainCipher()
