"""Certificates: an authority of the vault owner's own, and what it certifies for this daemon.

A phone that trusts the authority trusts it for this machine's names and for addresses of private
networks alone: the authority's own certificate says so, and browsers hold it to that.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from parachuted.errors import DaemonError
from parachuted.private import replace_private

FOLDER = "tls"
_LOCALHOST = "localhost"
_PRIVATE = (
    *("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"),  # RFC 1918
    *(
        "127.0.0.0/8",
        "169.254.0.0/16",
        "100.64.0.0/10",
    ),  # this machine, link-local, carriers' and VPNs'
    *("::1/128", "fc00::/7", "fe80::/10"),
)
# Not a number at the end, so that it cannot be read as an address.
_HOST_NAME = re.compile(
    r"(?=.{1,253}\Z)(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)*(?![0-9]+\Z)"
    r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
)
_AUTHORITY_LIVES = timedelta(days=5 * 365)
_LEAF_LIVES = timedelta(days=30)
_RENEW_BEFORE = timedelta(days=10)
_CLOCKS_DIFFER = timedelta(hours=1)


class CertificateError(DaemonError):
    """The authority's files cannot be used; `parachute tls --new` makes others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorityInfo:
    """What an authority is good for. `fingerprint`: the SHA-256 of its certificate, as phones show
    it; `names`: the host names beside `localhost` that it may certify.
    """

    fingerprint: str
    names: tuple[str, ...]
    ends: datetime


