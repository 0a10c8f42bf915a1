"""A key that is limited to some paths: Daily answers it as if the vault held nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from parachuted.errors import ActRefusedError, AgentUnavailableError, ParachuteError
from parachuted.modules import BytesResponse
from parachuted.testing import ModuleHarness
from tests.daily.journal_of import DAY, daily

AGENTS = "/api/modules/daily/agents"
HEAD = "---\ndate: {}\nentries:\n  daily:{}:\n    type: text\n    created: 10:00\n---\n\n"
BLOCK = "# para:daily:{} 10:00\n\n{}\n\n---\n"
MINE, THEIRS, TWIN = "mine00000000", "theirs000000", "twin00000000"
READABLE = [DAY, "Daily/reflections/2026-02-24.md", "Daily/chat-log/2026-02-24.md"]


def day(date: str, key: str, *words: str) -> str:
    blocks = [BLOCK.format(key, words[0]), *(f"# More\n\n{one}\n" for one in words[1:])]
    return HEAD.format(date, key) + "\n".join(blocks)


FILES = {
    DAY: day("2026-02-24", MINE, "Kim and the garden.\n\n- [ ] call Kim", "A twin garden."),
    "Daily/reflections/2026-02-24.md": "Mine.\n",
    "Daily/chat-log/2026-02-24.md": "# Talk\n\nOpen.\n\n## Health #private\n\nKnee.\n",
    # what the key may not read
    "Daily/journals/2026-02-23.md": day("2026-02-23", TWIN, "A secret garden."),
    "Daily/journals/2026-02-25.md": day(
        "2026-02-25", THEIRS, "The garden of Kim.\n\n- [x] call Kim\n- [ ] hide it"
    ),
    "Daily/journals/2026-02-26.md": day("2026-02-26", TWIN, "Another secret garden."),
    "Daily/entries/2026-02-24-09-00-00-aaa.md": "---\ntitle: Own\n---\n\nThe garden file.\n",
    "Daily/.agents/own.md": "---\nschedule: '04:00'\n---\nCount my secrets.\n",
    "Daily/chat-log/2026-02-25.md": "Secret talk.\n",
    "Daily/ids.jsonl": '{"id": "planning", "type": "entry", "path": "journals/2026-02-25.md"}\n',
}
ASKED = [
    ("GET", "/entries", {}),
    ("GET", "/entries", {"limit": "1"}),
    ("GET", "/entries", {"limit": "1", "offset": "1"}),
    *(("GET", "/entries", {"date": f"2026-02-{number}"}) for number in (23, 24, 25)),
    *(("GET", f"/entries/{one}", {}) for one in (MINE, THEIRS, TWIN, "planning")),
    ("GET", "/entries/2026-02-24-09-00-00-aaa", {}),
    ("POST", f"/entries/{THEIRS}/transcribe", {}),
    ("DELETE", f"/entries/{THEIRS}", {}),
    ("GET", "/loops", {"days": "3660", "closed": "true"}),
    *(
        ("GET", "/export", {"first": "2026-01-01", "last": "2026-12-31", "format": one})
        for one in ("markdown", "html", "zip")
    ),
    ("GET", f"{AGENTS}/", {}),
    *(("GET", f"{AGENTS}/status", {"date": f"2026-02-{number}"}) for number in (24, 25)),
    *(
        ("GET", f"{AGENTS}/{name}{more}", {})
        for name in ("own", "reflection")
        for more in ("", "/transcript")
    ),
]
TOOLS = [
    *(("daily-search", {"query": "garden", "limit": limit}) for limit in (1, 10)),
    *(("daily-journal", {"day": f"2026-02-{number}"}) for number in (23, 24, 25)),
    ("daily-loops", {"days": 3660}),
    ("read_journal", {"day": "2026-02-25"}),
    ("read_recent_journals", {"days": 31}),
    *(("read_chat_log", {"day": f"2026-02-{number}"}) for number in (24, 25)),
    ("read_recent_sessions", {"days": 2}),
]


def offline(_agent: str, _prompt: str) -> str:
    raise AgentUnavailableError("no model")


async def answers(vault: Path, *, paths: list[str] | None) -> dict[str, object]:
    """What every route and tool answers a key of these paths."""
    async with daily(vault, answers=offline) as module:
        run = {"date": "2026-02-25"}
        await module.request("POST", f"{AGENTS}/reflection/run", body=run)
        limited = module.with_key("k_phone", paths=paths)
        said = {}
        for method, path, query in ASKED:
            said[f"{method} {path} {query}"] = await reported(
                limited.request(method, path, query=query)
            )
        asked = await reported(
            limited.request("POST", "/query", body={"message": "Kim, the garden?"})
        )
        said["query"] = [piece for piece in asked if piece["type"] not in {"session", "done"}]
        for name, arguments in TOOLS:
            said[f"{name} {arguments}"] = await reported(limited.tool(name, **arguments))
        for words in ("garden", "secret"):
            said[f"search {words}"] = await reported(limited.command("search", words=words))
        said["doctor"] = [(one.path, one.problem) for one in await limited.doctor()]
        return said


async def reported(answer: object) -> object:
    try:
        found = await answer
    except ParachuteError as error:
        return type(error).__name__, error.message
    return (
        found.data
        if isinstance(found, BytesResponse)
        else json.loads(json.dumps(found, default=str))
    )


async def test_the_answers_are_those_of_a_vault_with_nothing_else(tmp_path: Path):
    whole, less = tmp_path / "whole", tmp_path / "less"
    for path, text in FILES.items():
        for vault in (whole, less) if path in READABLE else (whole,):
            (vault / path).parent.mkdir(parents=True, exist_ok=True)
            (vault / path).write_text(text)

    assert await answers(whole, paths=READABLE) == await answers(less, paths=READABLE)


async def test_a_key_does_not_learn_what_was_imported_into_files_beyond_it(tmp_path: Path):
    (tmp_path / "Daily/import").mkdir(parents=True)
    (tmp_path / "Daily/import/2026-02-25.md").write_text("# Trip\n\nTo the sea.\n")
    asked = {"source": "Daily/import"}
    async with daily(tmp_path) as module:
        await module.request("POST", "/import", body={**asked, "dry_run": False})
        planned = {}
        for path in ("Daily/journals/2026-02-24.md", "Daily/journals/2026-02-25.md"):
            limited = module.with_key("k_phone", paths=["Daily/import/**", path])
            planned[path] = await limited.request("POST", "/import", body=asked)

    assert [plan["already_there"] for plan in planned.values()] == [0, 1]
    assert [plan["entries"][0]["is_there"] for plan in planned.values()] == [False, True]


async def test_a_person_learns_all_of_it(tmp_path: Path):
    for path, text in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    said = await answers(tmp_path, paths=None)

    assert said["GET /entries {}"]["count"] == 6
    assert len(said["search garden"]) == 5  # one was deleted before
    assert "is also in" in said["doctor"][0][1]
    assert "Knee" not in said["read_chat_log {'day': '2026-02-24'}"]


async def test_a_key_cannot_forget_what_it_may_not_read(tmp_path: Path):
    async with daily(tmp_path) as module:
        with pytest.raises(ActRefusedError, match="may not read what reflection writes"):
            await module.with_key("k_phone", paths=[DAY]).request(
                "POST", f"{AGENTS}/reflection/reset"
            )


async def entries_with_private(module: ModuleHarness) -> None:
    for number, private in enumerate((False, True, True)):
        at = f"2026-02-24T1{number}:00:00-05:00"
        body = {"content": f"garden {number}", "created_at": at, "metadata": {"private": private}}
        await module.request("POST", "/entries", body=body)


async def test_what_is_private_counts_in_no_limit_and_its_words_find_nothing(tmp_path: Path):
    async with daily(tmp_path, answers=offline) as module:
        await entries_with_private(module)
        (tmp_path / DAY).write_text(
            (tmp_path / DAY).read_text() + "\n# Walk\n\nFar.\n\n## Health #private\n\nKnee.\n"
        )
        await module.event("file.modified", path=DAY)
        journal = module.interface("JournalInterface")

        (found,) = await module.tool("daily-search", query="garden", limit=1)
        assert found["content"] == "garden 0"
        assert [one.title for one in await journal.get_recent_entries(2)] == ["Walk", "10:00"]
        assert await module.tool("daily-search", query="knee") == []
        pieces = await module.request("POST", "/query", body={"message": "knee"})
        assert next(one for one in pieces if one["type"] == "entries")["entries"] == []
