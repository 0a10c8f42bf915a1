"""TLS: an authority of the vault owner's own, its certificate for this daemon, and the port.

A phone trusts the authority for this machine's names and addresses of private networks alone: its
certificate says so, and browsers hold it to that.
"""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from pathlib import Path
from socket import socket

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from parachuted.errors import DaemonError
from parachuted.home_files.private import replace_private
from parachuted.processes.addresses import listening_sockets, own_address

log = logging.getLogger(__name__)

_LOCALHOST = "localhost"
_PRIVATE = [
    ip_network(network)
    for network in (
        *("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"),  # RFC 1918
        *("127.0.0.0/8", "::1/128"),  # this machine
        *("169.254.0.0/16", "100.64.0.0/10"),  # link-local, carriers' and VPNs'
        *("fc00::/7", "fe80::/10"),
    )
]
# Not a number at the end, so that it cannot be read as an address.
_HOST_NAME = re.compile(
    r"(?=.{1,253}\Z)(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)*(?![0-9]+\Z)"
    r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
)
_AUTHORITY_LIVES = timedelta(days=5 * 365)
_LEAF_LIVES = timedelta(days=30)
_RENEW_BEFORE = timedelta(days=10)
_CLOCKS_DIFFER = timedelta(hours=1)
_LOOK_EVERY_S = 3600.0
_NEW = "`parachute tls --new` makes another"
_OTHER_USAGES = (
    "digital_signature content_commitment key_encipherment data_encipherment "
    "key_agreement crl_sign encipher_only decipher_only"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorityInfo:
    """`fingerprint`: the SHA-256 as phones show it; `names`: host names that it may certify."""

    fingerprint: str
    names: tuple[str, ...]
    ends: datetime


class CertificateAuthority:
    """The authority in the home's folder `tls`. Calls read and write it, and raise DaemonError."""

    def __init__(self, home: Path) -> None:
        self._folder = home / "tls"
        self.certificate = self._folder / "authority.crt"
        self._key = self._folder / "authority.key"
        self._leaf = self._folder / "daemon.pem"  # with its key, so that both are replaced at once

    def pem(self) -> bytes:
        return self._load().public_bytes(serialization.Encoding.PEM)

    def exists(self) -> bool:
        return self.certificate.exists() and self._key.exists()

    def make(self, names: Sequence[str], now: datetime) -> AuthorityInfo:
        """Make a new authority; what trusts an earlier one does not trust it.

        An invalid name is refused: an empty one would stand for all names.
        """
        names = [host_name(name) for name in names]
        key = ec.generate_private_key(ec.SECP256R1())
        title = _title(f"Parachute of {(*names, 'this vault')[0]}"[:64])
        usage = dict.fromkeys(_OTHER_USAGES.split(), False)
        permitted: list[x509.GeneralName] = [x509.DNSName(name) for name in (_LOCALHOST, *names)]
        permitted += [x509.IPAddress(network) for network in _PRIVATE]
        made = (
            _builder(title, title, key, now, _AUTHORITY_LIVES)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(x509.KeyUsage(key_cert_sign=True, **usage), critical=True)
            .add_extension(x509.NameConstraints(permitted, None), critical=True)
            .sign(key, hashes.SHA256())
        )
        self._write(self._key, _key_pem(key))
        self._write(self.certificate, made.public_bytes(serialization.Encoding.PEM))
        self._leaf.unlink(missing_ok=True)
        return self.info()

    def info(self) -> AuthorityInfo:
        own = self._load()
        try:
            permitted = own.extensions.get_extension_for_class(x509.NameConstraints).value
        except x509.ExtensionNotFound as error:
            raise DaemonError(
                f"{self.certificate.name} is not an authority of parachuted's; {_NEW}"
            ) from error
        names = [
            name.value
            for name in permitted.permitted_subtrees or ()
            if isinstance(name, x509.DNSName) and name.value != _LOCALHOST
        ]
        return AuthorityInfo(
            fingerprint=own.fingerprint(hashes.SHA256()).hex(":").upper(),
            names=tuple(names),
            ends=own.not_valid_after_utc,
        )

    def renew(self, addresses: Sequence[str], now: datetime) -> bool:
        """Replace the certificate if it is missing, ends soon, or lacks a name or an address.

        Returns whether it was replaced.
        """
        own = self._load()
        usable = [ip_address(address) for address in ("127.0.0.1", "::1", *addresses)]
        names = x509.SubjectAlternativeName(  # another one would make it good for nothing
            [
                *(x509.DNSName(name) for name in (_LOCALHOST, *self.info().names)),
                *(
                    x509.IPAddress(address)
                    for address in dict.fromkeys(usable)
                    if _is_private(address)
                ),
            ]
        )
        if self._is_good(own, names, now):
            return False
        key = ec.generate_private_key(ec.SECP256R1())
        # Strict clients (Python from 3.13 on) want to know which key signed: RFC 5280, 4.2.1.1.
        own_id = own.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        signer = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own_id)
        made = (
            _builder(_title("parachuted"), own.subject, key, now, _LEAF_LIVES)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(names, critical=False)
            .add_extension(signer, critical=False)
            .sign(self._signing_key(own), hashes.SHA256())
        )
        # The authority comes with it: a browser that warns can show what there is to trust.
        pem = made.public_bytes(serialization.Encoding.PEM)
        self._write(self._leaf, _key_pem(key) + pem + self.pem())
        return True

    def load_into(self, context: ssl.SSLContext) -> ssl.SSLContext:
        """Connections from now on get the present certificate."""
        try:
            context.load_cert_chain(self._leaf)
        except (OSError, ssl.SSLError) as error:
            raise DaemonError(f"the daemon's certificate cannot be used: {error}") from error
        return context

    def _is_good(
        self, own: x509.Certificate, names: x509.SubjectAlternativeName, now: datetime
    ) -> bool:
        try:
            leaf = x509.load_pem_x509_certificate(self._leaf.read_bytes())
            has = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
            leaf.verify_directly_issued_by(own)
        except (OSError, x509.ExtensionNotFound, InvalidSignature, ValueError, TypeError):
            return False
        return set(names) <= set(has) and leaf.not_valid_after_utc - _RENEW_BEFORE > now

    def _signing_key(self, own: x509.Certificate) -> ec.EllipticCurvePrivateKey:
        try:
            key = serialization.load_pem_private_key(self._key.read_bytes(), None)
        except (OSError, ValueError) as error:
            raise DaemonError(f"the authority's key cannot be read: {error}") from error
        is_own = key.public_key() == own.public_key()  # else a kill came between the two files
        if not is_own or not isinstance(key, ec.EllipticCurvePrivateKey):
            raise DaemonError(f"{self._key.name} is not that of the authority; {_NEW}")
        return key

    def _load(self) -> x509.Certificate:
        try:
            return x509.load_pem_x509_certificate(self.certificate.read_bytes())
        except (OSError, ValueError) as error:
            raise DaemonError(f"{self.certificate.name} cannot be read: {error}") from error

    def _write(self, path: Path, data: bytes) -> None:
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_private(path, data)
        except OSError as error:
            raise DaemonError(f"{path.name} cannot be written: {error.strerror}") from error


