"""Sign-in by others: OpenID Connect and passkeys."""

from __future__ import annotations

import asyncio
import json
import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt
import pytest
from attrs import frozen
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding

from meetcore.adapters.bounded_http import BoundedHttp
from meetcore.adapters.oidc import MAX_ANSWER_BYTES, OidcClient, OidcProvider, open_http
from meetcore.adapters.passkeys import WebauthnVerifier
from meetcore.domain.members.identities import Identity, flow_secrets
from meetcore.domain.members.passkeys import MAX_ANSWER, MAX_CREDENTIAL
from meetcore.ports.identity import (
    IdentityRefused,
    IdentityUnavailable,
    PasskeyInvalid,
    PasskeyUser,
    ProviderAnswer,
)
from meetcore.testing.stand_in import Reply, as_json
from tests.support.authenticator import USER_PRESENT, USER_VERIFIED, SoftwareAuthenticator
from tests.support.openid_provider import CLIENT_ID, CLIENT_SECRET, OpenIdProvider, openid_provider

CALLBACK = "https://meet.example/dashboard/sign-in/oidc/callback"
FLOW = flow_secrets("token of a browser")


@pytest.fixture
def verifier() -> WebauthnVerifier:
    return WebauthnVerifier("meet.example", "https://meet.example")


async def test_a_browser_is_sent_with_what_binds_the_answer_to_it(rig: Rig) -> None:
    url = await rig.provider.authorization_url(FLOW, CALLBACK, False)
    sent = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
    assert (sent["state"], sent["nonce"]) == (FLOW.state, FLOW.nonce)
    assert (sent["redirect_uri"], sent["response_type"]) == (CALLBACK, "code")
    assert (sent["code_challenge"], sent["code_challenge_method"]) == (FLOW.code_challenge, "S256")
    assert {"openid", "email"} <= set(sent["scope"].split())
    assert FLOW.code_verifier not in url
    assert "prompt" not in sent
    again = parse_qs(urlsplit(await rig.provider.authorization_url(FLOW, CALLBACK, True)).query)
    assert (again["prompt"], again["max_age"]) == (["login"], ["0"])


async def test_a_code_that_is_none_is_refused(rig: Rig) -> None:
    for code in ("", "unknown", "x" * 4096):
        with pytest.raises(IdentityRefused):
            await rig.provider.identify(ProviderAnswer(code), FLOW, CALLBACK)


PERSON = {"email": "dewi@example.com", "email_verified": True, "name": "Dewi Ayu"}
LIMIT_S = 30.0
METADATA, KEYS, TOKEN = "/tenant/.well-known/openid-configuration", "/keys", "/token"


@frozen
class Rig:
    """The adapter, and the provider that it speaks to; `seconds` is its clock."""

    provider: OidcProvider
    there: OpenIdProvider
    identity: Identity
    http: BoundedHttp
    seconds: list[float]

    async def approve(self, url: str) -> ProviderAnswer:
        return await self.there.brought_back(url)

    async def identify(self) -> Identity:
        answer = await self.approve(await self.provider.authorization_url(FLOW, CALLBACK, False))
        return await self.provider.identify(answer, FLOW, CALLBACK)


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with openid_provider(person=PERSON) as there:
        http, seconds = open_http(timeout_s=LIMIT_S), [0.0]
        client = OidcClient(there.issuer, CLIENT_ID, CLIENT_SECRET)
        yield Rig(
            OidcProvider(client, http, lambda: seconds[0]),
            there,
            Identity(there.issuer, "subject", "dewi@example.com", "Dewi Ayu"),
            http,
            seconds,
        )
        await http.aclose()


@pytest.mark.parametrize("methods", [None, ["client_secret_basic"], ["client_secret_post"]])
async def test_the_secret_goes_as_the_provider_takes_it(rig: Rig, methods: list[str] | None) -> None:
    rig.there.metadata = {"token_endpoint_auth_methods_supported": methods}
    assert await rig.identify() == rig.identity
    assert CLIENT_SECRET not in repr(OidcClient(rig.there.issuer, CLIENT_ID, CLIENT_SECRET))


