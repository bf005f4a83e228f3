"""Certificates for the inbox: an authority of its own and one leaf, made on this machine.

The authority signs one leaf and its key is then discarded: the files on the disk can certify no other name.
Both are made anew together. The name is under `.test`, which no public authority and no public name server
knows (RFC 6761), and the authority is confined to it.
"""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from attrs import frozen
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

INBOX_HOST: Final = "inbox.meetcore.test"

_VALIDITY = timedelta(days=90)
_RENEWAL_MARGIN = timedelta(days=1)
# A clock that was just set back must not make a fresh certificate one of the future.
_BACKDATED = timedelta(hours=1)


@frozen
class _Files:
    ca: Path
    cert: Path
    key: Path

    def are_good(self, now: datetime) -> bool:
        """Whether all three are there, belong together, name the inbox and last another day."""
        try:
            ca = x509.load_pem_x509_certificate(self.ca.read_bytes())
            leaf = x509.load_pem_x509_certificate(self.cert.read_bytes())
            key = serialization.load_pem_private_key(self.key.read_bytes(), password=None)
            leaf.verify_directly_issued_by(ca)
            names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except (
            OSError,
            ValueError,
            TypeError,
            InvalidSignature,
            UnsupportedAlgorithm,
            x509.ExtensionNotFound,
        ):
            return False
        return (
            key.public_key() == leaf.public_key()
            and INBOX_HOST in names.get_values_for_type(x509.DNSName)
            and all(cert.not_valid_before_utc <= now for cert in (ca, leaf))
            and all(cert.not_valid_after_utc - now > _RENEWAL_MARGIN for cert in (ca, leaf))
        )


def make_dev_ca(directory: Path, now: datetime | None = None) -> tuple[Path, Path, Path]:
    """Give certificates for `INBOX_HOST`: those in the directory, or new ones for 90 days.

    New ones are made when a file is missing or unreadable, when they do not belong together, and when
    one has a day or less to live. The files are readable by their owner only.

    Args:
        directory: made, for its owner only, when it is not there.
        now: aware; the system's clock when left out.

    Returns:
        Three PEM files: the authority to trust, the leaf, the leaf's key.
    """
    now = datetime.now(UTC) if now is None else now
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    files = _Files(directory / "inbox-ca.pem", directory / "inbox-cert.pem", directory / "inbox-key.pem")
    if not files.are_good(now):
        _make(files, now)
    for file in (files.ca, files.cert, files.key):
        file.chmod(0o600)
    return files.ca, files.cert, files.key


def _make(files: _Files, now: datetime) -> None:
    ca_key, leaf_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca = _make_ca(ca_key, now)
    leaf = _make_leaf(leaf_key, ca, ca_key, now)
    pem = serialization.Encoding.PEM
    private = leaf_key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )  # fmt: skip
    _write(files.key, private)
    _write(files.cert, leaf.public_bytes(pem))
    _write(files.ca, ca.public_bytes(pem))


def _make_ca(key: ec.EllipticCurvePrivateKey, now: datetime) -> x509.Certificate:
    name = _name("meetcore dev, this machine only")
    only_inbox = x509.NameConstraints(permitted_subtrees=[x509.DNSName(INBOX_HOST)], excluded_subtrees=None)
    usage = _usage(key_cert_sign=True, crl_sign=True)
    return (
        _begin(name, name, key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(only_inbox, critical=True)
        .sign(key, SHA256())
    )


def _make_leaf(
    key: ec.EllipticCurvePrivateKey, ca: x509.Certificate, ca_key: ec.EllipticCurvePrivateKey, now: datetime
) -> x509.Certificate:
    authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    return (
        _begin(_name(INBOX_HOST), ca.subject, key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(INBOX_HOST)]), critical=False)
        .add_extension(authority, critical=False)
        .sign(ca_key, SHA256())
    )


def _begin(
    subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey, now: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + _VALIDITY)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _usage(
    *, digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False
) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _write(file: Path, content: bytes) -> None:
    """Write a file atomically, never readable by others."""
    fresh = file.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as out:
        out.write(content)
    fresh.replace(file)
