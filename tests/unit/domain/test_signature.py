"""Signatures (spec part 6), with `standardwebhooks` and the plain formula as independent verifiers."""

import hashlib
import hmac
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook

from meetcore.domain.signature import (
    MAX_AGE_S,
    MalformedSignature,
    SignatureRejected,
    TimestampRejected,
    WrongSignature,
    new_secret,
    sign,
    signing_headers,
    standard_webhooks_headers,
    verify,
)

SECRET = new_secret(bytes(range(32)))
OLD_SECRET = new_secret(bytes(32))
BODY = '{"id":"1","data":{"title":"Rapat é"}}'.encode()
NOW = 1_800_000_000
HEX = "ab" * 32

bodies = st.binary(max_size=2000)
secrets = st.binary(min_size=32, max_size=32).map(new_secret)
moments = st.integers(0, 99_999_999_999)


@pytest.mark.spec("6/2")
@given(secrets, bodies, moments)
def test_the_header_is_the_formula_of_the_spec(secret: str, body: bytes, at: int) -> None:
    expected = hmac.new(secret.encode("utf-8"), str(at).encode() + b"." + body, hashlib.sha256).hexdigest()
    assert sign(secret, body, at) == f"t={at},v1={expected}"


@pytest.mark.spec("6/3", "5/9")
@given(secrets, bodies, moments, st.integers(-MAX_AGE_S, MAX_AGE_S))
def test_what_is_signed_is_believed_within_five_minutes(secret: str, body: bytes, at: int, age: int) -> None:
    verify([OLD_SECRET, secret], body, sign(secret, body, at), at + age)


@pytest.mark.spec("6/3")
@pytest.mark.parametrize("age", [MAX_AGE_S + 1, 86400, -MAX_AGE_S - 1, -86400])
def test_a_timestamp_out_of_tolerance_is_rejected(age: int) -> None:
    with pytest.raises(TimestampRejected):
        verify([SECRET], BODY, sign(SECRET, BODY, NOW), NOW + age)


@pytest.mark.spec("6/3", "5/9")
@pytest.mark.parametrize(("body", "secrets_held", "header"), [
    (BODY + b" ", [SECRET], sign(SECRET, BODY, NOW)),
    (BODY, [OLD_SECRET], sign(SECRET, BODY, NOW)),
    (BODY, [], sign(SECRET, BODY, NOW)),
    (BODY, [SECRET], sign(SECRET, BODY, NOW).replace(f"t={NOW}", f"t={NOW + 1}")),
    (BODY, [SECRET], f"t={NOW},v1={HEX}"),
])  # fmt: skip
def test_a_wrong_body_secret_or_moment_is_rejected(body: bytes, secrets_held: list[str], header: str) -> None:
    with pytest.raises(WrongSignature):
        verify(secrets_held, body, header, NOW)


def test_one_right_signature_among_several_is_enough_and_unknown_versions_are_ignored() -> None:
    right = sign(SECRET, BODY, NOW).partition(",")[2]
    verify([SECRET], BODY, f"t={NOW}, v1={HEX}, {right},v0=x,v2", NOW)


@pytest.mark.parametrize("header", [
    "", "x", ",", "=", f"t={NOW}", f"v1={HEX}", f"t=,v1={HEX}", f"t=x,v1={HEX}", f"t=-1,v1={HEX}",
    f"t=1e9,v1={HEX}", f"t={NOW}.0,v1={HEX}", f"t={'9' * 5000},v1={HEX}", f"t=١٢٣,v1={HEX}",
    f"t= {NOW},v1={HEX}",
    f"t={NOW},t={NOW},v1={HEX}", f"t={NOW},v1=", f"t={NOW},v1={HEX[:-1]}", f"t={NOW},v1={HEX}a",
    f"t={NOW},v1={HEX.upper()}", f"t={NOW},v1={'é' * 64}", f"t={NOW},v1={HEX}\n",
    f"t={NOW}" + f",v1={HEX}" * 17, f"t={NOW},v1={HEX}" + "," * 4000, "\ud800",
])  # fmt: skip
def test_a_malformed_header_is_rejected_cleanly(header: str) -> None:
    with pytest.raises(MalformedSignature):
        verify([SECRET], BODY, header, NOW)


@given(st.text(), bodies)
def test_no_header_raises_anything_but_a_rejection(header: str, body: bytes) -> None:
    with pytest.raises(SignatureRejected):
        verify([SECRET], body, header, NOW)


@pytest.mark.spec("6/3")
@given(secret=secrets, body=st.text(max_size=500).map(str.encode), event_id=st.uuids().map(str))
def test_an_independent_verifier_believes_the_standard_trio(secret: str, body: bytes, event_id: str) -> None:
    # Its verifier reads the clock itself, so this one test signs for the real moment.
    at = int(datetime.now(UTC).timestamp())
    verifier: Any = Webhook(secret)
    headers = standard_webhooks_headers(secret, event_id, body, at)
    assert (
        verifier.sign(event_id, datetime.fromtimestamp(at, UTC), body.decode())
        == headers["webhook-signature"]
    )
    verifier.verify(b'{"a":1}', standard_webhooks_headers(secret, event_id, b'{"a":1}', at))


def test_all_headers_of_a_delivery() -> None:
    headers = signing_headers(SECRET, "evt", BODY, NOW)
    assert headers["X-Service-Signature"] == sign(SECRET, BODY, NOW)
    assert headers.keys() == {"X-Service-Signature", "webhook-id", "webhook-timestamp", "webhook-signature"}
    assert (headers["webhook-id"], headers["webhook-timestamp"]) == ("evt", str(NOW))


def test_a_secret_is_the_prefix_and_32_bytes() -> None:
    assert SECRET == "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="


@pytest.mark.parametrize("random_bytes", [b"", bytes(31), bytes(33)])
def test_no_other_length_makes_a_secret(random_bytes: bytes) -> None:
    with pytest.raises(ValueError, match="32"):
        new_secret(random_bytes)


@pytest.mark.parametrize("secret", ["", "AAAA", "whsec_A", "whsec_é", "whsec_A*AA"])
def test_the_standard_trio_needs_a_well_formed_secret_and_does_not_repeat_it(secret: str) -> None:
    with pytest.raises(ValueError, match="a secret") as refusal:
        standard_webhooks_headers(secret, "evt", BODY, NOW)
    assert not secret or secret not in str(refusal.value)
