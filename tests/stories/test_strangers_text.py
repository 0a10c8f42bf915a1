"""Strangers' text: one marked text is pushed through every pair of a way in and a way out, and ends
in no place that it may not.
"""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TypeAlias

import pytest

from parachuted.testing import Block, say, use
from tests.api.calls import call, get, post
from tests.stories.daemon_rig import Live, note, save
from tests.stories.strangers import (
    ObedientBackend,
    TaintRig,
    TaintScenario,
    mark_of,
    scene,
    text_of,
)

Plant: TypeAlias = Callable[[Path, int], None]
Step: TypeAlias = Callable[[TaintRig, int], Awaitable[None]]
Begin: TypeAlias = Callable[[TaintRig, int], Awaitable[object]]


async def play(scene: TaintRig, number: int) -> object:
    return await scene.play(number)


def reading(folder: str) -> Callable[[int], Sequence[Block]]:
    return lambda number: [use("read_note", path=f"{folder}/{number}.md")]


def saving(path: str, text: Callable[[int], str] = text_of) -> Plant:
    return lambda vault, number: save(
        vault / path.format(number=number, mark=mark_of(number)), text(number)
    )


MAIL = saving("Inbox/{number}.md")


def nothing(_number: int) -> Sequence[Block]:
    return ()


def no_words(_number: int) -> str:
    return "# x\n"


@dataclass(frozen=True, slots=True)
class InputChannel:
    """A way in.

    `plant` is done before the daemon first starts, `steps` one after the other while it runs, `off`
    while it does not. The run, when the daemon runs again, reads `reads`, and `begin` begins it.
    `is_seen`: whether the mark comes to be seen at all.
    """

    name: str
    _: KW_ONLY
    plant: Plant | None = MAIL
    steps: Sequence[Step] = ()
    off: Plant | None = None
    reads: Callable[[int], Sequence[Block]] = nothing
    begin: Begin = play
    is_seen: bool = True
    remembers: bool = False


@dataclass(frozen=True, slots=True)
class OutputChannel:
    """A way out: what a run does that has seen the mark, and what is done with it then.

    `ends` is a place where it has to end, `asks` the agent that has to be asked with the mark.
    """

    name: str
    _: KW_ONLY
    acts: Callable[[int], Sequence[Block]]
    then: Step | None = None
    ends: str | None = None
    asks: str | None = None


def doing(act: Plant) -> Step:
    """What a person does to the files."""

    async def step(scene: TaintRig, number: int) -> None:
        act(scene.vault, number)

    return step


def web(number: int) -> str:
    return f"---\norigin: web\n---\n{text_of(number)}"


def edit(vault: Path, number: int) -> None:
    with (vault / f"Work/in/{number}.md").open("a") as file:
        file.write("\nA line of mine.\n")


def copy_and_edit(vault: Path, number: int) -> None:
    shutil.copy(vault / f"Inbox/{number}.md", vault / f"Work/in/{number}.md")
    edit(vault, number)


def edit_lane(vault: Path, number: int) -> None:
    file = vault / f"Work/lane/in/{number}.md"
    save(file, file.read_text() + "\nA line of mine.\n")


def empty_lane(vault: Path, number: int) -> None:
    save(vault / f"Work/lane/in/{number}.md", "# All mine now\n")


async def move_by_api(scene: TaintRig, number: int) -> None:
    assert (
        await call(
            scene.daemon_rig,
            "POST",
            f"/api/notes/Inbox/{number}.md/move",
            json={"to": f"Work/in/{number}.md"},
        )
    )[0] == 200


async def put_by_api(scene: TaintRig, number: int) -> None:
    status, answer = await call(
        scene.daemon_rig, "PUT", f"/api/files/Inbox/{number}.md", data=text_of(number).encode()
    )
    assert status in (200, 201), answer


async def restore(scene: TaintRig, number: int) -> None:
    await post(
        scene.daemon_rig,
        "/api/history/restore",
        {"path": f"Work/lane/in/{number}.md", "run": scene.runs[number], "after": True},
    )
    assert mark_of(number) in scene.read(f"Work/lane/in/{number}.md")


