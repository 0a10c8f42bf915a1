"""A suggestion for a note with a private part: a person sees all, an agent nothing private."""

from __future__ import annotations

import pytest

from parachuted.access.private_text import without_private
from parachuted.search.indexed_note import make_indexed_note
from parachuted.suggestions import Proposal
from tests.suggestions.test_orchestrating import chief

NOTES = {
    "a section": "# Day\n\nopen\n\n## Mine #private\n\nheliotrope\n\n## Log\n\nsown\n",
    "tags alone": "# Day\n\nopen\n\n## Mine\n#private\n\nheliotrope\n\n## Log\n\nsown\n",
    "the frontmatter": "---\nprivate: true\n---\n# Day\n\nheliotrope\n\n## Log\n\nsown\n",
}


@pytest.mark.parametrize("kind", NOTES)
async def test_its_file_gives_no_agent_and_no_index_what_is_private(suggestion_rig, kind):
    text = NOTES[kind]
    suggestion_rig.write("Brain/day.md", text)
    whole = await suggestion_rig.propose("Brain/day.md", {"text": f"{text}- reaped\n"})
    beside = await suggestion_rig.propose(
        "Brain/day.md", {"section": "Log", "content": "- reaped", "append": True}
    )
    for made in (whole, beside):
        data = suggestion_rig.file(made).read_bytes()
        assert b"reaped" in data
        assert b"heliotrope" not in without_private(data)
        assert "heliotrope" not in str(make_indexed_note("Suggestions/x.md", data, 0.0))
    listed = await chief(suggestion_rig)._list({})
    assert "heliotrope" not in listed.text
    assert "is private" in listed.text
    both = await suggestion_rig.suggestions.propose_several(
        [whole.id, beside.id],
        Proposal(source_agent="chief", action="update", path="", payload={}, reasoning="both"),
    )
    assert b"heliotrope" not in without_private(suggestion_rig.file(both).read_bytes())


async def test_it_is_ticked_as_any_other_and_stays_private_when_it_is_over(suggestion_rig):
    suggestion_rig.write("Brain/day.md", NOTES["a section"])
    made = await suggestion_rig.propose(
        "Brain/day.md", {"section": "Log", "content": "- reaped", "append": True}
    )
    suggestion_rig.reopen()
    done = await suggestion_rig.suggestions.approve(made.id)
    assert done.status == "approved"
    assert "reaped" in suggestion_rig.text("Brain/day.md")
    assert b"heliotrope" not in without_private(suggestion_rig.file(made).read_bytes())


async def test_where_nothing_is_private_its_file_says_nothing_of_it(suggestion_rig):
    suggestion_rig.write("Brain/day.md", "# Day\n\nopen\n")
    made = await suggestion_rig.propose("Brain/day.md", {"text": "# Day\n\nclosed\n"})
    data = suggestion_rig.file(made).read_bytes()
    assert b"private" not in data
    assert without_private(data) is data
