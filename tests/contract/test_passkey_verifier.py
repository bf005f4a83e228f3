"""The suite of passkeys on the package that verifies them."""

import pytest

from meetcore.adapters.passkeys import WebauthnVerifier
from meetcore.ports.passkey_verifier import PasskeyVerifier
from meetcore.testing.contracts import PasskeyVerifierContract


class TestWebauthnVerifier(PasskeyVerifierContract):
    @pytest.fixture
    def verifier(self) -> PasskeyVerifier:
        return WebauthnVerifier("meet.example", "https://meet.example")
