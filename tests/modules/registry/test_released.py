"""Released: the keys that are shipped, and what is loaded to ask whether they signed something."""

from __future__ import annotations

import base64
import subprocess
import sys

from parachuted.modules.registry.module_folders import is_released, release_keys
from parachuted.modules.registry.signatures import new_key, sign

DIGEST = "sha256:" + "ab" * 32


def test_what_a_shipped_key_signed_is_released_and_nothing_else():
    private, public = new_key()

    assert is_released(DIGEST, sign(DIGEST, private), [public])
    assert not is_released(DIGEST, sign(DIGEST, private), [new_key()[1]])
    for signature in (None, "", "x" * 1_000, "not base64"):
        assert not is_released(DIGEST, signature, [public])


def test_without_a_signature_nothing_heavy_is_loaded():
    program = (
        "import sys\n"
        "import parachuted.daemon\n"
        "from parachuted.modules.registry.module_folders import is_released\n"
        "is_released('sha256:00', None, ['key'])\n"
        "is_released('sha256:00', 'signature', [])\n"
        "assert 'cryptography' not in sys.modules\n"
    )

    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_shipped_keys_are_keys():
    for key in release_keys():
        assert len(base64.b64decode(key, validate=True)) == 32
    assert release_keys("# none\n\nabc # of 2026\n") == ("abc",)
