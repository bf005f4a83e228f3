"""Sealing and keys, with the reference formulas of HKDF and of the sealed form beside them.

The contract of every cipher is tested in tests/contract/test_cipher.py.
"""

import base64
import hashlib
import hmac

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st

from meetcore.adapters.secrets import AesGcmCipher, derive, keys_from_text
from meetcore.ports.runtime import CipherRefused

OLD, NEW = bytes(range(32)), bytes(range(32, 64))
CIPHER = AesGcmCipher([NEW, OLD])


def text_of(key: bytes) -> str:
    return base64.urlsafe_b64encode(key).decode()


# The cipher


def test_keys_rotate() -> None:
    before, during, after = AesGcmCipher([OLD]), AesGcmCipher([NEW, OLD]), AesGcmCipher([NEW])
    old_value, new_value = before.seal(b"old", "c"), during.seal(b"new", "c")
    assert during.open(old_value, "c") == b"old"
    assert after.open(new_value, "c") == b"new"
    for cipher, value in ((after, old_value), (before, new_value)):
        with pytest.raises(CipherRefused):
            cipher.open(value, "c")


def test_the_sealed_form_matches_its_specification() -> None:
    class Counting:
        def token_bytes(self, count: int) -> bytes:
            return bytes(range(count))

    sealed = AesGcmCipher([NEW, OLD], Counting()).seal(b"plain", "context")
    header = b"\x01" + hashlib.sha256(NEW).digest()[:4]
    nonce = bytes(range(12))
    assert sealed == header + nonce + AESGCM(NEW).encrypt(nonce, b"plain", header + b"context")


@pytest.mark.parametrize("keys", [[], [OLD[:-1]], [OLD, b""], [OLD, OLD]])
def test_invalid_keys_are_refused(keys: list[bytes]) -> None:
    with pytest.raises(ValueError):
        AesGcmCipher(keys)


def test_keys_are_not_in_the_representation() -> None:
    assert repr(CIPHER) == "<AesGcmCipher with 2 keys>"


# The setting


@given(st.lists(st.binary(min_size=32, max_size=32), min_size=1, max_size=4, unique=True), st.booleans())
def test_keys_are_read_in_order_with_or_without_padding(keys: list[bytes], is_padded: bool) -> None:
    written = [text_of(key) if is_padded else text_of(key).rstrip("=") for key in keys]
    assert keys_from_text(" , ".join(written) + "\n") == tuple(keys)


@pytest.mark.parametrize(("text", "problem"), [
    ("", "no key"),
    (" \n", "no key"),
    (text_of(OLD) + ",", "key 2 of 2 .* is empty"),
    (text_of(OLD) + "," + text_of(NEW[:-1]), "key 2 of 2 .* not base64url of 32 bytes"),
    (text_of(OLD + b"!"), "key 1 of 1"),
    (text_of(OLD)[:-2] + "é=", "key 1 of 1"),
    (base64.b64encode(b"\xff" * 32).decode(), "key 1 of 1"),  # the other alphabet: / and +
    (OLD.hex(), "it has 64 characters"),
    (text_of(OLD) + "," + text_of(OLD).rstrip("="), "same key twice"),
])  # fmt: skip
def test_a_bad_setting_is_named_and_never_shown(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem) as caught:
        keys_from_text(text)
    for part in text.strip().split(","):
        assert not part or part[:8] not in str(caught.value)
    assert caught.value.__cause__ is None


# Derived keys


def test_derived_keys_are_hkdf_sha256() -> None:
    extracted = hmac.digest(bytes(32), OLD, "sha256")
    assert derive(OLD, "downloads") == hmac.digest(extracted, b"meetcore/downloads\x01", "sha256")


def test_each_purpose_and_each_key_has_its_own() -> None:
    derived = {derive(key, purpose) for key in (OLD, NEW) for purpose in ("downloads", "sandbox")}
    assert len(derived | {OLD, NEW}) == 6


@pytest.mark.parametrize(("key", "purpose"), [(OLD[:-1], "downloads"), (OLD, "")])
def test_a_short_key_or_no_purpose_derives_nothing(key: bytes, purpose: str) -> None:
    with pytest.raises(ValueError):
        derive(key, purpose)
