"""Earlier formats: a home and a vault that an earlier commit wrote are opened, with all they hold.

tests/data/make_home.py makes an archive; those of earlier formats stay.
"""

from __future__ import annotations

import json
import tarfile
import urllib.request
from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine
from tests.data.make_home import FIRST, NOTE, THIRD

ARCHIVES = sorted((Path(__file__).resolve().parents[1] / "data").glob("*.tar.gz"))


@pytest.mark.timeout(900)  # a dozen commands
@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.name)
def test_all_that_it_holds_is_there_and_goes_on(archive, command_line: CommandLine, tmp_path: Path):
    command_line.home.rmdir()
    command_line.vault.rmdir()
    with tarfile.open(archive) as tar:
        # Python 3.11.0 to 3.11.3 have no filters; the archive is our own
        how = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        tar.extractall(tmp_path, **how)  # noqa: S202  see above
    command_line.home.chmod(0o700)
    command_line.home.joinpath("keys.yaml").chmod(0o600)
    made = json.loads((tmp_path / "made.json").read_text())
    before = (command_line.vault / "AGENTS.md").read_text()

    command_line.start()

    assert command_line.does("config", "get", "bubble.quiet_s").split() == ["0.05"]
    assert "holds" in command_line.does("audit", "verify")
    assert "Says hello" in command_line.does("hooks", "list")
    assert [key["name"] for key in command_line.json("keys", "list")["keys"]] == ["phone"]
    assert THIRD in reading_with(command_line, made["key"], NOTE)
    assert [run["id"] for run in command_line.json("runs")["runs"]] == [made["run"]]
    line = next(n for n, text in enumerate(before.splitlines(), 1) if f"(was: {FIRST}" in text)
    assert made["run"] in command_line.does("why", f"AGENTS.md:{line}")
    (task,) = command_line.json("tasks")["tasks"]
    assert task["watcher"] == "AGENTS.md"
    (waiting,) = command_line.json("suggestions", "list")["suggestions"]
    assert waiting["id"] == made["suggestion"]

    assert "was written" in command_line.does("suggestions", "approve", made["suggestion"])
    assert (command_line.vault / "Welcome.md").read_text() == "Welcome.\n"
    assert len(command_line.json("history", NOTE)["versions"]) >= 1
    command_line.does("undo", made["run"], "--yes")
    assert (command_line.vault / "AGENTS.md").read_text() != before
    assert f"(was: {FIRST}" not in (command_line.vault / "AGENTS.md").read_text()
    command_line.does("resume")
    command_line.until(
        lambda: (
            len(command_line.json("runs")["runs"]) > 1 and not command_line.json("tasks")["tasks"]
        )
    )
    assert THIRD in (command_line.vault / "AGENTS.md").read_text()
    assert "holds" in command_line.does("audit", "verify")


def reading_with(command_line: CommandLine, key: str, path: str) -> str:
    """What the API answers for a note when asked with that key."""
    record = json.loads((command_line.home / "run/daemon.json").read_bytes())
    request = urllib.request.Request(
        f"http://127.0.0.1:{record['port']}/api/notes/{path}",
        headers={"Authorization": f"Bearer {key}"},
    )
    with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310
        return str(json.loads(answer.read()))
