"""Start: `python -m parachuted` and the `parachute` command."""

from __future__ import annotations

import sys

from parachuted.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
