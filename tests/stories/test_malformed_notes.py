"""A vault of malformed notes, in which Daily and Brain work, and which both leave as it is."""

from __future__ import annotations

import random
from pathlib import Path

from tests.api.calls import get, post
from tests.stories.daemon_rig import Live, save
from tests.stories.official_modules import install_official

COUNT = 500
GOOD = "Brain/entities/people/kim.md"
BAD = (
    b"---\n", b"---\na: [\n---\n", b"---\n- a\n---\n", b"---\n{{date}}\n---\n# T\n",
    b"\xff\xfe\x00", b"---\npara_id: [a]\ntype: {b: c}\naliases: {d: e}\n---\n",
    b"---\ntype: " + b"[" * 500 + b"\n---\n", b"# \n# \n", b"[[[[x]]]]", b"---\na: *b\n---\n",
    b"```\n" * 99, b"---\na: &a [*a]\n---\n", b"\x00\x01", b"---\n? [x]\n: y\n---\n",
    b"---\ntags: 1\nname: null\nformer_ids: {a: b}\n---\n", b"## Relationships\n- [[]]\n- [[|]]\n",
)  # fmt: skip
PLACES = ("Brain/bad/{}.md", "Daily/journals/bad-{}.md", "Daily/entries/{}.md", "Notes/{}.md")


async def test_among_500_malformed_notes_all_works_and_each_of_brains_is_listed(
    live: Live, vault: Path
):
    chance = random.Random(7)  # noqa: S311  the same notes each time
    files: dict[Path, bytes] = {}
    for number in range(COUNT):
        data = bytearray(BAD[number % len(BAD)])
        for _ in range(number // len(BAD)):
            data.insert(chance.randint(0, len(data)), chance.choice(b"-\n:[]{}\"'#x |>&*\xc3"))
        files[vault / PLACES[number % len(PLACES)].format(number)] = bytes(data)
    for path, data in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    save(vault / GOOD, "# Kim\n\nGrows heliotropes.\n")
    async with live() as daemon_rig:
        await install_official(daemon_rig, "daily", "brain")

        made = await post(daemon_rig, "/api/daily/entries", {"content": "Saw [[Kim]] today."})
        entries = await get(daemon_rig, "/api/daily/entries?limit=100")
        assert made["id"] in {entry["id"] for entry in entries["entries"]}
        found = await get(daemon_rig, "/api/brain/resolve?q=kim")
        assert found["match"]["path"] == GOOD
        hits = await get(daemon_rig, "/api/search?q=heliotropes")
        assert [hit["path"] for hit in hits["results"]] == [GOOD]
        assert await get(daemon_rig, "/api/brain/graph?limit=1000")
        listed = {one["path"] for one in await get(daemon_rig, "/api/brain/problems")}
        assert {path for path in files if "Brain" in path.parts} <= {vault / one for one in listed}
        await daemon_rig.settled()
    assert {path: path.read_bytes() for path in files} == files
