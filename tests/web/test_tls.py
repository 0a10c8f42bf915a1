"""The page on a phone's terms: what it says without encryption, and what it may do with it."""

from __future__ import annotations

import base64
import hashlib
import socket
from collections.abc import Iterator

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from playwright.sync_api import Browser, Page, expect

from tests.api.test_app_browser import CHROMIUM, FLAGS
from tests.cli.command_line import CommandLine
from tests.web.opened import PATIENCE_MS


@pytest.fixture
def served(daemon: CommandLine) -> Iterator[str]:
    """The daemon, encrypted too; its address by a name that is not this machine's own."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    daemon.does("config", "set", "tls.host", "127.0.0.1")
    daemon.does("tls", "--port", str(port), "--name", "notes.local")
    daemon.until(lambda: daemon("status").returncode == 0)
    yield f"notes.local:{port}"
    daemon.does("tls", "--off")
    daemon.until(lambda: daemon("status").returncode == 0)


@pytest.fixture
def phone(browser: Browser, daemon: CommandLine, served: str) -> Iterator[Page]:
    """A browser that trusts the authority, and finds this machine by that name."""
    own = x509.load_pem_x509_certificate((daemon.home / "tls/authority.crt").read_bytes())
    key = own.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    digest = base64.b64encode(hashlib.sha256(key).digest()).decode()
    trusting = browser.browser_type.launch(
        executable_path=CHROMIUM,
        args=[
            *FLAGS,
            "--host-resolver-rules=MAP notes.local 127.0.0.1",
            f"--ignore-certificate-errors-spki-list={digest}",
        ],
    )
    page = trusting.new_page(viewport={"width": 390, "height": 800})
    page.set_default_timeout(PATIENCE_MS)
    yield page
    trusting.close()


def test_with_the_authority_the_page_is_private_without_it_says_so(phone: Page, served: str):
    phone.goto(f"https://{served}/#/health")
    expect(phone.get_by_text("This connection is private")).to_be_visible()
    assert phone.evaluate("[isSecureContext, Boolean(navigator.mediaDevices)]") == [True, True]
    phone.get_by_text("On a phone: scan this").click()
    expect(phone.get_by_role("img", name="QR code of the authority")).to_be_visible()

    plain = phone.evaluate("async () => (await (await fetch('/api/settings')).json()).settings")
    port = next(one["value"] for one in plain if one["key"] == "port")
    phone.goto(f"http://{served.partition(':')[0]}:{port}/#/health")
    expect(phone.get_by_text("This connection is not encrypted")).to_be_visible()
    assert phone.evaluate("[isSecureContext, Boolean(navigator.mediaDevices)]") == [False, False]
