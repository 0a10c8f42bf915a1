"""The calls that a module host is working on, each with the authority of its caller.

Every request of the process names one of them and uses its authority. The process reports when a
call's last task has ended, and is trusted no further: a call that is not open gives no authority,
and a process with too many open calls gets no more. It can name another of its open calls than the
one it works on, since all its tasks share one process; so what a module may do by its approved
permissions, it can reveal to anyone who may call it.
"""

from __future__ import annotations

from parachuted.access.authority import Authority, pass_on
from parachuted.access.origin import Taint
from parachuted.errors import ActRefusedError, ModuleFailedError

MOST_OPEN = 1_000


class OpenCalls:
    """The open calls of one process.

    Untrusted text read on one of them taints all, since they share the process.
    """

    def __init__(self, module: str, taint: Taint) -> None:
        """`taint` is what the module's processes have read; it outlives this one."""
        self._module, self._taint = module, taint
        self._open: dict[int, Authority] = {}

    def check_room(self) -> None:
        """Raises ModuleFailedError while it holds too many."""
        if len(self._open) >= MOST_OPEN:
            raise ModuleFailedError(
                f"the module {self._module} still works on {MOST_OPEN:,} calls, and gets no more "
                "until some have ended; "
                f"`parachute modules restart {self._module}` ends them"
            )

    def open(self, asked: int, authority: Authority) -> None:
        """It is about to be asked that, by number."""
        self._open[asked] = authority
        self.read(authority)

    def close(self, asked: int) -> None:
        """Nothing is done on behalf of that call any more."""
        self._open.pop(asked, None)

    def find(self, of: int | None) -> Authority:
        """The authority of a request that names that call.

        Raises ActRefusedError if the call is not open.
        """
        found = self._open.get(of) if of is not None else None
        if found is None:
            said = (
                "names no call of the daemon"
                if of is None
                else "names a call that has ended, or that there never was"
            )
            raise ActRefusedError(
                f"what the module {self._module} asks {said}: only work that a call led to can "
                "ask for anything"
            )
        if self._taint and not found.taint:
            pass_on(self._taint, found.taint)
        return found

    def read(self, authority: Authority) -> None:
        """What that work has read, the whole process may know."""
        if authority.taint and not self._taint:
            pass_on(authority.taint, self._taint)