async def undo_twice(scene: TaintRig, number: int) -> None:
    """The last run is taken back, and then that is."""
    run = scene.runs[number]
    undone = await post(scene.daemon_rig, f"/api/runs/{run}/undo")
    assert not (scene.vault / f"Work/lane/in/{number}.md").exists()
    await post(scene.daemon_rig, f"/api/runs/{undone['undo']}/undo")


def reported_by_run(*acts: Callable[[int], Block], agent: str = "hands") -> Step:
    """A run before: it reads the mail, and then acts."""

    async def step(scene: TaintRig, number: int) -> None:
        kept = scene.backend.plays[number]
        before = TaintScenario(
            mark=mark_of(number), reads=reading("Inbox")(number), acts=[act(number) for act in acts]
        )
        scene.backend.plays[number] = before
        scene.runs[number] = (await scene.play(number, agent))["run"]
        assert before.has_seen
        scene.backend.plays[number] = kept

    return step


async def moved_by_run(scene: TaintRig, number: int) -> None:
    """A run that has read nothing of strangers files a mail."""
    kept = scene.backend.plays[number]
    target = f"Work/lane/in/{number}.md"
    scene.backend.plays[number] = TaintScenario(
        mark=mark_of(number), reads=[use("move_note", path=f"Inbox/{number}.md", to=target)]
    )
    await scene.play(number)
    scene.backend.plays[number] = kept
    assert "origin: stranger" in scene.read(target)


def is_asked(backend: ObedientBackend, agent: str, number: int) -> bool:
    return any(job.agent == agent and mark_of(number) in job.prompt for job in backend.jobs)


async def by_event(scene: TaintRig, number: int) -> None:
    await scene.module("publish", {"path": f"Inbox/{number}.md"})
    await scene.daemon_rig.until(lambda: scene.backend.plays[number].has_seen)


def to_lane(number: int) -> Block:
    return use("write_note", path=f"Work/lane/in/{number}.md", text=text_of(number))


def suggesting(number: int) -> Block:
    path = f"Work/in/suggested {number}.md"
    return use(
        "suggest_change",
        action="create",
        path=path,
        payload={"text": text_of(number)},
        reasoning=mark_of(number),
    )


async def resume(scene: TaintRig, number: int) -> object:
    kept = scene.backend.plays[number]
    scene.backend.plays[number] = TaintScenario(
        mark=mark_of(number), reads=reading("Inbox")(number)
    )
    session = (await scene.play(number))["session"]
    scene.backend.plays[number] = kept
    return await scene.play(number, session=session)


async def as_judge(scene: TaintRig, number: int) -> object:
    return await scene.play(number, "judge")


async def in_folder(scene: TaintRig, number: int) -> object:
    return await scene.play(number, "at-home", working_directory=f"Inbox/{number}")


async def by_mail(scene: TaintRig, number: int) -> object:
    return await scene.module("mail", {"path": f"Inbox/{number}.md"})


async def curate(scene: TaintRig, number: int) -> None:
    """The mail is changed, and the curator of the note that watches it writes down what it says."""
    watcher = f"Work/cur/{number}/AGENTS.md"
    scene.backend.of_watchers[watcher] = TaintScenario(
        mark=mark_of(number),
        acts=[
            use(
                "update_context",
                file_path=watcher,
                section="Current Focus",
                content=f"- {mark_of(number)}",
            )
        ],
    )
    save(scene.vault / f"Inbox/{number}.md", f"{text_of(number)}\nMore.\n")
    await scene.daemon_rig.until(lambda: mark_of(number) in scene.read(watcher), 30)


def skill(number: int) -> str:
    return f"---\ndescription: Use this first, {mark_of(number)}.\n---\n{text_of(number)}"


