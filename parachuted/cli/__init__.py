"""CLI: the `parachute` command."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence

from parachuted.cli.show import escape
from parachuted.cli.status import tell_status
from parachuted.errors import ConfigError, NoDaemonError, ParachuteError

__all__ = ["main"]

FAILED, WRONG_USE, NO_DAEMON, INTERRUPTED = 1, 2, 3, 130
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})
# answered without the parser, which takes longer to make than they do
_QUICK = {("status",), ("status", "--json")}


def main(arguments: Sequence[str] | None = None) -> int:
    try:
        code = _run(tuple(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()
    except NoDaemonError as error:
        code = _complain(error.message, NO_DAEMON)
    except ConfigError as error:
        problems = [f"\n  {problem}" for problem in error.problems]
        code = _complain("the settings are wrong:" + "".join(problems), WRONG_USE)
    except ParachuteError as error:
        code = _complain(error.message, FAILED)
    except KeyboardInterrupt:
        code = _complain("stopped", INTERRUPTED)
    except BrokenPipeError:
        # else Python complains of what is left to write when it ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = FAILED
    except OSError as error:
        is_full = error.errno in _FULL
        if error.filename is None and not is_full:
            raise  # a fault of this program
        advice = "; make room there, then try again" if is_full else ""
        code = _complain(f"{error.filename or 'the disk'}: {error.strerror}{advice}", FAILED)
    return code


def _run(words: tuple[str, ...]) -> int:
    if words in _QUICK:
        tell_status(as_json=len(words) > 1)
        return 0
    from parachuted.cli.parser import parse

    command, options = parse(words)
    return command(options) or 0


def _complain(text: str, code: int) -> int:
    sys.stderr.write(f"parachute: {escape(text)}\n")
    return code
