"""Passkeys by the package `webauthn`, for the site of the base URL."""

from meetcore.adapters.passkeys.verifier import WebauthnVerifier

__all__ = ["WebauthnVerifier"]