@pytest.mark.parametrize(("key", "algorithm"), [(ec.SECP256R1(), "ES256"), (None, "PS256"), (None, "RS512")])
async def test_signatures_of_the_usual_kinds_hold(rig: Rig, key: Any, algorithm: str) -> None:
    if key is not None:
        rig.there.key = ec.generate_private_key(key)
    rig.there.algorithm = algorithm
    assert await rig.identify() == rig.identity


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://evil.example"}, {"iss": None}, {"aud": "another"}, {"aud": None}, {"aud": []},
        {"aud": [CLIENT_ID, "another"]}, {"aud": [CLIENT_ID, "another"], "azp": "another"},
        {"azp": "another"}, {"exp": 1_000_000_000}, {"exp": None}, {"iat": 4_102_444_800}, {"iat": None},
        {"nbf": 4_102_444_800}, {"sub": None}, {"nonce": "another"}, {"nonce": None}, {"nonce": 1},
        {"nonce": "é"},
        {"email": None}, {"email": "no address"}, {"email": 1}, {"email_verified": False},
        {"email_verified": None}, {"email_verified": "false"}, {"email_verified": 1},
    ],
    ids=json.dumps,
)  # fmt: skip
async def test_a_token_with_another_claim_is_refused(rig: Rig, claims: dict[str, Any]) -> None:
    rig.there.claims = claims
    with pytest.raises(IdentityRefused):
        await rig.identify()


NO_TIMES: tuple[Any, ...] = (None, True, "now", -1, float("inf"), float("nan"), 10**30, [1], {})
AT = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


@pytest.mark.parametrize(
    ("time", "expected"),
    [*((time, None) for time in NO_TIMES), (1_700_000_000, AT), (1_700_000_000.0, AT)],
)
async def test_the_time_of_authentication_is_that_of_the_token_if_it_is_one(
    rig: Rig, time: Any, expected: datetime | None
) -> None:
    rig.there.claims = {"auth_time": time}
    assert (await rig.identify()).authenticated_at == expected


async def test_a_token_for_several_is_taken_where_it_was_issued_to_us(rig: Rig) -> None:
    rig.there.claims = {"aud": [CLIENT_ID, "another"], "azp": CLIENT_ID, "name": None}
    assert await rig.identify() == Identity(rig.there.issuer, "subject", "dewi@example.com", "")


@pytest.mark.parametrize("kind", ["none", "secret", "public key", "another key", "no key", "text"])
async def test_a_token_that_the_provider_did_not_sign_is_refused(rig: Rig, kind: str) -> None:
    other = rsa.generate_private_key(65537, 2048)
    signed: dict[str, Any] = {
        "none": lambda claims: jwt.encode(claims, "", "none", headers={"kid": "one"}),
        "secret": lambda claims: jwt.encode(claims, CLIENT_SECRET * 3, "HS256", headers={"kid": "one"}),
        "public key": lambda claims: jwt.encode(claims, "n" * 64, "HS512", headers={"kid": "one"}),
        "another key": lambda claims: jwt.encode(claims, other, "RS256", headers={"kid": "one"}),
        "no key": lambda claims: jwt.encode(claims, other, "RS256", headers={"kid": "unknown"}),
        "text": lambda claims: "a.b.c",
    }
    rig.there.sign = signed[kind]
    with pytest.raises(IdentityRefused):
        await rig.identify()


async def test_an_answer_that_names_another_issuer_is_refused(rig: Rig) -> None:
    answer = await rig.approve(await rig.provider.authorization_url(FLOW, CALLBACK, False))
    with pytest.raises(IdentityRefused):
        await rig.provider.identify(ProviderAnswer(answer.code, "https://evil.example"), FLOW, CALLBACK)


@pytest.mark.parametrize(
    "metadata",
    [
        {"issuer": "https://evil.example"}, {"issuer": None}, {"token_endpoint": None},
        {"token_endpoint": "file:///etc/passwd"}, {"jwks_uri": 1}, {"jwks_uri": "//evil.example/keys"},
        {"authorization_endpoint": "javascript:alert(1)"}, {"token_endpoint": "http://[::1"},
    ],
    ids=json.dumps,
)  # fmt: skip
async def test_metadata_of_another_issuer_or_without_an_endpoint_is_none(
    rig: Rig, metadata: dict[str, Any]
) -> None:
    rig.there.metadata = metadata
    with pytest.raises(IdentityUnavailable):
        await rig.provider.check()


