"""Demo: the whole loop in a temporary vault, as a person would live it, command by command."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from parachuted.cli import demo_story as story
from parachuted.cli.client import ask, follow
from parachuted.cli.commands import Json, command, flag
from parachuted.cli.show import say, say_lines
from parachuted.errors import DaemonError
from parachuted.home_files.bundled import bundled_folder

_PATIENCE_S, _PLAIN = 60.0, r"[\w~:/.,=@%+-]+"
_GARDEN = "Projects/garden/AGENTS.md"
_OLD, _NEW = "- Start the tomatoes indoors.", "- Plant the tomatoes out: the frost is over."
_KIM = "Brain/entities/people/kim-lee.md"
_NOON = "# Noon\n\nKim Lee brought seeds of black beans for the garden.\n"
_PEOPLE = '---\nwatch:\n  - "Brain/entities/people/*.md"\n---\n'
QUESTION, ENTRY = "Tomatoes?", "Kim brought seeds of black beans."
ON_THE_PAGE = "And the rain barrel?"


@command(
    "demo",
    "see it work, in ten seconds",
    flag("--keep", help="keep the demo's vault, and say where it is"),
    flag("--journal", help="with Daily and Brain: from an entry to the person and the project"),
    flag("--bot", help="with a bot in a chat, on a stand-in for a Matrix server on this machine"),
    flag("--story", help="with Chat too: the whole story, step by step, and how to do each step"),
)
def demo(options: Namespace) -> None:
    """Run the whole loop in a temporary vault: change, run, diff, why, undo."""
    from parachuted.modules.registry.copies import remove_tree

    folder = Path(tempfile.mkdtemp(prefix="parachute-demo-"))
    demos = {"story": _story, "bot": _bot, "journal": _journal}
    run = next((demos[name] for name in demos if vars(options)[name]), _loop)
    try:
        run(_Person(folder))
    finally:
        if options.keep:
            say(f"\nThe demo's vault is kept in {folder / 'Parachute'}.")
        else:
            remove_tree(folder)  # copies of modules are there, which cannot be written


class _Person:
    """Somebody with a vault, a home and a daemon of their own, who types commands."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.vault, self.home = folder, folder / "Parachute", folder / "home"
        shutil.copytree(bundled_folder("vault-template"), self.vault)
        self.home.mkdir(mode=0o700)
        for name in [name for name in os.environ if name.startswith("PARACHUTE_")]:
            del os.environ[name]
        os.environ |= {"HOME": str(folder), "TMPDIR": str(self.home)}
        os.environ |= {"PARACHUTE_HOME": str(self.home), "PARACHUTE_VAULT": str(self.vault)}
        os.environ |= {"PARACHUTE_AGENT_BACKEND": "offline", "PARACHUTE_BUBBLE_QUIET_S": "1"}

    @contextmanager
    def daemon(self) -> Iterator[Callable[[str], Json]]:
        """A daemon meanwhile; yields what waits for an event of that name, and returns its data."""
        self._run("start", "--port", "0")
        try:
            events = follow("GET /api/events")
            self.until(lambda: "starting" not in self._run("modules", "list"))
            yield lambda name: next(event["data"] for event in events if event["event"] == name)
        finally:
            self._run("stop")

    def type(self, *words: str, last: int = 0, stdin: str = "") -> None:
        """Type a command, and show the last lines that it prints; 0: all."""
        typed = [word if re.fullmatch(_PLAIN, word) else shlex.quote(word) for word in words]
        say(f"   $ parachute {' '.join(typed)}{' < token.txt' if stdin else ''}")
        lines = self._run(*words, stdin=stdin).splitlines()[-last:]
        say_lines(f"     {line}" for line in lines if line.strip())

    def install(self, *names: str) -> None:
        for name in names:
            source = f"parachute://{name}"
            self.type("modules", "install", source, "--trust", "trusted", "--yes", last=1)

    def save(self, path: str, text: str) -> None:
        """As an editor does."""
        file = self.vault / path
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary = file.with_name(f".{file.name}.swp")
        temporary.write_text(text, "utf-8")
        temporary.replace(file)

    def lines(self, path: str, *texts: str) -> dict[int, str]:
        """The lines of a file that hold one of the texts, by their numbers."""
        lines = enumerate((self.vault / path).read_text("utf-8").splitlines(), 1)
        return {number: line for number, line in lines if any(text in line for text in texts)}

    def show(self, path: str, *texts: str) -> None:
        """Show the lines of the file that hold one of the texts, once there is the last of them."""
        self.until(lambda: self.lines(path, texts[-1]))
        say(f"   {path}")
        for number, line in self.lines(path, *texts).items():
            say(f"   {number:4} {line}")

    def ask_why(self, path: str, text: str) -> None:
        self.type("why", f"{path}:{next(iter(self.lines(path, text)))}")

    def until(self, is_so: Callable[[], object]) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while not is_so():
            if time.monotonic() > deadline:
                raise DaemonError("the demo waited a minute for what did not come")
            time.sleep(0.05)

    def _run(self, *words: str, stdin: str = "") -> str:
        program = [sys.executable, "-P", "-m", "parachuted", *words]
        done = subprocess.run(program, input=stdin, capture_output=True, text=True, check=False)  # noqa: S603  our own program
        if done.returncode:
            raise DaemonError(f"the demo's `parachute {words[0]}` failed: {done.stderr.strip()}")
        return done.stdout


