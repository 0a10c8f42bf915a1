"""The commands that need no daemon."""

from __future__ import annotations

import json
import time

import pytest

from parachuted.bundled import bundled_folder
from parachuted.cli import main
from parachuted.cli.setup import make_default_vault
from parachuted.config import describe_settings


@pytest.fixture
def run(home, tmp_path, monkeypatch, capsys):
    """Run a command here; its code and what it printed and complained of."""
    monkeypatch.setenv("HOME", str(tmp_path))

    def run(*words: str) -> tuple[int, str, str]:
        code = main(list(words))
        return code, *capsys.readouterr()

    return run


def test_init_makes_a_vault_from_the_template_and_remembers_it(run, tmp_path):
    code, said, _ = run("init", str(tmp_path / "Notes"))

    assert code == 0
    assert said.startswith(f"Made {tmp_path / 'Notes'}")
    made = {file.relative_to(tmp_path / "Notes") for file in (tmp_path / "Notes").rglob("*")}
    assert made == {
        file.relative_to(bundled_folder("vault-template"))
        for file in bundled_folder("vault-template").rglob("*")
    }
    assert run("vault") == (0, f"{tmp_path / 'Notes'}\n", "")


def test_init_without_a_path_makes_the_vault_of_the_settings(run, tmp_path):
    began = time.time()
    assert (
        run("init")[1]
        == f"Made {tmp_path / 'Parachute'}, with a few notes to begin with.\n`parachute start` "
        "watches it.\n"
    )
    assert (
        min(note.stat().st_mtime for note in (tmp_path / "Parachute").rglob("*.md")) >= began - 1
    ), "the notes are new"
    made = str(tmp_path / "Parachute")
    assert json.loads(run("vault", "--json")[1]) == {
        "vault": made,
        "exists": True,
        "settings": made,
    }


def test_init_leaves_what_is_there(run, vault):
    (vault / "mine.md").write_text("mine")
    code, said, _ = run("init", str(vault))

    assert (code, "left as it is" in said) == (0, True)
    assert [file.name for file in vault.iterdir()] == ["mine.md"]


@pytest.mark.parametrize(
    "words", [("--with", "daily,brain"), ("--with", "daily", "--with", "brain")]
)
def test_init_with_modules_shows_each_and_installs_them(run, tmp_path, words):
    code, said, _ = run("init", str(tmp_path / "Notes"), *words, "--yes")

    assert code == 0
    assert "reads" in said
    assert "inside the daemon" in said, "what is shown is what is granted"
    assert "runs from the next start" in said
    listed = json.loads(run("modules", "list", "--json")[1])["modules"]
    assert {(one["name"], one["trust_level"]) for one in listed} == {
        ("brain", "trusted"),
        ("daily", "trusted"),
    }


def test_a_first_vault_is_made_with_the_official_modules_where_a_person_agrees(
    run, tmp_path, monkeypatch, capsys
):
    asked: list[str] = []

    def agree(question: str) -> str:
        asked.append(question)
        return "y"

    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", agree)
    make_default_vault(tmp_path / "Parachute")
    make_default_vault(tmp_path / "Parachute")  # it is there: nothing is asked again

    capsys.readouterr()
    assert asked[0].startswith("Install the modules that come with parachuted (brain, chat, daily")
    assert len(asked) == 4, "each is shown and approved by itself"
    listed = json.loads(run("modules", "list", "--json")[1])["modules"]
    assert {one["name"] for one in listed} == {"brain", "chat", "daily"}


def test_init_with_modules_asks_before_they_may_run(run, tmp_path):
    code, said, _ = run("init", str(tmp_path / "Notes"), "--with", "daily")
    first = said.index("Nothing is approved without a terminal or --yes")
    assert first < said.index("Approve daily and let it run?")

    assert code == 1
    assert "Approve daily and let it run?" in said
    assert "These files are not approved" in said


def test_init_names_the_modules_there_are_before_it_installs_one(run, tmp_path):
    code, _, complaint = run("init", str(tmp_path / "Notes"), "--with", "daily,diary", "--yes")

    assert code == 1
    assert "parachuted has no module 'diary'; it has " in complaint
    assert not (tmp_path / "Notes" / "Modules").exists()


def test_init_says_when_it_cannot(run, tmp_path):
    (tmp_path / "file").write_text("")
    code, said, complaint = run("init", str(tmp_path / "file"))
    assert (code, said) == (1, "")
    assert "cannot be made" in complaint
    assert "Traceback" not in complaint


