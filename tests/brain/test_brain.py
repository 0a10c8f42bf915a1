"""Brain: entities as files, over its routes, tools and interface and from any editor."""

from __future__ import annotations

import asyncio
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from parachuted.errors import EditRefusedError, NotFoundError, ParachuteError
from tests.brain.brain_of import KIM, KIM_TEXT, a_vault, brain, make, write


async def test_one_new_name_that_comes_many_times_at_once_is_one_entity(
    empty_brain, tmp_path: Path
):
    made = await asyncio.gather(
        *(make(empty_brain, "person", name=name) for name in ["Bo Ek", "bo ek"] * 6),
        make(empty_brain, "project", name="Bo Ek"),
    )
    assert len(set(made[:12])) == 1
    assert len({*made}) == 2
    assert [path.name for path in (tmp_path / "Brain/entities").rglob("bo*")] == ["bo-ek.md"] * 2


async def test_an_entity_that_is_being_made_is_not_made_a_second_time(
    empty_brain, monkeypatch: pytest.MonkeyPatch
):
    writer = empty_brain.instance.brain
    monkeypatch.setattr(writer, "limit_s", 0.01)
    add = writer.store.add

    async def hooked(*asked: Any) -> Any:  # as a hook on its making would
        with pytest.raises(EditRefusedError, match="just being made"):
            await writer.upsert_entity("person", {"name": "Bo Ek"})
        return await add(*asked)

    monkeypatch.setattr(writer.store, "add", hooked)
    assert await make(empty_brain, "person", name="Bo Ek")


async def test_files_made_by_hand_are_found_wherever_they_are_and_by_modules(small_brain):
    found = await small_brain.request("GET", "/search", query={"q": "friend"})

    assert [row["name"] for row in found["results"]] == ["Kim Lee", "Zoë Müller"]
    assert found["results"][1]["para_id"] == "Brain/old notes/Zoë Müller.md"
    people = await small_brain.request("GET", "/entities/person")
    assert [person["name"] for person in people["results"]] == ["Kim Lee", "Zoë Müller"]
    assert people["count"] == 2
    api = small_brain.interface("BrainInterface")
    assert (await api.resolve("kimkimkimkim"))["match"]["path"] == KIM
    assert [one["name"] for one in await api.search("Acme")] == ["Acme", "Kim Lee"]


async def test_a_new_entity_is_a_readable_file(empty_brain, tmp_path: Path):
    made = await make(
        empty_brain,
        "person",
        name="Bo Ek",
        aliases=["Bo"],
        status="yes",
        body="Met in Bern.",
        relationships=[{"target": "kim", "label": "Friend"}],
    )

    assert (tmp_path / "Brain/entities/people/bo-ek.md").read_text() == (
        f'---\npara_id: {made}\ntype: person\naliases:\n  - Bo\nstatus: "yes"\n---\n\n'
        "# Bo Ek\n\nMet in Bern.\n\n## Relationships\n\n- [[kim]] - Friend\n"
    )
    assert made.startswith("para:brain:")
    one = await empty_brain.request("GET", "/entities/by_id", query={"id": made})
    assert (one["@id"], one["@type"], one["name"]) == (made, "person", "Bo Ek")
    assert [name for name, _ in empty_brain.published] == ["brain.entity.created"]


async def test_an_edit_changes_what_it_names_and_no_other_byte(small_brain, tmp_path: Path):
    made = await make(small_brain, "person", name="kim lee", aliases=["K."], born="1980")
    assert made == "para:brain:kimkimkimkim", "one of that name is added to"
    text = KIM_TEXT.replace("  - 'Kimmy'\n", "  - Kimmy\n  - K.\n")
    text = text.replace("[friend]\n", '[friend]\nborn: "1980"\n')
    assert (tmp_path / KIM).read_text() == text

    body = {"data": {"status": "away", "tags": None}}
    changed = await small_brain.request("PUT", f"/entities/{made}", body=body)
    assert changed["status"] == "away"
    text = text.replace("tags: [friend]\n", "").replace('"1980"\n', '"1980"\nstatus: away\n')
    assert (tmp_path / KIM).read_text() == text

    body = {"path": "kim", "para_id": "Zoë Müller", "label": "Friend"}
    assert (await small_brain.request("POST", "/link", body=body))["linked"] is True
    assert (await small_brain.request("POST", "/link", body=body))["linked"] is False
    assert (tmp_path / KIM).read_text() == text + "- [[Zoë Müller]] - Friend\n"
    facts = await small_brain.request("GET", "/facts", query={"entity": "kim"})
    assert [fact["text"] for fact in facts] == ["[[acme]] - Founder", "[[Zoë Müller]] - Friend"]