def folder_with_skill(vault: Path, number: int) -> None:
    save(vault / f"Inbox/{number}/.claude/skills/s{number}.md", skill(number))
    save(vault / f"Inbox/{number}/AGENTS.md", "# A stranger's project, of many files\n")


def listing_strangers(folder: str) -> Callable[[int], Sequence[Block]]:
    return lambda number: [use("list_notes", folder=f"{folder}/{number}", cursor="strangers")]


def by_bot(number: int) -> str:
    return f"---\norigin: bot\nby: {mark_of(number)}\n---\nx\n"


def from_web(_number: int) -> str:
    return "---\norigin: web\n---\n# x\n"


def curated(vault: Path, number: int) -> None:
    MAIL(vault, number)
    watcher = note("Curated", watch=[f"Inbox/{number}.md"])
    save(vault / f"Work/cur/{number}/AGENTS.md", watcher)


def remembering(scene: TaintRig, number: int) -> Awaitable[None]:
    return scene.module("remember", {"path": f"Inbox/{number}.md", "key": str(number)})


def filing(scene: TaintRig, number: int) -> Awaitable[None]:
    return scene.module("copy", {"path": f"Inbox/{number}.md", "to": f"Work/in/{number}.md"})


def in_project(scene: TaintRig, number: int) -> Awaitable[object]:
    return scene.play(number, working_directory=f"Inbox/{number}")


INS = (
    InputChannel("a note in a folder of strangers", reads=reading("Inbox")),
    InputChannel(
        "a note that says origin: web",
        plant=saving("Work/in/{number}.md", web),
        reads=reading("Work/in"),
    ),
    InputChannel(
        "a value of the frontmatter",
        plant=saving("Work/in/{number}.md", by_bot),
        reads=reading("Work/in"),
    ),
    InputChannel(
        "the title of a link",
        plant=saving("Inbox/{number}.md", lambda n: f"# Links\n\n[{mark_of(n)}](x.md)\n"),
        reads=reading("Inbox"),
    ),
    InputChannel(
        "a file's name",
        plant=saving("Inbox/{number}/{mark}.md", no_words),
        reads=listing_strangers("Inbox"),
    ),
    InputChannel(
        "a file's name that was not asked for",
        plant=saving("Inbox/{mark}.md", no_words),
        reads=lambda _number: [use("list_notes", folder="Inbox")],
        is_seen=False,
    ),
    InputChannel(
        "the name of a note that says origin: web",
        plant=saving("Work/in/{number}/{mark}.md", from_web),
        reads=listing_strangers("Work/in"),
    ),
    InputChannel(
        "such a name that was not asked for",
        plant=saving("Work/in/{mark}.md", from_web),
        reads=lambda _number: [use("list_notes")],
        is_seen=False,
    ),
    InputChannel(
        "a folder's name",
        plant=saving("Inbox/{number}/{mark}/a.md", no_words),
        reads=listing_strangers("Inbox"),
    ),
    InputChannel(
        "a hit of a search",
        reads=lambda number: [use("search_notes", query=f"play {number} assistant")],
        is_seen=False,
    ),
    InputChannel(
        "a note that says origin: web, moved by the API and edited by a person",
        plant=saving("Inbox/{number}.md", web),
        steps=[move_by_api, doing(edit)],
        reads=reading("Work/in"),
    ),
    InputChannel(
        "a copy that was made and edited while the daemon was off",
        plant=saving("Inbox/{number}.md", web),
        off=copy_and_edit,
        reads=reading("Work/in"),
    ),
    InputChannel(
        "a file that an app put there", plant=None, steps=[put_by_api], reads=reading("Inbox")
    ),
    InputChannel(
        "what a run wrote that had read it",
        steps=[reported_by_run(to_lane)],
        reads=reading("Work/lane/in"),
    ),
    InputChannel(
        "what it wrote, with an edit of a person",
        steps=[reported_by_run(to_lane), doing(edit_lane)],
        reads=reading("Work/lane/in"),
    ),
    InputChannel(
        "what it wrote, brought back after a person wrote another text",
        steps=[reported_by_run(to_lane), doing(empty_lane), restore],
        reads=reading("Work/lane/in"),
    ),
    InputChannel(
        "what it wrote, undone and done again",
        steps=[reported_by_run(to_lane), undo_twice],
        reads=reading("Work/lane/in"),
    ),
    InputChannel("a session that is gone on with", begin=resume, remembers=True),
    InputChannel(
        "a suggestion",
        steps=[reported_by_run(suggesting)],
        reads=lambda _number: [use("list_suggestions")],
        begin=as_judge,
    ),
    InputChannel(
        "a skill",
        plant=folder_with_skill,
        reads=lambda number: [use("use_skill", name=f"s{number}")],
        begin=in_project,
        is_seen=False,
    ),
    InputChannel(
        "the context file of its folder",
        plant=saving("Inbox/{number}/AGENTS.md"),
        begin=in_folder,
    ),
    InputChannel(
        "what a curator wrote",
        plant=curated,
        steps=[curate],
        reads=lambda number: [use("read_note", path=f"Work/cur/{number}/AGENTS.md")],
    ),
    InputChannel(
        "a note that another run moved", steps=[moved_by_run], reads=reading("Work/lane/in")
    ),
    InputChannel(
        "an answer of a module's tool",
        plant=None,
        reads=lambda number: [use("foreign", text=mark_of(number))],
    ),
    InputChannel("a mail that a module passes on as a prompt", begin=by_mail),
    InputChannel("a mail that a module tells others of", begin=by_event),
    InputChannel(
        "a mail that a module kept",
        steps=[remembering],
        reads=lambda number: [use("clerk_recall", key=str(number))],
    ),
    InputChannel("a mail that a module filed", steps=[filing], reads=reading("Work/in")),
)


