"""Pens: small programs that put walls around themselves and then try to get out, for the tests of
the walls.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_HEAD = f"""
import json, os, sys, errno
sys.path.append({str(ROOT)!r})
from pathlib import Path
tried = {{}}
def attempt(name, act):
    try:
        act()
        tried[name] = "done"
    except OSError as error:
        tried[name] = errno.errorcode.get(error.errno, str(error.errno))
    except BaseException as error:
        tried[name] = type(error).__name__
"""


def run(script: str, *arguments: object, check: bool = True) -> dict[str, str]:
    """Run it in a Python of its own; what came of each `attempt`."""
    code = (
        f"{_HEAD}\n{script}\nsys.stdout.write(json.dumps(tried))\nsys.stdout.flush()\nos._exit(0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        cwd="/",
    )
    assert not check or done.returncode == 0, done.stderr
    return json.loads(done.stdout) if done.stdout else {"ended": str(done.returncode)}
