"""Reading: what cannot be read is a finding with its file and line, and the others go on."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as some

from parachuted.errors import ConflictError, EditRefusedError
from parachuted.modules import Finding, read_each, reading, retry_on_conflict

GOOD = b"7"


def raises(error: BaseException) -> Callable[[bytes], object]:
    """A way to read that fails with that error for all that is not good."""

    def read(raw: bytes) -> object:
        if raw != GOOD:
            raise error
        return raw

    return read


def read_text(raw: bytes) -> str:
    """As the vault does."""
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise EditRefusedError("a.md is not UTF-8 text") from error


@pytest.mark.parametrize(
    ("raw", "read", "line", "problem"),
    [
        (b'{\n"a": x}', json.loads, 2, "Expecting value"),
        (b"[" * 100_000, json.loads, None, "nested too deeply"),
        (b"a: 1\nb: [\n", yaml.safe_load, 3, "expected the node content"),
        (b"a: \x01", yaml.safe_load, None, "special characters are not allowed"),
        (b"one\ntwo\n\xff\n", bytes.decode, 3, "is not UTF-8 text"),
        (b"one\n\xff\n", read_text, 2, "is not UTF-8 text"),
        (b"x", int, None, "invalid literal"),
        (b"x", raises(OSError(5, "Input/output error")), None, "Input/output error"),
        (b"x", raises(EditRefusedError("larger than 64 MB")), None, "larger than 64 MB"),
        (b"x", raises(OverflowError()), None, "OverflowError"),
    ],
)
def test_an_item_that_cannot_be_read_is_a_finding_and_the_others_values(
    raw: bytes,
    read: Callable[[bytes], object],
    line: int | None,
    problem: str,
    caplog: pytest.LogCaptureFixture,
):
    values, findings = read_each([("a", GOOD), ("b", raw), ("c", GOOD)], read)

    assert values == [read(GOOD)] * 2
    assert [(finding.path, finding.line) for finding in findings] == [("b", line)]
    assert problem in findings[0].problem
    assert caplog.records == []


@pytest.mark.parametrize(
    "error", [TypeError("no"), KeyError("name"), AttributeError(), Exception()]
)
def test_a_mistake_of_the_code_is_a_finding_and_logged_with_its_traceback(
    error: Exception, caplog: pytest.LogCaptureFixture
):
    values, findings = read_each([("a", b""), ("b", GOOD)], raises(error))

    assert values == [GOOD]
    assert [finding.path for finding in findings] == ["a"]
    assert "a mistake of the module" in findings[0].problem
    assert caplog.records[0].exc_info[1] is error


def test_a_block_names_its_line_and_what_stops_the_program_passes():
    findings: list[Finding] = []
    for number, line in enumerate(["1", "x", "3"], 1):
        with reading("a.txt", findings, line=number):
            int(line)

    assert [(finding.path, finding.line) for finding in findings] == [("a.txt", 2)]
    with pytest.raises(KeyboardInterrupt):
        read_each([("a", b"")], raises(KeyboardInterrupt()))


@given(some.lists(some.binary(max_size=40)), some.sampled_from([json.loads, bytes.decode, int]))
def test_of_any_bytes_each_is_a_value_or_a_finding(
    items: list[bytes], read: Callable[[bytes], object]
):
    values, findings = read_each([(str(number), raw) for number, raw in enumerate(items)], read)

    assert len(values) + len(findings) == len(items)
    assert all(
        finding.problem and (finding.line is None or finding.line > 0) for finding in findings
    )


async def test_a_write_is_tried_again_while_others_write_and_then_refused():
    left = 2

    async def write() -> str:
        nonlocal left
        left -= 1
        if left >= 0:
            raise ConflictError("changed", base=b"", ours=b"", theirs=b"")
        return "written"

    assert await retry_on_conflict(write) == "written"
    left = 3
    with pytest.raises(ConflictError):
        await retry_on_conflict(write, 3)
