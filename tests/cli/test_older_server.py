"""An older server's folder: a plan of what is taken over, then that and nothing else."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from tests.cli.typed import Typed

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


def test_what_an_older_server_kept_is_planned_first_and_then_taken_over(typed: Typed):
    older(typed.vault)
    before = contents(typed.vault)

    said = typed.does("init", "--from", str(typed.vault))
    assert "Nothing was done; --yes does it." in said
    assert (contents(typed.vault), list(typed.home.glob("*.yaml"))) == (before, [])
    assert "SECRET" not in said

    assert typed.does("init", "--from", str(typed.vault / ".parachute"), "--yes").startswith(
        f"take      setting vault = {typed.vault} "
    )
    assert [line for line in said.splitlines() if line.startswith("take ")] == [
        f"take      setting vault = {typed.vault} (the folder itself)",
        f"take      setting port = 4321 (server.port in {typed.vault}/.parachute/server.yaml)",
        "take      the key 'my phone', which may read and write everything and administer nothing",
        (
            f"take      {typed.vault}/.parachute/profile.md becomes the note "
            f"{typed.vault}/Profile.md, where agents can read it"
        ),
    ]
    assert [
        word in said
        for word in ("require_auth", "'odd'", "Research", "bots.yaml", "approve nothing")
    ] == [True] * 5
    assert contents(typed.vault) == {**before, "Profile.md": b"# Me\n"}
    assert typed.json("vault")["vault"] == str(typed.vault)
    assert typed.does("config", "get", "port") == "4321\n"
    (key,) = json.loads(typed.does("keys", "list", "--json"))["keys"]
    assert (key["name"], key["created"]) == ("my phone", "2025-01-06T12:00:00Z")


def test_older_names_of_settings_are_taken_over_and_what_means_nothing_is_said(
    typed: Typed, tmp_path: Path
):
    folder = tmp_path / "old"
    folder.mkdir()
    (folder / "config.yaml").write_text(
        f"vault_path: {typed.vault}\ndefault_model: opus\ndebug: true\n"
    )

    said = typed.does("init", "--from", str(folder), "--yes")

    assert "leave     debug in" in said
    assert (typed.does("config", "get", "agent.model"), typed.json("vault")["vault"]) == (
        "opus\n",
        str(typed.vault),
    )


def test_a_folder_of_no_older_server_and_one_that_is_broken_are_refused(typed: Typed):
    assert "holds nothing of an older server" in typed.fails(1, "init", "--from", str(typed.vault))
    (typed.vault / ".parachute").mkdir()
    (typed.vault / ".parachute/server.yaml").write_text("security: [")
    assert "cannot be understood" in typed.fails(1, "init", "--from", str(typed.vault), "--yes")
