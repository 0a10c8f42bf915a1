"""Loading: what a person writes, pastes or drops becomes hooks, and all that is wrong is said at
once, with its line. The home is trust, the vault is not, and what could be anybody's is not read.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from parachuted.home_files import YamlRejectedError
from parachuted.hooks.hook import Hook
from parachuted.hooks.loading import HookFile, read_script, read_settings

pytestmark = pytest.mark.on_disk

SPECIFICATION = """\
hooks:
  daily.entry.created:
    - type: "command"
      command: "python -m parachute_brain.hooks.detect_mentions"
      timeout: 30
    - type: "command"
      command: "/path/to/custom/backup-script.sh"
      async: true  # Non-blocking

  session.end:
    - type: "command"
      command: "python -m parachute.hooks.activity_summary"
"""


def read(text: str, **places: str) -> HookFile:
    return read_settings(text, places=places)


def only(text: str) -> Hook:
    found = read(text)
    assert found.problems == []
    (hook,) = found.hooks
    return hook


def one(event: str = "tool.before", **fields: object) -> Hook:
    return only(json.dumps({"hooks": {event: [{"type": "command", "command": "x", **fields}]}}))


def test_the_specifications_own_example_is_read():
    found = read(SPECIFICATION)

    assert found.problems == []
    assert [(hook.id, hook.event, hook.is_async) for hook in found.hooks] == [
        ("daily.entry.created[0]", "daily.entry.created", False),
        ("daily.entry.created[1]", "daily.entry.created", True),
        ("session.end[0]", "session.end", False),
    ]
    assert found.hooks[0].command == "python -m parachute_brain.hooks.detect_mentions"


def test_a_settings_file_of_claude_codes_is_pasted_whole():
    pasted = {
        "$schema": "https://json.schemastore.org/claude-code-settings.json",
        "permissions": {"allow": ["Bash(git *)"]},
        "hooks": {
            "PreToolUse": [
                {
                    "matcher": "Edit|Write",
                    "hooks": [{"type": "command", "command": "x", "timeout": 600}],
                },
                {
                    "matcher": "",
                    "hooks": [
                        {
                            "type": "command",
                            "command": "y",
                            "onFailure": "block",
                        }
                    ],
                },
            ],
            "TeammateIdle": [{"hooks": [{"type": "command", "command": "notify-send hi"}]}],
        },
    }
    text = json.dumps(pasted, indent="\t")
    found = read(text)
    at = text[: text.index("TeammateIdle")].count("\n") + 1

    first, second = found.hooks
    assert (first.matcher, first.timeout_s) == ("Edit|Write", 600)
    assert second.blocks_on_failure
    assert found.problems == [
        "line 3: 'permissions' means nothing here, or has no such value",
        f"line {at}: Claude Code's event TeammateIdle has no counterpart here",
    ]


@pytest.mark.parametrize(
    ("written", "field", "value"),
    [
        ({"timeout": 600}, "timeout_s", 600),
        ({"timeout": 0.5}, "timeout_s", 0.5),
        ({"matcher": "Edit"}, "matcher", "Edit"),
        ({"async": True}, "is_async", True),
        ({"onFailure": "block"}, "blocks_on_failure", True),
        ({"on_failure": "block"}, "blocks_on_failure", True),
        ({"onFailure": "continue"}, "blocks_on_failure", False),
        ({"timeout": 999_999}, "timeout_s", 86_400),
        ({"description": "Looks"}, "description", "Looks"),
        ({"shell": "bash"}, "words", ("/bin/sh", "-c", "x")),
        ({"timeout": None, "matcher": None, "args": None}, "timeout_s", 30),
    ],
)
def test_each_field_of_a_hook_is_read(written: dict[str, object], field: str, value: object):
    assert getattr(one(**written), field) == value


@pytest.mark.parametrize("kind", ["prompt", "agent", "http", "mcp_tool"])
def test_types_that_are_not_supported_are_reported_by_name(kind: str):
    found = read(
        f"hooks:\n  PreToolUse:\n    - hooks:\n        - type: {kind}\n          prompt: x\n      "
        f"  - {{command: y}}\n"
    )

    assert [hook.id for hook in found.hooks] == ["PreToolUse[0].1"]
    assert found.problems == [f"line 4: PreToolUse[0].0: hooks of the type {kind} do not run here"]


MISTAKES = """\
hooks:
  file.modified:
    - {type: command, command: works}
    - type: command
      command: x
      timeout: soon
      once: perhaps
    - type: command
    - {type: comand, command: x}
    - just words
    - {command: x, mathcer: y}
    - {command: x, onFailure: stop}
    - {command: x, timeout: 0}
    - {command: x, matcher: "a("}
    - {command: x, shell: powershell}
    - {hooks: {command: x}}
    - {command: x, args: [y]}
  file.changed: [{command: x}]
  PreToolUse: {command: x}
  tool.before:
    - {command: x, if: "Bash("}
