"""Claude Code: hooks.yaml with a pasted block, beside the bundled CLI with the same block.

Each row is asked of both.

One run of the CLI calls its shell once for each row; what the model is told of that call is
compared with what an agent is told here.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import claude_agent_sdk
import pytest

from parachuted.agents import Tool, ToolResult
from parachuted.runs.agent_hooks import AgentHooks
from parachuted.testing import ScriptedMessages, ToolUse, say
from tests.hooks.serving import running_hooks

CLI = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"
PRE, POST = "PreToolUse", "PostToolUse"


def answer(event: str = PRE, **fields: object) -> dict[str, object]:
    return {"hookSpecificOutput": {"hookEventName": event, **fields}}


def deny(event: str = PRE, **more: object) -> dict[str, object]:
    return answer(event, permissionDecision="deny", permissionDecisionReason="REASON", **more)


def prints(document: object, then: str = "exit 0") -> str:
    return f"printf '%s' '{json.dumps(document, ensure_ascii=False)}'; {then}"


def hook(command: str, **more: object) -> dict[str, object]:
    return {"type": "command", "command": command, **more}


def long_reason() -> str:
    """200 kB, the last word of which shows that all of it has arrived."""
    return (
        "python3 -c \"import json; print(json.dumps({'decision': 'block', 'reason': 'x' * "
        "200000 + ' REASON'}))\""
    )


CONTEXT = answer(additionalContext="CONTEXT")
CHANGED, FIRST = (answer(updatedInput={"command": f"echo {word}"}) for word in ("CHANGED", "FIRST"))
BLOCK = {"decision": "block", "reason": "REASON"}
OBJECTS = "echo ERROR >&2; exit 2"
# What it shows: the event, the matcher of its group, and the group's hooks. RAN, REASON, ERROR and
# the like become the row's own words.
ROWS: Mapping[str, tuple[str, str, Sequence[dict[str, object]]]] = {
    **{
        f"JSON at exit {code}": (PRE, "Bash", [hook(prints(deny(), f"exit {code}"))])
        for code in (1, 3, 126, 127, 137, 143, 255)
    },
    "JSON of one that was killed": (PRE, "Bash", [hook(prints(deny(), "kill -9 $$"))]),
    "context at exit 1": (PRE, "Bash", [hook(prints(CONTEXT, "exit 1"))]),
    "changed input at exit 1": (PRE, "Bash", [hook(prints(CHANGED, "exit 1"))]),
    "exit 2 and a reason in JSON": (
        PRE,
        "Bash",
        [hook(prints(deny(additionalContext="CONTEXT"), OBJECTS))],
    ),
    "exit 2 and context in JSON": (PRE, "Bash", [hook(prints(CONTEXT, OBJECTS))]),
    "exit 2 beside an allow": (
        PRE,
        "Bash",
        [hook(prints(answer(permissionDecision="allow"), OBJECTS))],
    ),
    "context beside a deny": (PRE, "Bash", [hook(prints(deny(additionalContext="CONTEXT")))]),
    "context of another beside a deny": (
        PRE,
        "Bash",
        [hook(prints(deny())), hook(prints(CONTEXT))],
    ),
    "a block beside an allow": (
        PRE,
        "Bash",
        [hook(prints({**BLOCK, **answer(permissionDecision="allow")}))],
    ),
    "a byte order mark": (PRE, "Bash", [hook(f"printf '\\357\\273\\277'; {prints(deny())}")]),
    "2 MB of JSON": (PRE, "Bash", [hook(f"printf '%2000000s' ' '; {prints(deny())}")]),
    "NaN": (
        PRE,
        "Bash",
        [hook("""printf '{"decision": "block", "reason": "REASON", "x": NaN}'""")],
    ),
    "a field of the wrong kind": (
        PRE,
        "Bash",
        [hook(prints({"decision": "block", "suppressOutput": "yes"}))],
    ),
    "one command twice": (
        PRE,
        "Bash",
        [hook("echo x >> ROW.log"), hook("echo x >> ROW.log", timeout=7)],
    ),
    "a guard beside its asynchronous double": (
        PRE,
        "Bash",
        [hook(OBJECTS, **{"async": True}), hook(OBJECTS)],
    ),
    "once": (PRE, "Bash", [hook(prints(deny()), once=True)]),
    "a reason of 200 kB": (PRE, "Bash", [hook(long_reason())]),
    "a permission after the call": (POST, "Bash", [hook(prints(deny(POST)))]),
    "exit 2 and context after the call": (
        POST,
        "Bash",
        [hook(prints(answer(POST, additionalContext="CONTEXT"), OBJECTS))],
    ),
    "a matcher inside a group": (PRE, "Bash", [hook(prints(deny()), matcher="Nothing")]),
    "a timeout of 999999": (PRE, "Bash", [hook(prints(deny()), timeout=999_999)]),
    "a named group": (PRE, "(?<x>Ba)sh", [hook(prints(deny()))]),
    "two changed inputs": (
        PRE,
        "Bash",
        [hook(f"sleep 0.5; {prints(CHANGED)}"), hook(prints(FIRST))],
    ),
    "another event's name, and to block": (
        PRE,
        "Bash",
        [hook(prints(answer(POST, permissionDecision="allow")), onFailure="block")],
    ),
    "exit 1 with an allow, and to block": (
        PRE,
        "Bash",
        [hook(prints(answer(permissionDecision="allow"), "exit 1"), onFailure="block")],
    ),
    "one that is to wake the model": (PRE, "Bash", [hook(OBJECTS, asyncRewake=True)]),
    "context of one that goes to the background": (
        PRE,
        "Bash",
        [hook(f"echo '{{\"async\": true}}'; {prints(CONTEXT)}")],
    ),
    "a matcher of one space": (PRE, " ", [hook(prints(deny()))]),
    "a shell by name": (
        PRE,
        "Bash",
        [hook(f'test -z "$BASH_VERSION" && exit 0; {OBJECTS}', shell="bash")],  # noqa: S604  a key of the settings
    ),
}
STRICTER: Mapping[str, tuple[str, str, Sequence[dict[str, object]]]] = {
    "Python's flags": (PRE, "(?i)bash", [hook("true")]),
    "Python's named group": (PRE, "(?P<x>Ba)sh", [hook("true")]),
    "a possessive quantifier": (PRE, "Ba++sh", [hook("true")]),
    "what begins like JSON but is not, and to block": (
        PRE,
        "Bash",
        [hook("printf '{bad'", onFailure="block")],
    ),
    "a block whose reason is null": (
        PRE,
        "Bash",
        [hook(prints({"decision": "block", "reason": None}))],
    ),
    "a no of one that goes to the background": (
        PRE,
        "Bash",
        [hook(f"echo '{{\"async\": true}}'; {prints(deny())}")],
    ),
}
"""Those of which hooks/README.md says that the CLI lets the call pass."""
WORDS = ("RAN", "REASON", "ERROR", "CONTEXT", "CHANGED", "FIRST")


def settings(rows: Mapping[str, tuple[str, str, Sequence[dict[str, object]]]]) -> dict[str, object]:
    """One block for all rows: each row's hooks are for its own command alone."""
    groups: dict[str, list[dict[str, object]]] = {}
    for number, (event, matcher, hooks) in enumerate(rows.values()):
        text = json.dumps(hooks).replace("ROW", f"row-{number}")
        for word in WORDS:
            text = text.replace(word, f"{word}-{number}.")
        own = [{**one, "if": f"Bash(echo RAN-{number}.)"} for one in json.loads(text)]
        groups.setdefault(event, []).append({"matcher": matcher, "hooks": own})
    return {"hooks": groups}


