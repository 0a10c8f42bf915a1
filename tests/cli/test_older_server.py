"""An older server's folder: a plan of what is taken over, then that and nothing else."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from tests.cli.command_line import CommandLine

SECRET = f"para_{'x' * 32}"


def older(vault: Path) -> None:
    kept = vault / ".parachute"
    (kept / "workspaces/research").mkdir(parents=True)
    digest = hashlib.sha256(SECRET.encode()).hexdigest()
    (kept / "server.yaml").write_text(
        "security:\n  require_auth: true\n  api_keys:\n"
        f"    - {{id: k_1, label: my phone, key_hash: '{digest}', created_at: "
        f"'2025-01-06T12:00:00Z', last_used_at: null}}\n"
        "    - {id: k_2, label: odd, key_hash: 'bcrypt$x'}\n"
        "server:\n  port: 4321\n"
    )
    (kept / "workspaces/research/config.yaml").write_text(
        "name: Research\nslug: research\nmodel: opus\nworking_directory: ~/r\n"
    )
    (kept / "profile.md").write_text("# Me\n")
    (kept / "bots.yaml").write_text("telegram: {bot_token: SECRET}\n")
    (kept / "module_hashes.json").write_text("{}")


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_what_an_older_server_kept_is_planned_first_and_then_taken_over(command_line: CommandLine):
    older(command_line.vault)
    before = contents(command_line.vault)

    said = command_line.does("init", "--from", str(command_line.vault))
    assert "Nothing was done; --yes does it." in said
    assert (contents(command_line.vault), list(command_line.home.glob("*.yaml"))) == (before, [])
    assert "SECRET" not in said

    assert command_line.does(
        "init", "--from", str(command_line.vault / ".parachute"), "--yes"
    ).startswith(f"take      setting vault = {command_line.vault} ")
    assert [line for line in said.splitlines() if line.startswith("take ")] == [
        f"take      setting vault = {command_line.vault} (the folder itself)",
        (
            "take      setting port = 4321 "
            f"(server.port in {command_line.vault}/.parachute/server.yaml)"
        ),
        "take      the key 'my phone', which may read and write everything and administer nothing",
        (
            f"take      {command_line.vault}/.parachute/profile.md becomes the note "
            f"{command_line.vault}/Profile.md, where agents can read it"
        ),
    ]
    assert [
        word in said
        for word in ("require_auth", "'odd'", "Research", "bots.yaml", "approve nothing")
    ] == [True] * 5
    assert contents(command_line.vault) == {**before, "Profile.md": b"# Me\n"}
    assert command_line.json("vault")["vault"] == str(command_line.vault)
    assert command_line.does("config", "get", "port") == "4321\n"
    (key,) = json.loads(command_line.does("keys", "list", "--json"))["keys"]
    assert (key["name"], key["created"]) == ("my phone", "2025-01-06T12:00:00Z")


def test_older_names_of_settings_are_taken_over_and_what_means_nothing_is_said(
    command_line: CommandLine, tmp_path: Path
):
    folder = tmp_path / "old"
    folder.mkdir()
    (folder / "config.yaml").write_text(
        f"vault_path: {command_line.vault}\ndefault_model: opus\ndebug: true\n"
    )

    said = command_line.does("init", "--from", str(folder), "--yes")

    assert "leave     debug in" in said
    assert (
        command_line.does("config", "get", "agent.model"),
        command_line.json("vault")["vault"],
    ) == (
        "opus\n",
        str(command_line.vault),
    )


def test_a_folder_of_no_older_server_and_one_that_is_broken_are_refused(command_line: CommandLine):
    assert "holds nothing of an older server" in command_line.fails(
        1, "init", "--from", str(command_line.vault)
    )
    (command_line.vault / ".parachute").mkdir()
    (command_line.vault / ".parachute/server.yaml").write_text("security: [")
    assert "cannot be understood" in command_line.fails(
        1, "init", "--from", str(command_line.vault), "--yes"
    )
