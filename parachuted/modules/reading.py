"""One way to read what may hold anything: item by item, where one that cannot be read is a finding,
and the others go on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from parachuted.errors import ParachuteError
from parachuted.modules.results import Finding

Raw = TypeVar("Raw")
Value = TypeVar("Value")

_EXPECTED = (ParachuteError, ValueError, OverflowError, RecursionError, OSError)


def read_each(
    items: Iterable[tuple[str, Raw]], read: Callable[[Raw], Value]
) -> tuple[list[Value], list[Finding]]:
    """What `read` makes of each item, and a finding for each that it raises for.

    An item is the path that a finding names, and what `read` is given.
    """
    values, findings = list[Value](), list[Finding]()
    for path, raw in items:
        with reading(path, findings):
            values.append(read(raw))
    return values, findings


@contextmanager
def reading(path: str, findings: list[Finding], line: int | None = None) -> Iterator[None]:
    """Turn what the block raises into a finding about that file, and go on after the block.

    `line` is where in the file the block reads; where the error knows better, its line holds. An
    error that no content explains is a mistake of the code, which the log has with its traceback.
    """
    try:
        yield
    except Exception as error:  # whatever it is, the other items are read
        said = _said(error)
        if not _is_expected(error):
            logging.getLogger(__name__).exception("%s could not be read", path)
            said = f"it could not be read, by a mistake of the module: {said} (see its log)"
        findings.append(Finding(path=path, line=_line_of(error) or line, problem=said))


def _is_expected(error: Exception) -> bool:
    return isinstance(error, _EXPECTED) or type(error).__module__.startswith("yaml.")


def _said(error: Exception) -> str:
    match error:
        case UnicodeDecodeError():
            return f"it is not {error.encoding.upper()} text"
        case RecursionError():
            return "it is nested too deeply"
        case OSError() if error.strerror:
            return error.strerror
        case KeyError():
            return repr(error)
        case _:
            return " ".join(str(error).split()) or type(error).__name__


def _line_of(error: BaseException | None) -> int | None:
    """The line, counted from 1, where the text of JSON or YAML went wrong, or was no text."""
    while error is not None:
        mark, line = getattr(error, "problem_mark", None), getattr(error, "lineno", None)
        if mark is not None:
            return int(mark.line) + 1
        if isinstance(line, int) and isinstance(error, ValueError):
            return line
        if isinstance(error, UnicodeDecodeError):
            return error.object.count(b"\n", 0, error.start) + 1
        error = error.__cause__
    return None