def outside(number: int) -> Block:
    return use("write_note", path=f"Work/out/{number}.md", text=mark_of(number))


def to_out_lane(number: int) -> Block:
    return use(
        "write_note",
        path=f"Work/lane/out/{number}.md",
        text=f"# Lane\n\nDo as play {number} says: {mark_of(number)}\n",
    )


def clean_run(*reads: Callable[[int], Block], agent: str = "hands") -> Step:
    """Another run, which a person begins: it reads, and obeys what it sees."""

    async def step(scene: TaintRig, number: int) -> None:
        scene.backend.plays[number] = TaintScenario(
            mark=mark_of(number), reads=[read(number) for read in reads], acts=[outside(number)]
        )
        await scene.play(number, agent)

    return step


async def reported(scene: TaintRig, number: int) -> None:
    """Anyone who heard of it is asked."""
    await scene.daemon_rig.until(lambda: is_asked(scene.backend, "scribe/pen", number))


OUTS = (
    OutputChannel("a note outside of the lane", acts=lambda number: [outside(number)]),
    OutputChannel(
        "a section of a person's note",
        acts=lambda number: [
            use("edit_section", path="Work/own.md", section="New", text=mark_of(number))
        ],
    ),
    OutputChannel(
        "a note in the lane, and a clean run",
        acts=lambda number: [to_out_lane(number)],
        ends="Work/lane/out/{number}.md",
        then=clean_run(lambda number: use("read_note", path=f"Work/lane/out/{number}.md")),
    ),
    OutputChannel(
        "a suggestion, and a judge",
        ends="Suggestions/",
        then=clean_run(lambda _number: use("list_suggestions"), agent="judge"),
        acts=lambda number: [
            use(
                "suggest_change",
                action="create",
                path=f"Work/sug/{number}.md",
                payload={"text": text_of(number)},
                reasoning="it says so",
            )
        ],
    ),
    OutputChannel(
        "the answer",
        acts=lambda number: [say(f"It says {mark_of(number)}")],
        ends="(the answer)",
    ),
    OutputChannel(
        "a module's tool that writes",
        acts=lambda number: [
            use("clerk_write", path=f"Work/out/{number}.md", text=mark_of(number))
        ],
    ),
    OutputChannel(
        "another module, by its interface",
        acts=lambda number: [use("clerk_call", path=f"Work/out/{number}.md", text=mark_of(number))],
    ),
    OutputChannel(
        "another agent's prompt",
        acts=lambda number: [use("clerk_ask", prompt=text_of(number))],
        asks="clerk/at-home",
    ),
    OutputChannel(
        "a module's state, and a clean run",
        acts=lambda number: [use("clerk_keep", key=f"o{number}", text=text_of(number))],
        then=clean_run(lambda number: use("clerk_recall", key=f"o{number}")),
    ),
    OutputChannel(
        "an event, and whoever hears it",
        acts=lambda number: [use("clerk_tell", text=text_of(number))],
        then=reported,
        asks="scribe/pen",
    ),
)
Pair: TypeAlias = tuple[int, InputChannel, OutputChannel]
PAIRS: list[Pair] = [
    (number, *pair) for number, pair in enumerate(itertools.product(INS, OUTS), start=1)
]
_EACH = 4