def _loop(person: _Person) -> None:
    say(f"A vault in {person.vault}. Its AGENTS.md watches Projects/* and Areas/*.")
    say("The agent is the offline one: no model, no account, no cost.\n")
    with person.daemon() as wait:
        person.type("bubble", "plan", _GARDEN)
        say(f"\n1. edit       You edit {_GARDEN}: {_OLD[2:]!r} becomes {_NEW[2:]!r}")
        person.save(_GARDEN, (person.vault / _GARDEN).read_text("utf-8").replace(_OLD, _NEW))
        task = wait("task.queued")
        say(f"2. queued     {task['watcher']} watches {', '.join(task['paths'])}")
        run = wait("run.finished")
        say(f"3. run        {run['watcher']}: {run['outcome']}, {run['reason']}")
        person.type("diff", run["run"])
        say("\n4. why        You ask where a line is from:")
        person.ask_why("AGENTS.md", "frost")
        say("\n5. undo       You take the run back; your edit of the garden stays:")
        person.type("undo", run["run"], "--yes")
    say("\nThat is the whole loop. With notes of your own: `parachute init`, `parachute start`.")


def _journal(person: _Person) -> None:
    person.save(_GARDEN, _PEOPLE + (person.vault / _GARDEN).read_text("utf-8"))
    person.save(_KIM, "# Kim Lee\n\nGrows beans.\n")
    say(f"{_GARDEN} watches Brain/entities/people/*.md, AGENTS.md watches Projects/*.")
    person.install("brain", "daily")
    with person.daemon() as wait:
        say(f"\n1. entry      You type into {story.DAY}:")
        say_lines(f"     {line}" for line in _NOON.splitlines() if line)
        person.save(story.DAY, _NOON)
        mention = wait("brain.mention.detected")
        say(f"2. mention    Brain knows who that is: {mention['para_id']}, {_KIM}")
        runs = [wait("run.finished") for _ in range(2)]
        for number, run in enumerate(runs, 3):
            say(f"{number}. run        {run['watcher']}: {run['outcome']}, {run['reason']}")
        person.type("diff", runs[0]["run"])
        say("5. undo       You take both runs back; your entry stays:")
        person.type("undo", runs[0]["run"], "--yes")
    say("\nFor a journal of your own: `parachute init --with daily,brain,chat`.")


def _bot(person: _Person) -> None:
    from parachuted.cli.demo_homeserver import served_homeserver

    counts = {"Kim": 0, "Bo": 0}

    def hear(name: str, part: str) -> str:
        """Show what the bot has said since, once a part of it has come."""

        def new() -> str:
            return "\n".join(server.answers(name)[counts[name] :])

        person.until(lambda: part in new())
        say_lines(f"   {name} < {line}" for line in new().splitlines() if line)
        said, counts[name] = new(), len(server.answers(name))
        return said

    def write(name: str, text: str, part: str) -> str:
        say(f"   {name} > {text}")
        server.write(name, text)
        return hear(name, part)

    with served_homeserver() as server:
        say(f"A stand-in for a Matrix server is at {server.url}: no network, no account, no cost.")
        say("In a chat, > is what a person writes and < the bot's answer.\n")
        person.install("chat", "daily", "bots")
        with person.daemon():
            say("\n1. add        You add the bot by the token of its account on the server:")
            where = ("--homeserver-url", server.url, "--user-id", server.bot_id)
            person.type("bots", "add", "matrix", "-", *where, stdin=server.token)
            person.until(lambda: ask("GET /api/bots/status")["connectors"]["matrix"]["running"])
            say("\n2. pair       Kim writes to it. It gives a code; with that, you let Kim in:")
            code = write("Kim", "Hello", "Your code is").split("**")[1]
            person.type("bots", "pairing", "approve", code)
            say("\n3. answer     Now Kim is answered; without a model, from the notes:")
            write("Kim", QUESTION, "Ask again")
            (session,) = ask("GET /api/chat")["sessions"]
            say("\n4. file       The chat is a conversation like every other, and that is a file:")
            person.show(session["path"], "title:", "linked_bot", QUESTION)
            say("\n5. journal    Kim writes into the journal:")
            write("Kim", f"/journal {ENTRY}", "in the journal")
            (day,) = (person.vault / "Daily/journals").glob("*.md")
            person.show(f"Daily/journals/{day.name}", "Matrix", ENTRY)
            say("\n6. elsewhere  You go on with it at home; Kim's chat shows what you say:")
            person.type("chat", "--session", session["id"], ON_THE_PAGE, last=1)
            hear("Kim", "Ask again")
            say("\n7. stranger   Bo finds the bot, too. You do not know Bo:")
            code = write("Bo", "What is in your notes?", "Your code is").split("**")[1]
            person.type("bots", "pairing", "deny", code)
            say("\n8. remove     The token and who was paired are forgotten; the chat stays:")
            person.type("bots", "remove", "matrix")
            person.type("chat", "--list")
    say("\nFor a bot of your own: docs/bots.md, ten minutes with Matrix or Telegram.")


