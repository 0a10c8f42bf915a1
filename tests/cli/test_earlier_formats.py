"""Earlier formats: a home and a vault that an earlier commit wrote are opened, with all they hold.

tests/data/make_home.py makes an archive; those of earlier formats stay.
"""

from __future__ import annotations

import json
import tarfile
import urllib.request
from pathlib import Path

import pytest

from tests.cli.typed import Typed
from tests.data.make_home import FIRST, NOTE, THIRD

ARCHIVES = sorted((Path(__file__).resolve().parents[1] / "data").glob("*.tar.gz"))


@pytest.mark.timeout(900)  # a dozen commands
@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.name)
def test_all_that_it_holds_is_there_and_goes_on(archive, typed: Typed, tmp_path: Path):
    typed.home.rmdir()
    typed.vault.rmdir()
    with tarfile.open(archive) as tar:
        # Python 3.11.0 to 3.11.3 have no filters; the archive is our own
        how = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        tar.extractall(tmp_path, **how)  # noqa: S202  see above
    typed.home.chmod(0o700)
    typed.home.joinpath("keys.yaml").chmod(0o600)
    made = json.loads((tmp_path / "made.json").read_text())
    before = (typed.vault / "AGENTS.md").read_text()

    typed.does("start", "--vault", str(typed.vault), "--port", "0")

    assert typed.does("config", "get", "bubble.quiet_s").split() == ["0.05"]
    assert "holds" in typed.does("audit", "verify")
    assert "Says hello" in typed.does("hooks", "list")
    assert [key["name"] for key in typed.json("keys", "list")["keys"]] == ["phone"]
    assert THIRD in reading_with(typed, made["key"], NOTE)
    assert [run["id"] for run in typed.json("runs")["runs"]] == [made["run"]]
    line = next(n for n, text in enumerate(before.splitlines(), 1) if f"(was: {FIRST}" in text)
    assert made["run"] in typed.does("why", f"AGENTS.md:{line}")
    (task,) = typed.json("tasks")["tasks"]
    assert task["watcher"] == "AGENTS.md"
    (waiting,) = typed.json("suggestions", "list")["suggestions"]
    assert waiting["id"] == made["suggestion"]

    assert "was written" in typed.does("suggestions", "approve", made["suggestion"])
    assert (typed.vault / "Welcome.md").read_text() == "Welcome.\n"
    assert len(typed.json("history", NOTE)["versions"]) >= 1
    typed.does("undo", made["run"])
    assert (typed.vault / "AGENTS.md").read_text() != before
    assert f"(was: {FIRST}" not in (typed.vault / "AGENTS.md").read_text()
    typed.does("resume")
    typed.until(lambda: len(typed.json("runs")["runs"]) > 1 and not typed.json("tasks")["tasks"])
    assert THIRD in (typed.vault / "AGENTS.md").read_text()
    assert "holds" in typed.does("audit", "verify")


def reading_with(typed: Typed, key: str, path: str) -> str:
    """What the API answers for a note when asked with that key."""
    record = json.loads((typed.home / "run/daemon.json").read_bytes())
    request = urllib.request.Request(
        f"http://127.0.0.1:{record['port']}/api/notes/{path}",
        headers={"Authorization": f"Bearer {key}"},
    )
    with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310
        return str(json.loads(answer.read()))
