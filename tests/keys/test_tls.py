"""The authority of the vault's owner: good for this machine alone, renewed, and kept private."""

from __future__ import annotations

import asyncio
import socket
import ssl
import stat
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from parachuted.api import HttpServer
from parachuted.errors import DaemonError
from parachuted.keys.tls import CertificateAuthority, TlsListener

NOW = datetime.now(UTC)


@pytest.fixture
def authority(tmp_path: Path) -> CertificateAuthority:
    made = CertificateAuthority(tmp_path)
    made.make(["notes.local"], NOW)
    made.renew(["192.168.7.4"], NOW)
    return made


def serving(authority: CertificateAuthority) -> ssl.SSLContext:
    return authority.load_into(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))


def greeted(context: ssl.SSLContext, authority: CertificateAuthority, name: str) -> dict:
    """The certificate that a device which trusts the authority is shown under that name."""
    trusting = ssl.create_default_context(cafile=str(authority.certificate))
    trusting.verify_flags |= ssl.VERIFY_X509_STRICT  # as Python does it from 3.13 on
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(20)
        theirs.settimeout(20)
        answering = threading.Thread(target=answer, args=(context, theirs))
        answering.start()
        try:
            with trusting.wrap_socket(ours, server_hostname=name) as tls:
                return tls.getpeercert()
        finally:
            ours.close()
            answering.join()


def answer(context: ssl.SSLContext, theirs: socket.socket) -> None:
    try:
        context.wrap_socket(theirs, server_side=True).close()
    except (ssl.SSLError, OSError):
        theirs.close()  # the device hung up


@pytest.mark.parametrize("name", ["localhost", "notes.local", "192.168.7.4", "127.0.0.1"])
def test_a_device_that_trusts_it_reaches_this_machine_by_each_of_its_names(authority, name):
    assert greeted(serving(authority), authority, name)["notAfter"]


def test_a_certificate_that_its_key_signed_for_another_host_is_refused(authority, tmp_path):
    signing = load_pem_private_key((tmp_path / "tls/authority.key").read_bytes(), None)
    own = x509.load_pem_x509_certificate(authority.pem())
    key_id = own.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    key = ec.generate_private_key(ec.SECP256R1())
    stolen = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([]))
        .issuer_name(own.subject)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(NOW - timedelta(hours=1))
        .not_valid_after(NOW + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("bank.example")]), critical=True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(key_id), critical=False
        )
        .sign(signing, hashes.SHA256())
    )
    (tmp_path / "bank.pem").write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        + stolen.public_bytes(Encoding.PEM)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "bank.pem")

    with pytest.raises(ssl.SSLCertVerificationError, match="permitted subtree violation"):
        greeted(context, authority, "bank.example")


def test_the_certificate_is_renewed_before_its_end_or_at_a_new_address(tmp_path):
    authority, begun = CertificateAuthority(tmp_path), NOW - timedelta(days=21)
    authority.make([], begun)
    authority.renew(["192.168.7.4"], begun)
    first = greeted(serving(authority), authority, "localhost")
    lives = ssl.cert_time_to_seconds(first["notAfter"]) - begun.timestamp()

    assert lives <= timedelta(days=30).total_seconds()
    assert not authority.renew(["192.168.7.4"], NOW - timedelta(days=2))
    assert authority.renew(["192.168.7.4"], NOW)
    assert authority.renew(["10.1.2.3"], NOW)
    again = greeted(serving(authority), authority, "10.1.2.3")
    assert again["serialNumber"] != first["serialNumber"]


def test_an_address_that_is_not_private_is_not_certified(authority):
    authority.renew(["203.0.113.9"], NOW)
    names = {
        name
        for _kind, name in greeted(serving(authority), authority, "localhost")["subjectAltName"]
    }

    assert "203.0.113.9" not in names
    assert "127.0.0.1" in names