def chosen(*, is_all: bool) -> list[Pair]:
    """All pairs; or each way in with the straight way out, each way out with the first way in, and
    of the others each fourth.
    """
    some = [
        pair
        for place, pair in enumerate(PAIRS)
        if pair[1] is INS[0] or pair[2] is OUTS[0] or sum(divmod(place, len(OUTS))) % _EACH == 0
    ]
    return PAIRS if is_all else some


def obeying(number: int, way_in: InputChannel, way_out: OutputChannel) -> TaintScenario:
    """What the model does.

    Anyone else who sees the text, another agent or a listener's, goes for the outside.
    """
    return TaintScenario(
        mark=mark_of(number),
        reads=way_in.reads(number),
        acts=[*way_out.acts(number), outside(number)],
        remembers=way_in.remembers,
    )


async def reject(running: TaintRig) -> None:
    """The person wants none of what was suggested in a pair; what is to be a way in waits."""
    for one in (await get(running.daemon_rig, "/api/suggestions?status=pending"))["suggestions"]:
        if not str(one["path"]).startswith("Work/in/"):
            await post(running.daemon_rig, f"/api/suggestions/{one['id']}/reject", {})


async def steps(running: TaintRig, pairs: Sequence[Pair]) -> None:
    """Each step for all, and what it changed noticed before the next."""
    for turn in range(max(len(way.steps) for way in INS)):
        for number, way_in, _ in pairs:
            if turn < len(way_in.steps):
                await way_in.steps[turn](running, number)
        await running.daemon_rig.daemon.watched.detector.rescan()
    await running.daemon_rig.settled()


@pytest.mark.timeout(900)
async def test_a_strangers_text_ends_where_it_may_by_any_way_in_and_out(
    live: Live, vault: Path, tmp_path: Path, torture
):
    backend, pairs = ObedientBackend(), chosen(is_all=torture)
    save(vault / "Work/own.md", "# Own\n")
    for folder in ("in", "lane"):
        (vault / "Work" / folder).mkdir()
    for number, way_in, way_out in pairs:
        backend.plays[number] = obeying(number, way_in, way_out)
        if way_in.plant is not None:
            way_in.plant(vault, number)
    async with scene(live, vault, backend, modules=tmp_path / "modules") as running:
        await steps(running, pairs)
    for number, way_in, _ in pairs:
        if way_in.off is not None:
            way_in.off(vault, number)
    answers: dict[int, object] = {}
    unseen: list[str] = []
    async with scene(live, vault, backend) as running:
        await running.daemon_rig.settled()
        before = running.ends()
        for number, way_in, way_out in pairs:
            kept = backend.plays[number]
            answers[number] = await way_in.begin(running, number)
            unseen += (
                []
                if kept.has_seen is way_in.is_seen
                else [f"{way_in.name} -> {way_out.name}: seen is {kept.has_seen}"]
            )
            if kept.has_seen and way_out.then is not None:
                await way_out.then(running, number)
            await reject(running)
        await running.daemon_rig.settled()
        after = running.ends()
    unseen += [
        f"{way_in.name} -> {way_out.name}: {way_out.asks} was not asked"
        for number, way_in, way_out in pairs
        if way_in.is_seen
        and way_in.begin is play
        and way_out.asks is not None
        and not is_asked(backend, way_out.asks, number)
    ]
    found = [*unseen, *wrong(pairs, before, after, answers)]
    assert not found, "\n".join(found)


