"""Run sight: what of a run, or of a plan of runs, exists for a caller.

Who may read some paths is told of runs that woke for them, and of those paths alone. What an agent said or was answered may name any note,
so it is left out unless all that the run reviewed is theirs.
"""

from __future__ import annotations

from collections.abc import Mapping

from parachuted.access.filter import AccessFilter

_FREE_TEXT: dict[str, object] = {"reason": "", "steps": []}


def is_run_seen(run: Mapping[str, object], sight: AccessFilter) -> bool:
    """Whether its watcher, and all that it wrote, exist for the caller."""
    return sight.sees(str(run["watcher"])) and all(map(sight.sees, paths_of(run, "wrote")))


def run_as_seen(run: Mapping[str, object], sight: AccessFilter) -> Mapping[str, object]:
    """The document of a run that is seen, without what names files that are not."""
    if sight.grant.alternatives is None:
        return run
    told = {**run, "causes": [_cause(cause, sight) for cause in _items(run, "causes")]}
    reviewed = [item for item in _items(run, "reviewed") if sight.sees(str(item["path"]))]
    told |= {"reviewed": reviewed, "reviewed_count": len(reviewed)}
    is_all = len(reviewed) == run["reviewed_count"] and told["causes"] == run["causes"]
    return told if is_all else {**told, **_FREE_TEXT}


def paths_of(run: Mapping[str, object], name: str) -> list[str]:
    """The paths that a part of its document names."""
    return [str(item["path"]) for item in _items(run, name)]


def plan_as_seen(plan: Mapping[str, object], sight: AccessFilter) -> dict[str, object]:
    """The document of a plan, with the runs and rings whose notes are all seen."""
    runs = [run for run in _items(plan, "runs") if sight.sees(str(run["watcher"])) and sight.sees(str(run["because"]))]
    loops = [ring for ring in plan["loops"] if all(map(sight.sees, ring))]  # type: ignore[attr-defined]
    return {**plan, "runs": runs, "loops": loops}


def _cause(cause: Mapping[str, object], sight: AccessFilter) -> Mapping[str, object]:
    return cause if sight.sees(str(cause.get("path", ""))) else {name: value for name, value in cause.items() if name != "path"}


def _items(document: Mapping[str, object], name: str) -> list[Mapping[str, object]]:
    return list(document[name])  # type: ignore[call-overload, no-any-return]
