"""An event's data and cause, in the form that hooks receive. Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from pathlib import Path

_PLACES = ("from", "entry_path", "audio_path", "output_path", "working_directory")
_LISTS = ("paths",)


def event_data(data: Mapping[str, object], vault: Path) -> dict[str, object]:
    """The same with whole paths, as a script can use them; `path` and `watcher` stay as they are
    called in the vault.
    """
    told = dict(data)
    for name in _PLACES:
        if isinstance(place := told.get(name), str) and place:
            told[name] = _whole(place, vault)
    for name in _LISTS:
        if isinstance(places := told.get(name), list | tuple):
            told[name] = [
                _whole(place, vault) if isinstance(place, str) else place for place in places
            ]
    return told


def cause_data(
    causes: Sequence[str],
    *,
    actor: str,
    run: str | None = None,
    root: str | None = None,
    depth: int | None = None,
) -> dict[str, object]:
    """What it followed from.

    `id` and `root` are of the first cause and of the file that began it, where that is known.

    `depth` counts the agents between the person's act and this: 0 is the act itself.
    """
    return {
        "id": causes[0] if causes else None,
        "root": root,
        "depth": depth if depth is not None else int(run is not None),
        "actor": actor,
        "run": run,
        "chain": list(causes),
    }


def module_of(actor: str) -> str | None:
    """The module that acts, where one does: it writes as `module:<name>`."""
    return actor.removeprefix("module:") if actor.startswith("module:") else None


def _whole(place: str, vault: Path) -> str:
    return posixpath.join(vault, place)