def seen(number: int, reported: str, folder: Path) -> tuple[set[str], int]:
    """Which of the row's words the model was told, and how often a hook that counts itself
    has run.
    """
    log = folder / f"row-{number}.log"
    return {word for word in WORDS if f"{word}-{number}." in reported}, len(
        log.read_text().split()
    ) if log.exists() else 0


async def claude_code(folder: Path, block: Mapping[str, object], count: int) -> str:
    """All that the model is told by the CLI once it has called the shell for each row."""
    (folder / "settings.json").write_text(json.dumps(block))
    calls = [
        ToolUse(name="Bash", input={"command": f"echo RAN-{number}."}) for number in range(count)
    ]
    async with ScriptedMessages([calls, [say("done")]]) as api:
        process = await asyncio.create_subprocess_exec(
            CLI,
            "-p",
            "hi",
            "--settings",
            str(folder / "settings.json"),
            "--setting-sources",
            "",
            "--model",
            "claude-sonnet-4-5",
            "--allowedTools",
            "Bash",
            cwd=folder,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=-1,
            stderr=-1,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(folder),
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "ANTHROPIC_BASE_URL": api.url,
                "ANTHROPIC_API_KEY": "no secret",
            },
        )
        try:
            await asyncio.wait_for(process.communicate(), 50)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        first = len(api.asked[0].body["messages"])
        return json.dumps(
            [
                message["content"]
                for message in api.asked[1].body["messages"][first:]
                if message["role"] == "user"
            ]
        )