async def test_a_name_or_a_spelling_of_it_means_an_entity(small_brain):

    async def meant(text: str, **query: str) -> tuple[object, float]:
        found = await small_brain.request("GET", "/resolve", query={"q": text, **query})
        return found["match"] and found["match"]["name"], found["confidence"]

    assert await meant("Kim Lee") == ("Kim Lee", 0.98)
    assert await meant("Kimmy") == ("Kim Lee", 0.95)
    assert await meant("KIM  lee") == ("Kim Lee", 0.93)
    assert await meant("zoe muller") == ("Zoë Müller", 0.93)
    assert await meant("Zoë Müller's") == ("Zoë Müller", 0.85)
    assert await meant("brain:kimkimkimkim") == ("Kim Lee", 1.0)
    assert await meant("KIMKIMKIMKIM") == ("Kim Lee", 1.0)
    assert await meant(KIM) == ("Kim Lee", 1.0)
    name, confidence = await meant("Zoe Mueler")
    assert name == "Zoë Müller"
    assert 0.6 < confidence < 0.8
    assert await meant("Kim Lee", type="organization") == (None, 0.0)
    assert await meant("nothing like it") == (None, 0.0)


async def test_two_of_one_name_are_candidates_and_no_match(tmp_path: Path):
    write(tmp_path, "Brain/entities/people/kim.md", "# Kim\n")
    write(tmp_path, "Brain/entities/projects/kim.md", "# Kim\n")
    async with brain(tmp_path) as module:
        found = await module.tool("brain-resolve", text="Kim")

        assert found["match"] is None
        assert [one["type"] for one in found["candidates"]] == ["person", "project"]
        write(tmp_path, "Brain/entities/people/kim-2.md", "# Kim\n")
        await module.event("file.created", path="Brain/entities/people/kim-2.md")
        with pytest.raises(EditRefusedError, match=r"Several are called kim; .*kim\.md"):
            await make(module, "person", name="kim")
        found = await module.tool("brain-resolve", text="Kim", type="project")
        assert found["match"]["path"] == "Brain/entities/projects/kim.md"


async def test_an_editors_changes_are_followed_and_announced_once(small_brain, tmp_path: Path):
    write(tmp_path, KIM, KIM_TEXT.replace("Kimmy", "Kay"))
    await small_brain.event("file.modified", path=KIM)
    await small_brain.event("file.modified", path=KIM)

    assert (await small_brain.tool("brain-resolve", text="Kay"))["match"]["name"] == "Kim Lee"
    assert (await small_brain.tool("brain-resolve", text="Kimmy"))["confidence"] < 0.95
    assert [name for name, _ in small_brain.published] == ["brain.entity.updated"]

    (tmp_path / KIM).unlink()
    await small_brain.event("file.deleted", path=KIM)
    assert await small_brain.tool("brain-search", query="Kay") == []


async def test_an_id_stays_with_its_file_through_a_move_and_an_edit_while_off(tmp_path: Path):
    moved = "Brain/friends/Kim Ek.md"
    async with brain(a_vault(tmp_path)) as module:
        (tmp_path / "Brain/friends").mkdir()
        (tmp_path / KIM).rename(tmp_path / moved)
        await module.event("file.moved", **{"path": moved, "from": KIM})
        query = {"id": "para:brain:kimkimkimkim"}
        assert (await module.request("GET", "/entities/by_id", query=query))["path"] == moved
        assert [name for name, _ in module.published] == ["brain.entity.updated"]

    write(tmp_path, "Brain/kim again.md", (tmp_path / moved).read_text() + "More.\n")
    (tmp_path / moved).unlink()
    async with brain(tmp_path) as module:
        found = await module.request("GET", "/entities/by_id", query=query)
        assert found["path"] == "Brain/kim again.md"


