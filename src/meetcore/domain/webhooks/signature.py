"""Signatures of webhook deliveries (spec 6), the signing side and a verifier for receivers.

Two schemes travel together: `X-Service-Signature` of the spec, keyed with the UTF-8 bytes of the whole
secret, and the Standard Webhooks trio, keyed with the 32 bytes that the secret encodes. Both cover the raw
body as it is sent.
"""

import base64
import binascii
import hmac
import math
import re
from collections.abc import Iterable

__all__ = [
    "MAX_AGE_S", "SECRET_BYTES", "SECRET_PREFIX", "SIGNATURE_HEADER", "MalformedSignature",
    "SignatureRejected", "TimestampRejected", "WrongSignature", "new_secret", "sign", "signing_headers",
    "standard_webhooks_headers", "verify",
]  # fmt: skip

SIGNATURE_HEADER = "X-Service-Signature"
SECRET_PREFIX = "whsec_"  # noqa: S105 - what every secret begins with, not a secret
SECRET_BYTES = 32
MAX_AGE_S = 300
"""Seconds; rule 6/3 rejects what is older than 5 minutes."""

# Bounds on the work an untrusted header may cause. A sender signs with at most a few secrets at once.
_MAX_HEADER_LENGTH = 2048
_MAX_SIGNATURES = 16
_TIMESTAMP = re.compile(r"[0-9]{1,12}")
_END_OF_TIME = 10**12
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
    """Form the secret of an endpoint: `whsec_` and the base64 of exactly 32 bytes from a secure source."""
    if len(random_32_bytes) != SECRET_BYTES:
        raise ValueError(f"a secret is made of {SECRET_BYTES} random bytes, not {len(random_32_bytes)}")
    return SECRET_PREFIX + base64.b64encode(random_32_bytes).decode()


def sign(secret: str, body: bytes, at: int) -> str:
    """Sign the raw body at a unix time (whole seconds): the value of `X-Service-Signature` (rule 6/2)."""
    _check_time(at)
    return f"t={at},v1={_v1(secret, body, b'%d' % at)}"


def _check_time(at: int) -> None:
    if type(at) is not int:
        raise TypeError(f"a signature's time is in whole seconds, not {at!r}: int(time.time())")
    if not 0 <= at < _END_OF_TIME:
        raise ValueError(f"a signature's time is from 0 to {_END_OF_TIME - 1}: no verifier reads {at!r:.40}")


def _v1(secret: str, body: bytes, timestamp: bytes) -> str:
    if not isinstance(secret, str):
        raise TypeError("a secret is a text")
    if not secret.removeprefix(SECRET_PREFIX).strip():
        raise ValueError("a secret is not empty: anybody could sign")
    return hmac.digest(secret.encode(), timestamp + b"." + body, "sha256").hex()


def verify(
    secrets: Iterable[str], body: bytes, header: str | None, now: int, tolerance_s: int = MAX_AGE_S
) -> None:
    """Check `X-Service-Signature` as a receiver must (rule 6/3); returns if it is valid.

    Any of the secrets may have signed, so that a receiver can hold the old and the new one during a rotation.
    `body` are the raw bytes as received, never parsed and written again. The header, `None` without one, may
    have several `v1`; unknown versions are ignored. `now` is unix time in seconds, from which the timestamp
    may lie `tolerance_s` away, in the past or the future.

    Raises:
        MalformedSignature: the header is missing or cannot be read.
        TimestampRejected: the timestamp is out of tolerance.
        WrongSignature: nothing matches. The comparison takes constant time.
        TypeError: the secrets are one text instead of several, or one of them is no text.
        ValueError: a secret is empty, or a number is not finite.
    """
    if isinstance(secrets, str):
        raise TypeError("give the secrets as a list: [secret]")
    if not math.isfinite(now) or not math.isfinite(tolerance_s):
        raise ValueError("the time and the tolerance are finite numbers of seconds")
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

    `event_id` is the same over all retries, so that a receiver can drop duplicates; `at` is this attempt's.
    With a `previous_secret`, during a rotation, the header holds two signatures, that of `secret` first: a
    receiver accepts any of them. Raises `ValueError` where a secret is not `whsec_` and base64.
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
        decoded = binascii.a2b_base64(secret[len(SECRET_PREFIX) :], strict_mode=True)
    except (binascii.Error, ValueError):
        # Without the cause: its text may repeat part of the secret.
        raise ValueError(f"a secret is base64 after {SECRET_PREFIX}") from None
    if not decoded:
        raise ValueError("a secret is not empty: anybody could sign")
    return decoded


def signing_headers(
    secret: str, event_id: str, body: bytes, at: int, previous_secret: str | None = None
) -> dict[str, str]:
    """Return every header that signs one delivery (rule 5/9): ours and the Standard Webhooks trio.

    Errors are those of the latter. `X-Service-Signature` is made with `secret` alone (rule 4.3/3).
    """
    return {
        SIGNATURE_HEADER: sign(secret, body, at),
        **standard_webhooks_headers(secret, event_id, body, at, previous_secret),
    }