class TlsListener:
    """Opens the port of TLS, and renews its certificate.

    `report` takes what prevents that, or None; the daemon goes on without.
    """

    def __init__(
        self, home: Path, report: Callable[[str, str | None], None], clock: Callable[[], datetime]
    ) -> None:
        self._authority = CertificateAuthority(home)
        self._report, self._clock = report, clock
        self._context: ssl.SSLContext | None = None

    async def open(
        self,
        host: str,
        port: int,
        serve_at: Callable[[Sequence[socket], ssl.SSLContext], Awaitable[None]],
    ) -> int:
        """The port, or 0."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            await asyncio.to_thread(self._renew)
            self._context = self._authority.load_into(context)
            sockets = listening_sockets(host, port)
        except DaemonError as error:
            self._report("tls", f"nothing is served encrypted: {error.message}")
            return 0
        await serve_at(sockets, context)
        return int(sockets[0].getsockname()[1])

    async def run(self) -> None:
        """Look once an hour, until cancelled."""
        while self._context is not None:
            await asyncio.sleep(_LOOK_EVERY_S)
            await self.look()

    async def look(self) -> None:
        """Renew the certificate when it ends soon, or this machine's address changed."""
        try:
            if await asyncio.to_thread(self._renew) and self._context is not None:
                self._authority.load_into(self._context)
                log.info("the certificate was renewed")
        except DaemonError as error:
            self._report("tls", f"the certificate was not renewed: {error.message}")
        else:
            self._report("tls", None)

    def _renew(self) -> bool:
        address = own_address()
        return self._authority.renew([address] if address else [], self._clock())


def host_name(name: str) -> str:
    """As certificates spell it. Raises DaemonError."""
    spelled = name.strip().lower().removesuffix(".")
    if _HOST_NAME.fullmatch(spelled) is None:
        raise DaemonError(f"{name[:80]!r} is not a host name such as notes.local")
    return spelled


def _is_private(address: IPv4Address | IPv6Address) -> bool:
    return any(address in network for network in _PRIVATE if network.version == address.version)


def _title(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(pem, pkcs8, serialization.NoEncryption())


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    now: datetime,
    lives: timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now.astimezone(UTC) - _CLOCKS_DIFFER)
        .not_valid_after(now.astimezone(UTC) + lives)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