async def test_what_several_link_and_write_at_once_has_all_of_it(tmp_path: Path):
    write(tmp_path, "Notes/day.md", "Saw Zoë and Kim at Acme.\n")
    async with brain(a_vault(tmp_path)) as module:
        found = await asyncio.gather(
            *(
                module.request("POST", "/link", body={"path": "Notes/day.md", "para_id": name})
                for name in ("Zoë Müller", "kim", "acme") * 2
            )
        )
        text = (tmp_path / "Notes/day.md").read_text()
        assert [text.count(one["para_id"]) for one in found] == [1] * 6
        zoe = found[0]["para_id"]
        assert zoe.startswith("para:brain:")
        assert zoe in (tmp_path / "Brain/old notes/Zoë Müller.md").read_text()
        assert (await module.tool("brain-resolve", text=zoe))["match"]["name"] == "Zoë Müller"

        await asyncio.gather(
            *(make(module, "person", name="kim lee", aliases=[alias]) for alias in ("K.", "Kiki")),
            module.request("POST", "/link", body={"path": KIM, "para_id": "Zoë Müller"}),
        )
        text = (tmp_path / KIM).read_text()
        assert [text.count(part) for part in ("Kimmy", "K.", "Kiki", "[[Zoë")] == [1, 1, 1, 1]


async def test_a_note_that_mentions_an_entity_gets_its_id(tmp_path: Path):
    write(tmp_path, "Notes/day.md", "Saw Zoë.\n")
    async with brain(a_vault(tmp_path)) as module:
        para_id = (await module.tool("brain-link", path="Notes/day.md", para_id="Zoë Müller"))[
            "para_id"
        ]
        text = (tmp_path / "Notes/day.md").read_text()
        assert text.startswith("---\nmentions:")
        assert text.count(para_id) == 1
        assert text.endswith("---\nSaw Zoë.\n")


async def test_types_are_edited_as_a_file_and_all_else_in_it_stays(tmp_path: Path):
    types = (
        "# mine\ntypes:\n  person:   # people\n    folder: people\n    fields: [aliases]\n\n"
        "  # food\n  recipe:\n    folder: recipes\n    fields:\n      serves: integer\nother: x\n"
    )
    write(tmp_path, "Brain/types.yaml", types)
    async with brain(tmp_path) as module:
        body = {"name": "plant", "fields": {"latin": {"type": "string", "required": True}}}
        made = await module.request("POST", "/types", body={**body, "key_strategy": "random"})

        assert made["fields"] == [{"name": "latin", "type": "string", "required": True}]
        assert (tmp_path / "Brain/types.yaml").read_text() == types.replace(
            "other: x\n",
            "  plant:\n    folder: plants\n    key_strategy: random\n    fields:\n"
            "      latin:\n        type: string\n        required: true\nother: x\n",
        )
        await module.request("PUT", "/types/recipe", body={"fields": {"serves": {"type": "int"}}})
        await module.request("DELETE", "/types/plant")
        assert (tmp_path / "Brain/types.yaml").read_text() == types.replace(
            "serves: integer", "serves:\n        type: int"
        )
        await make(module, "recipe", name="Soup", serves=4)
        with pytest.raises(EditRefusedError, match="1 entities have the type recipe"):
            await module.request("DELETE", "/types/recipe")


async def test_lines_of_other_types_stay_byte_for_byte(tmp_path: Path):
    types = (
        "types:\n    person: {icon: x,folder: people}   # mine\n    recipe:   # food\n"
        "        description: two\n          lines\n        folder:    recipes\n\n# end\n"
    )
    write(tmp_path, "Brain/types.yaml", types)
    async with brain(tmp_path) as module:
        await module.request("POST", "/types", body={"name": "plant", "fields": {}})
        text = (tmp_path / "Brain/types.yaml").read_text()
        assert text.replace("    plant:\n        folder: plants\n        fields: []\n", "") == types
        await module.request("DELETE", "/types/plant")
        assert (tmp_path / "Brain/types.yaml").read_text() == types