def test_its_files_are_for_the_owner_alone_and_one_that_is_broken_is_named(authority, tmp_path):
    folder = tmp_path / "tls"
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert modes == dict.fromkeys(("authority.crt", "authority.key", "daemon.pem"), 0o600)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert authority.info().names == ("notes.local",)
    (folder / "authority.crt").write_text("nothing")
    with pytest.raises(DaemonError, match=r"authority\.crt cannot be read"):
        authority.renew([], NOW)


@pytest.mark.parametrize("spoil", ["damaged", "no names", "another authority's"])
def test_a_daemons_certificate_that_serves_nothing_is_made_again(authority, tmp_path, spoil):
    folder = tmp_path / "tls"
    leaf = folder / "daemon.pem"
    if spoil == "damaged":
        leaf.write_bytes(leaf.read_bytes()[:90])
    elif spoil == "no names":  # the authority's own certificate has none
        leaf.write_bytes(authority.pem())
    else:  # another authority's: a kill between its files and the old one's removal
        before = leaf.read_bytes()
        authority.make(["notes.local"], NOW)
        leaf.write_bytes(before)

    assert authority.renew(["192.168.7.4"], NOW)
    assert greeted(serving(authority), authority, "notes.local")["notAfter"]
    assert not authority.renew(["192.168.7.4"], NOW)


def test_an_authority_whose_key_is_anothers_certifies_nothing_and_is_named(authority, tmp_path):
    other = CertificateAuthority(tmp_path / "other")
    other.make([], NOW)  # a kill between its key and its certificate
    key = tmp_path / "tls/authority.key"
    key.write_bytes((tmp_path / "other/tls/authority.key").read_bytes())
    before = (tmp_path / "tls/daemon.pem").read_bytes()
    with pytest.raises(DaemonError, match=r"authority\.key .*`parachute tls --new`"):
        authority.renew(["192.168.7.5"], NOW)
    assert (tmp_path / "tls/daemon.pem").read_bytes() == before
    authority.make([], NOW)
    assert authority.renew(["192.168.7.5"], NOW)


def test_an_authority_of_another_program_is_named(authority, tmp_path):
    folder = tmp_path / "tls"
    (folder / "authority.crt").write_bytes((folder / "daemon.pem").read_bytes())
    with pytest.raises(DaemonError, match=r"authority\.crt .*`parachute tls --new`"):
        authority.renew([], NOW)


@pytest.mark.parametrize(
    "name", ["", " ", ".", ".local", "*.local", "192.168.1.5", "a b", "a\nb", "ä.local", "x" * 64]
)
def test_what_is_no_host_name_makes_no_authority(tmp_path: Path, name: str):
    authority = CertificateAuthority(tmp_path)
    with pytest.raises(DaemonError, match="is not a host name"):
        authority.make(["notes.local", name], NOW)
    assert not authority.exists()


def test_a_name_is_spelled_as_certificates_spell_it_however_long_it_is(tmp_path: Path):
    long = ".".join(["x" * 60] * 3)
    authority = CertificateAuthority(tmp_path)
    assert authority.make([long, "Notes.Local."], NOW).names == (long, "notes.local")


async def serial(port: int, authority: CertificateAuthority) -> str:
    """That of the certificate that one who connects is shown."""
    trusting = ssl.create_default_context(cafile=str(authority.certificate))
    _, writer = await asyncio.open_connection("localhost", port, ssl=trusting)
    found = writer.get_extra_info("peercert")["serialNumber"]
    writer.transport.abort()
    return found


async def test_who_connects_after_a_renewal_is_shown_the_new_certificate(tmp_path: Path):
    authority, now = CertificateAuthority(tmp_path), NOW - timedelta(days=21)
    authority.make([], now)
    problems: dict[str, str | None] = {}
    listener = TlsListener(tmp_path, problems.__setitem__, lambda: now)
    server = HttpServer(web.Application())
    port = await listener.open("127.0.0.1", 0, server.open_at)
    try:
        first = await serial(port, authority)
        await listener.look()
        assert await serial(port, authority) == first
        now = NOW
        await listener.look()
        assert await serial(port, authority) != first
        authority.certificate.write_text("nothing")
        await listener.look()
        assert "was not renewed" in problems["tls"]
    finally:
        await server.close()
