"""What holds for any file below Brain/: edits are byte-exact, ids stay, faults harm no other."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parachuted.errors import EditRefusedError, NotFoundError
from parachuted.vault import parse_note
from tests.brain.brain_of import brain, write
from tests.module_files import brain_file

type_file, entity_index, entity, compose = map(
    brain_file, ["type_file", "entity_index", "entity", "compose"]
)
NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=30)


@settings(deadline=None)
@given(NAMES, st.dictionaries(st.sampled_from(["a", "b c", "d"]), NAMES | st.integers()))
def test_a_new_file_is_read_as_it_was_meant(name: str, data: dict[str, object]):
    text = compose.new_file("para:brain:abcabcabcabc", "person", name.strip() or "x", data)
    note = parse_note(text.encode())
    body_at = len(text) - len(text.encode()[note.body.start :].decode())
    found = entity.read_entity(
        "Brain/x.md", text, note.values, body_at=body_at, digest="", types={}
    )

    assert note.problems == ()
    assert found.para_id == "para:brain:abcabcabcabc"
    assert found.name == (name.strip() or "x")
    assert {key: str(value) for key, value in data.items()} == {
        key: found.fields[key] for key in data
    }
    assert "---" not in text.removeprefix("---\n").partition("\n---\n")[0]


TYPE_NAMES = st.sampled_from(["person", "recipe", "plant", "tool-kit"])


@settings(deadline=None)
@given(st.lists(st.tuples(TYPE_NAMES, st.booleans(), st.lists(NAMES, max_size=3)), max_size=8))
def test_any_edits_of_types_leave_the_others_and_all_comments(
    edits: list[tuple[str, bool, list[str]]],
):
    text = "# top\ntypes:\n  # kept\n  person:  # me\n    folder: people\n\nextra: [1]\n"
    wanted = {"person"}
    for name, is_set, fields in edits:
        try:
            if is_set:
                made = type_file.make_type(name, [field for field in fields if field.strip()])
                text = type_file.with_type(text, made)
                wanted.add(name)
            else:
                text = type_file.without_type(text, name)
                wanted.discard(name)
        except (EditRefusedError, NotFoundError):
            continue
    assert text.startswith("# top\ntypes:\n")
    assert "\n  # kept\n" in text
    assert text.endswith("extra: [1]\n")
    if wanted:
        assert set(type_file.read_types(text).by_name) == wanted


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("abcdef"), st.sampled_from(["", "1" * 12, "2" * 12])), max_size=20
    )
)
def test_the_index_after_any_changes_is_that_of_the_files_that_are_left(
    steps: list[tuple[str, str]],
):
    def read(name: str, para_id: str) -> object:
        return entity.read_entity(
            f"Brain/{name}.md", "", {"para_id": para_id}, body_at=0, digest="", types={}
        )

    index, left = entity_index.EntityIndex(), {}
    for name, para_id in steps:
        if (name, para_id) in left.items():
            index.remove(f"Brain/{name}.md")
            del left[name]
        else:
            index.put(read(name, para_id))
            left[name] = para_id
    again = entity_index.EntityIndex()
    for name, para_id in sorted(left.items()):
        again.put(read(name, para_id))

    assert list(index) == list(again)
    assert index.duplicates == again.duplicates
    for spelling in ["a", "1" * 12, "2" * 12, "Brain/c.md"]:
        assert index.find(spelling) == again.find(spelling)
        assert index.resolve(spelling) == again.resolve(spelling)


@settings(max_examples=3, suppress_health_check=list(HealthCheck), deadline=None)
@given(st.integers(0, 10_000))
def test_ids_survive_any_moves_and_edits_on_and_off(tmp_path_factory: pytest.TempPathFactory, seed):
    vault = tmp_path_factory.mktemp("vault")
    chance = random.Random(seed)  # noqa: S311
    ids = {f"para:brain:{'abc'[n]}{'x' * 11}": f"Brain/{n}.md" for n in range(3)}
    for para_id, path in ids.items():
        write(vault, path, f"---\npara_id: {para_id}\n---\n# {path}\n")

    async def live() -> None:
        async with brain(vault) as module:
            for step in range(6):
                para_id = chance.choice(list(ids))
                old, new = ids[para_id], f"Brain/f{chance.randint(0, 3)}/{seed}-{step}.md"
                (vault / new).parent.mkdir(parents=True, exist_ok=True)
                (vault / old).rename(vault / new)
                ids[para_id] = new
                if chance.random() < 0.5:
                    with (vault / new).open("a") as file:
                        file.write("More.\n")
                if chance.random() < 0.7:
                    await module.event("file.moved", **{"path": new, "from": old})
                else:
                    await module.event("file.deleted", path=old)
                    await module.event("file.created", path=new)
            for para_id, path in ids.items():
                one = await module.request("GET", "/entities/by_id", query={"id": para_id})
                assert one["path"] == path

    for _ in range(2):
        asyncio.run(live())
        for para_id, path in list(ids.items()):  # while it is off
            ids[para_id] = path.replace(".md", "-.md")
            (vault / path).rename(vault / ids[para_id])
