"""Passkeys: verified where the extra `web` is installed, and where browsers take them for the base URL."""

from functools import cache
from importlib.util import find_spec

from meetcore.composition.ports import OpenVerifier
from meetcore.domain.members.passkeys import relying_party
from meetcore.ports.passkey_verifier import PasskeyVerifier


def passkey_verifier(base_url: str) -> OpenVerifier | None:
    """Return what opens the verifier of a site, or `None` where there can be no passkeys.

    The package takes some 10 MB: it is loaded at the first passkey.
    """
    rp_id = relying_party(base_url)
    if rp_id is None or find_spec("webauthn") is None:
        return None

    @cache
    def opened() -> PasskeyVerifier:
        from meetcore.adapters.passkeys import WebauthnVerifier

        return WebauthnVerifier(rp_id, base_url)

    return opened