async def ours(home: Path, folder: Path, block: Mapping[str, object], count: int) -> str:
    """All that an agent is told here, calling a shell of the same name."""
    (home / "hooks.yaml").write_text(json.dumps(block))
    (home / "hooks.yaml").chmod(0o600)

    async def shell(arguments: Mapping[str, object]) -> ToolResult:
        return ToolResult(text=str(arguments["command"]).removeprefix("echo "))

    schema = {"type": "object", "properties": {"command": {"type": "string"}}}
    async with running_hooks(home, folder) as hooks:
        agent = AgentHooks(
            asker=hooks, clock=lambda: datetime.now(UTC), vault=folder, session_id="s", agent="a"
        )
        (tool,) = agent.tools([Tool(name="Bash", description="", schema=schema, call=shell)])
        results = await asyncio.gather(
            *(tool.call({"command": f"echo RAN-{number}."}) for number in range(count))
        )
    return "\n".join(result.text for result in results)


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path, Path]:
    """A home of ours, and a folder for each to work in."""
    made = (tmp_path / "home", tmp_path / "vault", tmp_path / "project")
    for folder in made:
        folder.mkdir(mode=0o700)
    return made


async def test_an_agent_here_learns_what_claude_code_tells_the_model(
    places: tuple[Path, Path, Path],
):
    home, vault, project = places
    block = settings(ROWS)
    theirs, reported = await asyncio.gather(
        claude_code(project, block, len(ROWS)), ours(home, vault, block, len(ROWS))
    )

    expected = {row: seen(number, theirs, project) for number, row in enumerate(ROWS)}
    assert {row: seen(number, reported, vault) for number, row in enumerate(ROWS)} == expected
    assert sum("RAN" in words for words, _ in expected.values()) < len(ROWS) // 2, (
        "most rows are of hooks that stop the call"
    )


@pytest.mark.parametrize("row", STRICTER)
async def test_where_ours_is_stricter_the_call_is_not_made(
    row: str, places: tuple[Path, Path, Path]
):
    home, vault, _ = places

    reported = await ours(home, vault, settings({row: STRICTER[row]}), 1)

    assert reported.startswith("a hook refused Bash")


async def test_of_several_denials_an_agent_learns_all_reasons(places: tuple[Path, Path, Path]):
    home, vault, _ = places
    denials = [hook("echo one >&2; exit 2"), hook("echo two >&2; exit 2")]

    assert "one\ntwo" in await ours(home, vault, settings({"row": (PRE, "Bash", denials)}), 1)
