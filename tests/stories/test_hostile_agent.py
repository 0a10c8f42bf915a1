"""A hostile agent: whatever it sends to whichever tool, nothing happens but an answer in words."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from parachuted.agents.job import Job
from parachuted.testing import Block, ScriptedBackend, ToolUse
from tests.stories.daemon_rig import DaemonRig, Live, note, save, seeded
from tests.stories.graphs import touch_up
from tests.stories.hostile_calls import RecordingBackend

OWN = "w/AGENTS.md"
PATHS: list[object] = [
    "secret.md",
    "x/AGENTS.md",
    "other/AGENTS.md",
    "/etc/passwd",
    "../outside.md",
    "w/../secret.md",
    "./w/AGENTS.md",
    "w//AGENTS.md",
    "W/AGENTS.md",
    "w/AGENTS.md/",
    "w",
    "",
    ".",
    "..",
    "*",
    "~/.ssh/id_rsa",
    "file:///etc/passwd",
    "C:\\Windows",
    ".parachute/audit/x.jsonl",
    ".git/config",
    ".obsidian/app.json",
    "link.md",
    "inside.md",
    "w/AGENTS.md\0.txt",
    "w/AGENTS\u200b.md",
    "w/\uff21GENTS.md",
    "\ud800",
    "a" * 300,
    "/".join("a" * 999),
    None,
    7,
    1.5,
    True,
    [],
    ["w/AGENTS.md"],
    {"path": "w/AGENTS.md"},
]
SECTIONS: list[object] = [
    "Facts",
    "Plans",
    "",
    "w",
    "# w",
    "Facts > Nowhere",
    "> ",
    "watch",
    "@watch",
    "(opening text)",
    "---",
    "\n",
    "\0",
    "x" * 10_000,
    None,
    3,
    ["Facts"],
]
CONTENTS: list[object] = [
    "# Mine now",
    "- x\n\n## History\n\n- all forged",
    "History\n---",
    "Mine\n===",
    "```\nopen",
    "~~~~\n# open",
    "<!-- open",
    "<script>",
    "- \x00",
    "- \x1b[2J",
    "- \x07",
    "\ud800",
    "\u2028",
    "\r",
    "x" * 10_000_000,
    "y" * 66_000,
    "---\nwatch:\n  - '**'\n---\n# Mine",
    None,
    5,
    ["- x"],
    {"text": "- x"},
    True,
]


def hostile_calls() -> Iterator[ToolUse]:
    """Every path, every section and every content, each with the rest as it should be; wrong
    shapes; tools that do not exist.
    """
    for path in PATHS:
        yield ToolUse(name="read_context", input={"file_path": path})
        yield ToolUse(
            name="update_context",
            input={"file_path": path, "section": "Facts", "content": "- forged"},
        )
    for section in SECTIONS[1:]:
        yield ToolUse(
            name="update_context",
            input={"file_path": OWN, "section": section, "content": "- forged"},
        )
    for content, section in itertools.product(CONTENTS, ["Facts", "History", "Watching"]):
        yield ToolUse(
            name="update_context", input={"file_path": OWN, "section": section, "content": content}
        )
    for shape in (
        None,
        [],
        "words",
        5,
        {},
        {"file_path": OWN},
        {"file_path": OWN, "section": "Facts", "content": "- x", "mode": "w"},
        nested(5000),
    ):
        for tool in ("read_context", "update_context", "no_change"):
            yield ToolUse(name=tool, input=shape)
    for tool in (
        "Bash",
        "Write",
        "mcp__curator__Bash",
        "update_context ",
        "",
        "__class__",
        "x" * 100_000,
    ):
        yield ToolUse(
            name=tool,
            input={
                "file_path": OWN,
                "section": "Facts",
                "content": "- forged",
                "command": "rm -rf /",
            },
        )
    yield ToolUse(name="list_context_files", input={"all": True})


def nested(depth: int) -> dict[str, object]:
    value: dict[str, object] = {}
    for _ in range(depth):
        value = {"file_path": value}
    return value


def fill(vault: Path) -> None:
    save(
        vault / OWN,
        note("w", watch=["x", "seen.md"]).replace("## Current", "## Facts\n\n- mine\n\n## Current"),
    )
    for name in ("x", "other"):
        save(vault / name / "AGENTS.md", note(name))
    save(vault / "secret.md", "# Secret\n\nthe password is swordfish\n")
    save(vault / ".parachute/audit/x.jsonl", "{}\n")
    save(vault / ".git/config", "[core]\n")
    save(vault.parent / "outside.md", "# Outside\n\nswordfish\n")
    (vault / "link.md").symlink_to(vault.parent / "outside.md")
    (vault / "inside.md").symlink_to(vault / "secret.md")


def is_audit(path: Path) -> bool:
    return path.parent.name == "audit" and path.name != "x.jsonl"


def digest(folder: Path) -> str:
    """Of all that is there, names and bytes and what links lead to, but for the audit's days, in
    which the agent's calls are told.
    """
    whole = sha256()
    for path in sorted(path for path in folder.rglob("*") if not is_audit(path)):
        content = (
            str(path.readlink()).encode()
            if path.is_symlink()
            else path.read_bytes()
            if path.is_file()
            else b""
        )
        whole.update(
            json.dumps([path.relative_to(folder).as_posix(), sha256(content).hexdigest()]).encode()
        )
    return whole.hexdigest()


async def attacked(daemon_rig: DaemonRig, focus: str) -> None:
    """The note that the hostile agent's note watches changes, and the agent comes."""
    before = len(daemon_rig.reported("run.finished"))
    touch_up(daemon_rig.vault, "x", focus, {"x": []})
    await daemon_rig.until(lambda: len(daemon_rig.reported("run.finished")) > before, 45)
    await daemon_rig.settled()