async def test_types_are_there_without_a_file_and_searches_are_kept(empty_brain, tmp_path: Path):
    shown = await empty_brain.request("GET", "/types")

    names = ["person", "project", "topic", "resource", "organization", "event"]
    assert [one["name"] for one in shown] == names
    await empty_brain.request("POST", "/types", body={"name": "recipe"})
    assert len(await empty_brain.tool("brain-types")) == 7
    assert (tmp_path / "Brain/types.yaml").read_text().count("folder:") == 7

    query = {
        "id": "",
        "name": "My friends",
        "entity_type": "person",
        "filters": [{"field_name": "tags", "operator": "contains", "value": "friend"}],
    }
    made = await empty_brain.request("POST", "/queries", body=query)

    assert made == {"id": "my-friends"}
    kept = await empty_brain.request("GET", "/queries")
    assert kept == {"queries": [{**query, "id": "my-friends"}]}
    await empty_brain.request("DELETE", "/queries/my-friends")
    assert await empty_brain.request("GET", "/queries") == {"queries": []}
    with pytest.raises(NotFoundError, match="no query my-friends"):
        await empty_brain.request("DELETE", "/queries/my-friends")


async def test_a_deleted_entity_is_gone(small_brain, tmp_path: Path):
    await small_brain.request("DELETE", "/entities/para:brain:kimkimkimkim")

    assert not (tmp_path / KIM).exists()
    with pytest.raises(NotFoundError, match="was not found"):
        await small_brain.request("GET", "/entities/by_id", query={"id": "kim"})
    with pytest.raises(EditRefusedError, match="no type 'plant'"):
        await make(small_brain, "plant", name="Fern")


async def test_a_text_names_entities_and_each_is_announced_once(small_brain, tmp_path: Path):
    api = small_brain.interface("BrainInterface")
    text = "Had lunch with Kim Lee and Zoë Müller.\n\n`Kim Lee` in code"
    found = await api.detect_mentions("Daily/journals/2026-02-24.md", text, "para:daily:abc")

    assert [(one["name"], text[one["start"] : one["end"]]) for one in found] == [
        ("Kim Lee", "Kim Lee"),
        ("Zoë Müller", "Zoë Müller"),
    ]
    assert all(one["confidence"] > 0.8 for one in found)
    zoe = found[1]["para_id"]
    assert f"para_id: {zoe}\n" in (tmp_path / "Brain/old notes/Zoë Müller.md").read_text()
    await api.detect_mentions("Daily/journals/2026-02-24.md", text, "para:daily:abc")
    reported = [data for name, data in small_brain.published if name == "brain.mention.detected"]
    assert [(one["source_id"], one["para_id"]) for one in reported] == [
        ("para:daily:abc", "para:brain:kimkimkimkim"),
        ("para:daily:abc", zoe),
    ]
    suggested = await small_brain.request("POST", "/suggest", body={"text": text})
    assert suggested["count"] == 2
    assert await small_brain.tool("brain-suggest", text="nothing") == []


async def test_what_an_entity_is_related_to_follows_the_files(small_brain, tmp_path: Path):
    found = await small_brain.request("GET", "/traverse", query={"entity": "kim"})
    assert [(one["name"], one["label"], one["direction"]) for one in found["results"]] == [
        ("Acme", "Founder", "out")
    ]
    write(tmp_path, "Brain/bo.md", "# Bo\n\nLeads [[Kim Lee]] and [[later]].\n")
    await small_brain.event("file.created", path="Brain/bo.md")
    found = await small_brain.request("GET", "/backlinks", query={"entity": "kim"})
    assert [one["name"] for one in found["results"]] == ["Bo"]

    write(tmp_path, "Brain/entities/topics/later.md", "# Later\n")
    await small_brain.event("file.created", path="Brain/entities/topics/later.md")
    query = {"entity": "Acme", "depth": "3"}
    found = await small_brain.request("GET", "/traverse", query=query)
    assert [(one["name"], one["depth"]) for one in found["results"]] == [
        ("Kim Lee", 1),
        ("Bo", 2),
        ("Later", 3),
    ]
    graph = await small_brain.request("GET", "/graph")
    names = {node["name"] for node in graph["nodes"]}
    assert names == {"Acme", "Bo", "Kim Lee", "Later", "Zoë Müller"}
    assert len(graph["edges"]) == 3
    assert "para:brain:kimkimkimkim" in {edge["target"] for edge in graph["edges"]}


