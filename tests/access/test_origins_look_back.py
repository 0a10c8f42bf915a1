"""Look back: in a vault that an earlier version knew, notes that say that they are a stranger's are
found once.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from parachuted.access.origins import Origins, is_looked_back, look_back, set_looked_back
from parachuted.state import open_state
from parachuted.vault import IndexEntry, VaultIndex, VaultPath, VaultRoot, digest_of


def test_notes_that_say_so_are_recorded_and_others_are_not(tmp_path: Path):
    vault, index = tmp_path / "vault", VaultIndex()
    texts = {
        "a.md": "---\norigin: web\n---\nText\n",
        "b.md": "An origin of sorts.\n",
        "c.txt": "---\norigin: web\n---\n",
        "d/e.md": "Mine.\n",
    }
    for name, text in texts.items():
        (vault / name).parent.mkdir(parents=True, exist_ok=True)
        (vault / name).write_text(text)
        index.set(VaultPath(name), IndexEntry.of((vault / name).stat(), digest_of(text.encode())))
    index.set(VaultPath("gone.md"), IndexEntry(1, 1, 1, 1, "0" * 64))
    state = open_state(tmp_path / "state.json")
    origins = Origins(state)

    look_back(origins, VaultRoot(vault), index, list(index.paths()))

    assert origins.recorded() == {"a.md": "web"}
    assert not is_looked_back(state)
    set_looked_back(state, datetime(2026, 1, 5, tzinfo=UTC))
    assert is_looked_back(state)
    state.close()