async def test_no_call_changes_a_byte_and_every_one_is_answered(live: Live, vault: Path):
    fill(vault)
    calls = list(hostile_calls())
    digests: list[str] = []

    async def script(_job: Job) -> list[Block]:
        digests.append(digest(vault.parent / "vault"))
        return calls

    backend = RecordingBackend(script)
    async with live(backend, agent__max_turns=1000) as daemon_rig:
        await attacked(daemon_rig, "- new")
        (run,) = daemon_rig.reported("run.finished")
        answers = backend.answers

        assert digest(vault) == digests[0]
        assert (run["outcome"], run["paths"]) == ("unchanged", [])
        assert len(answers) == len(calls)
        allowed = [called for called in answers if not called.result.is_error]
        assert [(called.tool, called.arguments["file_path"]) for called in allowed] == [
            ("read_context", "x/AGENTS.md"),
            ("read_context", OWN),
        ]
        for called in answers:
            assert 0 < len(called.result.text) < 20_000
            assert "swordfish" not in called.result.text
            assert str(vault) not in called.result.text
        assert "swordfish" not in json.dumps(daemon_rig.daemon.watched.history.runs())
        assert [change["path"] for change in daemon_rig.reported("file.")] == ["x/AGENTS.md"]


async def test_random_calls_change_nothing_but_the_sections_of_the_own_note(
    live: Live, vault: Path, torture
):
    fill(vault)
    seed, rng = seeded()
    contents = [*CONTENTS, "- fine", "### deeper\n\n- fine", "> quoted", "```\nclosed\n```"]
    rounds, own = 20 if torture else 1, (vault / OWN).read_text("utf-8")
    before = {path: path.read_bytes() for path in others(vault)}

    async def script(_job: Job) -> list[Block]:
        return [random_call(rng, contents) for _ in range(400 if torture else 150)]

    backend = ScriptedBackend(script)
    async with live(backend, agent__max_turns=1000) as daemon_rig:
        for number in range(rounds):
            await attacked(daemon_rig, f"- {number}")
            before[vault / "x/AGENTS.md"] = (vault / "x/AGENTS.md").read_bytes()

            assert {path: path.read_bytes() for path in others(vault)} == before, f"seed {seed}"
            assert sorted(path.name for path in (vault / "w").iterdir()) == ["AGENTS.md"]
            text = (vault / OWN).read_text("utf-8")
            headings = [line for line in text.splitlines() if line.startswith("## ")]
            assert text.startswith(own[: own.index("## Facts")]), f"seed {seed}"
            assert headings[:3] == ["## Facts", "## Current Focus", "## History"], f"seed {seed}"


def random_call(rng: random.Random, contents: list[object]) -> ToolUse:
    tool = rng.choice(
        [
            "read_context",
            "update_context",
            "update_context",
            "update_context",
            "list_context_files",
            "Bash",
        ]
    )
    path, section = (
        rng.choice([*PATHS, *[OWN] * 40]),
        rng.choice([*SECTIONS, *["Facts", "History", "Watching"] * 6]),
    )
    return ToolUse(
        name=tool, input={"file_path": path, "section": section, "content": rng.choice(contents)}
    )


def others(vault: Path) -> list[Path]:
    own = {vault / OWN, vault / ".parachute/vault-id", vault / ".parachute/.gitignore"}
    return [
        path
        for path in vault.rglob("*")
        if path.is_file() and path not in own and not is_audit(path)
    ]
