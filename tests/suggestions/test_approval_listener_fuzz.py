"""No edit of a suggestion's file makes more happen than was proposed."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parachuted.suggestions.approval_listener import ApprovalListener
from tests.suggestions.suggestion_rig import SuggestionRig

BEFORE = {"a.md": "# A\n\none\n", "b.md": "# B\n\nother\n"}
AFTER = "# A\n\ntwo\n"
PIECES = st.sampled_from(
    [
        *(
            "- [x] approve",
            "- [x] reject",
            "- [ ] approve",
            "---",
            "```",
            "## What would change",
            "id: ",
            'path: "b.md"',
            'action: "delete"',
        ),
        *(
            'payload: "{\\"text\\": \\"evil\\"}"',
            'status: "approved"',
            "b.md",
            "evil",
            "two",
            "\n",
            "\r\n",
            "\0",
            " ",
            "\ufeff",
        ),
    ]
)
EDITS = st.lists(
    st.one_of(
        st.tuples(st.just("insert"), st.integers(0, 4_000), PIECES),
        st.tuples(st.just("delete"), st.integers(0, 4_000), st.integers(1, 300)),
        st.tuples(st.just("replace"), PIECES, PIECES),
        st.tuples(st.just("tick"), st.sampled_from(["approve", "reject"]), st.just("")),
        st.tuples(st.just("bytes"), st.integers(0, 4_000), st.binary(min_size=1, max_size=8)),
    ),
    min_size=1,
    max_size=6,
)


def edited(data: bytes, edits) -> bytes:
    for kind, one, other in edits:
        match kind:
            case "insert":
                data = data[:one] + other.encode() + data[one:]
            case "bytes":
                data = data[:one] + other + data[one:]
            case "delete":
                data = data[:one] + data[one + other :]
            case "replace":
                data = data.replace(one.encode(), other.encode(), 1)
            case "tick":
                data = data.replace(f"- [ ] {one}".encode(), f"- [x] {one}".encode(), 1)
    return data


async def tried(folder: Path, edits, *, lose_state: bool) -> None:
    rig = SuggestionRig(folder)
    for path, text in BEFORE.items():
        rig.write(path, text)
    made = await rig.propose("a.md", {"text": AFTER})
    file = rig.file(made)
    if lose_state:
        rig.reopen(lose_state=True)
    data = edited(file.read_bytes(), edits)
    file.write_bytes(data)
    ears = ApprovalListener(rig.suggestions, rig.root, rig.bus)
    try:
        await asyncio.wait_for(ears._look_through(), 30)
        found = {path: rig.text(path) if (rig.vault / path).exists() else None for path in BEFORE}
        assert found in (BEFORE, {**BEFORE, "a.md": AFTER})
        assert sorted(path.name for path in rig.vault.iterdir()) == ["Suggestions", "a.md", "b.md"]
        if found["a.md"] == AFTER:  # then by a tick in a file that shows all of what was done
            assert b"[x] approve" in data.lower()
            assert b"-one\n+two" in data.replace(b"\r\n", b"\n")
        assert len(rig.suggestions.all()) <= 1
    finally:
        ears.close()
        rig.close()


@pytest.mark.parametrize("lose_state", [False, True])
def test_no_edit_of_the_file_does_more_than_was_proposed(lose_state, torture):
    @settings(max_examples=5_000 if torture else 15, deadline=None)
    @given(EDITS)
    def held(edits):
        with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
            asyncio.run(tried(Path(folder), edits, lose_state=lose_state))

    held()
