from __future__ import annotations

from dataclasses import replace

import pytest

from parachuted.errors import ConflictError, StorageFailedError
from parachuted.history.acts import Act, ActFinisher, ActStep, begin_act, recorded_act
from parachuted.history.run_account import save
from parachuted.vault import Requester, VaultPath, digest_of
from parachuted.vault.trail import run_document
from tests.vault.conftest import StoreRig


def merge(rig: StoreRig) -> Act:
    """Two notes that take over what a third says, which goes."""
    steps = [
        ActStep(
            path=name,
            base=rig.put(name, f"# {name}\n\nof {name}\n"),
            after=rig.objects.put(f"# {name}\n\nof {name}\nof c\n".encode()),
        )
        for name in ("a.md", "b.md")
    ]
    new = rig.objects.put(b"new\n")
    gone = rig.put("c.md", "# C\n")
    return Act(
        what="a merge",
        author=replace(rig.agent, requester=Requester("module", "brain", "q-1")),
        steps=[
            *steps,
            ActStep(path="d.md", base=None, after=new),
            ActStep(path="c.md", base=gone, after=None),
        ],
    )


def do(rig: StoreRig, act: Act, count: int) -> None:
    """So many of its writes."""
    finisher = ActFinisher(rig.store)
    for step in act.steps[:count]:
        finisher._write(VaultPath(step.path), step, act.author)


@pytest.mark.parametrize("count", range(1, 5))
def test_what_is_left_is_done_once_by_the_same_author(rig: StoreRig, count: int):
    act = merge(rig)
    number = begin_act(rig.store, act)
    do(rig, act, count)
    (finished,) = ActFinisher(rig.store).finish_all()

    assert (finished.left, finished.problem) == ((), None)
    assert [str(path) for path in finished.paths] == ["a.md", "b.md", "d.md", "c.md"][count:]
    assert rig.names() == ["a.md", "b.md", "d.md"]
    assert rig.text("b.md") == "# b.md\n\nof b.md\nof c\n"
    writes = rig.history.done_after(0)
    assert [write.author for write in writes] == [rig.agent] * 4
    assert rig.history.acts() == []
    assert ActFinisher(rig.store).finish(number) is None


def test_one_of_which_nothing_was_done_is_forgotten(rig: StoreRig):
    act = merge(rig)
    do(rig, act, 1)  # another act of the same run, before
    rig.store.replace(VaultPath("a.md"), b"# a.md\n\nof a.md\n", rig.agent)
    begin_act(rig.store, act)
    (finished,) = ActFinisher(rig.store).finish_all()

    assert finished.paths == finished.left == ()
    assert rig.text("a.md") == "# a.md\n\nof a.md\n"
    assert rig.history.acts() == []


def test_what_a_person_wrote_meanwhile_wins_and_nothing_is_removed_then(rig: StoreRig):
    act = merge(rig)
    begin_act(rig.store, act)
    do(rig, act, 1)
    rig.put("b.md", "# b.md\n\nof b.md\nof me\n")
    rig.put("d.md", "mine\n")
    (finished,) = ActFinisher(rig.store).finish_all()

    assert rig.text("b.md") == "# b.md\n\nof b.md\nof me\n"
    assert rig.text("d.md") == "mine\n"
    assert rig.names() == ["a.md", "b.md", "c.md", "d.md"]
    assert [one.partition(":")[0] for one in finished.left] == ["b.md", "d.md", "c.md"]
    assert ".;" not in str(finished.problem)
    assert "; change there yourself what should follow; `parachute undo r-1`" in str(
        finished.problem
    )
    assert rig.history.acts() == []


def test_an_edit_elsewhere_in_a_note_is_merged(rig: StoreRig):
    act = merge(rig)
    begin_act(rig.store, act)
    do(rig, act, 1)
    rig.put("b.md", "Mine.\n# b.md\n\nof b.md\n")
    (finished,) = ActFinisher(rig.store).finish_all()

    assert finished.left == ()
    assert rig.text("b.md") == "Mine.\n# b.md\n\nof b.md\nof c\n"