def _story(person: _Person) -> None:
    from parachuted.cli.demo_homeserver import loop_beside
    from parachuted.testing import ScriptedMessages

    for path, text in story.FILES.items():
        person.save(path, text)
    (person.folder / story.OUTSIDE).parent.mkdir(parents=True)
    (person.folder / story.OUTSIDE).write_text(story.GUIDE, "utf-8")
    hook = {"type": "command", "command": "cat >> ~/backup.log", "async": True}
    (person.home / "hooks.yaml").write_text(json.dumps({"hooks": {"daily.entry.created": [hook]}}))
    (person.home / "hooks.yaml").chmod(0o600)
    say("The vault is in ~/Parachute, a project's code in ~/Projects/parachute. The model answers")
    say("from a script: no network, no account, no cost.")
    model = ScriptedMessages([story.StoryModel()] * 500)
    with loop_beside() as run:
        run(model.__aenter__())
        try:
            os.environ |= {
                "PARACHUTE_AGENT_BACKEND": "claude",
                "PARACHUTE_AGENT_BASE_URL": model.url,
            }
            os.environ["ANTHROPIC_API_KEY"] = "sk-ant-scripted"
            _tell_story(person)
        finally:
            run(model.__aexit__(None, None, None))
    say("\nFor this with notes of your own: `parachute init --with daily,brain,chat`.")


def _tell_story(person: _Person) -> None:
    say("\n1. The project's note names its folder outside the vault. You say that it is yours:")
    person.show(story.PROJECT, "_path:")
    person.type("config", "set", "agent.own_folders", "~/Projects/parachute")
    person.install("brain", "daily", "chat")
    with person.daemon() as wait:
        say(f"\n2. entry      You type into {story.DAY}, and your hook is run:")
        say_lines(f"     {line}" for line in story.ENTRY.splitlines() if line)
        person.save(story.DAY, story.ENTRY)
        wait("daily.entry.created")
        person.type("hooks", "list")
        say("\n3. mention    Brain knows who that is:")
        person.show(story.DAY, "para:", "mentions:")
        say("\n4. entity     That note has its id, and is a change for what watches it:")
        person.show(story.KEVIN, "para_id: ")
        person.type("bubble", "plan", story.KEVIN)
        say(f"\n5. project    {story.CONTEXT} watches Brain/entities/people/*.md; its curator:")
        person.show(story.CONTEXT, "Added by", story.MET)
        say(f"\n6. parent     {story.ABOVE} watches Projects/*; its curator:")
        person.show(story.ABOVE, "Added by", story.OVERVIEW)
        say(f"\n7. chat       You talk with an agent that reads the project's ~/{story.OUTSIDE}:")
        person.type("chat", "--context", "Projects/parachute", story.SAID)
        say("\n8. write-back What you agreed on is kept: a fact about Kevin, a line of the project")
        person.show(story.KEVIN, story.FACT)
        person.show(story.CONTEXT, story.LINE)
        person.until(_is_at_rest)
        say("\n9. why        You ask where a line is from:")
        person.ask_why(story.KEVIN, story.FACT)
        person.ask_why(story.CONTEXT, story.MET)
        say("\n10. undo      You take back what the chat left; the entry and what it led to stay:")
        person.type("undo", "--session", ask("GET /api/chat")["sessions"][0]["id"], "--yes")
        person.show(story.CONTEXT, story.MET)


def _is_at_rest() -> bool:
    is_over = all(run["outcome"] != "running" for run in ask("GET /api/runs")["runs"])
    return is_over and not ask("GET /api/tasks")["tasks"]
