"""Build WebAuthn options for browsers and verify their responses.

Whatever the packages raise about a response makes it invalid: few of their exceptions are documented.
"""

import json
from collections.abc import Sequence
from typing import Any, Final

import webauthn
from webauthn.helpers import (
    base64url_to_bytes,
    options_to_json_dict,
    parse_authentication_credential_json,
    parse_client_data_json,
    parse_registration_credential_json,
)
from webauthn.helpers.structs import (
    AuthenticatorSelectionCriteria,
    PublicKeyCredentialDescriptor,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

from meetcore.domain.members.passkeys import CHALLENGE_FOR, MAX_ANSWER, MAX_CREDENTIAL
from meetcore.ports.identity import AnsweredChallenge, NewCredential, PasskeyInvalid, PasskeyUser

_TIMEOUT_MS: Final = int(CHALLENGE_FOR.total_seconds() * 1000)


class WebauthnVerifier:
    """Verifies passkeys of a site, whose name browsers show; `base_url` is the browser's origin."""

    def __init__(self, rp_id: str, base_url: str, site: str = "meetcore") -> None:
        self._rp_id = rp_id
        self._origin = base_url
        self._site = site

    def ask_to_register(self, challenge: bytes, user: PasskeyUser, known: Sequence[bytes]) -> dict[str, Any]:
        options = webauthn.generate_registration_options(
            rp_id=self._rp_id,
            rp_name=self._site,
            user_id=user.handle,
            user_name=user.name,
            challenge=challenge,
            timeout=_TIMEOUT_MS,
            authenticator_selection=AuthenticatorSelectionCriteria(
                resident_key=ResidentKeyRequirement.REQUIRED,
                user_verification=UserVerificationRequirement.REQUIRED,
            ),
            exclude_credentials=[PublicKeyCredentialDescriptor(id=each) for each in known],
        )
        return dict(options_to_json_dict(options))

    def ask_to_sign_in(self, challenge: bytes) -> dict[str, Any]:
        options = webauthn.generate_authentication_options(
            rp_id=self._rp_id,
            challenge=challenge,
            timeout=_TIMEOUT_MS,
            user_verification=UserVerificationRequirement.REQUIRED,
        )
        return dict(options_to_json_dict(options))

    def read(self, answer: str) -> AnsweredChallenge:
        if len(answer) > MAX_ANSWER:
            raise PasskeyInvalid("too long")
        try:
            found = json.loads(answer)
            response = found["response"]
            handle = response.get("userHandle")
            data = parse_client_data_json(base64url_to_bytes(response["clientDataJSON"]))
            answered = AnsweredChallenge(
                data.challenge,
                base64url_to_bytes(found["rawId"]),
                base64url_to_bytes(handle) if handle else None,
            )
        except Exception as error:
            raise PasskeyInvalid("malformed") from error
        if data.cross_origin:  # by a page of another origin that frames ours
            raise PasskeyInvalid("cross-origin")
        return answered

    def verify_registration(self, answer: str, challenge: bytes) -> NewCredential:
        try:
            verified = webauthn.verify_registration_response(
                credential=parse_registration_credential_json(answer),
                expected_challenge=challenge,
                expected_rp_id=self._rp_id,
                expected_origin=self._origin,
                require_user_verification=True,
            )
        except Exception as error:
            raise PasskeyInvalid("invalid registration") from error
        if not 1 <= len(verified.credential_id) <= MAX_CREDENTIAL:
            raise PasskeyInvalid("length of the credential's id")
        return NewCredential(verified.credential_id, verified.credential_public_key, verified.sign_count)

    def verify_sign_in(self, answer: str, challenge: bytes, public_key: bytes) -> int:
        try:
            verified = webauthn.verify_authentication_response(
                credential=parse_authentication_credential_json(answer),
                expected_challenge=challenge,
                expected_rp_id=self._rp_id,
                expected_origin=self._origin,
                credential_public_key=public_key,
                credential_current_sign_count=0,
                require_user_verification=True,
            )
        except Exception as error:
            raise PasskeyInvalid("invalid sign-in") from error
        return verified.new_sign_count