async def test_entities_are_listed_by_a_part_of_a_name_and_twins_in_pairs(
    tmp_path: Path,
):
    write(tmp_path, "Brain/entities/people/lee-kim.md", "---\naliases: [Kimmy]\n---\n# Lee Kim\n")
    async with brain(a_vault(tmp_path)) as module:
        every = await module.request("GET", "/entities", query={"limit": "2", "offset": "1"})
        assert [one["name"] for one in every["results"]] == ["Kim Lee", "Lee Kim"]
        assert every["count"] == 4
        with pytest.raises(ParachuteError, match=r"offset: .*less than"):
            await module.request("GET", "/entities", query={"offset": "9" * 30})
        query = {"q": "MULLER", "type": "person"}
        (found,) = (await module.request("GET", "/entities", query=query))["results"]
        assert (found["name"], found["snippet"]) == ("Zoë Müller", "An old friend.")

        (pair,) = (await module.request("GET", "/twins"))["twins"]
        assert {pair["entity"]["name"], pair["other"]["name"]} == {"Kim Lee", "Lee Kim"}
        assert (await module.request("GET", "/twins", query={"entity": "kim"}))["count"] == 1
        assert (await module.request("GET", "/twins", query={"entity": "acme"}))["count"] == 0


async def test_a_context_holds_the_file_its_relations_and_recent_mentions(tmp_path: Path):
    write(tmp_path, "Daily/journals/2026-02-24.md", "# Noon\n\nLunch with Kim Lee.\n\nThen home.\n")
    write(
        tmp_path,
        "Daily/journals/2026-02-25.md",
        "# Noon #private\n\nSaid in confidence by Kim Lee.\n\n# Late\n\nKimmy left.\n",
    )
    write(tmp_path, "Work/garden/AGENTS.md", "# Garden\n\nWater it.\n")
    write(
        tmp_path,
        "Brain/entities/projects/garden.md",
        "---\nagents_path: Work/garden/AGENTS.md\n---\n# Garden\n\n- [[kim]]\n",
    )
    async with brain(a_vault(tmp_path)) as module:
        text = await module.tool("brain-context", entity="Kim Lee")
        assert "Grows *beans*." in text
        assert "- Acme (organization) - Founder" in text
        assert "- Daily/journals/2026-02-24.md: Lunch with Kim Lee.\n" in text
        assert "- Daily/journals/2026-02-25.md: Kimmy left.\n" in text
        assert "Said in confidence" not in text
        found = await module.request("GET", "/context", query={"entity": "garden"})
        kinds = [part["kind"] for part in found["parts"]]
        assert kinds == ["entity", "related", "instructions", "mentions"]
        assert "Water it." in found["text"]
        small = await module.request(
            "GET", "/context", query={"entity": "kim", "max_tokens": "100"}
        )
        assert small["truncated"] is False or small["tokens"] <= 100


async def test_a_question_is_answered_by_the_passage_that_fits(small_brain, tmp_path: Path):
    query = {"query": "Who is it that grows the beans?"}
    found = await small_brain.request("GET", "/recall", query=query)

    assert found["count"] >= 1
    best = found["results"][0]
    assert (best["para_id"], best["is_match"]) == ("para:brain:kimkimkimkim", True)
    assert "beans" in best["text"]
    api = small_brain.interface("BrainInterface")
    write(tmp_path, KIM, KIM_TEXT.replace("beans", "melons"))
    await small_brain.event("file.modified", path=KIM)
    again = await api.recall("beans")  # with the [semantic] extra the nearest is found
    assert not any(one["is_match"] for one in again["results"])
    assert (await api.recall("a melon?", num_results=1))["count"] == 1


