#!/usr/bin/env python3
"""Find what a new journal entry mentions, and note it in the entry; where the module Daily runs, it
does that itself.
"""

from __future__ import annotations

import json
import os
import re
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

try:
    import frontmatter
    import yaml
except ModuleNotFoundError:  # this is another Python than the daemon's, which has them
    daemon_python = os.environ.get("PARACHUTE_PYTHON", sys.executable)
    if daemon_python == sys.executable:
        raise
    os.execv(daemon_python, [daemon_python, *sys.argv])  # noqa: S606  the daemon's own

WORD = re.compile(r"[\w-]+")
LINK = re.compile(r"\[\[([^\]|#]+)")
SHORTEST = 3  # letters; a shorter name would be found in every text
WAIT_S = 5


def main() -> None:
    """What it needs may not be there; the entry itself is saved already."""
    event = json.load(sys.stdin)
    data, vault = event.get("data") or {}, Path(event["vault_path"]).resolve()
    text = data.get("content") or entry_text(vault, data.get("entry_path"))
    found = [] if has_daily() else sorted(mentions(text, vault))
    path = vault_path(vault, data.get("entry_path"))
    if not found or path is None:
        return
    change = {"key": "mentions", "value": found}
    if ask("PATCH", f"/api/notes/{urllib.parse.quote(path)}", change) is not None:
        json.dump({"systemMessage": f"{path} mentions {', '.join(found)}"}, sys.stdout)


def has_daily() -> bool:
    """Whether the module Daily runs: it notes itself what an entry mentions."""
    daily = ask("GET", "/api/modules/daily")
    return isinstance(daily, dict) and daily.get("status") == "running"


def mentions(text: str, vault: Path) -> set[str]:
    """The para-ids of Brain's entities that the text names, by a link, a name or an alias."""
    linked = {name.strip().casefold() for name in LINK.findall(text)}
    plain = words(text)
    return {
        para_id
        for para_id, names in entities(vault)
        if any(name in linked or (len(name) >= SHORTEST and words(name) in plain) for name in names)
    }


def words(text: str) -> str:
    """The words of a text, with a space about each."""
    return f" {' '.join(WORD.findall(text.casefold()))} "


def entities(vault: Path) -> Iterator[tuple[str, set[str]]]:
    """Each entity that has an id, with what it is called."""
    for file in sorted((vault / "Brain").rglob("*.md")):
        keys = keys_of(file)
        if para_id := text_of(keys.get("para_id")):
            given = keys.get("aliases")
            aliases = given if isinstance(given, list) else text_of(given).split(",")
            names = {
                text_of(name).casefold()
                for name in [keys.get("name"), *aliases, file.stem, file.stem.replace("-", " ")]
            }
            yield para_id, names - {""}


def entry_text(vault: Path, place: object) -> str:
    """What the entry's file says."""
    path = vault_path(vault, place)
    return read(vault / path) if path else ""


def vault_path(vault: Path, place: object) -> str | None:
    """The file's path in the vault, if it is in it."""
    if not isinstance(place, str) or not place:
        return None
    whole = (vault / place).resolve()
    return whole.relative_to(vault).as_posix() if whole.is_relative_to(vault) else None


def keys_of(file: Path) -> dict[str, object]:
    """The frontmatter of a note that may name a para-id; nothing where it cannot be read."""
    try:
        text = file.read_text("utf-8-sig", "replace")
        return frontmatter.loads(text).metadata if "para_id" in text else {}
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return {}


def text_of(value: object) -> str:
    """A value of the frontmatter as text; nothing is none."""
    return "" if value is None else str(value).strip()


def read(file: Path) -> str:
    """A file's text, as far as it is one."""
    try:
        return file.read_text("utf-8-sig", "replace")
    except OSError:
        return ""


def ask(method: str, path: str, body: object = None) -> object:
    """The daemon's answer; None: it did not do it, or there is none.

    The record in the home says where it listens.
    """
    try:
        home = Path(os.environ.get("PARACHUTE_HOME") or Path.home() / ".parachute")
        daemon = json.loads((home / "run" / "daemon.json").read_text())
        url = f"http://{daemon['host']}:{daemon['port']}{path}"
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {daemon['token']}"}
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, content, headers, method=method)
        with urllib.request.urlopen(request, timeout=WAIT_S) as answer:  # noqa: S310
            return json.loads(answer.read() or b"{}")
    except (OSError, ValueError, KeyError) as error:
        if not isinstance(error, urllib.error.HTTPError) or error.code not in {404, 405}:
            sys.stderr.write(f"{method} {path}: {error}\n")
        return None


if __name__ == "__main__":
    main()
