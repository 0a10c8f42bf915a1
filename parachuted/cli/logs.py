"""Logs: a sentence for people, the same sentence with its fields for machines."""

from __future__ import annotations

import json
import logging

from parachuted.cli.show import escape

_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        document = {
            "at": self.formatTime(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            document["traceback"] = self.formatException(record.exc_info)
        return json.dumps(document, default=str)


class PlainLines(logging.Formatter):
    """A line for a terminal: the sentence, then the fields."""

    def format(self, record: logging.LogRecord) -> str:
        fields = " ".join(f"{key}={value!r}" for key, value in _fields(record).items())
        line = escape(f"{record.levelname.lower()}: {record.getMessage()} {fields}".rstrip())
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def read_line(line: str) -> str:
    """A line of `JsonLines` as a person reads it, a traceback below; another line as it is."""
    try:
        document = json.loads(line)
        at, level, message = (document.pop(name) for name in ("at", "level", "message"))
    except (ValueError, AttributeError, KeyError, TypeError):
        return line.rstrip("\n")
    traceback = document.pop("traceback", None)
    fields = [
        f"{key}={value if str(value).isprintable() else json.dumps(value)}"
        for key, value in document.items()
        if key != "logger"
    ]
    words = " ".join([*str(message).splitlines(), *fields])
    head = f"{str(at)[:19]} {level:<7} {words}".rstrip()
    return f"{head}\n{traceback}" if traceback else head


def _fields(record: logging.LogRecord) -> dict[str, object]:
    return {key: value for key, value in vars(record).items() if key not in _PLAIN}
