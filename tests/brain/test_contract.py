"""The existing app's calls to Brain (rows 44 to 51 of its contract), in a running daemon."""

from __future__ import annotations

from pathlib import Path

from tests.api.calls import call, get, post, refused
from tests.module_files import install_official
from tests.stories.daemon_rig import DaemonRig, Live, save

KIM = "Brain/entities/people/kim.md"
TEXT = {str}
TEXT_OR_NONE = {str, type(None)}


def fits(value: object, shape: object) -> bool:
    """Whether JSON has exactly these types: an integer is neither a float nor a flag."""
    if isinstance(shape, set):
        return type(value) in shape
    if isinstance(shape, list):
        return isinstance(value, list) and all(fits(one, shape[0]) for one in value)
    assert isinstance(shape, dict)
    return isinstance(value, dict) and all(
        fits(value.get(key.removesuffix("?")), part)
        for key, part in shape.items()
        if not key.endswith("?") or key.removesuffix("?") in value
    )


TYPE = {
    "name": TEXT,
    "description": TEXT_OR_NONE,
    "key_strategy": TEXT_OR_NONE,
    "entity_count": {int},
    "fields": [
        {
            "name": TEXT,
            "type": TEXT,
            "required": {bool},
            "values?": [TEXT],
            "link_type?": TEXT,
            "items?": TEXT,
            "description?": TEXT,
        }
    ],
}
ENTITY = {"@id": TEXT, "@type": TEXT, "name": TEXT, "tags": [TEXT]}


async def app(daemon_rig: DaemonRig, method: str, path: str, body: object = None) -> object:
    """A call of the app, which takes 200 alone for success."""
    status, answer = await call(daemon_rig, method, path, json=body)
    assert status == 200, answer
    return answer


async def test_types_and_entities_are_answered_as_the_app_reads_them(live: Live, vault: Path):
    async with live() as daemon_rig:
        await install_official(daemon_rig, "brain")
        types = await app(daemon_rig, "GET", "/api/brain/types")
        assert isinstance(types, list)
        assert len(types) == 6
        assert fits(types, [TYPE])

        new = {
            "name": "recipe",
            "fields": {"serves": {"type": "integer", "required": True}},
            "key_strategy": "Lexical",
            "description": "Food",
        }
        made = await app(daemon_rig, "POST", "/api/brain/types", new)
        assert fits(made, TYPE)
        body = {"fields": {"taste": {"type": "enum", "values": ["sweet", "sour"]}}}
        changed = await app(daemon_rig, "PUT", "/api/brain/types/recipe", body)
        assert changed["fields"] == [
            {"name": "taste", "type": "enum", "required": False, "values": ["sweet", "sour"]}
        ]
        schemas = await app(daemon_rig, "GET", "/api/brain/schemas")
        assert fits(schemas, {"schemas": [TYPE]})
        await app(daemon_rig, "DELETE", "/api/brain/types/recipe")
        status, answer = await call(daemon_rig, "POST", "/api/brain/types", json={"name": "by_id"})
        assert status >= 400
        assert isinstance(answer["detail"], str)

        data = {"name": "Kim", "tags": ["friend"], "description": "Grows beans"}
        body = {"entity_type": "person", "data": data, "commit_msg": "Met"}
        status, made = await call(daemon_rig, "POST", "/api/brain/entities", json=body)
        assert status in {200, 201}
        assert fits(made, {"entity_id": TEXT})

        page = await app(daemon_rig, "GET", "/api/brain/entities/person?limit=50&offset=0")
        assert fits(page, {"results": [ENTITY]})
        key = made["entity_id"]
        one = await app(daemon_rig, "GET", f"/api/brain/entities/by_id?id={key}")
        assert fits(one, ENTITY)
        assert one["description"] == "Grows beans"

        body = {"data": {"status": "away"}, "commit_msg": None}
        await app(daemon_rig, "PUT", f"/api/brain/entities/{key}", body)
        assert "status: away\n" in (vault / KIM).read_text()
        await app(daemon_rig, "DELETE", f"/api/brain/entities/{key}?commit_msg=x")
        assert not (vault / KIM).exists()
        status, _ = await refused(daemon_rig, "GET", f"/api/brain/entities/by_id?id={key}")
        assert status == 404

        before = len(daemon_rig.reported("brain.entity.created"))
        save(vault / KIM, "# Kim\n\nTyped in an editor.\n")
        await daemon_rig.until(lambda: len(daemon_rig.reported("brain.entity.created")) > before)
        found = await get(daemon_rig, "/api/brain/resolve?q=KIM")
        assert found["match"]["path"] == KIM