async def test_an_issuer_with_tls_has_no_endpoint_without(rig: Rig) -> None:
    from meetcore.adapters.oidc import ProviderMetadata

    http = open_http(timeout_s=0.5)
    metadata = ProviderMetadata("https://issuer.example", http, lambda: 0.0)
    with pytest.raises(IdentityUnavailable):
        metadata._address({"token_endpoint": "http://issuer.example/token"}, "token_endpoint")
    assert metadata._address({"a": "https://other.example/token"}, "a") == "https://other.example/token"
    await http.aclose()


@pytest.mark.parametrize("path", [METADATA, KEYS, TOKEN])
@pytest.mark.parametrize("fault", ["drop", "hang", "huge", "status", "redirect", "no json", "deep", "list"])
async def test_a_provider_that_does_not_answer_as_one_is_unavailable(rig: Rig, path: str, fault: str) -> None:
    async def never() -> object:
        return await asyncio.Event().wait()

    replies = {
        "drop": None,
        "hang": Reply(200, b"{}", sent=1, lingers=never),
        "huge": Reply(200, b" " * (MAX_ANSWER_BYTES + 1)),
        "status": Reply(503),
        "redirect": Reply(302, headers={"Location": f"{rig.there.url}/elsewhere"}),
        "no json": Reply(200, b"<html>"),
        "deep": Reply(200, b"[" * 100_000),
        "list": as_json([]),
    }
    url = "" if path == METADATA else await rig.provider.authorization_url(FLOW, CALLBACK, False)
    rig.there.answers[path] = lambda: replies[fault]
    rig.http._whole_s = 0.5 if fault == "hang" else LIMIT_S
    with pytest.raises((IdentityUnavailable, IdentityRefused)) as caught:
        await (
            rig.identify()
            if path == METADATA
            else rig.provider.identify(await rig.approve(url), FLOW, CALLBACK)
        )
    assert rig.there.url not in str(caught.value)
    assert "/elsewhere" not in rig.there.calls
    del rig.there.answers[path]
    rig.http._whole_s = LIMIT_S
    assert await rig.identify() == rig.identity, "nothing of the fault is kept"


async def test_metadata_and_keys_are_kept_for_an_hour_and_a_new_key_is_found(rig: Rig) -> None:
    for _ in range(3):
        await rig.identify()
    assert (rig.there.calls[METADATA], rig.there.calls[KEYS]) == (1, 1)
    rig.there.key, rig.there.head = rsa.generate_private_key(65537, 2048), {"kid": "two"}
    with pytest.raises(IdentityRefused):
        await rig.identify()
    assert rig.there.calls[KEYS] == 1, "keys that were just read are not read again"
    rig.there.head = {}
    rig.seconds[0] = 3600.0
    assert await rig.identify() == rig.identity
    assert (rig.there.calls[METADATA], rig.there.calls[KEYS]) == (2, 2)


async def test_a_token_with_an_unknown_key_makes_us_read_the_keys_again(rig: Rig) -> None:
    await rig.identify()
    rig.there.head, rig.seconds[0] = {"kid": "two"}, 61.0
    with pytest.raises(IdentityRefused):
        await rig.identify()
    assert rig.there.calls[KEYS] == 2


ORIGIN, RP_ID = "https://meet.example", "meet.example"
USER = PasskeyUser(b"handle-of-a-user", "dewi@example.com")


def _registered(verifier: WebauthnVerifier, **fields: Any) -> tuple[SoftwareAuthenticator, bytes]:
    """A device with a passkey of the site, and its public key."""
    device, challenge = SoftwareAuthenticator(ORIGIN, RP_ID), os.urandom(32)
    made = verifier.verify_registration(
        device.register(verifier.ask_to_register(challenge, USER, [])), challenge
    )
    for name, value in fields.items():
        setattr(device, name, value)
    return device, made.public_key


def test_a_registration_is_read_and_verified(verifier: WebauthnVerifier) -> None:
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


