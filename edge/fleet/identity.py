"""The identity of a box: the fleet's own certificate authority, a key and a certificate for each box, contexts of TLS.

A certificate names its box (common name and DNS name), so a box is known by its key and not by its address. Names and
times of a certificate request are not used: the authority takes only its public key. Certificates begin a day before
they are made: clocks of two boxes may differ. Files are PEM; keys are readable by the appliance's account only.
"""

from __future__ import annotations

import datetime
import hashlib
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from edge.core.errors import InvalidValue, StoreError
from edge.core.fleet_links import RefusedBy
from edge.fleet.folder import FleetFolder

_EARLY: Final = datetime.timedelta(days=1)
#: A box joins again before its certificate ends; the authority outlives them all.
_BOX_DAYS, _AUTHORITY_DAYS = 1825, 7300


@dataclass(frozen=True)
class Authority:
    """The fleet's certificate authority: its certificate and its key (PEM)."""

    certificate: str
    key: str

    def sign(self, request: str, box: str) -> tuple[str, str]:
        """The certificate (PEM) for the key of a certificate request, in the name of `box`, and its serial number in
        hexadecimal. Raises InvalidValue for a text that is no request, or not signed by its own key."""
        try:
            asked = x509.load_pem_x509_csr(request.encode())
            valid = asked.is_signature_valid
        except (ValueError, TypeError, InvalidSignature):
            valid = False
        if not valid:
            raise InvalidValue("request", request[:40], "a certificate request in PEM form, signed by its own key")
        public = asked.public_key()
        if not isinstance(public, ec.EllipticCurvePublicKey):
            raise InvalidValue("request", type(public).__name__, "an elliptic-curve key")
        authority = x509.load_pem_x509_certificate(self.certificate.encode())
        made = (
            _builder(_name(box), authority.subject, public, _BOX_DAYS)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(box)]), critical=False)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
                critical=False,
            )
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(_authority_id(authority), critical=False)
            .sign(_private(self.key), hashes.SHA256())
        )
        return _pem(made), f"{made.serial_number:x}"


def authority_of(folder: FleetFolder) -> Authority | None:
    """The authority whose key is in a box's folder; None where the box may not decide. Raises StoreError."""
    if not folder.decides:
        return None
    return Authority(folder.read_text("ca.pem"), folder.read_text("ca.key"))


def new_authority(fleet: str) -> Authority:
    """A new authority for a fleet of this name."""
    key = ec.generate_private_key(ec.SECP256R1())
    made = (
        _builder(_name(f"fleet {fleet}"), _name(f"fleet {fleet}"), key.public_key(), _AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return Authority(_pem(made), _key_pem(key))


def new_key() -> str:
    """A box's private key (PEM)."""
    return _key_pem(ec.generate_private_key(ec.SECP256R1()))


def request_for(key: str, box: str) -> str:
    """A certificate request (PEM) for a box's key."""
    asked = x509.CertificateSigningRequestBuilder().subject_name(_name(box)).sign(_private(key), hashes.SHA256())
    return asked.public_bytes(serialization.Encoding.PEM).decode()


def fingerprint(certificate: str) -> str:
    """The SHA-256 of a certificate in hexadecimal. Raises InvalidValue for a text that is no certificate."""
    try:
        found = x509.load_pem_x509_certificate(certificate.encode())
    except ValueError:
        raise InvalidValue("certificate", certificate[:40], "a certificate in PEM form") from None
    return hashlib.sha256(found.public_bytes(serialization.Encoding.DER)).hexdigest()


def server_context(folder: Path, refused: Callable[[RefusedBy], None]) -> ssl.SSLContext:
    """Of the agent's server. A client may come without a certificate (to join); one of another authority is refused,
    and `refused` gets the reason. Raises StoreError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    _load(context, folder)
    context.verify_mode = ssl.CERT_OPTIONAL
    context.num_tickets = 0  # every connection shows its certificate

    class CountedHandshake(ssl.SSLObject):
        """A connection that reports its failed handshake to `refused`."""

        def do_handshake(self) -> None:
            """Raises ssl.SSLError, as always."""
            try:
                super().do_handshake()
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                raise
            except ssl.SSLCertVerificationError:
                refused("stranger")
                raise
            except ssl.SSLError:
                refused("no_tls")
                raise

    context.sslobject_class = CountedHandshake
    return context


def client_context(folder: Path) -> ssl.SSLContext:
    """Of a box that connects to others: it shows its certificate, and checks theirs and the name in it. Raises
    StoreError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    _load(context, folder)
    return context


def _load(context: ssl.SSLContext, folder: Path) -> None:
    try:
        context.load_cert_chain(folder / "box.pem", folder / "box.key")
        context.load_verify_locations(folder / "ca.pem")
    except OSError as error:  # ssl.SSLError is one, too
        words = f"{folder}: this box's key and certificates cannot be read: {error.strerror or error}"
        raise StoreError(words, "use the appliance's account; damaged ones: magpie fleet leave --force") from None


def joining_context(authority: str | None) -> ssl.SSLContext:
    """Of a box that has no certificate yet. `authority` None: it reads the authority's certificate only, which the join
    code's fingerprint proves; else it talks to boxes of that authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    if authority is None:
        context.verify_mode = ssl.CERT_NONE
    else:
        context.load_verify_locations(cadata=authority)
    return context


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLY)
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _authority_id(authority: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    known = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(known)


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=signs, crl_sign=signs, encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _private(key: str) -> ec.EllipticCurvePrivateKey:
    loaded: Any = serialization.load_pem_private_key(key.encode(), None)
    if not isinstance(loaded, ec.EllipticCurvePrivateKey):
        raise InvalidValue("key", type(loaded).__name__, "an elliptic-curve key")
    return loaded


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