class CertificateAuthority:
    """The authority of one home, in its folder `tls`, for its owner alone.

    Calls read and write the disk, a few milliseconds at most.
    """

    def __init__(self, home: Path) -> None:
        self._folder = home / FOLDER
        self.certificate = self._folder / "authority.crt"
        self._key = self._folder / "authority.key"
        self._leaf = self._folder / "daemon.crt"
        self._leaf_key = self._folder / "daemon.key"

    def pem(self) -> bytes:
        """The authority's certificate. Raises CertificateError."""
        return self._load(self.certificate).public_bytes(serialization.Encoding.PEM)

    def exists(self) -> bool:
        return self.certificate.exists() and self._key.exists()

    def make(self, names: Sequence[str], now: datetime) -> AuthorityInfo:
        """Make a new authority for these host names; what trusts an earlier one does not trust it.

        Raises CertificateError where the disk refuses, and for what is not a host name: an empty
        one would stand for all names.
        """
        names = [host_name(one) for one in names]
        key = ec.generate_private_key(ec.SECP256R1())
        title = x509.Name(
            [
                x509.NameAttribute(
                    NameOID.COMMON_NAME, f"Parachute of {(*names, 'this vault')[0]}"[:64]
                )
            ]
        )
        made = (
            _builder(title, title, key.public_key(), now, _AUTHORITY_LIVES)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .add_extension(_constraints(names), critical=True)
            .sign(key, hashes.SHA256())
        )
        self._write(self._key, _private(key))
        self._write(self.certificate, made.public_bytes(serialization.Encoding.PEM))
        self._leaf.unlink(missing_ok=True)
        return self.info()

    def info(self) -> AuthorityInfo:
        """Raises CertificateError."""
        own = self._load(self.certificate)
        try:
            permitted = own.extensions.get_extension_for_class(x509.NameConstraints).value
        except x509.ExtensionNotFound as error:
            raise CertificateError(
                f"{self.certificate.name} is not an authority that parachuted made; `parachute tls "
                "--new` makes one"
            ) from error
        names = [
            one.value for one in permitted.permitted_subtrees or () if isinstance(one, x509.DNSName)
        ]
        return AuthorityInfo(
            fingerprint=own.fingerprint(hashes.SHA256()).hex(":").upper(),
            names=tuple(name for name in names if name != _LOCALHOST),
            ends=own.not_valid_after_utc,
        )

    def renew(self, addresses: Sequence[str], now: datetime) -> bool:
        """Give the daemon another certificate if it has none, or one that ends soon, or one that
        lacks a name or an address that it is reached at; whether that was done.

        Raises CertificateError.
        """
        own = self._load(self.certificate)
        wanted = self._alternatives(addresses)
        if self._is_good(wanted, now):
            return False
        key = ec.generate_private_key(ec.SECP256R1())
        title = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "parachuted")])
        made = (
            _builder(title, own.subject, key.public_key(), now, _LEAF_LIVES)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(wanted, critical=False)
            .add_extension(_key_identifier(own), critical=False)
            .sign(self._signing_key(own), hashes.SHA256())
        )
        self._write(self._leaf_key, _private(key))
        # The authority comes with it: a browser that warns can show what there is to trust.
        self._write(self._leaf, made.public_bytes(serialization.Encoding.PEM) + self.pem())
        return True

    def context(self) -> ssl.SSLContext:
        """What a server listens with. Raises CertificateError."""
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.minimum_version = ssl.TLSVersion.TLSv1_2
        self.load_into(made)
        return made

    def load_into(self, context: ssl.SSLContext) -> None:
        """Connections from now on get the certificate that is there now. Raises
        CertificateError.
        """
        try:
            context.load_cert_chain(self._leaf, self._leaf_key)
        except (OSError, ssl.SSLError) as error:
            raise CertificateError(f"the daemon's certificate cannot be used: {error}") from error

    def _is_good(self, wanted: x509.SubjectAlternativeName, now: datetime) -> bool:
        if not (self._leaf.exists() and self._leaf_key.exists()):
            return False
        try:
            leaf = self._load(self._leaf)
            has = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
            leaf.verify_directly_issued_by(self._load(self.certificate))
            self.context()  # the key is that of the certificate
        except (CertificateError, x509.ExtensionNotFound, InvalidSignature, ValueError, TypeError):
            return False
        return (
            set(wanted) <= set(has)
            and leaf.not_valid_after_utc - _RENEW_BEFORE > now
            and any(isinstance(one.value, x509.AuthorityKeyIdentifier) for one in leaf.extensions)
        )

    def _alternatives(self, addresses: Sequence[str]) -> x509.SubjectAlternativeName:
        """All that the authority may certify of these; others would make it good for nothing."""
        own = [ip_address(one) for one in ("127.0.0.1", "::1", *addresses)]
        return x509.SubjectAlternativeName(
            [
                *(x509.DNSName(name) for name in (_LOCALHOST, *self.info().names)),
                *(x509.IPAddress(one) for one in dict.fromkeys(own) if is_private(one)),
            ]
        )

    def _signing_key(self, own: x509.Certificate) -> ec.EllipticCurvePrivateKey:
        try:
            key = serialization.load_pem_private_key(self._key.read_bytes(), None)
        except (OSError, ValueError) as error:
            raise CertificateError(f"the authority's key cannot be read: {error}") from error
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise CertificateError("the authority's key is of another kind")
        if key.public_key() != own.public_key():  # a kill between its two files
            raise CertificateError(
                f"{self._key.name} is not the key of {self.certificate.name}; `parachute tls "
                "--new` makes another authority"
            )
        return key

    def _load(self, path: Path) -> x509.Certificate:
        try:
            return x509.load_pem_x509_certificate(path.read_bytes())
        except (OSError, ValueError) as error:
            raise CertificateError(f"{path.name} cannot be read: {error}") from error

    def _write(self, path: Path, data: bytes) -> None:
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_private(path, data)
        except OSError as error:
            raise CertificateError(f"{path.name} cannot be written: {error.strerror}") from error


def host_name(name: str) -> str:
    """As certificates spell it. Raises CertificateError for what is none."""
    spelled = name.strip().lower().removesuffix(".")
    if _HOST_NAME.fullmatch(spelled) is None:
        raise CertificateError(
            f"{name[:80]!r} is not a host name such as notes.local; addresses of private networks "
            "need none, and a name in other letters is spelled as xn--..."
        )
    return spelled


def is_private(address: IPv4Address | IPv6Address) -> bool:
    """Whether an authority may certify that address."""
    return any(address in network for network in _networks() if network.version == address.version)


def _networks() -> list[IPv4Network | IPv6Network]:
    return [ip_network(one) for one in _PRIVATE]


def _constraints(names: Sequence[str]) -> x509.NameConstraints:
    permitted: list[x509.GeneralName] = [x509.DNSName(one) for one in (_LOCALHOST, *names)]
    permitted += [x509.IPAddress(one) for one in _networks()]
    return x509.NameConstraints(permitted_subtrees=permitted, excluded_subtrees=None)


def _key_identifier(authority: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    """Which key signed, without which strict clients (Python from 3.13 on) refuse a certificate
    (RFC 5280, section 4.2.1.1).
    """
    own = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: datetime,
    lives: timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now.astimezone(UTC) - _CLOCKS_DIFFER)
        .not_valid_after(now.astimezone(UTC) + lives)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