def test_where_the_disk_refuses_the_next_start_tries_again(
    rig: StoreRig, monkeypatch: pytest.MonkeyPatch
):
    act = merge(rig)
    begin_act(rig.store, act)
    do(rig, act, 1)

    def full(*_given: object, **_named: object) -> None:
        raise StorageFailedError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(rig.store, "replace", full)
        (finished,) = ActFinisher(rig.store).finish_all()
    assert "the disk is full; the next start tries again; `parachute" in str(finished.problem)
    (finished,) = ActFinisher(rig.store).finish_all()
    assert finished.left == ()
    assert rig.names() == ["a.md", "b.md", "d.md"]


def test_the_record_of_the_call_tells_of_all_of_it(rig: StoreRig):
    act = merge(rig)
    at = rig.now
    document = run_document("r-1", watcher="a.md", agent="module:brain", started=at, ended="x")
    save(rig.history, document)
    begin_act(rig.store, act)
    do(rig, act, 2)
    ActFinisher(rig.store).finish_all()

    known = rig.history.run("r-1")
    assert known is not None
    assert [one["path"] for one in known["wrote"]] == ["a.md", "b.md", "d.md", "c.md"]


def test_the_acts_of_a_run_that_is_taken_back_are_forgotten(rig: StoreRig):
    act = merge(rig)
    begin_act(rig.store, act)
    do(rig, act, 1)
    ActFinisher(rig.store).forget("r-2")
    assert len(rig.history.acts()) == 1
    ActFinisher(rig.store).forget("r-1")
    assert rig.history.acts() == []


def test_an_act_that_fails_is_over(rig: StoreRig):
    act = merge(rig)
    with pytest.raises(ConflictError), recorded_act(rig.store, act):
        raise ConflictError(base=b"", ours=b"", theirs=b"")
    assert rig.history.acts() == []


def test_a_text_that_is_no_longer_kept_is_named(rig: StoreRig):
    act = merge(rig)
    lost = ActStep(path="b.md", base=None, after=digest_of(b"lost"))
    begin_act(rig.store, replace(act, steps=[act.steps[0], lost]))
    do(rig, act, 1)
    (finished,) = ActFinisher(rig.store).finish_all()
    assert finished.left == ("b.md: what was to be written is no longer kept",)


def test_a_move_whose_links_cannot_follow_is_named_at_each_start(
    rig: StoreRig,
):
    steps = [ActStep(path="C#.md", base=None, after=rig.put("a.md", "x"), source="a.md")]
    for name, text in (("b.md", "[[a]]\nmine\n"), ("c.md", "[[a]]\n"), ("d.md", "[t](a.md)\n")):
        rig.put(name, text)
        steps.append(ActStep(path=name, base=digest_of(b"[[a]]"), after=digest_of(b"[[c]]")))
    act = Act(what="a move", author=rig.agent, steps=steps, are_all=True)
    begin_act(rig.store, act)
    rig.store.move(VaultPath("a.md"), VaultPath("C#.md"), rig.agent)

    def finish() -> tuple[str, ...]:
        (finished,) = ActFinisher(rig.store, rig.names).finish_all()
        return finished.left

    def said(name: str) -> str:
        return f"{name}: 1 of its links cannot name C#.md"

    assert finish() == finish() == (said("b.md"), said("c.md"))
    assert rig.text("b.md") == "[[a]]\nmine\n"
    assert rig.text("d.md") == "[t](C%23.md)\n"
    rig.put("b.md", "[t](<C%23.md>)\nmine\n")
    assert finish() == (said("c.md"),)
    (rig.vault / "c.md").unlink()
    assert [one.partition(":")[0] for one in finish()] == ["c.md"]
    assert rig.history.acts() == []