async def test_what_is_wrong_is_listed_with_its_file_and_nothing_is_rewritten(tmp_path: Path):
    people = "Brain/entities/people"
    files = {
        f"{people}/kim.md": KIM_TEXT,
        f"{people}/kim copy.md": KIM_TEXT,
        f"{people}/gardens.md": "# Gardens\n",
        f"{people}/garden.md": "# Garden\n",
        f"{people}/bad.md": "---\na: [\n---\n# Bad\n",
        f"{people}/tag.md": "---\ntags: #x\n---\n# Tag\n",
        "Brain/x.md": "No type.\n",
        "Brain/entities/recipes/soup.md": "---\ntype: recipe\nserves: many\n---\n# Soup\n",
        "Brain/types.yaml": "types:\n  person:\n    folder: people\n  recipe:\n"
        "    folder: recipes\n    fields:\n      serves: integer\n      taste: {required: true}\n",
    }
    for path, text in files.items():
        write(tmp_path, path, text)
    async with brain(tmp_path) as module:
        found = await module.doctor()

        assert sorted((str(one.path).removeprefix("Brain/"), one.problem) for one in found) == [
            ("entities/people/bad.md", "its frontmatter is not `key: value` lines of YAML"),
            (
                "entities/people/gardens.md",
                f"it may be the same as {people}/garden.md: Gardens and Garden",
            ),
            (
                "entities/people/kim copy.md",
                f"it has the para_id of {people}/kim.md, para:brain:kimkimkimkim",
            ),
            (
                "entities/people/tag.md",
                "`tags:` is empty: YAML takes `#tag` for a comment; write `tags: [tag]`",
            ),
            ("entities/recipes/soup.md", "`serves` should be an integer"),
            ("entities/recipes/soup.md", "`taste` is required"),
            ("x.md", "it has no type"),
        ]
    assert {path: (tmp_path / path).read_text() for path in files} == files


async def test_what_a_person_refused_is_not_suggested_again(small_brain):
    text = "Lunch with Kim Lee."
    assert len(await small_brain.tool("brain-suggest", text=text)) == 1
    body = {"para_id": "kimkimkimkim", "text": "Kim Lee", "accepted": False}
    await small_brain.request("POST", "/mentions/answer", body=body)
    assert await small_brain.tool("brain-suggest", text=text) == []
    await small_brain.request("POST", "/mentions/answer", body={**body, "accepted": True})
    assert len(await small_brain.tool("brain-suggest", text=text)) == 1


async def test_what_is_private_is_in_no_answer_and_no_edit_loses_it(tmp_path: Path):
    facts = "\n## Facts\n\n- Role: Founder\n\n### Debts #private\n\n- Owes: FACTSECRET\n"
    secret = KIM_TEXT + facts + "\n## Diagnosis #private\n\nNOVSECRET\n"
    write(tmp_path, KIM, secret)
    whole = (
        "---\npara_id: para:brain:zedzedzedzed\nprivate: true\ndescription: ABOUTSECRET\n"
        "boss: '[[kim]] BOSSSECRET'\naliases: [NAMESECRET]\n---\n# Zed\n\nZEDSECRET\n"
    )
    write(tmp_path, "Brain/entities/people/zed.md", whole)
    write(tmp_path, "Daily/journals/2026-01-05.md", "# A day #private\n\nDAYSECRET\n")
    async with brain(tmp_path) as module:
        answers = [
            await module.tool("brain-search", query="NOVSECRET ZEDSECRET Kim"),
            await module.tool("brain-context", entity="kimkimkimkim"),
            await module.tool("brain-context", entity="zedzedzedzed"),
            (await module.request("GET", "/recall", query={"query": "NOVSECRET"}))["results"],
            await module.request("GET", "/entities/by_id", query={"id": "kimkimkimkim"}),
            await module.request("GET", "/entities/by_id", query={"id": "zedzedzedzed"}),
            (await module.request("GET", "/recall", query={"query": "ABOUTSECRET"}))["results"],
            await module.interface("BrainInterface").facts("kimkimkimkim"),
            await module.interface("BrainInterface").backlinks("kimkimkimkim"),
            await module.interface("BrainInterface").traverse("zedzedzedzed"),
            await module.interface("BrainInterface").suggest("NAMESECRET met Kim Lee."),
        ]
        assert "SECRET" not in str([answer for answer in answers if answer])
        body = {"data": {"body": "New text"}}
        with pytest.raises(EditRefusedError, match="private part"):
            await module.request("PUT", "/entities/para:brain:kimkimkimkim", body=body)

    assert (tmp_path / KIM).read_text() == secret
    assert (tmp_path / "Brain/entities/people/zed.md").read_text() == whole