disableAllHooks: maybe
nonsense: 1
"""


def test_all_mistakes_are_reported_at_once_and_the_other_hooks_work():
    found = read(MISTAKES)

    assert found.problems == [
        (
            "line 6: file.modified[1] does not run: timeout: Input should be a valid number, "
            "unable to parse string as a number"
        ),
        "line 8: file.modified[2] does not run: command: Field required",
        "line 9: file.modified[3] does not run: type: Input should be 'command'",
        "line 10: file.modified[4] does not run: command: Field required",
        "line 11: file.modified[5]: 'mathcer' means nothing here; the rest of it holds",
        "line 12: file.modified[6] does not run: onFailure: Input should be 'continue' or 'block'",
        "line 13: file.modified[7] does not run: timeout: Input should be greater than 0",
        (
            "line 14: file.modified[8] does not run: the matcher 'a(' is not a regular expression "
            "of RE2's (which has no look-around, no back-references)"
        ),
        "line 15: file.modified[9] does not run: shell: Input should be 'bash'",
        "line 16: file.modified[10]: hooks should be a list",
        "line 17: file.modified[11] does not run: args: Input should be None",
        "line 18: there is no event 'file.changed'; `parachute hooks docs` lists them",
        "line 19: PreToolUse should be a list, each item after a dash",
        "line 21: tool.before[0]: 'if' means nothing here; the rest of it holds",
        "line 22: 'disableAllHooks' means nothing here, or has no such value",
        "line 23: 'nonsense' means nothing here, or has no such value",
    ]
    assert [hook.id for hook in found.hooks] == [
        "file.modified[0]",
        "file.modified[5]",
        "tool.before[0]",
    ]


def test_one_event_under_two_keys_adds_up():
    found = read(
        "hooks:\n  Stop: [{command: a}]\n  Stop: [{command: b}]\n  stop.before: [{command: c}]\n"
    )

    assert [(hook.id, hook.command) for hook in found.hooks] == [
        ("Stop[0]", "a"),
        ("Stop[1]", "b"),
        ("stop.before[0]", "c"),
    ]


def test_all_hooks_can_be_switched_off_and_that_is_said():
    found = read("disableAllHooks: true\nhooks: {Stop: [{command: x}]}\n")

    assert found.is_off
    assert found.problems == ["line 1: disableAllHooks is true, so no hook runs"]
    assert not read("disableAllHooks: false\n").is_off


@pytest.mark.parametrize(
    "text", ["", "hooks:\n", "hooks: {}\n", "hooks: {Stop: }\n", "hooks: {Stop: []}\n"]
)
def test_no_hooks_are_no_mistake(text: str):
    assert read(text) == HookFile()


@pytest.mark.parametrize("text", ["- a\n", "just words\n"])
def test_a_file_of_another_kind_is_refused(text: str):
    with pytest.raises(YamlRejectedError, match="line 1: it should hold `hooks:`"):
        read(text)


def test_the_scripts_that_a_hook_names_are_found_to_be_pinned(tmp_path: Path):
    for name in ("home/a.sh", "vault/b.py", "vault/with space.py", "home/c.sh"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    commands = [
        {"command": "~/a.sh --flag x"},
        {"command": "python b.py"},
        {"command": '"$CLAUDE_PROJECT_DIR/with space.py"'},
        {"command": "python ${HOME}/c.sh nothing.py"},
        {"command": "/usr/bin/env x; sh /bin/sh"},
        {"command": "it's"},
        {"command": f"{tmp_path}/home/a.sh {tmp_path}/home/a.sh {tmp_path}/home {'x' * 5000}"},
    ]
    home, vault = str(tmp_path / "home"), str(tmp_path / "vault")
    found = read(
        json.dumps({"Stop": commands}), HOME=home, PARACHUTE_VAULT=vault, CLAUDE_PROJECT_DIR=vault
    )

    named = [
        [os.path.relpath(file, tmp_path) for file in hook.files if file.is_relative_to(tmp_path)]
        for hook in found.hooks
    ]
    assert named == [
        ["home/a.sh"],
        ["vault/b.py"],
        ["vault/with space.py"],
        ["home/c.sh"],
        [],
        [],
        ["home/a.sh"],
    ]
    assert not any(
        str(file).startswith(("/usr/", "/bin/")) for hook in found.hooks for file in hook.files
    )


@pytest.mark.parametrize(
    "command",
    [
        "~/a.sh; exit 0",
        "~/a.sh||true",
        "(~/a.sh)",
        "x &&~/a.sh&",
        "~/a.sh>log.txt",
        "sh -c '. ~/a.sh; true'",
        "cat >> ~/log.txt | ~/a.sh",
    ],
)
def test_a_script_is_found_between_the_signs_of_a_shells_line(tmp_path: Path, command: str):
    for name in ("a.sh", "log.txt"):
        (tmp_path / name).write_text("x")
    places = {"HOME": str(tmp_path), "PARACHUTE_VAULT": str(tmp_path)}

    [hook] = read(json.dumps({"Stop": [{"command": command}]}), **places).hooks

    assert hook.files == (tmp_path / "a.sh",)


def test_a_path_at_which_there_is_nothing_yet_is_looked_at_too(tmp_path: Path):
    [hook] = read(
        json.dumps({"Stop": [{"command": "~/gone.sh x y"}]}),
        HOME=str(tmp_path),
        PARACHUTE_VAULT=str(tmp_path),
    ).hooks
    assert hook.files == (tmp_path / "gone.sh",)


@pytest.mark.parametrize("indent", [None, 2, "\t"])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_pasted_json_is_read_as_json_would_be(indent: int | str | None, *, ascii_only: bool):
    command = 'say "hi" / \\ \t \n é'
    pasted = {"hooks": {"Stop": [{"command": command, "timeout": 1.5, "async": True}]}}
    text = json.dumps(pasted, indent=indent, ensure_ascii=ascii_only).replace("/", "\\/")

    (hook,) = read(f"\ufeff{text}").hooks
    assert (hook.command, hook.timeout_s, hook.is_async) == (command, 1.5, True)


def put(folder: Path, name: str, text: str = "", *, mode: int = 0o644) -> Path:
    path = folder / name
    path.write_text(text)
    path.chmod(mode)
    return path


def hook_of(path: Path) -> Hook:
    hook = read_script(path, "file.modified", Path("/elsewhere"))
    assert hook is not None
    return hook


@pytest.mark.parametrize(
    ("name", "text", "mode", "interpreter"),
    [
        ("on-session-start.py", "print(1)\n", 0o644, (sys.executable,)),
        ("on-session-end.sh", "echo\n", 0o644, ("/bin/sh",)),
        ("on-file-modified.py", "#!/usr/bin/env python3\n", 0o755, ()),
        ("on-file-modified.py", "print(1)\n", 0o755, (sys.executable,)),
    ],
    ids=["python", "shell", "by its first line", "executable without a first line"],
)
def test_a_script_runs_by_its_first_line_or_else_its_suffix(
    tmp_path: Path, name: str, text: str, mode: int, interpreter: tuple[str, ...]
):
    path = put(tmp_path, name, text, mode=mode)

    assert hook_of(path).words == (*interpreter, str(path))


@pytest.mark.parametrize("name", ["on-file-modified", "on-file-modified.rb", "on-file-modified.js"])
def test_any_other_program_runs_when_it_is_executable(tmp_path: Path, name: str):
    path = put(tmp_path, name, "#!/usr/bin/env x\n", mode=0o755)
    assert hook_of(path).words == (str(path),)

    path.chmod(0o644)
    with pytest.raises(ValueError, match="it is not executable; `chmod"):
        hook_of(path)


def test_a_script_is_a_hook_by_its_name_and_pinned_by_its_content(tmp_path: Path):
    path = put(tmp_path, "on-daily-entry.py")
    hook = hook_of(path)

    assert (hook.id, hook.event, hook.source, hook.files) == (
        "on-daily-entry.py",
        "file.modified",
        "script",
        (path,),
    )
    assert (hook.timeout_s, hook.matcher, hook.is_async) == (30, None, False)


@pytest.mark.parametrize(
    ("text", "described"),
    [
        ("#!/bin/sh\n# Copies the vault.\n# More.\n", "Copies the vault."),
        (
            '#!/usr/bin/env python3\n# -*- coding: utf-8 -*-\n"""Links mentions."""\n',
            "Links mentions.",
        ),
        ('"""Links mentions.\n\nMore."""\n', "Links mentions."),
        ("// Says hello\n", "Says hello"),
        ("-- Says hello\n", "Says hello"),
        ("\n\n## Says hello\n", "Says hello"),
        ("import os\n# Not this.\n", None),
        ("", None),
    ],
)
def test_its_first_comment_describes_it(tmp_path: Path, text: str, described: str | None):
    assert hook_of(put(tmp_path, "on-file-modified.sh", text)).description == described


def test_a_folder_or_a_pipe_of_that_name_is_not_a_hook(tmp_path: Path):
    (tmp_path / "on-session-start.py").mkdir()
    os.mkfifo(tmp_path / "on-session-end.py")

    assert (
        read_script(tmp_path / "on-session-start.py", "file.modified", Path("/elsewhere")) is None
    )
    assert read_script(tmp_path / "on-session-end.py", "file.modified", Path("/elsewhere")) is None
