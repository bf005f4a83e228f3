"""Signatures of webhook deliveries (spec 6), the signing side and a verifier for receivers.

Owns two schemes that travel together: `X-Service-Signature` of the spec, keyed with the UTF-8 bytes of
the whole secret, and the Standard Webhooks trio, keyed with the 32 bytes that the secret encodes. Both
cover the raw body as it is sent. It reads no clock and draws no randomness: the moment and the
32 random bytes of a new secret come in.
"""

import base64
import binascii
import hmac
import re
from collections.abc import Iterable

__all__ = [
    "MAX_AGE_S",
    "SECRET_BYTES",
    "SECRET_PREFIX",
    "SIGNATURE_HEADER",
    "MalformedSignature",
    "SignatureRejected",
    "TimestampRejected",
    "WrongSignature",
    "new_secret",
    "sign",
    "signing_headers",
    "standard_webhooks_headers",
    "verify",
]

SIGNATURE_HEADER = "X-Service-Signature"
SECRET_PREFIX = "whsec_"  # noqa: S105 - what every secret begins with, not a secret
SECRET_BYTES = 32
MAX_AGE_S = 300
"""Seconds; rule 6/3 rejects what is older than 5 minutes."""

# Bounds on the work an untrusted header may cause. A sender signs with at most a few secrets at once.
_MAX_HEADER_LENGTH = 2048
_MAX_SIGNATURES = 16
_TIMESTAMP = re.compile(r"[0-9]{1,12}")
_HEX_SHA256 = re.compile(r"[0-9a-f]{64}")


class SignatureRejected(ValueError):
    """The delivery must not be trusted. The message states why and is safe to log."""


class MalformedSignature(SignatureRejected):
    """The header does not have the form `t=<unix>,v1=<hex>`."""


class TimestampRejected(SignatureRejected):
    """The signature is too old, or from too far in the future."""


class WrongSignature(SignatureRejected):
    """No signature in the header belongs to this body, moment and secret."""


def new_secret(random_32_bytes: bytes) -> str:
    """Form the secret of an endpoint: `whsec_` and the base64 of 32 bytes from a secure source.

    Raises:
        ValueError: not exactly 32 bytes.
    """
    if len(random_32_bytes) != SECRET_BYTES:
        raise ValueError(f"a secret is made of {SECRET_BYTES} random bytes, not {len(random_32_bytes)}")
    return SECRET_PREFIX + base64.b64encode(random_32_bytes).decode()


def sign(secret: str, body: bytes, at: int) -> str:
    """Sign the raw body at a unix time (seconds): the value of `X-Service-Signature` (rule 6/2).

    Raises:
        TypeError: the time is no whole number: its fraction would be signed, and no verifier reads it.
    """
    _check_time(at)
    return f"t={at},v1={_v1(secret, body, b'%d' % at)}"


def _check_time(at: int) -> None:
    if type(at) is not int:
        raise TypeError(f"a signature's time is in whole seconds, not {at!r}: int(time.time())")


def _v1(secret: str, body: bytes, timestamp: bytes) -> str:
    return hmac.digest(secret.encode(), timestamp + b"." + body, "sha256").hex()


def verify(
    secrets: Iterable[str], body: bytes, header: str | None, now: int, tolerance_s: int = MAX_AGE_S
) -> None:
    """Check `X-Service-Signature` as a receiver must (rule 6/3); returns if it is valid.

    Args:
        secrets: any of them may have signed, so that a receiver can hold the old and the new one while
            a secret is rotated.
        body: the raw bytes as received, never parsed and written again.
        header: the header's value, or None where there was none. Several `v1` are allowed; parts of unknown
            versions are ignored.
        now: unix time in seconds.
        tolerance_s: how far the timestamp may lie from `now`, in the past or, for clocks that differ, in
            the future.

    Raises:
        MalformedSignature: the header is missing or cannot be read.
        TimestampRejected: the timestamp is out of tolerance.
        WrongSignature: nothing matches. The comparison takes the same time wherever they differ.
        TypeError: the secrets are one text instead of several.
    """
    if isinstance(secrets, str):
        raise TypeError("give the secrets as a list: [secret]")
    if header is None:
        raise MalformedSignature(f"there is no {SIGNATURE_HEADER} header")
    timestamp, candidates = _read_header(header)
    age_s = now - int(timestamp)
    if age_s > tolerance_s:
        raise TimestampRejected(f"the signature is {age_s} s old, more than {tolerance_s} s")
    if -age_s > tolerance_s:
        raise TimestampRejected(f"the signature is {-age_s} s in the future, more than {tolerance_s} s")
    matches = False
    for secret in secrets:
        # Signed over the timestamp as it was sent: a leading zero is part of what was signed.
        expected = _v1(secret, body, timestamp.encode())
        for candidate in candidates:
            matches |= hmac.compare_digest(expected, candidate)
    if not matches:
        raise WrongSignature("no v1 signature matches the body and the secret")


