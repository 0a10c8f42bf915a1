"""Sandbox doctor: tests what sandboxes depend on, and says what to do about each problem."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from parachuted.access.agent_config import SandboxConfig
from parachuted.agents.job import RunSandbox
from parachuted.agents.sandbox.options import CLI_IN_BOX, SandboxSpec, find_bundled_cli
from parachuted.agents.sandbox.sandboxes import Sandboxes
from parachuted.errors import AgentUnavailableError

_TRY_S = 30.0
_NO_CLI = (
    "Claude Code is not in the agent SDK's package for this system; agents with a shell "
    "cannot run here"
)
_WORSE = "not as it should be ({}): do not run agents with a shell on this engine, and report this"
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


@dataclass(frozen=True, slots=True)
class SandboxCheck:
    part: str
    is_well: bool
    says: str


async def examine(sandboxes: Sandboxes) -> AsyncIterator[SandboxCheck]:
    """All parts in order; what needs one that is not well is not tried."""
    status = await sandboxes.status()
    yield SandboxCheck(
        "engine",
        status.engine is not None,
        f"Docker {status.engine} answers"
        if status.engine
        else status.problem or "no Docker engine answers",
    )
    if status.engine is None:
        return
    made = {
        "built": "there, built of its Dockerfile",
        "host": "there, made of this machine's own programs, so agents can run those",
        None: status.problem or "",
    }
    yield SandboxCheck("image", status.image is not None, made[status.image])
    cli = await asyncio.to_thread(find_bundled_cli)
    yield SandboxCheck("Claude Code", cli is not None, str(cli or _NO_CLI))
    if status.image is not None and status.problem is not None:
        yield SandboxCheck("engine's safety", is_well=False, says=status.problem)
    if status.problem is not None or cli is None:
        return
    started = time.monotonic()
    try:
        found = await _probe(sandboxes, cli)
    except (AgentUnavailableError, TimeoutError, ValueError) as error:
        says = str(error) or f"nothing came of it within {_TRY_S:.0f} s"
        yield SandboxCheck("container", is_well=False, says=says)
        return
    took = time.monotonic() - started
    yield SandboxCheck(
        "container", is_well=True, says=f"starts, works and is gone within {took:.1f} s"
    )
    for check in judge(found, uid=sandboxes.user[0]):
        yield check


def judge(found: Mapping[str, Any], *, uid: int) -> list[SandboxCheck]:
    cli, only = found["cli"].strip(), "only its own copy of the vault, its HOME and its /tmp"
    checks = (
        ("user", found["uid"] == uid, f"it runs as user {found['uid']}"),
        ("capabilities", not int(found["capabilities"], 16), "it has none"),
        ("rights", found["no_more_rights"] == "1", "no program in it can get more"),
        ("system calls", found["filter"] == "2", "the engine's filter holds"),
        ("network", found["interfaces"] == ["lo"], "there is none"),
        ("disk", found["writes"] == ["/vault"], f"{only} can be written"),
        ("Claude Code inside", bool(cli), f"it starts: {cli}"),
    )
    return [
        SandboxCheck(part, is_well, says if is_well else _WORSE.format(says))
        for part, is_well, says in checks
    ]


async def _probe(sandboxes: Sandboxes, cli: Path) -> Mapping[str, Any]:
    command = ("python3", "-c", _PROBE.replace("[CLI,", f"[{CLI_IN_BOX!r},"))
    async with asyncio.timeout(_TRY_S), sandboxes.prepare() as folder:
        sandbox = RunSandbox(config=SandboxConfig(workspace_access="rw"), folder=folder)
        spec = SandboxSpec(sandbox=sandbox, command=command, env={}, cli=cli)
        async with sandboxes.open(spec) as container:
            await container.end_input()
            said = await container.stdout.read()
            code = await container.wait()
            if code:
                raise AgentUnavailableError(
                    container.problem or f"a program in the container ended with {code}"
                )
            return cast("Mapping[str, Any]", json.loads(said))
