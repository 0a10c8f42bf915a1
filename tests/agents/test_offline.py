"""The offline backend: the same vault and the same job give the same bytes, nothing new means no
write, and nothing in another note can break the note it is put into.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parachuted.agents.extract import extract_note
from parachuted.agents.job import ChangedNote, RunResult, Tool, ToolCallStep, ToolResult
from parachuted.agents.offline import (
    BEGIN,
    OfflineBackend,
    compose,
    write_digest,
    write_history,
)
from parachuted.errors import AgentFailedError
from parachuted.vault import parse_note

OWN, HOUSE = "AGENTS.md", "P/house/AGENTS.md"
ROOT = "# My vault\n\n> All of it.\n\n## Facts\n- mine\n\n## History\n"
GARDEN = "# Garden\n\n> Something to eat\n\n## Current Focus\n- Sow beans\n"
CHANGE = ChangedNote(
    path="P/garden/AGENTS.md", kind="modified", title="Garden", news=("Current Focus: Sow beans",)
)


class ReportedNotes:
    def __init__(self, notes):
        self.notes = notes

    def tools(self):
        made = {
            "list_context_files": (self.list_files, []),
            "read_context": (self.read, ["file_path"]),
            "update_context": (self.update, ["file_path", "section", "content"]),
            "no_change": (self.no_change, ["reason"]),
        }
        return tuple(
            Tool(
                name=name,
                description=name,
                schema={"type": "object", "required": required},
                call=call,
            )
            for name, (call, required) in made.items()
        )

    async def list_files(self, _arguments):
        files = [
            {"path": path, "level": "self" if path == "AGENTS.md" else "watched", "title": None}
            for path in self.notes
        ]
        return ToolResult(text=json.dumps(files))

    async def read(self, arguments):
        text = self.notes.get(arguments["file_path"])
        if text is None:
            return ToolResult(text="there is no such note", is_error=True)
        return ToolResult(text=text)

    async def update(self, arguments):
        path, name, content = arguments["file_path"], arguments["section"], arguments["content"]
        note = parse_note(self.notes[path].encode())
        section = note.section(name)
        if section is None:
            self.notes[path] += f"\n## {name}\n{content}\n"
        else:
            start = section.body.stop if name == "History" else section.body.start
            before, after = note.data[:start], note.data[section.body.stop :]
            self.notes[path] = f"{before.decode()}{content}\n{after.decode()}"
        return ToolResult(text="done")

    async def no_change(self, _arguments):
        return ToolResult(text="noted")


@pytest.fixture
def reported_notes():
    return ReportedNotes({OWN: ROOT, "P/garden/AGENTS.md": GARDEN, HOUSE: "# House\n"})


@pytest.fixture
def offline(job, run, reported_notes):
    async def work(*changes, tool="", call=None, **parts):
        """`call` is what is called instead of that `tool`."""
        tools = tuple(
            replace(one, call=call) if one.name == tool else one for one in reported_notes.tools()
        )
        return await run(OfflineBackend(), job(tools=tools, changes=changes, **parts))

    return work


def answering(text, *, is_error=False):
    async def answer(_arguments):
        return ToolResult(text=text, is_error=is_error)

    return answer


def called(outcome):
    return [(step.tool, step.arguments.get("section")) for step in outcome.all(ToolCallStep)]


async def test_a_change_is_reported_in_the_digest_and_in_the_history(reported_notes, offline):
    first = dict(reported_notes.notes)
    outcome = await offline(CHANGE)

    after = dict(reported_notes.notes)
    note = parse_note(after[OWN].encode())
    assert note.text(note.section("Watching").own).splitlines()[:-1] == [
        BEGIN,
        "",
        "- [Garden](P/garden/AGENTS.md) — Something to eat",
        "  - Sow beans",
        "- [House](P/house/AGENTS.md)",
    ]
    history = note.text(note.section("History").own).strip()
    assert history == "- 2026-11-21: [Garden](P/garden/AGENTS.md): Current Focus: Sow beans"
    assert after[OWN].startswith(ROOT)
    assert called(outcome)[-2:] == [("update_context", "Watching"), ("update_context", "History")]
    assert outcome.account == RunResult(cost_usd=0.0, input_tokens=0, output_tokens=0, turns=6)

    reported_notes.notes = dict(reversed(first.items()))
    await offline(CHANGE)
    assert reported_notes.notes == after


async def test_what_the_digest_does_not_show_is_history_and_no_news_no_write(
    reported_notes, offline
):
    await offline(CHANGE)
    before = dict(reported_notes.notes)
    outcome = await offline()
    assert called(outcome)[-1] == ("no_change", None)
    assert reported_notes.notes == before

    outcome = await offline(ChangedNote(path=HOUSE, kind="modified", units=("Facts",)))
    updates = [call for call in called(outcome) if call[0] == "update_context"]
    assert updates == [("update_context", "History")]


@pytest.mark.parametrize("is_generated", [True, False])
async def test_a_section_that_a_person_wrote_or_changed_is_left_alone(
    reported_notes, offline, is_generated
):
    if is_generated:
        await offline()
        text = reported_notes.notes[OWN].replace("Something to eat", "Much to eat")
        reported_notes.notes[HOUSE] = "# The house\n"
    else:
        text = ROOT + "\n## Watching\nThe birds.\n"
    reported_notes.notes[OWN] = text
    outcome = await offline(CHANGE)

    assert text.partition("## Watching")[2] in reported_notes.notes[OWN]
    assert any("left as it is" in text for text in outcome.texts)
    assert called(outcome)[-1] == ("update_context", "History")


@pytest.mark.parametrize(
    ("value", "is_off"), [("false", True), ("No", True), ("true", False), ("[a]", False)]
)
async def test_a_section_that_is_switched_off_is_not_written(
    reported_notes, offline, value, is_off
):
    reported_notes.notes[OWN] = f"---\ndigest: {value}\n---\n{ROOT}"
    outcome = await offline(CHANGE)

    assert ("Watching" not in reported_notes.notes[OWN]) is is_off
    assert ("update_context", "History") in called(outcome)


async def test_a_link_that_follows_a_move_makes_the_section_no_persons(reported_notes, offline):
    await offline()
    moved = "P/home/AGENTS.md"
    reported_notes.notes[OWN] = reported_notes.notes[OWN].replace(HOUSE, moved)
    reported_notes.notes[moved] = reported_notes.notes.pop(HOUSE)
    before = reported_notes.notes[OWN]
    reported_notes.notes[moved] = "# The house\n"
    await offline()

    assert f"[The house]({moved})" in reported_notes.notes[OWN].partition("<!-- end")[0]
    assert f"]({moved})" in before


async def test_what_is_below_the_generated_lines_stays(reported_notes, offline):
    await offline()
    reported_notes.notes[OWN] += "\nmy *own* line\u2028too\n"
    reported_notes.notes[HOUSE] = "# The house\n"
    await offline()

    inside, _mark, below = reported_notes.notes[OWN].partition("<!-- end")
    assert "[The house]" in inside
    assert below.partition("-->")[2].strip() == "my *own* line\u2028too"


async def test_a_watched_file_that_cannot_be_read_keeps_its_place(reported_notes, offline):
    reported_notes.notes[HOUSE] = None
    outcome = await offline()

    assert outcome.error is None
    assert "- [house](P/house/AGENTS.md)\n" in reported_notes.notes[OWN]


@pytest.mark.parametrize(
    ("tool", "call"),
    [
        ("list_context_files", answering("no", is_error=True)),
        ("list_context_files", answering("not json")),
        ("read_context", answering("no", is_error=True)),
        ("update_context", answering("no", is_error=True)),
    ],
)
async def test_a_refusal_of_what_it_needs_is_a_failure(reported_notes, offline, tool, call):
    outcome = await offline(CHANGE, tool=tool, call=call)

    assert isinstance(outcome.error, AgentFailedError)
    assert reported_notes.notes[OWN] == ROOT


async def test_no_more_is_read_than_is_shown(reported_notes, offline):
    reported_notes.notes |= {f"Q/{number:03}/AGENTS.md": "" for number in range(300)}
    outcome = await offline()

    assert called(outcome).count(("read_context", None)) == 201
    assert "- and 102 more\n" in reported_notes.notes[OWN]


@pytest.mark.parametrize(
    "listing",
    ["{}", "7", "[1, null, {}]", '[{"path": 7}]', '[{"path": "AGENTS.md", "level": "self"}]'],
)
async def test_a_listing_with_nothing_in_it_is_not_a_failure(reported_notes, offline, listing):
    outcome = await offline(tool="list_context_files", call=answering(listing))

    assert outcome.error is None
    assert "- nothing yet\n<!-- end of" in reported_notes.notes[OWN]


async def test_a_listing_with_a_remark_behind_it_is_read(reported_notes, offline):
    listing = '[{"path": "P/house/AGENTS.md", "level": "watched"}]\n(3 more than one run may read)'
    outcome = await offline(tool="list_context_files", call=answering(listing), watched=4)

    assert outcome.error is None
    assert "- [House](P/house/AGENTS.md)\n- and 3 more\n" in reported_notes.notes[OWN]


async def test_a_save_between_reading_and_writing_has_it_decided_again(reported_notes, offline):
    refusals = iter([True, False])

    async def refuse_once(arguments):
        if next(refusals, False):
            return ToolResult(text="a person changed this section meanwhile", is_error=True)
        return await reported_notes.update(arguments)

    outcome = await offline(tool="update_context", call=refuse_once)

    assert outcome.error is None
    assert "- [House]" in reported_notes.notes[OWN]


async def test_links_are_written_as_the_vault_says(reported_notes, offline):
    await offline(links="wiki")
    assert "- [[P/house/AGENTS|House]]" in reported_notes.notes[OWN]


async def test_days_are_those_of_the_place_where_it_runs(reported_notes, offline, monkeypatch):
    monkeypatch.setenv("TZ", "Pacific/Auckland")
    time.tzset()
    try:
        await offline(CHANGE, at=datetime(2026, 11, 21, 23, 30, tzinfo=UTC))
    finally:
        monkeypatch.undo()
        time.tzset()

    assert "- 2026-11-22: [Garden]" in reported_notes.notes[OWN]


async def test_its_time_is_limited(offline):
    async def hang(_arguments):
        await asyncio.sleep(60)

    outcome = await offline(tool="read_context", call=hang, timeout_s=0.1)

    assert "ran out of time" in str(outcome.error)
    assert outcome.seconds < 20


DAY = "- 2026-11-21:"
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def test_a_bullet_tells_title_description_and_the_first_lines_of_the_focus():
    extracts = [
        extract_note("Projects/Allotment #2/AGENTS.md", f"{GARDEN}- Water\n"),
        extract_note("Areas/Müller/AGENTS.md", "- no marks at all"),
    ]

    assert write_digest("Projects/AGENTS.md", extracts).split("\n") == [
        BEGIN,
        "",
        "- [Müller](../Areas/Müller/AGENTS.md)",
        "- [Garden](Allotment%20%232/AGENTS.md) — Something to eat",
        "  - Sow beans",
        "  - Water",
    ]


def test_history_tells_what_changed_and_stops_at_ten():
    lead = "status: customer (was lead)"
    focus = ("Focus", "  - closed [x] a", "  - b", "c", "due: today")
    changes = [
        ChangedNote(path="P/a/AGENTS.md", kind="modified", title="Alpha", news=(lead,)),
        ChangedNote(path="P/b/AGENTS.md", kind="modified", news=focus),
        ChangedNote(path="P/c/AGENTS.md", kind="created", news=("All of it",)),
        ChangedNote(path="P/d/AGENTS.md", kind="deleted"),
        ChangedNote(path="P/e/AGENTS.md", kind="moved", source="P/old.md"),
        ChangedNote(path="P/f/AGENTS.md", kind="modified", units=("Facts",)),
        *[ChangedNote(path=f"P/{number}/AGENTS.md", kind="created") for number in range(6)],
    ]
    lines = write_history("P/AGENTS.md", changes, NOON).splitlines()

    assert lines[:11] == [
        f"{DAY} [Alpha](a/AGENTS.md): {lead}",
        f"{DAY} [b](b/AGENTS.md)",
        "  - Focus",
        "    - closed [x] a",
        "    - b",
        "  - c",
        "  - due: today",
        f"{DAY} [c](c/AGENTS.md): new: All of it",
        f"{DAY} d: deleted",
        f"{DAY} [e](e/AGENTS.md): moved from P/old.md",
        f"{DAY} [f](f/AGENTS.md): changed",
    ]
    assert lines[-1] == "- and 2 more"


def test_a_generated_section_is_known_again_with_other_line_ends():
    digest = write_digest("AGENTS.md", [extract_note("a/AGENTS.md", "# a\n")])
    text = compose(parse_note(b"# V\n"), digest)
    for ends in ("\n", "\r\n"):
        note = parse_note(f"# V\n## Watching\n{text}\n".replace("\n", ends).encode())
        assert compose(note, digest) == text


def test_a_section_with_a_private_part_below_it_is_left_as_it_is():
    digest = write_digest("AGENTS.md", [extract_note("a/AGENTS.md", "# a\n")])
    below = "### Own\n\nmine\n"
    for heading, is_left in (("### Own", False), ("### (private part 1: left out)", True)):
        text = f"{compose(parse_note(b'# V'), digest)}\n\n{below.replace('### Own', heading)}"
        note = parse_note(f"# V\n\n## Watching\n\n{text}".encode())
        assert (compose(note, write_digest("AGENTS.md", [])) is None) == is_left


HOSTILE = (
    st.text(st.sampled_from("#-*+>`~<!%[]()|\\=: \n\r\tax1.\u2028\u202e\ufeff\udcff\0/"))
    | st.text()
)


@given(title=HOSTILE, description=HOSTILE, focus=HOSTILE, folder=HOSTILE, item=HOSTILE)
def test_no_text_of_another_note_breaks_the_structure(title, description, focus, folder, item):
    path = f"P/{folder.replace('/', '').replace(chr(0), '') or 'x'}/AGENTS.md"
    extract = extract_note(path, f"# {title}\n> {description}\n## Current Focus\n{focus}")
    change = ChangedNote(
        path=path, kind="moved", title=extract.title, source=f"Q/{item.replace(chr(10), '')}"
    )
    for style in ("markdown", "wiki"):
        digest = write_digest("AGENTS.md", [extract], style=style)
        text = compose(parse_note(b"# V\n"), digest)
        history = write_history("AGENTS.md", [change], NOON, style)
        note = parse_note(
            f"# V\n\n## Watching\n{text}\n\n## History\n{history}\n".encode(
                "utf-8", "surrogateescape"
            )
        )

        assert [section.title for section in note.sections] == ["V", "Watching", "History"]
        assert compose(note, digest) == text
        assert [line for line in digest.split("\n") if not line.startswith(("- [", "  - "))] == [
            BEGIN,
            "",
        ]
        assert (text + history).count("<!--") == 1
        assert len(history.split("\n")) == 1
        digest.encode()
