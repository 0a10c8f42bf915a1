"""Two worlds: the same vault twice for a key that is limited to `Shop/**`, and different everywhere
else.

In one world each place outside the key's paths holds a canary; in the other those places hold other
words, and there are more of them. A key that sees only `Shop/**` must get the same answers in both,
and no canary in any.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import aiohttp

from parachuted.agents.calling import call_tool
from parachuted.agents.job import Job
from parachuted.suggestions import Proposal
from parachuted.testing import Block, ScriptedBackend, say, use
from tests.api.calls import call, get, post
from tests.stories.daemon_rig import DaemonRig, Live, save

INSIDE = "Shop/list.md"
CANARY = re.compile(r"cnry\d{3}")
HOOK = """\
#!/bin/sh
cat >&2
exit 1
"""


@dataclass
class VaultWithSecrets:
    """One of the two: what runs, what stands where no limited key looks, and the ids and digests
    that a hostile caller might know.

    A note that the key sees watches some that it does not, unless `is_apart`: then nothing there
    depends on them.
    """

    has_canaries: bool
    is_apart: bool = False
    secrets: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    digests: list[str] = field(default_factory=list)
    folder: str = ""
    note: str = ""
    daemon_rig: DaemonRig = None  # type: ignore[assignment]

    def secret(self, place: str) -> str:
        """The word for a place that only an unlimited caller may see."""
        number = len(self.secrets)
        self.secrets.append(place)
        return (
            f"cnry{number:03d}"
            if self.has_canaries
            else f"zebra stripes {'x' * number}".replace(" ", "")
        )

    def found(self, text: str) -> set[str]:
        """The places whose canaries stand in a text."""
        return {self.secrets[int(one[4:])] for one in CANARY.findall(text)}

    @property
    def extra(self) -> range:
        """How many more notes there are that the key does not see."""
        return range(0 if self.has_canaries else 4)


def watching(*patterns: str, more: str = "") -> str:
    return "---\nwatch:\n" + "".join(f"  - '{pattern}'\n" for pattern in patterns) + f"{more}---\n"


def fill(world: VaultWithSecrets, vault: Path) -> None:
    """What is there before the daemon starts."""
    secret = world.secret
    world.folder = f"Private/{secret('a folder name')}"
    beyond = () if world.is_apart else ("Private/**/*.md",)
    save(
        vault / "Shop/AGENTS.md",
        watching(*beyond, "Shop/*.md") + "# Shop\n\n## Facts\n\n## History\n",
    )
    save(vault / INSIDE, "# List\n\n## Facts\n\n- milk\n\n[[plan]]\n")
    save(vault / "Shop/plan.md", watching("Shop/list.md") + "# Plan\n\n## Facts\n\n## History\n")
    save(
        vault / "Shop/leaving.md",
        watching("Shop/list.md") + "# Leaving\n\n## Facts\n\n## History\n",
    )
    world.note = f"{world.folder}/{secret('a file name')}.md"
    save(vault / world.note, private(world))
    save(
        vault / "Private/watcher.md",
        watching("Shop/*.md") + f"# {secret('a title')}\n\n## Facts\n\n## History\n",
    )
    save(
        vault / "Private/coming.md",
        f"# Coming\n\n## Facts\n\n{secret('an older text of a note that came')}\n",
    )
    save(
        vault / "Private/broken.md",
        f"---\nwatch: [\n{secret('broken frontmatter')}: [\n---\n# Broken\n",
    )
    save(
        vault / "Daily/journals/2026-11-01.md",
        f"# para:daily:abcdefghijkl {secret('a journal entry')}\n\n[[list]]\n",
    )
    for number in world.extra:
        save(
            vault / f"Elsewhere/more/{number}.md",
            watching("Shop/*.md")
            + f"# More {number}\n\n[[list]] milk #shop\n\n## Facts\n\n## History\n",
        )


def private(world: VaultWithSecrets) -> str:
    secret = world.secret
    return (
        f"---\nstatus: {secret('a frontmatter value')}\n{secret('a frontmatter key')}: x\ntags: "
        f"[shop, {secret('a tag')}]\n---\n"
        f"# {secret('a first heading')}\n\nmilk {secret('a paragraph')} "
        f"#{secret('an inline tag')}\n\n"
        f"## {secret('a section name')}\n\n- [ ] "
        f"{secret('a task')}\n\n[[list|{secret('a link label')}]] [[{secret('a link target')}]]\n"
    )


def script(world: VaultWithSecrets) -> ScriptedBackend:
    """An agent that quotes all that it was shown, and writes of it only where no limited key
    looks.
    """

    runs: Counter[str] = Counter()

    async def blocks(job: Job) -> Sequence[Block]:
        runs[job.watcher] += 1
        shown = " ".join(f"{change.path} {change.diff}" for change in job.changes)
        paths = [change.path for change in job.changes] + [world.note] * (
            job.watcher == "Shop/AGENTS.md" and not world.is_apart
        )
        read = [await call_tool(job.tools, "read_context", {"file_path": path}) for path in paths]
        calls = [use("read_context", file_path=path) for path in paths]
        words = (
            "reviewed"
            if job.watcher.startswith("Shop/")
            else f"{world.secret('a text that an agent wrote')} {shown}"
        )
        said = say(f"I saw {shown} {' '.join(one.text for one in read)}")
        return [
            said,
            *calls,
            use(
                "update_context",
                file_path=job.watcher,
                section="Facts",
                content=f"- {words} {runs[job.watcher]}",
            ),
        ]

    return ScriptedBackend(blocks)


@contextlib.asynccontextmanager
async def world_of(
    live: Live, vault: Path, home: Path, *, has_canaries: bool, is_apart: bool = False
) -> AsyncIterator[VaultWithSecrets]:
    """A daemon in which much has happened, by everyone, and which stands still."""
    world = VaultWithSecrets(has_canaries=has_canaries, is_apart=is_apart)
    fill(world, vault)
    hook = home / "hooks/on-file-modified.sh"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(HOOK)
    hook.chmod(0o700)
    async with live(script(world), agent__concurrency=1) as daemon_rig:
        world.daemon_rig = daemon_rig
        await daemon_rig.settled()
        yield world


async def happen(world: VaultWithSecrets) -> None:
    """What happens while others listen."""
    daemon_rig, vault, secret = world.daemon_rig, world.daemon_rig.vault, world.secret
    save(vault / INSIDE, "# List\n\n## Facts\n\n- milk\n- eggs\n\n[[plan]]\n")
    await daemon_rig.settled()
    note = vault / world.note
    save(note, note.read_text() + f"\n{secret('a line added later')}\n")
    await daemon_rig.settled()
    save(vault / "Private/coming.md", "# Coming\n\n## Facts\n\nnothing to hide\n")
    await daemon_rig.settled()
    await post(
        daemon_rig,
        "/api/notes/Private%2Fcoming.md/move".replace("%2F", "/"),
        {"to": "Shop/came.md"},
    )
    await daemon_rig.settled()  # or it depends on the clock whether both moves are one task
    await post(daemon_rig, "/api/notes/Shop/leaving.md/move", {"to": "Private/left.md"})
    await daemon_rig.settled()
    left = vault / "Private/left.md"
    save(left, left.read_text() + f"\n{secret('a line added after a move away')}\n")
    gone = vault / f"Private/{secret('the name of a deleted note')}.md"
    save(gone, f"# Gone\n\n{secret('the text of a deleted note')}\n")
    await daemon_rig.settled()
    await call(daemon_rig, "DELETE", f"/api/notes/{gone.relative_to(vault).as_posix()}")
    await propose(
        daemon_rig,
        "Private/watcher.md",
        secret("a suggested text"),
        secret("a reason for a suggestion"),
    )
    await call(
        daemon_rig,
        "PUT",
        "/api/contexts/session/s1",
        json={"folders": [world.folder], "contexts": [world.folder]},
    )
    runs = (await get(daemon_rig, "/api/runs?limit=500"))["runs"]
    undone = next(run for run in runs if run["watcher"] == "Private/watcher.md")
    await call(daemon_rig, "POST", f"/api/runs/{undone['id']}/undo")
    await daemon_rig.settled()
    daemon_rig.daemon.agents.worker.pause()
    save(note, note.read_text() + f"\n{secret('a line that waits to be reviewed')}\n")
    await daemon_rig.daemon.watched.detector.rescan()
    await daemon_rig.until(lambda: world.is_apart or daemon_rig.daemon.loop.queue.all())
    await know(world)


async def propose(daemon_rig: DaemonRig, path: str, text: str, reasoning: str) -> None:
    await daemon_rig.daemon.vault.suggestions.propose(
        Proposal(
            path=path,
            payload={"text": f"# {text}\n"},
            action="update",
            source_agent="reflector",
            reasoning=reasoning,
        )
    )


async def know(world: VaultWithSecrets) -> None:
    """Ids and digests of everything, as if the caller had overheard them."""
    daemon_rig = world.daemon_rig
    for path, name in (
        ("/api/runs?limit=500", "runs"),
        ("/api/tasks", "tasks"),
        ("/api/suggestions", "suggestions"),
        ("/api/hooks/runs", "runs"),
    ):
        found = (await get(daemon_rig, path))[name]
        world.ids += [str(one["id"]) for one in found]
    for path in sorted((daemon_rig.vault / "Private").rglob("*.md")):
        versions = (
            await get(
                daemon_rig,
                f"/api/history?path={quote(path.relative_to(daemon_rig.vault).as_posix())}",
            )
        )["versions"]
        world.digests += [version["version"] for version in versions if version["version"]]


MASKS = (
    (re.compile(r"\b[a-z]{1,3}-\d{8}-\d{6}-\d{3}-[0-9a-f]{8}\b"), "<id>"),
    (
        re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?( UTC)?(Z|[+-]\d\d:?\d\d)?"),
        "<time>",
    ),
    (re.compile(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT"), "<time>"),
    (
        re.compile(
            r"\"(request_id|next|since|server_time|timestamp|pid|uptime\w*|mtime|modified|created|\w+_ms)\": ?[^,}]+"  # noqa: E501
        ),
        "<masked>",
    ),
    (re.compile(r"\bk_[0-9a-f]{12}\b"), "<key>"),
    (re.compile(r"('nonce-|style-nonce\" content=\")[\w-]+"), "<nonce>"),
)


def masked(text: str) -> str:
    """Without what differs from one life to the next: times, ids, and the order of rows of the same
    moment.
    """
    for pattern, words in MASKS:
        text = pattern.sub(words, text)
    return "".join(sorted(re.split(r"(?<=[}\]]),(?=[{\[\"])", text)))


async def answer(
    session: aiohttp.ClientSession,
    url: str,
    method: str,
    headers: dict[str, str],
    **options: object,
) -> tuple[int, str]:
    """The status, and the headers and the body as one text."""
    async with session.request(method, url, headers=headers, **options) as got:
        body = (
            ""
            if got.content_type == "text/event-stream"
            else (await got.read()).decode("utf-8", "replace")
        )
        reported = {
            name: value
            for name, value in got.headers.items()
            if name not in {"Date", "X-Request-ID", "Content-Length", "Connection"}
        }
        return got.status, f"{json.dumps(reported)}\n{body}"
