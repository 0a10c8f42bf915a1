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
_QUICK = {
    ("status",),
    ("status", "--json"),
}  # answered without the parser, which takes longer to make than they do


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code: 0 done, 1 failed, 2 wrong use, 3 no daemon where one
    is needed.
    """
    try:
        code = _run(tuple(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()
    except NoDaemonError as error:
        return _complain(error.message, NO_DAEMON)
    except ConfigError as error:
        return _complain(
            "\n".join(["the settings are wrong:", *(f"  {problem}" for problem in error.problems)]),
            WRONG_USE,
        )
    except ParachuteError as error:
        return _complain(error.message, FAILED)
    except KeyboardInterrupt:
        return _complain("stopped", INTERRUPTED)
    except BrokenPipeError:
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # else Python complains of what is left to write when it ends
        return FAILED
    except PermissionError as error:
        code = _complain(f"{error.filename or 'a file'}: {error.strerror}", FAILED)
    except OSError as error:
        if error.errno not in _FULL:
            raise
        code = _complain(
            f"{error.filename or 'the disk'} cannot be written ({error.strerror}); make room "
            "there, then try again",
            FAILED,
        )
    return code


def _run(words: tuple[str, ...]) -> int:
    if words in _QUICK:
        tell_status(as_json=len(words) > 1)
        return 0
    from parachuted.cli.parser import parse

    command, options = parse(words)
    return command(options)


def _complain(text: str, code: int) -> int:
    sys.stderr.write(f"parachute: {escape(text)}\n")
    return code