async def test_private_text_is_known_by_every_usual_spelling(tmp_path: Path):
    spellings = {
        "aaaaaaaaaaaa": "private: y\nb: BSECRET\n---\n# Zed\n\nZEDSECRET\n",
        "bbbbbbbbbbbb": "tags: [private/health]\n---\n# Zod\n\nZEDSECRET\n",
        "cccccccccccc": "---\n# Zad\n\n## F\n\n- ZEDSECRET\n#private/x\n",
        "dddddddddddd": "---\n# Zid\n\n> ZEDSECRET\n> #private\n",
    }
    for name, text in spellings.items():
        front = f"---\npara_id: para:brain:{name}\n"
        write(tmp_path, f"Brain/entities/people/{name}.md", front + text)
    async with brain(tmp_path) as module:
        answers = [
            await module.tool("brain-search", query="ZEDSECRET"),
            (await module.request("GET", "/recall", query={"query": "ZEDSECRET"}))["results"],
        ]
        for name in spellings:
            answers.append(await module.tool("brain-context", entity=name))
            answers.append(await module.request("GET", "/entities/by_id", query={"id": name}))
            assert await module.interface("BrainInterface").facts(name) == []
        assert "SECRET" not in str(answers)


async def test_what_is_added_to_a_private_entity_leaves_what_no_caller_is_shown(tmp_path: Path):
    path, text = "Brain/entities/people/qz.md", "# Qz\n\nSECRET\n"
    front = "para_id: para:brain:qzqzqzqzqzqz\nprivate: true\n"
    lists = "aliases: [Zorbalias]\ntags: [zorbtag]\nboss: kim\n"
    write(tmp_path, path, f"---\n{front}{lists}---\n{text}")
    async with brain(tmp_path) as module:
        data = {"para_id": "qzqzqzqzqzqz", "aliases": ["hij"], "tags": ["t2"], "boss": None}
        body = {"entity_type": "person", "data": data}
        answer = await module.request("POST", "/entities", body=body)
        added = (tmp_path / path).read_text()
        for gone in ({"data": {}, "body": "GONE"}, {"data": {"body": "GONE"}}):
            with pytest.raises(EditRefusedError, match="private part"):
                await module.request("PUT", "/entities/qzqzqzqzqzqz", body=gone)
        write(tmp_path, KIM, KIM_TEXT)
        await module.event("file.created", path=KIM)
        await module.request("PUT", "/entities/kimkimkimkim", body={"data": {}, "body": "New."})

    assert "zorb" not in str(answer).casefold()
    lists = "aliases:\n  - Zorbalias\n  - hij\ntags:\n  - zorbtag\n  - t2\n"
    assert added == f"---\n{front}{lists}---\n{text}"
    assert (tmp_path / path).read_text() == added
    assert (tmp_path / KIM).read_text().endswith("\nNew.\n")


async def test_no_text_of_an_entity_is_thrown_away(empty_brain, tmp_path: Path):
    for number, (key, is_beside) in enumerate(product(("body", "content"), (True, False))):
        path = tmp_path / f"Brain/entities/people/kim-{number}.md"

        def asked(
            text: object, key: str = key, *, number: int = number, is_beside: bool = is_beside
        ) -> dict[str, object]:
            data, beside = {"name": f"Kim {number}"}, {key: text}
            more = {"data": data, **beside} if is_beside else {"data": {**data, **beside}}
            return {"entity_type": "person", **more}

        answer = await empty_brain.request("POST", "/entities", body=asked("Grows beans."))
        assert answer.status == 201
        assert path.read_text().endswith(f"# Kim {number}\n\nGrows beans.\n")
        again = await empty_brain.request("POST", "/entities", body=asked("Grows beans."))
        assert again.status == 200
        for other in ("Grows peas.", ["Grows beans."]):
            with pytest.raises(EditRefusedError, match="body"):
                await empty_brain.request("POST", "/entities", body=asked(other))
        assert path.read_text().endswith(f"# Kim {number}\n\nGrows beans.\n")