async def test_entities_of_odd_files_have_the_types_that_the_app_reads(live: Live, vault: Path):
    fronts = ["name: 7\ntags: solo", "tags: [a, 5]\nid: 9", "'@id': x\n'@type': 3\ntags:"]
    fronts += ["name: [a]\ntags: {a: b}\ndescription: {a: b}", "type: [person]", "private: y"]
    for number, front in enumerate(fronts):
        save(vault / f"Brain/entities/people/odd-{number}.md", f"---\n{front}\n---\nWords.\n")
    save(vault / "Brain/entities/people/empty.md", "")
    save(vault / "Brain/entities/people/open.md", "---\nname: Never\n")
    async with live() as daemon_rig:
        await install_official(daemon_rig, "brain")
        page = await app(daemon_rig, "GET", "/api/brain/entities/person?limit=100&offset=0")
        assert fits(page, {"results": [ENTITY]}), page
        assert len(page["results"]) == len(fronts) + 2
        for one in page["results"]:
            again = await app(daemon_rig, "GET", f"/api/brain/entities/by_id?id={one['@id']}")
            assert fits(again, ENTITY), again
        raw = "/api/brain/entities/Brain/entities/people/empty.md"  # an id with slashes, as it is
        await app(daemon_rig, "PUT", raw, {"data": {"status": "away"}})
        assert "status: away\n" in (vault / "Brain/entities/people/empty.md").read_text()
        await app(daemon_rig, "DELETE", raw)
        assert not (vault / "Brain/entities/people/empty.md").exists()


async def test_a_merge_takes_all_links_along_and_one_undo_takes_it_back(live: Live, vault: Path):
    people = "Brain/entities/people"
    files = {
        KIM: "---\npara_id: para:brain:kimkimkimkim\ntags: [friend]\nborn: 1980\n---\n# Kim\n\n"
        "Grows beans.\n\n## Relationships\n\n- [[bo]] - Friend\n- [[kim-lee]] - the same?\n",
        f"{people}/kim-lee.md": "---\npara_id: para:brain:leeleeleelee\naliases: [Lee]\n"
        "tags: [gardener]\nborn: 1981\nstatus: away\n---\n# Kim Lee\n\nMoved to Bern.\n\n"
        "## Relationships\n\n- [[bo]] - Friend\n- [[acme]] - Founder\n\n## Notes\n\nTall.\n",
        f"{people}/bo.md": "# Bo\n\n## Relationships\n\n- [[kim-lee]] - Sister (since 2020)\n",
        "Notes/day.md": "---\nmentions: [para:brain:leeleeleelee]\n---\nSaw [[kim-lee]], "
        "[[kim-lee|her]] and [her](../Brain/entities/people/kim-lee.md#notes).\n",
        "Notes/other.md": "`[[kim-lee]]` in code stays; [[kim]] too.\n",
    }
    for path, text in files.items():
        save(vault / path, text)
    async with live() as daemon_rig:
        await install_official(daemon_rig, "brain")
        done = await app(
            daemon_rig,
            "POST",
            "/api/brain/merge",
            {"keep": "kim", "other": "para:brain:leeleeleelee"},
        )

        assert not (vault / people / "kim-lee.md").exists()
        assert (vault / KIM).read_text() == (
            "---\npara_id: para:brain:kimkimkimkim\ntags:\n  - friend\n  - gardener\nborn: 1980\n"
            "aliases:\n  - Kim Lee\n  - Lee\n  - kim lee\nformer_ids:\n"
            "  - para:brain:leeleeleelee\nstatus: away\n---\n# Kim\n\nGrows beans.\n\n"
            "## Relationships\n\n- [[bo]] - Friend\n- [[kim]] - the same?\n- [[acme]] - Founder\n\n"
            "## From Kim Lee\n\n- born: 1981\n\nMoved to Bern.\n\n## Notes\n\nTall.\n"
        )
        assert (vault / people / "bo.md").read_text() == files[f"{people}/bo.md"].replace(
            "kim-lee", "kim"
        )
        assert (vault / "Notes/day.md").read_text() == files["Notes/day.md"].replace(
            "[[kim-lee]]", "[[kim|kim-lee]]"
        ).replace("[[kim-lee|her]]", "[[kim|her]]").replace("people/kim-lee.md", "people/kim.md")
        assert (vault / "Notes/other.md").read_text() == files["Notes/other.md"]
        found = await get(daemon_rig, "/api/para/para:brain:leeleeleelee")
        assert found["path"] == KIM
        facts = await get(daemon_rig, "/api/brain/resolve?q=Lee")
        assert facts["match"]["path"] == KIM

        await post(daemon_rig, f"/api/runs/{done['run']}/undo")
        assert {path: (vault / path).read_text() for path in files} == files
        await daemon_rig.settled()
        found = await get(daemon_rig, "/api/para/para:brain:leeleeleelee")
        assert found["path"] == f"{people}/kim-lee.md"
