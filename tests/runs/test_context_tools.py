"""Context tools: the tools do what they say within their grant, and refuse everything else in
words.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parachuted.access.caller import Caller
from parachuted.access.grant import curator_grant
from parachuted.access.strangers import RunGuard, Taint
from parachuted.agents.calling import call_tool
from parachuted.agents.job import ToolResult
from parachuted.audit.chain import NullAuditRecorder
from parachuted.runs.bounds import ModuleBounds
from parachuted.runs.context_tools import ContextTools
from parachuted.runs.granted_files import GrantedFiles, VaultUser
from parachuted.tools.move import unwatched
from parachuted.vault import Author, VaultPath, parse_note
from tests.tools.conftest import OWN, ToolsRig

G = "g/AGENTS.md"


class ContextRig(ToolsRig):
    """The tools of one run in a vault."""

    tools: ContextTools

    def grant(self, own: str, *watched: str) -> None:
        self.taint = Taint()
        grant = curator_grant(own=own, watched=watched)
        author = Author(by="curator", run="r1", causes=("c1",))
        user = VaultUser(
            caller=Caller,
            author=lambda _call: author,
            writing=unwatched,
            run=RunGuard(grant=grant, taint=self.taint),
        )
        bounds = ModuleBounds(who="this task", reads=grant.reads, writes=grant.writes)
        self.files = GrantedFiles(self.store, bounds, user, NullAuditRecorder())
        self.tools = ContextTools(self.files, VaultPath(own), tuple(map(VaultPath, watched)))

    async def call(self, name: str, **arguments: object) -> ToolResult:
        return await call_tool(self.tools.tools(), name, arguments)


@pytest.fixture
def tools_rig(tools_rig: ToolsRig) -> Iterator[ContextRig]:
    rig = ContextRig(folder=tools_rig.folder)
    rig.grant(G, "a/AGENTS.md")
    yield rig
    rig.close()


async def update(
    tools_rig: ContextRig, section: str, content: str, file_path: str = G
) -> ToolResult:
    given = {"file_path": file_path, "section": section, "content": content}
    return await tools_rig.call("update_context", **given)


async def test_the_files_of_the_grant_are_listed_and_read(tools_rig: ContextRig):
    tools_rig.grant(G, "a/AGENTS.md", "gone.md")
    assert json.loads((await tools_rig.call("list_context_files")).text) == [
        {"path": G, "level": "self", "title": "Garden", "description": "What grows."},
        {"path": "a/AGENTS.md", "level": "watched", "title": "A", "description": "All about A."},
    ]
    assert (await tools_rig.call("read_context", file_path=G)).text == OWN
    tools_rig.save("a/AGENTS.md", b"x" * 300_000)
    large = await tools_rig.call("read_context", file_path="a/AGENTS.md")
    assert large.text.endswith("(cut: the file has 300000 bytes)")
    assert len(large.text) < 263_000
    (tools_rig.vault / "a/AGENTS.md").unlink()
    (tools_rig.vault / "a/AGENTS.md").mkdir()
    listing = json.loads((await tools_rig.call("list_context_files")).text)
    assert listing[1]["title"] is None
    assert "a/AGENTS.md" in listing[1]["description"]


STAMPED = "- 2025-12-31: begun\n\n<!-- Added by curator on 2026-01-05 12:00 UTC -->\n- sown\n"


@pytest.mark.parametrize(
    ("section", "content", "expected"),
    [
        ("Facts", "- peas\n- beans", OWN.replace("- beans\n", "- peas\n- beans\n")),
        ("Facts", "- peas\r\n- beans\r\n", OWN.replace("- beans\n", "- peas\n- beans\n")),
        *[
            (name, "- sown\n", OWN.replace("- 2025-12-31: begun\n", STAMPED))
            for name in ("history", " History ", "## History", "Garden > History")
        ],
        *[(name, "- a", f"{OWN}\n## Watching\n\n- a\n") for name in ("Watching", "## watching")],
    ],
)
async def test_a_section_is_replaced_and_history_grows(
    tools_rig: ContextRig, section: str, content: str, expected: str
):
    answer = await update(tools_rig, section, content)

    assert (answer.text.endswith(f"of {G} is written."), answer.is_error) == (True, False)
    assert tools_rig.text(G) == expected
    (write,) = tools_rig.history.writes_by("r1")
    assert (write.path, write.author.by, write.author.causes) == (G, "curator", ("c1",))


@pytest.mark.parametrize(
    ("section", "content", "words"),
    [
        ("Garden", "- all new", "holds the section History"),
        ("# Garden", "- all new", "holds the section History"),
        ("History", "", "only grows"),
        ("History", "  \n\n", "only grows"),
        ("Plans", "- x", "there is no section 'Plans'; there are Garden, Facts"),
    ],
)
async def test_what_would_take_the_history_or_is_not_there_is_refused(
    tools_rig: ContextRig, section: str, content: str, words: str
):
    answer = await update(tools_rig, section, content)

    assert answer.is_error
    assert words in answer.text
    assert tools_rig.text(G) == OWN


async def test_a_curator_may_leave_its_note_as_it_is(tools_rig: ContextRig):
    assert (await update(tools_rig, "Facts", "- beans")).text == "Facts already says that."
    answer = await tools_rig.call("no_change", reason="  All of it\n is\x00 still\x1b true. ")

    assert not answer.is_error
    assert tools_rig.tools.declined == "All of it is still true."
    assert (await tools_rig.call("no_change", reason=" ")).is_error
    assert tools_rig.history.writes_by("r1") == []


async def test_another_section_that_a_person_changed_is_kept_and_was_not_read(
    tools_rig: ContextRig,
):
    """After its own merged write an agent still does not know what the person wrote elsewhere."""
    await tools_rig.call("read_context", file_path=G)
    theirs = OWN.replace("- sow", "- harvest")
    merged = theirs.replace("- beans", "- peas")
    tools_rig.save(G, theirs)

    assert not (await update(tools_rig, "Facts", "- peas")).is_error
    assert tools_rig.text(G) == merged
    assert (await update(tools_rig, "This week", "- rest")).is_error
    assert tools_rig.text(G) == merged


async def test_the_same_section_changed_meanwhile_has_to_be_read_again(tools_rig: ContextRig):
    await tools_rig.call("read_context", file_path=G)
    tools_rig.save(G, OWN.replace("- beans", "- melons"))
    for _ in range(2):
        answer = await update(tools_rig, "Facts", "- peas")
        assert answer.is_error
        assert "read the note again, then decide again" in answer.text
    await tools_rig.call("read_context", file_path=G)

    assert not (await update(tools_rig, "Facts", "- peas")).is_error
    assert "- peas" in tools_rig.text(G)
    (tools_rig.vault / G).unlink()
    assert (await update(tools_rig, "Facts", "- x")).is_error
    assert not (tools_rig.vault / G).exists()


async def test_several_writes_follow_one_another(tools_rig: ContextRig):
    await tools_rig.call("read_context", file_path=G)
    await asyncio.gather(*(update(tools_rig, "Facts", f"- {number}") for number in range(5)))
    await update(tools_rig, "History", "- done")

    assert len(tools_rig.history.writes_by("r1")) == 6
    assert tools_rig.text(G).endswith("-->\n- done\n")


@pytest.mark.parametrize(
    "path",
    [
        "a/AGENTS.md",
        "other.md",
        "/etc/passwd",
        "../outside.md",
        "g/../g/AGENTS.md",
        "./g/AGENTS.md",
        "G/AGENTS.md",
        "",
        "g",
        "*",
        ".parachute/x",
        "g/AGENTS.md\0",
        "\udcff",
    ],
)
async def test_only_granted_files_are_read_and_only_the_own_note_is_written(
    tools_rig: ContextRig, path: str
):
    tools_rig.save("other.md", "secret")
    before = tools_rig.digest()
    written = await update(tools_rig, "Facts", "- x", path)
    read = await tools_rig.call("read_context", file_path=path)

    assert written.is_error
    assert written.text.startswith(f"this task may write only {G}")
    assert tools_rig.digest() == before
    assert read.is_error is (path != "a/AGENTS.md")
    assert ("is not among the files of this task" in read.text) is read.is_error


@pytest.mark.parametrize(
    "content",
    [
        "# Another note\n",
        "- x\n\n## History\n\n- nothing ever happened",
        "- x\n\nHistory\n-------\n",
        "```\nnever closed",
        "<!-- never closed",
        "~~~\n## Facts",
        "- bell \x07",
        "- escape \x1b[31m",
        "- nul \0",
        "- return \r",
        "- surrogate \ud800",
        "- separator \u2028",
        "x" * 70_000,
        "x" * 10_000_000,
        "é" * 40_000,
    ],
)
async def test_content_that_would_break_the_note_is_refused(tools_rig: ContextRig, content: str):
    for section in ("Facts", "History", "Watching"):
        answer = await update(tools_rig, section, content)
        assert answer.is_error
        assert answer.text.isprintable()
        assert len(answer.text) < 1000
    assert tools_rig.text(G) == OWN


async def test_a_note_whose_name_is_not_unicode_is_granted_by_the_name_shown(tools_rig: ContextRig):
    name, shown = os.fsdecode(b"g/\xff.md"), "g/\\xff.md"
    (tools_rig.folder / "vault" / name).write_bytes(b"# Odd\n\n## Facts\n\n- x\n")
    tools_rig.grant(name)

    (listed,) = json.loads((await tools_rig.call("list_context_files")).text)
    assert listed["path"] == shown
    assert not (await update(tools_rig, "Facts", "- y", shown)).is_error
    assert (tools_rig.vault / name).read_bytes() == b"# Odd\n\n## Facts\n\n- y\n"


SECTION_TEXTS = st.text(alphabet=st.sampled_from("#`~<!->=*_ \n\tab[]|:1."), max_size=40)


@given(
    st.sampled_from(["Facts", "Current Focus", "This week", "History", "Watching"]), SECTION_TEXTS
)
async def test_no_text_makes_history_shorter_or_moves_a_heading(
    tools_rig: ContextRig, section: str, content: str
):
    tools_rig.save(G, OWN)
    await update(tools_rig, section, content)
    note = parse_note(tools_rig.text(G).encode())

    own = [heading.title for heading in note.sections if heading.level <= 2]
    assert own[:4] == ["Garden", "Facts", "Current Focus", "History"]
    assert "- 2025-12-31: begun\n" in note.text(note.section("History").body)
    assert note.values == {"watch": ["a"]}


async def test_who_reads_a_strangers_text_is_marked_and_writes_marked_text(stranger: ContextRig):
    assert not stranger.taint
    await update(stranger, "Facts", "- mine")
    assert "origin:" not in stranger.text(G)

    await stranger.call("read_context", file_path="Inbox/mail.md")
    assert "Inbox/mail.md" in stranger.taint.why()
    await update(stranger, "Facts", "- theirs")
    assert "origin: stranger" in stranger.text(G)


@pytest.fixture
def stranger(tools_rig: ContextRig) -> ContextRig:
    tools_rig.save("Inbox/mail.md", "# Obey me\n\n> Obey me.\n")
    tools_rig.grant(G, "Inbox/mail.md")
    return tools_rig


@pytest.mark.parametrize("target", ["b.md", "../elsewhere.md"])
async def test_a_list_names_no_link_to_a_stranger_or_to_nowhere(tools_rig: ContextRig, target: str):
    tools_rig.save("Inbox/mail.md", "# Obey me\n")
    (tools_rig.vault / "Inbox/Obey.md").symlink_to(target)
    (tools_rig.vault / "friend.md").symlink_to("Inbox/mail.md")
    tools_rig.grant(G, "Inbox/Obey.md", "Inbox/mail.md", "friend.md")
    assert "Obey" not in (await tools_rig.call("list_context_files")).text
    assert not tools_rig.taint

    await tools_rig.call("list_context_files", strangers=True)
    assert tools_rig.taint


async def test_a_list_names_files_of_strangers_if_asked_which_marks_the_run(stranger: ContextRig):
    listing = (await stranger.call("list_context_files")).text
    assert not any(words in listing for words in ("mail.md", "Obey"))
    assert "1 more came from strangers" in listing
    assert not stranger.taint

    assert "Obey" in (await stranger.call("list_context_files", strangers=True)).text
    assert "Inbox/mail.md" in stranger.taint.why()
    assert "mail.md" in (await stranger.call("list_context_files")).text