def _read_header(header: str) -> tuple[str, list[str]]:
    if len(header) > _MAX_HEADER_LENGTH:
        raise MalformedSignature(f"the header is longer than {_MAX_HEADER_LENGTH} characters")
    timestamps: list[str] = []
    candidates: list[str] = []
    for part in header.split(","):
        name, _, value = part.strip(" ").partition("=")
        if name == "t":
            timestamps.append(value)
        elif name == "v1":
            candidates.append(value)
    if len(timestamps) != 1 or not _TIMESTAMP.fullmatch(timestamps[0]):
        raise MalformedSignature("the header needs one t=<unix time>")
    if not 1 <= len(candidates) <= _MAX_SIGNATURES:
        raise MalformedSignature(f"the header needs 1 to {_MAX_SIGNATURES} v1=<hex>")
    if not all(map(_HEX_SHA256.fullmatch, candidates)):
        raise MalformedSignature("each v1 is 64 lower-case hexadecimal digits")
    return timestamps[0], candidates


def standard_webhooks_headers(
    secret: str, event_id: str, body: bytes, at: int, previous_secret: str | None = None
) -> dict[str, str]:
    """Sign as Standard Webhooks requires: id, timestamp (unix seconds) and signature headers.

    With two secrets the header holds two signatures, that of `secret` first: a receiver accepts any of them.

    Args:
        secret: `whsec_` and the base64 of its bytes.
        event_id: the message id, the same over all retries, so that a receiver can drop doubles.
        body: the raw bytes as they are sent.
        at: unix time in seconds of this attempt, not of the event.
        previous_secret: the one before a rotation, while receivers may still know only that.

    Raises:
        ValueError: a secret is not `whsec_` and base64.
        TypeError: see `sign`.
    """
    _check_time(at)
    signed = b"%b.%d.%b" % (event_id.encode(), at, body)
    secrets = (secret,) if previous_secret is None else (secret, previous_secret)
    return {
        "webhook-id": event_id,
        "webhook-timestamp": str(at),
        "webhook-signature": " ".join(_standard_v1(each, signed) for each in secrets),
    }


def _standard_v1(secret: str, signed: bytes) -> str:
    digest = hmac.digest(_decoded(secret), signed, "sha256")
    return "v1," + binascii.b2a_base64(digest, newline=False).decode()


def _decoded(secret: str) -> bytes:
    if not secret.startswith(SECRET_PREFIX):
        raise ValueError(f"a secret begins with {SECRET_PREFIX}")
    try:
        return binascii.a2b_base64(secret[len(SECRET_PREFIX) :], strict_mode=True)
    except (binascii.Error, ValueError):
        # Without the cause: its text may repeat part of the secret.
        raise ValueError(f"a secret is base64 after {SECRET_PREFIX}") from None


def signing_headers(
    secret: str, event_id: str, body: bytes, at: int, previous_secret: str | None = None
) -> dict[str, str]:
    """Give every header that signs one delivery (rule 5/9): ours and the Standard Webhooks trio.

    The arguments are those of `standard_webhooks_headers`. `X-Service-Signature` is made with `secret` alone
    (rule 4.3/3).

    Raises:
        ValueError: a secret is not `whsec_` and base64.
    """
    return {
        SIGNATURE_HEADER: sign(secret, body, at),
        **standard_webhooks_headers(secret, event_id, body, at, previous_secret),
    }
