"""An error that went over the pipe is the error that it was, as far as its catcher may
expect it.
"""

from __future__ import annotations

import asyncio

import pytest

from parachuted.errors import (
    ActRefusedError,
    AgentUnavailableError,
    ConflictError,
    EditRefusedError,
    ModuleFailedError,
    NotFoundError,
    PathRefusedError,
    StorageFailedError,
)
from parachuted.modules.hosting.codec import (
    RemoteObject,
    error_of,
    is_large,
    refusal_of,
    remote_value,
)
from parachuted.modules.hosting.framing import RefusalFrame, Unpacker, pack
from parachuted.modules.registry.arguments import WrongArgumentsError


def crossed(error: BaseException) -> Exception:
    (refusal,) = Unpacker().feed(pack(refusal_of(1, error)))
    assert isinstance(refusal, RefusalFrame)
    return error_of(refusal)


@pytest.mark.parametrize(
    "kind",
    [
        ActRefusedError,
        AgentUnavailableError,
        EditRefusedError,
        ModuleFailedError,
        NotFoundError,
        PathRefusedError,
        StorageFailedError,
        TypeError,
        ValueError,
    ],
)
def test_an_error_that_is_reported_keeps_its_class_and_its_words(kind):
    there = crossed(kind("the words"))

    assert type(there) is kind
    assert str(there) == "the words"


def test_a_conflict_keeps_the_three_texts():
    there = crossed(ConflictError("moved", base=b"\x00a", ours=b"\xffb", theirs=b""))
    gone = crossed(ConflictError("moved", base=b"", ours=b"", theirs=b"", is_known=False))

    assert isinstance(there, ConflictError)
    assert (str(there), there.base, there.ours, there.theirs) == ("moved", b"\x00a", b"\xffb", b"")
    assert (there.is_known, gone.is_known) == (True, False)


def test_wrong_arguments_keep_all_that_is_wrong():
    there = crossed(WrongArgumentsError(["a: no", "b: no"]))

    assert isinstance(there, WrongArgumentsError)
    assert there.problems == ["a: no", "b: no"]


@pytest.mark.parametrize(
    "error",
    [OSError(2, "no such file", "/etc/x"), asyncio.QueueFull(), ZeroDivisionError("by zero")],
    ids=repr,
)
def test_any_other_is_a_failure_that_names_it(error):
    there = crossed(error)

    assert type(there) is ModuleFailedError
    assert type(error).__name__ in str(there)


def test_one_below_a_known_class_arrives_as_that_class():
    assert type(crossed(UnicodeDecodeError("utf-8", b"", 0, 1, "x"))) is ValueError


@pytest.mark.parametrize(
    "refusal",
    [
        RefusalFrame(id=1, error="SystemExit", message="m"),
        RefusalFrame(id=1, error="", message="m"),
        RefusalFrame(id=1, error="ConflictError", message="m", details={"base": "no base64!"}),
        RefusalFrame(
            id=1, error="ConflictError", message="m", details={"base": 5, "ours": [], "theirs": {}}
        ),
    ],
)
def test_a_refusal_that_no_honest_end_makes_is_a_failure(refusal):
    assert type(error_of(refusal)) is ModuleFailedError


def test_objects_read_as_they_did_where_they_were_made():
    value = remote_value([{"confidence": 0.9, "who": {"name": "Kevin"}}, 1])

    assert isinstance(value, list)
    assert value[0]["confidence"] == value[0].confidence == 0.9
    assert value[0].who.name == "Kevin"
    assert value[0] == {"confidence": 0.9, "who": {"name": "Kevin"}}
    with pytest.raises(AttributeError):
        _ = RemoteObject().nothing


def test_a_large_value_is_known_without_looking_at_all_of_it():
    assert not is_large(None)
    assert not is_large({"a": ["b"] * 500, "c": {"d": "e" * 10_000_000}})
    assert is_large([[]] * 3_000)
    assert is_large({"a": [{"b": [0] * 100}] * 100})
