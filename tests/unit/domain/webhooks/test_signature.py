"""Signatures (spec 6), with `standardwebhooks` and the plain formula as independent verifiers."""

import base64
import hashlib
import hmac
import re
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from standardwebhooks import Webhook

from meetcore.domain.webhooks.signature import (
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
from meetcore.testing.strategies.webhooks import endpoint_secrets

SECRET = new_secret(bytes(range(32)))
OLD_SECRET = new_secret(bytes(32))
BODY = '{"id":"1","data":{"title":"Rapat é"}}'.encode()
NOW = 1_800_000_000
HEX = "ab" * 32

bodies = st.binary(max_size=2000)
secrets = endpoint_secrets()
moments = st.integers(0, 99_999_999_999)


@pytest.mark.spec("6/2")
@given(secrets, bodies, moments)
def test_the_header_is_the_formula_of_the_spec(secret: str, body: bytes, at: int) -> None:
    expected = hmac.new(secret.encode("utf-8"), str(at).encode() + b"." + body, hashlib.sha256).hexdigest()
    assert sign(secret, body, at) == f"t={at},v1={expected}"


def flipped(value: bytes, bit: int) -> bytes:
    """The same bytes with one bit the other way round."""
    changed = bytearray(value)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


@pytest.mark.spec("6/3", "5/9")
@given(secrets, bodies, moments, st.integers(-MAX_AGE_S, MAX_AGE_S))
@example(SECRET, BODY, NOW, MAX_AGE_S)
@example(SECRET, BODY, NOW, -MAX_AGE_S)
@example(SECRET, b"", 0, 0)
def test_a_signed_body_verifies_within_five_minutes(secret: str, body: bytes, at: int, age: int) -> None:
    verify([secret], body, sign(secret, body, at), at + age)


@pytest.mark.spec("6/3")
@given(secrets, st.binary(min_size=1, max_size=2000), moments, st.data())
def test_any_flipped_bit_of_the_body_fails(secret: str, body: bytes, at: int, data: st.DataObject) -> None:
    received = flipped(body, data.draw(st.integers(0, 8 * len(body) - 1)))
    with pytest.raises(WrongSignature):
        verify([secret], received, sign(secret, body, at), at)


@pytest.mark.spec("6/3")
@given(secrets, bodies, moments, st.data())
def test_any_flipped_bit_of_the_time_fails(secret: str, body: bytes, at: int, data: st.DataObject) -> None:
    """In the text of the header, whatever sign the flip makes of a digit, and as a number."""
    _, timestamp, rest = sign(secret, body, at).partition(str(at))
    forged = flipped(timestamp.encode(), data.draw(st.integers(0, 8 * len(timestamp) - 1))).decode("latin-1")
    with pytest.raises(SignatureRejected):
        verify([secret], body, f"t={forged}{rest}", at)
    other = at ^ 1 << data.draw(st.integers(0, 36))
    with pytest.raises(WrongSignature):
        verify([secret], body, f"t={other}{rest}", other)


@pytest.mark.spec("6/3")
@given(st.binary(min_size=32, max_size=32), bodies, moments, st.integers(0, 255))
def test_any_flipped_bit_of_the_secret_fails(random: bytes, body: bytes, at: int, bit: int) -> None:
    with pytest.raises(WrongSignature):
        verify([new_secret(flipped(random, bit))], body, sign(new_secret(random), body, at), at)


@pytest.mark.spec("6/3")
@given(secrets, bodies, moments, st.integers(0, 64 * 8 - 1))
def test_any_flipped_bit_of_the_signature_fails(secret: str, body: bytes, at: int, bit: int) -> None:
    lead, right = sign(secret, body, at)[:-64], sign(secret, body, at)[-64:]
    with pytest.raises(SignatureRejected):
        verify([secret], body, lead + flipped(right.encode(), bit).decode("latin-1"), at)


@pytest.mark.spec("6/3")
@given(secrets, bodies, moments, st.integers(MAX_AGE_S + 1, 10**12))
@example(SECRET, BODY, NOW, MAX_AGE_S + 1)
def test_older_than_five_minutes_fails(secret: str, body: bytes, at: int, age: int) -> None:
    with pytest.raises(TimestampRejected, match=f"^the signature is {age} s old, more than 300 s$"):
        verify([secret], body, sign(secret, body, at), at + age)


@pytest.mark.spec("6/3")
@given(secrets, bodies, moments, st.integers(MAX_AGE_S + 1, 10**12))
@example(SECRET, BODY, NOW, MAX_AGE_S + 1)
def test_more_than_five_minutes_ahead_fails(secret: str, body: bytes, at: int, ahead: int) -> None:
    with pytest.raises(
        TimestampRejected, match=f"^the signature is {ahead} s in the future, more than 300 s$"
    ):
        verify([secret], body, sign(secret, body, at), at - ahead)


@given(secrets, bodies, moments, st.integers(0, 1000), st.integers(-1000, 1000))
def test_a_receiver_chooses_its_tolerance(
    secret: str, body: bytes, at: int, tolerance_s: int, age: int
) -> None:
    header = sign(secret, body, at)
    if abs(age) <= tolerance_s:
        verify([secret], body, header, at + age, tolerance_s)
    else:
        with pytest.raises(TimestampRejected):
            verify([secret], body, header, at + age, tolerance_s)


@pytest.mark.spec("6/3", "5/9")
@pytest.mark.parametrize(("body", "secrets_held", "header"), [
    (BODY + b" ", [SECRET], sign(SECRET, BODY, NOW)),
    (BODY, [OLD_SECRET], sign(SECRET, BODY, NOW)),
    (BODY, [], sign(SECRET, BODY, NOW)),
    (BODY, [SECRET], sign(SECRET, BODY, NOW).replace(f"t={NOW}", f"t={NOW + 1}")),
    (BODY, [SECRET], f"t={NOW},v1={HEX}"),
])  # fmt: skip
def test_a_wrong_body_secret_or_moment_is_rejected(body: bytes, secrets_held: list[str], header: str) -> None:
    with pytest.raises(WrongSignature, match=r"^no v1 signature matches the body and the secret$"):
        verify(secrets_held, body, header, NOW)


@given(st.permutations([f"v1={HEX}", "v1=" + "0" * 64, "RIGHT", "v0=x", "v2", "", "v1a=ab"]), secrets, bodies)
def test_one_right_v1_among_several_is_enough_in_any_place_and_unknown_versions_are_ignored(
    parts: list[str], secret: str, body: bytes
) -> None:
    moment, right = sign(secret, body, NOW).split(",")
    parts_of_header = [moment, *(right if part == "RIGHT" else part for part in parts)]
    verify([secret], body, ",".join(parts_of_header), NOW)
    verify([secret], body, " , ".join(reversed(parts_of_header)), NOW)


@pytest.mark.spec("6/3")
@given(
    st.lists(secrets, min_size=1, max_size=3, unique=True), st.lists(secrets, max_size=3), bodies, st.data()
)
def test_while_a_secret_is_rotated_either_side_may_hold_several(
    held: list[str], signed_with: list[str], body: bytes, data: st.DataObject
) -> None:
    """A sender signs with some secrets, a receiver holds some: one in common is enough, in any order."""
    assume(not set(held) & set(signed_with))
    shared = data.draw(secrets)
    signers = data.draw(st.permutations([shared, *signed_with]))
    values = [sign(secret, body, NOW).partition(",")[2] for secret in signers]
    header = ",".join([f"t={NOW}", *values])
    verify(data.draw(st.permutations([shared, *held])), body, header, NOW)
    with pytest.raises(WrongSignature):
        verify([secret for secret in held if secret != shared], body, header, NOW)


@pytest.mark.parametrize("place", [0, 15])
def test_sixteen_signatures_are_read_and_seventeen_refused(place: int) -> None:
    moment, right = sign(SECRET, BODY, NOW).split(",")
    values = [f"v1={HEX}"] * 15
    values.insert(place, right)
    verify([SECRET], BODY, ",".join([moment, *values]), NOW)
    assert refusal(",".join([moment, *values, right])) == NO_CANDIDATES


def test_a_header_of_2048_characters_is_read_and_a_longer_one_refused() -> None:
    header = sign(SECRET, BODY, NOW)
    longest = header + "," * (2048 - len(header))
    verify([SECRET], BODY, longest, NOW)
    assert refusal(longest + ",") == "the header is longer than 2048 characters"


NO_TIMESTAMP = "the header needs one t=<unix time>"
NO_CANDIDATES = "the header needs 1 to 16 v1=<hex>"
NO_HEX = "each v1 is 64 lower-case hexadecimal digits"


def refusal(header: str) -> str:
    with pytest.raises(MalformedSignature) as refused:
        verify([SECRET], BODY, header, NOW)
    return str(refused.value)


@pytest.mark.parametrize(("header", "message"), [
    *((header, NO_TIMESTAMP) for header in (
        "", "x", ",", "=", f"v1={HEX}", f"t=,v1={HEX}", f"t=x,v1={HEX}", f"t=-1,v1={HEX}", f"t=1e9,v1={HEX}",
        f"t={NOW}.0,v1={HEX}", f"t={'9' * 13},v1={HEX}", f"t=١٢٣,v1={HEX}", f"t= {NOW},v1={HEX}",
        f"t={NOW},t={NOW},v1={HEX}", f"Xt={NOW},v1={HEX}", f"T={NOW},v1={HEX}", f"\tt={NOW},v1={HEX}",
        "\ud800",
    )),
    *((header, NO_CANDIDATES) for header in (
        f"t={NOW}", f"t={NOW},v0={HEX}", f"t={NOW}" + f",v1={HEX}" * 17, f"t={NOW},Xv1={HEX}",
    )),
    *((header, NO_HEX) for header in (
        f"t={NOW},v1=", f"t={NOW},v1", f"t={NOW},v1={HEX[:-1]}", f"t={NOW},v1={HEX}a",
        f"t={NOW},v1={HEX.upper()}", f"t={NOW},v1={'é' * 64}", f"t={NOW},v1={HEX}\n",
        f"{sign(SECRET, BODY, NOW)},v1={HEX}=", f"{sign(SECRET, BODY, NOW)},v1=v1={HEX}",
    )),
])  # fmt: skip
def test_a_malformed_header_is_rejected_cleanly(header: str, message: str) -> None:
    assert refusal(header) == message


@given(st.text(), bodies)
def test_no_header_raises_anything_but_a_rejection(header: str, body: bytes) -> None:
    with pytest.raises(SignatureRejected):
        verify([SECRET], body, header, NOW)


@pytest.mark.spec("6/3")
@given(secret=secrets, body=st.text(max_size=500).map(str.encode), event_id=st.uuids().map(str))
def test_an_independent_verifier_accepts_the_standard_trio(secret: str, body: bytes, event_id: str) -> None:
    # Its verifier reads the clock itself, so this one test signs for the real moment.
    at = int(datetime.now(UTC).timestamp())
    verifier: Any = Webhook(secret)
    headers = standard_webhooks_headers(secret, event_id, body, at)
    assert (
        verifier.sign(event_id, datetime.fromtimestamp(at, UTC), body.decode())
        == headers["webhook-signature"]
    )
    verifier.verify(b'{"a":1}', standard_webhooks_headers(secret, event_id, b'{"a":1}', at))


# Secret, message id, timestamp, body and signature as the Standard Webhooks project publishes them: the
# first in the tests of its reference libraries, the second in the guide to verifying by hand.
PUBLISHED = [
    (
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330,
        b'{"test": 2432232314}', "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    ),
    (
        "whsec_plJ3nmyCDGBKInavdOK15jsl", "msg_loFOjxBNrRLzqYUf", 1731705121,
        b'{"event_type":"ping","data":{"success":true}}', "v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0=",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("secret", "message_id", "at", "body", "signature"), PUBLISHED)
def test_the_published_standard_webhooks_vectors(
    secret: str, message_id: str, at: int, body: bytes, signature: str
) -> None:
    assert standard_webhooks_headers(secret, message_id, body, at) == {
        "webhook-id": message_id,
        "webhook-timestamp": str(at),
        "webhook-signature": signature,
    }


@given(st.binary(min_size=1, max_size=64), st.text(max_size=20), bodies, moments)
def test_the_standard_trio_is_the_formula_of_its_specification(
    key: bytes, message_id: str, body: bytes, at: int
) -> None:
    """Keyed with the bytes that the secret encodes, over id, timestamp and body joined by full stops."""
    secret = "whsec_" + base64.b64encode(key).decode()
    content = b".".join([message_id.encode(), str(at).encode(), body])
    expected = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
    headers = standard_webhooks_headers(secret, message_id, body, at)
    assert headers["webhook-signature"] == f"v1,{expected}"


@given(secrets, secrets, bodies, moments)
def test_after_a_rotation_the_trio_has_both_signatures_and_the_specs_header_one(
    secret: str, previous: str, body: bytes, at: int
) -> None:
    headers = signing_headers(secret, "evt", body, at, previous)
    alone = [signing_headers(each, "evt", body, at)["webhook-signature"] for each in (secret, previous)]
    assert headers["webhook-signature"] == " ".join(alone)
    assert headers.keys() == {"X-Service-Signature", "webhook-id", "webhook-timestamp", "webhook-signature"}
    assert headers["X-Service-Signature"] == sign(secret, body, at)
    assert (headers["webhook-id"], headers["webhook-timestamp"]) == ("evt", str(at))


def test_a_secret_is_the_prefix_and_32_bytes() -> None:
    assert SECRET == "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="


@pytest.mark.parametrize("random_bytes", [b"", bytes(31), bytes(33)])
def test_no_other_length_makes_a_secret(random_bytes: bytes) -> None:
    message = f"^a secret is made of 32 random bytes, not {len(random_bytes)}$"
    with pytest.raises(ValueError, match=message):
        new_secret(random_bytes)


@pytest.mark.parametrize("secret", [
    "", "AAAA", "whsec_A", "whsec_AAA", "whsec_é", "whsec_A*AA", "whsec_AA*AA", "whsec_AAAA ", "WHSEC_AAAA",
])  # fmt: skip
def test_the_standard_trio_needs_a_well_formed_secret_and_does_not_repeat_it(secret: str) -> None:
    message = (
        "a secret is base64 after whsec_" if secret.startswith("whsec_") else "a secret begins with whsec_"
    )
    with pytest.raises(ValueError, match=f"^{message}$") as refused:
        standard_webhooks_headers(secret, "evt", BODY, NOW)
    assert refused.value.__cause__ is None


@pytest.mark.parametrize("at", [1_793_500_000.5, 1_793_500_000.0, "1793500000", True, None])
def test_a_time_with_a_fraction_is_not_signed(at: Any) -> None:
    message = rf"^a signature's time is in whole seconds, not {re.escape(repr(at))}: int\(time.time\(\)\)$"
    for signed in (
        lambda: sign(SECRET, b"{}", at),
        lambda: standard_webhooks_headers(SECRET, "evt", b"{}", at),
        lambda: signing_headers(SECRET, "evt", b"{}", at),
    ):
        with pytest.raises(TypeError, match=message):
            signed()


@pytest.mark.parametrize(("held", "header", "error", "message"), [
    ([SECRET], None, MalformedSignature, "there is no X-Service-Signature header"),
    (SECRET, sign(SECRET, b"{}", 5), TypeError, r"^give the secrets as a list: \[secret\]$"),
    ([None], sign(SECRET, b"{}", 5), TypeError, r"^a secret is a text$"),
])  # fmt: skip
def test_what_cannot_be_verified_raises_a_clear_error(
    held: Any, header: str | None, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        verify(held, b"{}", header, 5)


@pytest.mark.parametrize("secret", ["", " ", "\t", "whsec_", "whsec_ "])
def test_an_empty_secret_neither_signs_nor_verifies(secret: str) -> None:
    """`os.environ.get("SECRET", "")` of a machine without it, also behind the prefix: anybody could sign."""
    signature = hmac.new(secret.encode(), b"5.{}", "sha256").hexdigest()
    for use in (
        lambda: sign(secret, b"{}", 5),
        lambda: verify([secret], b"{}", f"t=5,v1={signature}", 5),
        lambda: verify([secret, SECRET], b"{}", sign(SECRET, b"{}", 5), 5),
    ):
        with pytest.raises(ValueError, match=r"^a secret is not empty: anybody could sign$"):
            use()
    with pytest.raises(ValueError, match=r"^a secret is not empty: anybody could sign$"):
        standard_webhooks_headers("whsec_", "evt", b"{}", 5)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_a_number_that_is_not_finite_switches_no_check_off(number: Any) -> None:
    header = sign(SECRET, b"{}", 5)
    for now, tolerance_s in ((number, 300), (5, number)):
        with pytest.raises(ValueError, match=r"^the time and the tolerance are finite numbers of seconds$"):
            verify([SECRET], b"{}", header, now, tolerance_s)


@pytest.mark.parametrize("at", [-5, -1, 10**12, 10**40])
def test_a_time_that_no_verifier_reads_is_not_signed(at: int) -> None:
    for signed in (
        lambda: sign(SECRET, b"{}", at),
        lambda: standard_webhooks_headers(SECRET, "evt", b"{}", at),
    ):
        with pytest.raises(ValueError, match=r"^a signature's time is from 0 to 999999999999: no verifier"):
            signed()
    for edge in (0, 10**12 - 1):
        verify([SECRET], b"{}", sign(SECRET, b"{}", edge), edge)
