"""Passkeys as browsers make and use them: what holds, and what does not."""

import json
import os
from typing import Any

import pytest

from meetcore.domain.members.passkeys import MAX_ANSWER
from meetcore.ports.passkey_verifier import PasskeyInvalid, PasskeyUser, PasskeyVerifier
from meetcore.testing.authenticator import USER_PRESENT, USER_VERIFIED, SoftwareAuthenticator

ORIGIN, RP_ID = "https://meet.example", "meet.example"
USER = PasskeyUser(b"handle-of-a-user", "dewi@example.com")


def _registered(verifier: PasskeyVerifier, **fields: Any) -> tuple[SoftwareAuthenticator, bytes]:
    """A device with a passkey of the site, and its public key."""
    device, challenge = SoftwareAuthenticator(ORIGIN, RP_ID), os.urandom(32)
    made = verifier.verify_registration(
        device.register(verifier.ask_to_register(challenge, USER, [])), challenge
    )
    for name, value in fields.items():
        setattr(device, name, value)
    return device, made.public_key


class PasskeyVerifierContract:
    """What `ports.passkey_verifier.PasskeyVerifier` promises.

    Give it the fixture `verifier`, one of the site `https://meet.example`.
    """

    def test_a_registration_is_read_and_verified(self, verifier: PasskeyVerifier) -> None:
        device, challenge = SoftwareAuthenticator(ORIGIN, RP_ID, sign_count=7), os.urandom(32)
        options = verifier.ask_to_register(challenge, USER, [b"known"])
        assert options["rp"]["id"] == RP_ID
        assert options["authenticatorSelection"]["userVerification"] == "required"
        assert options["authenticatorSelection"]["residentKey"] == "required"
        assert len(options["excludeCredentials"]) == 1
        assert json.dumps(options)
        answer = device.register(options)
        read = verifier.read(answer)
        assert (read.challenge, read.credential, read.user_handle) == (challenge, device.credential, None)
        made = verifier.verify_registration(answer, challenge)
        assert (made.credential, made.sign_count) == (device.credential, 7)

    def test_a_sign_in_is_read_and_verified(self, verifier: PasskeyVerifier) -> None:
        device, public_key = _registered(verifier, sign_count=9)
        challenge = os.urandom(32)
        options = verifier.ask_to_sign_in(challenge)
        assert options["rpId"] == RP_ID
        assert options["userVerification"] == "required"
        assert not options.get("allowCredentials")
        answer = device.sign_in(options)
        read = verifier.read(answer)
        assert (read.challenge, read.credential) == (challenge, device.credential)
        assert read.user_handle == USER.handle
        assert verifier.verify_sign_in(answer, challenge, public_key) == 9

    @pytest.mark.parametrize(
        "fields",
        [
            {"origin": "https://evil.example"},
            {"origin": "http://meet.example"},
            {"origin": "https://meet.example:8443"},
            {"origin": "https://meet.example.evil.example"},
            {"rp_id": "evil.example"},
            {"flags": USER_PRESENT},
            {"flags": USER_VERIFIED},
            {"flags": 0},
        ],
        ids=str,
    )
    def test_an_answer_of_another_site_or_an_unverified_user_does_not_hold(
        self, verifier: PasskeyVerifier, fields: dict[str, Any]
    ) -> None:
        challenge = os.urandom(32)
        device, public_key = _registered(verifier, **fields)
        with pytest.raises(PasskeyInvalid):
            verifier.verify_sign_in(device.sign_in(verifier.ask_to_sign_in(challenge)), challenge, public_key)
        with pytest.raises(PasskeyInvalid):
            verifier.verify_registration(
                device.register(verifier.ask_to_register(challenge, USER, [])), challenge
            )

    def test_an_answer_to_another_challenge_or_of_another_kind_does_not_hold(
        self, verifier: PasskeyVerifier
    ) -> None:
        device, public_key = _registered(verifier)
        challenge, other = os.urandom(32), os.urandom(32)
        registration = device.register(verifier.ask_to_register(challenge, USER, []))
        sign_in = device.sign_in(verifier.ask_to_sign_in(challenge))
        for answer, asked in ((sign_in, other), (registration, challenge)):
            with pytest.raises(PasskeyInvalid):
                verifier.verify_sign_in(answer, asked, public_key)
        for answer, asked in ((registration, other), (sign_in, challenge)):
            with pytest.raises(PasskeyInvalid):
                verifier.verify_registration(answer, asked)

    def test_a_signature_of_another_key_does_not_hold(self, verifier: PasskeyVerifier) -> None:
        device, _ = _registered(verifier)
        _, another_key = _registered(verifier)
        challenge = os.urandom(32)
        answer = device.sign_in(verifier.ask_to_sign_in(challenge))
        for public_key in (another_key, b"", b"x"):
            with pytest.raises(PasskeyInvalid):
                verifier.verify_sign_in(answer, challenge, public_key)

    @pytest.mark.parametrize(
        "answer",
        [
            "", "x", "null", "[]", "{}", '{"response": null}', '{"response": {}}', "[" * 5000, '"\\ud800"',
            '{"rawId": "AA", "response": {"clientDataJSON": "AA"}}',
            '{"rawId": "AA", "response": {"clientDataJSON": "e30"}}',
            '{"rawId": 1, "response": {"clientDataJSON": 1}}',
            '{"id": "AA", "rawId": "AA", "type": "public-key", "response": {"clientDataJSON": "AA", '
            '"attestationObject": "AA", "authenticatorData": "AA", "signature": "AA"}}',
            "é", "x" * (MAX_ANSWER + 1),
        ],
    )  # fmt: skip
    def test_what_is_no_answer_is_refused(self, verifier: PasskeyVerifier, answer: str) -> None:
        with pytest.raises(PasskeyInvalid):
            verifier.read(answer)
        with pytest.raises(PasskeyInvalid):
            verifier.verify_registration(answer, b"c")
        with pytest.raises(PasskeyInvalid):
            verifier.verify_sign_in(answer, b"c", b"k")

    def test_no_byte_of_an_answer_can_be_changed(self, verifier: PasskeyVerifier) -> None:
        device, public_key = _registered(verifier)
        challenge = os.urandom(32)
        found = json.loads(device.sign_in(verifier.ask_to_sign_in(challenge)))
        for name in ("clientDataJSON", "authenticatorData", "signature"):
            text = found["response"][name]
            for at in range(0, len(text) - 2, 7):
                changed = text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1 :]
                answer = json.dumps(found | {"response": found["response"] | {name: changed}})
                with pytest.raises(PasskeyInvalid):
                    verifier.verify_sign_in(answer, challenge, public_key)
