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
from parachuted.modules.registry.copies import SIGNATURE, read_tree
from parachuted.modules.registry.install import LITTER

# a key that signs other things too cannot be made to sign a module by them
_PREFIX = b"parachute-module-1\n"


def is_signed(tree_digest: str, signature: str | None, keys: Iterable[str]) -> bool:
    """Whether one of the keys signed that digest. Whatever is malformed did not."""
    for key in keys if signature else ():
        try:
            public = Ed25519PublicKey.from_public_bytes(base64.b64decode(key, validate=True))
            public.verify(
                base64.b64decode(str(signature).strip(), validate=True),
                _PREFIX + tree_digest.encode(),
            )
        except (InvalidSignature, UnsupportedAlgorithm, ValueError, binascii.Error):
            continue
        return True
    return False


def sign(tree_digest: str, private: bytes) -> str:
    """The signature of that digest by a private key in PEM, as the file SIGNATURE holds it.

    Raises ParachuteError.
    """
    try:
        key = load_pem_private_key(private, None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ParachuteError(f"that is not a private key in PEM: {error}") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise ParachuteError("that is not an Ed25519 key; `new-key FILE` makes one")
    return base64.b64encode(key.sign(_PREFIX + tree_digest.encode())).decode()


def new_key() -> tuple[bytes, str]:
    """A private key in PEM, and its public one as `release_keys.txt` holds it."""
    key = Ed25519PrivateKey.generate()
    public = base64.b64encode(key.public_key().public_bytes_raw()).decode()
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), public


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
        if chosen.command == "sign":
            digest = read_tree(chosen.folder.resolve(), ignored=LITTER).digest
            signature = f"{sign(digest, chosen.key.read_bytes())}\n"
            (chosen.folder / SIGNATURE).write_text(signature, encoding="ascii")
            says = f"{chosen.folder.name}: signed {digest}"
        else:
            private, says = new_key()
            with open(
                chosen.file, "xb", opener=lambda path, flags: os.open(path, flags, 0o600)
            ) as out:
                out.write(private)
    except (OSError, ParachuteError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{says}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
