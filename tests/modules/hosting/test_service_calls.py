"""What crosses to or from a module's container arrives as it was; what no honest end sends, not."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from parachuted import errors
from parachuted.access.caller import Caller
from parachuted.access.notes import AppendSection, Note, NoteLink, NoteSection, ReplaceSpan, SetKey
from parachuted.errors import ConflictError, ModuleFailedError, UnfitError
from parachuted.modules.hosting.host import HandlerCall
from parachuted.modules.hosting.service_calls import (
    ERRORS,
    LINES,
    METHODS,
    SentError,
    WholeNote,
    read_sent,
)
from tests.modules.container_rig import hosted
from tests.modules.small_modules import StubServices

NOON = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)


def crossed(error: BaseException) -> Exception:
    return read_sent(ERRORS, ERRORS.dump_json(SentError.of(error))).exception()


PROMISED = (
    *(errors.ActRefusedError, errors.AgentStoppedError, errors.AgentUnavailableError),
    *(errors.EditRefusedError, ModuleFailedError, errors.NotFoundError, errors.PathRefusedError),
    *(errors.StorageFailedError, UnfitError, TypeError, ValueError),
)


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        *((kind("a: no; b: no"), kind, "a: no; b: no") for kind in PROMISED),
        (OSError(2, "no such file", "/etc/x"), ModuleFailedError, None),
        (asyncio.QueueFull(), ModuleFailedError, None),
        (ZeroDivisionError("by zero"), ModuleFailedError, None),
    ],
    ids=repr,
)
def test_a_promised_error_keeps_its_class_and_words_and_others_their_name(
    error: Exception, kind: type[Exception], words: str | None
):
    there = crossed(error)

    assert type(there) is kind
    assert str(there) == words if words else type(error).__name__ in str(there)


def test_a_conflict_keeps_the_three_texts():
    there = crossed(ConflictError("moved", base=b"\x00a", ours=b"\xffb", theirs=b""))
    gone = crossed(ConflictError("moved", base=b"", ours=b"", theirs=b"", is_known=False))

    assert isinstance(there, ConflictError)
    assert (str(there), there.base, there.ours, there.theirs) == ("moved", b"\x00a", b"\xffb", b"")
    assert (there.is_known, gone.is_known) == (True, False)


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"{", b"NaN", b"[]", b"[" * 100_000, b"\xff", b"1" * 5_000, b"null"),
        b'{"value": ' + b"[" * 100 + b"]" * 100 + b"}",
        b'{"value": [' + b"[]," * 100_000 + b"[]]}",
        b'{"response": {"status": 999}}',
        b'{"response": {"headers": {"Set-Cookie": 1}}}',
        b'{"file": {"data": 7}}',
        b'{"file": {"data": "eA==", "content_type": "text/html\\r\\nX: y"}}',
        b'{"error": {"error": ["NotFoundError"], "message": 1}}',
        b'{"error": {"error": "ConflictError", "message": "m", "base": "no base64!"}}',
        b'{"text": "x", "level": 1000000}',
        b'{"odd": 1}',
    ],
)
def test_a_line_that_no_honest_program_prints_is_refused(data: bytes):
    with pytest.raises(ModuleFailedError):
        read_sent(LINES, data)


def test_an_error_of_no_known_class_is_a_failure():
    assert type(SentError(error="SystemExit", message="m").exception()) is ModuleFailedError


def test_a_note_arrives_with_its_sections_and_links():
    section = NoteSection(heading="A", level=1, start=0, body=4, end=9)
    link = NoteLink(target="b", label=None, kind="embed", start=6, end=7, path="b.md")
    note = Note(
        path="a.md",
        digest="d",
        text="# A\n\nï[[b]]",
        frontmatter={"n": [1, None, {"x": "y"}]},
        title="A",
        tags=("t",),
        created=NOON,
        modified=NOON,
        body_start=0,
        find_sections=lambda _text: (section,),
        find_links=lambda _text: (link,),
    )

    adapter = TypeAdapter(WholeNote)
    there = adapter.validate_json(adapter.dump_json(note))

    assert there == note
    assert (there.sections, there.links) == ((section,), (link,))


def test_every_service_that_is_declared_can_cross():
    assert all(method._body and method._result for method in METHODS.values())


def test_bytes_arrive_whatever_they_are_part_of():
    for service, result in (
        ("vault.read_bytes", b"\xff"),
        ("vault.read_with_digest", (b"\xff", "d")),
    ):
        method = METHODS[service]
        assert method.load_result(method.dump_result(result)) == result


def test_arguments_arrive_as_they_were_given_and_nothing_else_is_read():
    edit, state = METHODS["vault.edit"], METHODS["state.put"]
    edits = [SetKey("a", ["x"]), AppendSection("A > B", "é"), ReplaceSpan(0, 2, "x")]

    assert edit.load_body(edit.dump_body(("a.md", edits), {"base": "d"})).arguments == {
        "path": "a.md",
        "edits": edits,
        "base": "d",
    }
    assert state.load_body(state.dump_body(("k", {"v": [1, None]}), {})).args == (
        "k",
        {"v": [1, None]},
    )
    for body in (b"[]", b'{"path": 1, "edits": []}', b'{"path": "a", "edits": [], "more": 1}'):
        with pytest.raises(ModuleFailedError, match="what was sent is invalid"):
            edit.load_body(body)
    with pytest.raises(TypeError):
        edit.dump_body((), {})


LIES = """
@route("GET", "/lie")
async def lie(self):
    import os
    from parachuted.modules.hosting.container_main import CALL
    call = CALL.get()
    said = ['', '[]', '{"call": "%s", "odd": 1}' % call, '{"call": "other", "value": 1}']
    for fd in range(3, 64):
        try:
            os.write(fd, b"\\n" + "\\n".join(said).encode() + b"\\n")
        except OSError:
            pass
    return "the truth"
"""


async def test_lines_that_a_module_forges_answer_nothing(tmp_path: Path):
    async with hosted(tmp_path, LIES) as host:
        assert await host.call(HandlerCall("lie")) == "the truth"
        assert host.problem is None


LARGE = """
@route("POST", "/large")
async def large(self, act: str):
    if act == "read":
        return await self.vault.read("a.md")
    if act == "answer":
        return "x" * 40_000_000
    return await self.vault.create("b.md", "x" * 9_000_000)
"""


class LargeVault:
    def __init__(self) -> None:
        self.text, self.created = "x" * 9_000_000, list[str]()

    async def read(self, _path: str) -> str:
        return self.text

    async def create(self, path: str, _text: str) -> None:
        self.created.append(path)


async def test_what_is_too_large_to_cross_is_refused_and_the_module_goes_on(tmp_path: Path):
    vault = LargeVault()
    async with hosted(tmp_path, LARGE, StubServices(vault=vault)) as host:
        with pytest.raises(errors.EditRefusedError, match="larger than 8 MB"):
            await host.call(HandlerCall("large", {"act": "read"}, caller=Caller()))
        for act in ("create", "answer"):
            with pytest.raises(ModuleFailedError):
                await host.call(HandlerCall("large", {"act": act}, caller=Caller()))
        assert vault.created == []
        vault.text = "small"
        assert await host.call(HandlerCall("large", {"act": "read"}, caller=Caller())) == "small"