def test_vault_set_takes_a_folder_that_is_there(run, vault, home, monkeypatch):
    monkeypatch.chdir(vault.parent)
    assert run("vault", "set", "vault") == (
        0,
        f"The vault is {vault} from the next start on.\n",
        "",
    )
    assert run("vault")[1] == f"{vault}\n"
    code, _, complaint = run("vault", "set", "nowhere")
    assert (code, "there is no folder" in complaint) == (1, True)
    code, _, complaint = run("vault", "set", str(home.parent))
    assert (code, "may not hold the folder of settings" in complaint) == (2, True)
    assert run("vault")[1] == f"{vault}\n"


def test_config_shows_every_setting_and_sets_one(run):
    keys = [described.key for described in describe_settings()]
    assert run("config", "set", "budget.runs_per_day", "7")[1].startswith(
        "budget.runs_per_day is 7 from"
    )
    code, said, _ = run("config")
    listed = json.loads(run("config", "--json")[1])

    assert code == 0
    assert [line.split()[0] for line in said.splitlines()[1:]] == keys
    assert [setting["key"] for setting in listed] == keys
    assert {setting["key"]: setting["value"] for setting in listed}["budget.runs_per_day"] == "7"
    assert all(setting["means"] for setting in listed)


def test_config_shows_no_password_in_an_address(run):
    said = run("config", "set", "agent.base_url", "http://me:hush@localhost:1234")[1]
    assert (
        "hush"
        not in said + run("config")[1] + run("config", "--json")[1] + run("auth", "status")[1]
    )
    assert "http://[secret]@localhost:1234" in said


@pytest.mark.parametrize(
    "wrong",
    [
        ("port", "many"),
        ("ports", "1"),
        ("budget", "1"),
        ("agent.backend", "magic"),
        ("host", "my computer"),
    ],
)
def test_config_set_refuses_what_is_not_a_setting_and_writes_nothing(run, home, wrong):
    code, _, complaint = run("config", "set", *wrong)

    assert code == 2
    assert complaint.startswith("parachute: the settings are wrong:\n  ")
    assert not (home / "config.yaml").exists()


@pytest.mark.parametrize("place", ["variable", "file"])
def test_auth_status_tells_what_was_found_and_never_the_secret(run, tmp_path, monkeypatch, place):
    if place == "variable":
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-SECRET")
    else:
        (tmp_path / ".claude").mkdir()
        login = {
            "claudeAiOauth": {
                "accessToken": "sk-ant-SECRET",
                "refreshToken": "SECRET",
                "expiresAt": 99999999999999,
            }
        }
        (tmp_path / ".claude/.credentials.json").write_text(json.dumps(login))
        (tmp_path / ".claude/.credentials.json").chmod(0o600)
    code, said, _ = run("auth", "status")
    document = run("auth", "status", "--json")[1]

    assert code == 0
    assert "found  " in said
    assert "Agent: claude" in said
    assert [one["found"] for one in json.loads(document)["looked"]].count(True) >= 1
    assert "SECRET" not in said + document


def test_auth_status_without_a_login_says_where_it_looked(run):
    code, said, _ = run("auth", "status")

    assert code == 0
    assert said.count("nothing  ") >= 3
    assert "Agent: offline, with no model, since no login was found.\nTo use a model: " in said


def test_service_status_is_reported_as_text_and_as_a_document(run, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    code, said, _ = run("service", "status")
    assert (code, "installed: no" in said) == (3, True)
    assert json.loads(run("service", "status", "--json")[1])["installed"] is False
    assert run("service", "uninstall")[0] == 0


def test_one_setting_is_reported_and_taken_back(run):
    run("config", "set", "agent.max_turns", "7")
    assert run("config", "get", "agent.max_turns") == (0, "7\n", "")
    assert run("config", "unset", "agent.max_turns")[1].startswith(
        "agent.max_turns is 12, its default"
    )
    assert run("config", "get", "agent.max_turns")[1] == "12\n"
    assert run("config", "get", "agent.max_turn")[0] == 2
    assert run("config", "unset", "agent.max_turn")[0] == 2


def test_a_printed_command_can_be_typed_whatever_the_folder_is_called(run, tmp_path):
    complaint = run("vault", "set", str(tmp_path / "my notes"))[2]

    assert f"`parachute init '{tmp_path}/my notes'`" in complaint


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_learns_every_command(run, shell):
    code, said, _ = run("completion", shell)

    assert code == 0
    assert all(word in said for word in ("suggestions", "approve-all", "doctor", "accept-missing"))


def test_a_module_that_is_not_there_is_said_to_be_not_there(run, vault):
    run("vault", "set", str(vault))
    code, _, complaint = run("modules", "test", "nope")

    assert (code, "unknown module nope" in complaint) == (1, True)
