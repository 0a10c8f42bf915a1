"""Tests on this machine what sandboxes depend on, and says what to do about each problem."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from parachuted.access.agent_config import SandboxConfig
from parachuted.agents.sandbox.options import CLI_IN_BOX, SandboxSpec, find_cli
from parachuted.agents.sandbox.sandboxes import Sandboxes
from parachuted.errors import AgentUnavailableError

_TRY_S = 30.0
_NO_CLI = (
    "Claude Code is not in the agent SDK's package for this system; agents with a shell "
    "cannot run here"
)
_PROBE = """
import json, os, pathlib, subprocess
status = dict(line.split(":", 1) for line in pathlib.Path("/proc/self/status").read_text().splitlines())
def is_up(name):
    return int(pathlib.Path("/sys/class/net", name, "flags").read_text(), 16) & 1
def can_write(path):
    try:
        pathlib.Path(path, "try").write_text("x")
    except OSError:
        return False
    return True
places = ["/", "/usr", "/etc", "/sockets", "/outside", "/vault"]
print(json.dumps({
    "uid": os.getuid(), "writes": [path for path in places if can_write(path)],
    "capabilities": status["CapEff"].strip() + status["CapBnd"].strip(), "no_more_rights": status["NoNewPrivs"].strip(),
    "filter": status["Seccomp"].strip(), "interfaces": sorted(filter(is_up, os.listdir("/sys/class/net"))),
    "cli": subprocess.run([CLI, "--version"], capture_output=True, text=True, timeout=20, env={**os.environ, "HOME": "/home/agent"}).stdout,
}))
"""  # noqa: E501


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxCheck:
    part: str
    is_well: bool
    says: str


async def examine(sandboxes: Sandboxes) -> AsyncIterator[SandboxCheck]:
    """All parts in order; what needs one that is not well is not tried."""
    status = await sandboxes.status()
    if status.engine is None:
        yield SandboxCheck(
            part="engine", is_well=False, says=status.problem or "no Docker engine answers"
        )
        return
    yield SandboxCheck(part="engine", is_well=True, says=f"Docker {status.engine} answers")
    made = {
        "built": "there, built of its Dockerfile",
        "host": "there, of this machine's own programs, which agents so can run",
    }
    yield SandboxCheck(
        part="image",
        is_well=status.image is not None,
        says=made.get(status.image or "", status.problem or ""),
    )
    cli = await asyncio.to_thread(find_cli)
    yield SandboxCheck(
        part="Claude Code", is_well=cli is not None, says=str(cli) if cli is not None else _NO_CLI
    )
    if status.problem is not None or cli is None:
        if status.image is not None and status.problem is not None:
            yield SandboxCheck(part="engine's safety", is_well=False, says=status.problem)
        return
    started = time.monotonic()
    try:
        found = await _probe(sandboxes)
    except (AgentUnavailableError, TimeoutError, ValueError) as error:
        yield SandboxCheck(
            part="container",
            is_well=False,
            says=str(error) or f"nothing came of it within {_TRY_S:.0f} s",
        )
        return
    yield SandboxCheck(
        part="container",
        is_well=True,
        says=f"starts, works and is gone within {time.monotonic() - started:.1f} s",
    )
    for check in judge(found, uid=sandboxes.user[0]):
        yield check


def judge(found: Mapping[str, Any], *, uid: int) -> list[SandboxCheck]:
    return [
        _check("user", found["uid"] == uid, f"it runs as user {found['uid']}"),
        _check("capabilities", not int(found["capabilities"], 16), "it has none"),
        _check("rights", found["no_more_rights"] == "1", "no program in it can get more"),
        _check("system calls", found["filter"] == "2", "the engine's filter holds"),
        _check("network", found["interfaces"] == ["lo"], "there is none"),
        _check(
            "disk",
            found["writes"] == ["/vault"],
            "only its own copy of the vault, its HOME and its /tmp can be written",
        ),
        _check(
            "Claude Code inside", bool(found["cli"].strip()), f"it starts: {found['cli'].strip()}"
        ),
    ]


def _check(part: str, is_well: bool, says: str) -> SandboxCheck:  # noqa: FBT001  a table's column
    worse = (
        f"not as it should be ({says}): do not run agents with a shell on this engine, and "
        "report this"
    )
    return SandboxCheck(part=part, is_well=is_well, says=says if is_well else worse)


async def _probe(sandboxes: Sandboxes) -> Mapping[str, Any]:
    config = SandboxConfig(workspace_access="rw")
    cli = await asyncio.to_thread(find_cli)
    if cli is None:
        raise AgentUnavailableError(_NO_CLI)
    async with asyncio.timeout(_TRY_S), sandboxes.prepare() as slot:
        command = ("python3", "-c", _PROBE.replace("[CLI,", f"[{CLI_IN_BOX!r},"))
        spec = SandboxSpec(sandbox=slot.sandbox(config), command=command, env={}, cli=cli)
        async with sandboxes.open(spec) as container:
            await container.end_input()
            said = await container.stdout.read()
            code = await container.wait()
            if code:
                raise AgentUnavailableError(
                    container.problem or f"a program in the container ended with {code}"
                )
            return cast("Mapping[str, Any]", json.loads(said))