@pytest.mark.parametrize(
    ("length", "is_valid"), [(0, False), (1, True), (MAX_CREDENTIAL, True), (MAX_CREDENTIAL + 1, False)]
)
def test_a_credential_id_has_the_length_that_webauthn_gives(
    length: int, is_valid: bool, verifier: WebauthnVerifier
) -> None:
    device, challenge = SoftwareAuthenticator(ORIGIN, RP_ID, credential=b"c" * length), os.urandom(32)
    answer = device.register(verifier.ask_to_register(challenge, USER, []))
    if is_valid:
        assert verifier.verify_registration(answer, challenge).credential == device.credential
        return
    with pytest.raises(PasskeyInvalid):
        verifier.verify_registration(answer, challenge)


def test_a_sign_in_is_read_and_verified(verifier: WebauthnVerifier) -> None:
    device, public_key = _registered(verifier, sign_count=9)
    challenge = os.urandom(32)
    options = verifier.ask_to_sign_in(challenge)
    assert (options["rpId"], options["userVerification"]) == (RP_ID, "required")
    assert not options.get("allowCredentials")
    answer = device.sign_in(options)
    read = verifier.read(answer)
    assert (read.challenge, read.credential) == (challenge, device.credential)
    assert read.user_handle == USER.handle
    assert verifier.verify_sign_in(answer, challenge, public_key) == 9


@pytest.mark.parametrize(
    "fields",
    [
        {"origin": "https://evil.example"}, {"origin": "http://meet.example"},
        {"origin": "https://meet.example:8443"}, {"origin": "https://meet.example.evil.example"},
        {"rp_id": "evil.example"}, {"flags": USER_PRESENT}, {"flags": USER_VERIFIED}, {"flags": 0},
    ],
    ids=str,
)  # fmt: skip
def test_an_answer_of_another_site_or_an_unverified_user_does_not_hold(
    verifier: WebauthnVerifier, fields: dict[str, Any]
) -> None:
    challenge = os.urandom(32)
    device, public_key = _registered(verifier, **fields)
    with pytest.raises(PasskeyInvalid):
        verifier.verify_sign_in(device.sign_in(verifier.ask_to_sign_in(challenge)), challenge, public_key)
    with pytest.raises(PasskeyInvalid):
        verifier.verify_registration(
            device.register(verifier.ask_to_register(challenge, USER, [])), challenge
        )


def test_an_answer_to_another_challenge_or_of_another_kind_does_not_hold(verifier: WebauthnVerifier) -> None:
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


def test_a_signature_of_another_key_does_not_hold(verifier: WebauthnVerifier) -> None:
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
def test_what_is_no_answer_is_refused(verifier: WebauthnVerifier, answer: str) -> None:
    with pytest.raises(PasskeyInvalid):
        verifier.read(answer)
    with pytest.raises(PasskeyInvalid):
        verifier.verify_registration(answer, b"c")
    with pytest.raises(PasskeyInvalid):
        verifier.verify_sign_in(answer, b"c", b"k")


def test_a_certificate_that_the_package_cannot_read_is_refused(verifier: WebauthnVerifier) -> None:
    name = x509.Name([])
    key, day = ec.generate_private_key(ec.SECP256R1()), datetime(2026, 12, 1, tzinfo=UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, day, day)
    certificate = builder.sign(key, SHA256()).public_bytes(Encoding.DER)
    certificate = certificate.replace(b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x07")  # of no version
    challenge = os.urandom(32)
    device = SoftwareAuthenticator(ORIGIN, RP_ID)
    found = json.loads(device.register(verifier.ask_to_register(challenge, USER, [])))
    chain = b"\xa3calg\x26csig\x41scx5c\x81\x59" + len(certificate).to_bytes(2, "big") + certificate
    attestation = urlsafe_b64decode(found["response"]["attestationObject"] + "===")
    attestation = attestation.replace(b"dnone", b"fpacked").replace(b"attStmt\xa0", b"attStmt" + chain)
    found["response"]["attestationObject"] = urlsafe_b64encode(attestation).decode()
    with pytest.raises(PasskeyInvalid):
        verifier.verify_registration(json.dumps(found), challenge)


def test_no_byte_of_an_answer_can_be_changed(verifier: WebauthnVerifier) -> None:
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
