"""A suggestion for a note with a private part: a person sees all, an agent nothing private."""

from __future__ import annotations

import pytest

from parachuted.access.private_text import without_private
from parachuted.errors import EditRefusedError
from parachuted.search.indexed_note import make_indexed_note
from tests.suggestions.test_orchestrating import chief

NOTES = {
    "a section": "# Day\n\nopen\n\n## Mine #private\n\nheliotrope\n\n## Log\n\nsown\n",
    "tags alone": "# Day\n\nopen\n\n## Mine\n#private\n\nheliotrope\n\n## Log\n\nsown\n",
    "the frontmatter": "---\nprivate: true\n---\n# Day\n\nheliotrope\n\n## Log\n\nsown\n",
}


@pytest.mark.parametrize("kind", NOTES)
async def test_its_file_gives_no_agent_and_no_index_what_is_private(rig, kind):
    text = NOTES[kind]
    rig.write("Brain/day.md", text)
    whole = await rig.propose("Brain/day.md", {"text": f"{text}- reaped\n"})
    beside = await rig.propose(
        "Brain/day.md", {"section": "Log", "content": "- reaped", "append": True}
    )
    for made in (whole, beside):
        data = rig.file(made).read_bytes()
        assert b"reaped" in data
        assert b"heliotrope" not in without_private(data)
        assert "heliotrope" not in str(make_indexed_note("Suggestions/x.md", data, 0.0))
    listed = await chief(rig)._list({})
    assert "heliotrope" not in listed.text
    assert "is private" in listed.text
    both = await rig.batch(whole, beside)
    assert b"heliotrope" not in without_private(rig.file(both).read_bytes())


async def test_it_is_ticked_as_any_other_and_stays_private_when_it_is_over(rig):
    rig.write("Brain/day.md", NOTES["a section"])
    made = await rig.propose(
        "Brain/day.md", {"section": "Log", "content": "- reaped", "append": True}
    )
    rig.reopen()
    done = await rig.approve(made)
    assert done.status == "approved"
    assert "reaped" in rig.text("Brain/day.md")
    assert b"heliotrope" not in without_private(rig.file(made).read_bytes())


async def test_where_nothing_is_private_its_file_says_nothing_of_it(rig):
    rig.write("Brain/day.md", "# Day\n\nopen\n")
    made = await rig.propose("Brain/day.md", {"text": "# Day\n\nclosed\n"})
    data = rig.file(made).read_bytes()
    assert b"private" not in data
    assert without_private(data) is data


async def test_what_an_agent_suggests_from_a_shortened_text_is_refused(rig):
    rig.write("Brain/day.md", NOTES["a section"])
    shown = without_private(NOTES["a section"].encode()).decode()
    with pytest.raises(EditRefusedError, match="private part"):
        await rig.propose("Brain/day.md", {"text": shown.replace("sown", "reaped")})
