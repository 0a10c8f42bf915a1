"""A module is verified by a signature of its files, by a key that is shipped with the package."""

from __future__ import annotations

import base64
import subprocess
import sys

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from parachuted.errors import ParachuteError
from parachuted.modules.registry.copies import read_tree
from parachuted.modules.registry.signatures import is_signed, main, new_key, sign

DIGEST = "sha256:" + "ab" * 32


def test_only_the_signature_of_that_digest_by_a_known_key_counts():
    private, public = new_key()
    other_private, other = new_key()
    signature = sign(DIGEST, private)

    assert is_signed(DIGEST, signature, [other, public])
    assert is_signed(DIGEST, f"{signature}\n", [public])
    assert not is_signed(DIGEST, signature, [other])
    assert not is_signed(DIGEST, signature, [])
    assert not is_signed(DIGEST.replace("ab", "ac", 1), signature, [public])
    assert not is_signed(DIGEST, sign(DIGEST, other_private), [public])


@pytest.mark.parametrize(
    "signature",
    [None, "", "x", "A" * 88, "é" * 20, "A" * 10_000, base64.b64encode(b"x" * 64).decode(), "\0"],
)
@pytest.mark.parametrize("key", ["", "x", "A" * 44, base64.b64encode(b"\0" * 32).decode(), "é"])
def test_whatever_is_malformed_signs_nothing(signature, key):
    assert not is_signed(DIGEST, signature, [key, new_key()[1]])


def test_a_signature_of_something_else_by_the_same_key_is_none():
    private, public = new_key()
    assert not is_signed(DIGEST, sign(f"parachute-module-1\n{DIGEST}", private), [public])
    key = load_pem_private_key(private, None)
    assert isinstance(key, Ed25519PrivateKey)
    assert not is_signed(DIGEST, base64.b64encode(key.sign(DIGEST.encode())).decode(), [public])


def test_a_release_makes_a_key_and_signs_a_folder(tmp_path, capsys):
    folder = tmp_path / "mod"
    folder.mkdir()
    (folder / "manifest.yaml").write_text("name: mod\n")
    assert main(["new-key", str(tmp_path / "key")]) == 0
    public = capsys.readouterr().out.strip()
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    assert main(["sign", str(folder), "--key", str(tmp_path / "key")]) == 0

    assert is_signed(read_tree(folder).digest, (folder / "SIGNATURE").read_text(), [public])
    assert main(["new-key", str(tmp_path / "key")]) == 1
    assert main(["sign", str(folder), "--key", str(folder / "manifest.yaml")]) == 1
    assert "not a private key" in capsys.readouterr().err


def test_the_command_is_there():
    done = subprocess.run(
        [sys.executable, "-m", "parachuted.modules.registry.signatures", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "new-key" in done.stdout


def test_what_is_not_an_ed25519_key_is_refused():
    with pytest.raises(ParachuteError, match="not a private key"):
        sign(DIGEST, b"x")
