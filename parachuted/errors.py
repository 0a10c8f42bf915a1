"""Errors: what can go wrong, by name. A message defaults to the class's docstring."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class ParachuteError(Exception):
    """Something went wrong."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or self.kind())

    @property
    def message(self) -> str:
        return str(self)

    @classmethod
    def kind(cls) -> str:
        """A sentence that says what went wrong and quotes nothing, for records without text."""
        return " ".join((cls.__doc__ or cls.__name__).split())


class ConfigError(ParachuteError):
    """The settings are wrong."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        super().__init__("; ".join(problems))


class PathRefusedError(ParachuteError):
    """The path is not a path inside the vault."""


class NotFoundError(ParachuteError):
    """What was asked for does not exist."""


class EditRefusedError(ParachuteError):
    """The edit would change more than it names, so nothing was written."""


class UnfitError(ParachuteError):
    """What was given does not fit, so nothing was done."""


class ActRefusedError(ParachuteError):
    """A hook objected, so nothing was done."""


class OutdatedError(ParachuteError):
    """It is not as it was when that was decided, so nothing was done."""


class UntrustedError(ParachuteError):
    """The file by which this is allowed cannot be believed, so it allows nothing."""


class RequestBodyError(ParachuteError):
    """The body of the request did not come whole, or is not what was announced."""


class BodyTooLargeError(RequestBodyError):
    """The body of the request is larger than may be sent."""


class HookRefusedError(ActRefusedError):
    """A hook objected to a write of the vault."""


class ModuleFailedError(ParachuteError):
    """The module did not do what it was asked."""


class ConflictError(ParachuteError):
    """The file changed in the same place since it was read; nothing was written."""

    # `is_known`: whether `theirs` is what the file holds; otherwise the file is gone, or its text
    # is not shown, and `theirs` is empty.
    def __init__(
        self,
        message: str | None = None,
        *,
        base: bytes,
        ours: bytes,
        theirs: bytes,
        is_known: bool = True,
    ) -> None:
        self.base = base
        self.ours = ours
        self.theirs = theirs
        self.is_known = is_known
        super().__init__(message)


class StorageFailedError(ParachuteError):
    """The disk refused; the file is as it was."""

    def __init__(self, message: str | None = None, *, errno: int | None = None) -> None:
        self.errno = errno
        super().__init__(message)


@contextmanager
def storage_errors(what: str) -> Iterator[None]:
    """Turn an OSError inside into StorageFailedError, in words that begin with `what`."""
    try:
        yield
    except OSError as error:
        raise StorageFailedError(f"{what}: {error.strerror or error}", errno=error.errno) from error


class AgentFailedError(ParachuteError):
    """The agent did not finish its work."""


class AgentUnavailableError(AgentFailedError):
    """The agent could not begin; the same run may be tried again later."""

    # `wait_s`: after so many seconds, where that is known

    def __init__(self, message: str | None = None, *, wait_s: float | None = None) -> None:
        self.wait_s = wait_s
        super().__init__(message)


class AgentStoppedError(AgentFailedError):
    """The run was ended before its work was done."""


class DaemonError(ParachuteError):
    """The daemon could not be started, reached or stopped."""


class NoDaemonError(DaemonError):
    """No daemon is running; start one with `parachute start`."""
