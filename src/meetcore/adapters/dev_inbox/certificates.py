"""The self-signed certificate of the inbox, trusted by `meetcore dev` alone.

It is no authority, so its key cannot certify other names, and `.test` is reserved (RFC 6761).
"""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID

INBOX_HOST: Final = "inbox.meetcore.test"

_VALIDITY: Final = timedelta(days=90)
_RENEWAL_MARGIN: Final = timedelta(days=1)
# Tolerate a clock that is set back.
_BACKDATED: Final = timedelta(hours=1)


def make_dev_certificate(directory: Path, now: datetime | None = None) -> tuple[Path, Path]:
    """Return the PEM files of certificate and key for `INBOX_HOST`, readable by their owner only.

    A new pair for 90 days is made if a file is missing or unreadable, they do not match, or less than a day
    is left.
    """
    now = datetime.now(UTC) if now is None else now
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    files = directory / "inbox-cert.pem", directory / "inbox-key.pem"
    if not _are_good(*files, now):
        for file, content in zip(files, _made(now), strict=True):
            _write(file, content)
    for file in files:
        file.chmod(0o600)
    return files


def _are_good(cert_file: Path, key_file: Path, now: datetime) -> bool:
    """Return whether both exist, match, name the inbox and last another day."""
    try:
        cert = x509.load_pem_x509_certificate(cert_file.read_bytes())
        key = load_pem_private_key(key_file.read_bytes(), password=None)
        names = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, TypeError, x509.ExtensionNotFound):
        return False
    lasts = cert.not_valid_before_utc <= now < cert.not_valid_after_utc - _RENEWAL_MARGIN
    is_ours = INBOX_HOST in names.get_values_for_type(x509.DNSName)
    return lasts and is_ours and key.public_key() == cert.public_key()


def _made(now: datetime) -> tuple[bytes, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, INBOX_HOST)])
    cert = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + _VALIDITY)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(INBOX_HOST)]), critical=False)
        .sign(key, SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return cert.public_bytes(Encoding.PEM), private


def _write(file: Path, content: bytes) -> None:
    """Write a file atomically, private from the start."""
    fresh = file.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as out:
        out.write(content)
    fresh.replace(file)
