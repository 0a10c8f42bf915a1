"""Ed25519 signatures over the digest of an official module's files.

For releases: `python -m parachuted.modules.registry.signatures new-key FILE`, then `python -m
parachuted.modules.registry.signatures sign FOLDER --key FILE`.
"""

from __future__ import annotations

import argparse
import base64
import binascii
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from parachuted.errors import ParachuteError
from parachuted.modules.registry.install import LITTER
from parachuted.modules.registry.module_folders import LONGEST
from parachuted.modules.registry.module_tree import SIGNATURE, read_tree

# a key that signs other things too cannot be made to sign a module by them
_PREFIX = b"parachute-module-1\n"


def is_signed(tree_digest: str, signature: str | None, keys: Iterable[str]) -> bool:
    """Whether one of the keys signed that digest. Whatever is malformed did not."""
    if not signature or len(signature) > LONGEST:
        return False
    for key in keys:
        try:
            public = Ed25519PublicKey.from_public_bytes(base64.b64decode(key, validate=True))
            public.verify(
                base64.b64decode(signature.strip(), validate=True), _PREFIX + tree_digest.encode()
            )
        except (InvalidSignature, UnsupportedAlgorithm, ValueError, binascii.Error):
            continue
        return True
    return False


def sign(tree_digest: str, private: bytes) -> str:
    """The signature of that digest by a private key in PEM, as the file SIGNATURE holds it.

    Raises ParachuteError.
    """
    signature = _private_key(private).sign(_PREFIX + tree_digest.encode())
    return base64.b64encode(signature).decode()


def new_key() -> tuple[bytes, str]:
    """A private key in PEM, and its public one as `release_keys.txt` holds it."""
    key = Ed25519PrivateKey.generate()
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), _public_text(key)


def main(words: Sequence[str] | None = None) -> int:
    """The command of a release."""
    parser = argparse.ArgumentParser(
        prog="python -m parachuted.modules.registry.signatures",
        description="Sign modules for a release.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    signing = commands.add_parser("sign", help="write the file SIGNATURE into a module's folder")
    signing.add_argument("folder", type=Path)
    signing.add_argument("--key", type=Path, required=True, help="the private key's file")
    making = commands.add_parser(
        "new-key", help="make a private key, and print its public one for release_keys.txt"
    )
    making.add_argument("file", type=Path)
    chosen = parser.parse_args(words)
    try:
        said = (
            _sign_folder(chosen.folder, chosen.key)
            if chosen.command == "sign"
            else _make_key(chosen.file)
        )
    except (OSError, ParachuteError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{said}\n")
    return 0


def _sign_folder(folder: Path, key: Path) -> str:
    digest = read_tree(folder.resolve(), ignored=LITTER).digest
    (folder / SIGNATURE).write_text(f"{sign(digest, key.read_bytes())}\n", encoding="ascii")
    return f"{folder.name}: signed {digest}"


def _make_key(file: Path) -> str:
    private, public = new_key()
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as out:
        out.write(private)
    return public


def _private_key(pem: bytes) -> Ed25519PrivateKey:
    try:
        key = load_pem_private_key(pem, None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ParachuteError(f"that is not a private key in PEM: {error}") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise ParachuteError(
            "that is not an Ed25519 key; make one with `python -m "
            "parachuted.modules.registry.signatures new-key FILE`"
        )
    return key


def _public_text(key: Ed25519PrivateKey) -> str:
    return base64.b64encode(key.public_key().public_bytes_raw()).decode()


if __name__ == "__main__":
    sys.exit(main())