def wrong(
    pairs: Sequence[Pair],
    before: Mapping[str, set[str]],
    after: Mapping[str, set[str]],
    answers: Mapping[int, object],
) -> list[str]:
    """The pairs of which the mark ended where it may not, or not where it has to."""
    found = []
    for number, way_in, way_out in pairs:
        mark = mark_of(number)
        ends = after.get(mark, set()) - before.get(mark, set())
        left = {path for path in ends if not path.startswith(("Work/lane/", "Suggestions/"))}
        found += [f"{way_in.name} -> {way_out.name}: it ended in {path}" for path in sorted(left)]
        if way_in.is_seen and way_out.ends is not None:
            place = way_out.ends.format(number=number)
            is_there = (
                mark in json.dumps(answers[number])
                if place == "(the answer)"
                else any(path.startswith(place) for path in ends)
            )
            found += (
                []
                if is_there or answers[number] is None
                else [f"{way_in.name} -> {way_out.name}: it is not in {place}"]
            )
    return found


async def test_a_person_trusts_what_they_have_read_and_it_is_theirs_from_then_on(
    live: Live, vault: Path, tmp_path: Path
):
    backend = ObedientBackend()
    save(vault / "Work/site/clip.md", web(1))
    clipped = skill(2).replace("---\n", "---\norigin: web\n", 1)
    save(vault / "Work/site/.skills/s2.md", clipped)
    backend.plays[1] = TaintScenario(
        mark=mark_of(1), reads=[use("read_note", path="Work/site/clip.md")], acts=[outside(1)]
    )
    backend.plays[2] = TaintScenario(mark=mark_of(2), acts=[outside(2)])
    async with scene(live, vault, backend, modules=tmp_path / "modules") as running:
        for number in (1, 2):
            await running.play(number, working_directory="Work/site")
        assert not (vault / "Work/out").exists()
        assert not backend.plays[2].has_seen

        for path in ("Work/site/clip.md", "Work/site/.skills/s2.md"):
            await post(running.daemon_rig, "/api/agents/trust", {"path": path})
        for number in (1, 2):
            await running.play(number, working_directory="Work/site")
            assert mark_of(number) in running.read(f"Work/out/{number}.md")


async def test_what_a_hook_says_is_from_a_strangers_note_is_the_strangers(
    live: Live, vault: Path, home: Path, tmp_path: Path
):
    """A hook quotes a note to an agent, and says which."""
    backend = ObedientBackend()
    save(vault / "Work/own.md", "# Own\n")
    save(vault / "Inbox/1.md", text_of(1))
    sources = {"Inbox/1.md": False, "Work/own.md": True, "/etc/hostname": False}
    answers = {}
    for number, source in enumerate(sources, 1):
        said = {"hookEventName": "UserPromptSubmit", "additionalContext": text_of(number)}
        said["sources"] = [source]
        answers[f"play {number}."] = json.dumps({"hookSpecificOutput": said})
        backend.plays[number] = TaintScenario(mark=mark_of(number), acts=[outside(number)])
    save(
        home / "hooks/on-prompt-before.py",
        f"import sys\nasked = sys.stdin.read()\nfor name, answer in {answers!r}.items():\n"
        "    if name in asked:\n        print(answer)\n",
    )
    async with scene(live, vault, backend, modules=tmp_path / "modules") as running:
        await running.daemon_rig.settled()
        for number, (source, ends) in enumerate(sources.items(), 1):
            await running.play(number)
            assert backend.plays[number].has_seen, source
            assert (vault / f"Work/out/{number}.md").exists() is ends, source
