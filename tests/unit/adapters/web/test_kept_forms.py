"""Forms in a cookie: what comes back, and what is never kept."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meetcore.adapters.web.cookies import MAX_ENCODED, KeptForm, decode_form, encode_form


@given(st.dictionaries(st.text(max_size=20), st.text(max_size=200), max_size=8))
def test_a_form_comes_back_as_it_was(fields: dict[str, str]) -> None:
    form = KeptForm("owner", "/page", "/path", fields)
    text = encode_form(form)
    if text is None:
        return
    assert len(text) <= MAX_ENCODED
    kept = {
        name: each for name, each in fields.items() if name not in ("password", "credential", "confirmed")
    }
    assert decode_form(text) == KeptForm("owner", "/page", "/path", kept)


def test_secrets_and_consent_are_not_kept() -> None:
    typed = {"password": "abcdef", "credential": "{}", "confirmed": "yes", "name": "CI"}
    kept = decode_form(encode_form(KeptForm("", "/page", "/path", typed)) or "")
    assert kept is not None
    assert kept.fields == {"name": "CI"}


def test_a_form_that_no_cookie_holds_is_not_kept() -> None:
    text = "".join(hashlib.sha256(bytes([number])).hexdigest() for number in range(120))
    assert encode_form(KeptForm("", "/page", "/path", {"text": text})) is None


def packed(value: object) -> str:
    return base64.urlsafe_b64encode(zlib.compress(json.dumps(value).encode())).decode()


@pytest.mark.parametrize("text", [
    "", "a", "aaaa", "\u00e9", packed([]), packed({}), packed(None), packed(" " * 1_000_000),
    packed({"owner": "", "page": "", "sent_to": "", "fields": []}),
    packed({"owner": "", "page": "", "sent_to": "", "fields": {"a": 1}}),
    packed({"owner": 1, "page": "", "sent_to": "", "fields": {}}),
    base64.urlsafe_b64encode(zlib.compress(b"[" * 60_000)).decode(),
])  # fmt: skip
def test_any_other_text_is_no_form(text: str) -> None:
    assert decode_form(text) is None
