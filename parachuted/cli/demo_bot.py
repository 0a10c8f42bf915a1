"""Demo bot: a conversation from a chat, in the demo's vault: pairing, an answer, the file, the
journal, the page's side, and a stranger.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from parachuted.cli.client import ask
from parachuted.cli.demo_daemon import demo_daemon, demo_environment, wait_for_modules
from parachuted.cli.demo_homeserver import ServedHomeserver, served_homeserver
from parachuted.cli.demo_steps import DemoSteps
from parachuted.cli.show import say, say_lines
from parachuted.errors import DaemonError

QUESTION = "Tomatoes?"
ENTRY = "Kim brought seeds of black beans."
ON_THE_PAGE = "And the rain barrel?"


def run_bot(vault: Path, home: Path) -> None:
    home.mkdir(mode=0o700)
    environment = demo_environment(home, HOME=os.fspath(vault.parent), TMPDIR=os.fspath(home))
    with served_homeserver() as server:
        say(
            f"A vault in {vault}, and a stand-in for a Matrix server at {server.url}: no network, "
            "no account, no model, no cost. Each line after $ is a command that you can type; "
            "what it prints is below it. In a chat, > is what a person writes and < the bot's "
            "answer."
        )
        demo = _Bot(vault, environment, server)
        demo.install()
        with demo_daemon(vault, home, environment):
            wait_for_modules()
            demo.add()
            demo.pair()
            demo.conversation()
            demo.stranger()
    say("\nFor a bot of your own: docs/bots.md, ten minutes with Matrix or Telegram.")


class _Bot(DemoSteps):
    def __init__(self, vault: Path, environment: dict[str, str], server: ServedHomeserver) -> None:
        super().__init__(vault, environment)
        self._server = server

    def install(self) -> None:
        say("\n1. install    The conversations, the journal, and the bots:")
        for name in ("chat", "daily", "bots"):
            self.type_command(
                "modules", "install", f"parachute://{name}", "--trust", "trusted", "--yes", last=1
            )

    def add(self) -> None:
        say("\n2. add        You add the bot by the token of its account on the server:")
        where = ("--homeserver-url", self._server.url, "--user-id", self._server.bot_id)
        self.type_command("bots", "add", "matrix", "-", *where, token=self._server.token)
        self.until(
            lambda: ask("GET", "/api/bots/status")["connectors"]["matrix"]["running"],
            "the bot did not connect",
        )

    def pair(self) -> None:
        say("\n3. pair       Kim writes to it. It gives a code, and nothing else happens:")
        code = self._code_of("Kim", "Hello")
        self.type_command("chat", "--list")
        say("   You let Kim in:")
        self.type_command("bots", "status", only=("matrix", "Kim"))
        self.type_command("bots", "pairing", "approve", code)

    def conversation(self) -> None:
        say("\n4. answer     Now Kim is answered. There is no model here, so it is from the notes:")
        self._say("Kim", QUESTION, lambda answer: "Ask again" in answer)
        (session,) = ask("GET", "/api/chat")["sessions"]
        say("\n5. file       The chat is a conversation like every other, and that is a file:")
        self.until_it_says(session["path"], QUESTION)
        self.show_lines(session["path"], "title:", "linked_bot", QUESTION)
        say("\n6. journal    Kim writes into the journal:")
        self._say("Kim", f"/journal {ENTRY}", lambda answer: "in the journal" in answer)
        (day,) = (self.vault / "Daily/journals").glob("*.md")
        self.show_lines(day.relative_to(self.vault).as_posix(), ENTRY, "Matrix")
        say("\n7. elsewhere  You go on with it at home; Kim's chat shows what you say:")
        before = len(self._server.answers("Kim"))
        self.type_command("chat", "--session", session["id"], ON_THE_PAGE, only=("-",))
        self._show_answer("Kim", before, lambda answer: "Ask again" in answer)

    def stranger(self) -> None:
        say("\n8. stranger   Bo finds the bot, too. You do not know Bo:")
        code = self._code_of("Bo", "What is in your notes?")
        self.type_command("bots", "pairing", "deny", code)
        say("\n9. remove     The token and who was paired are forgotten; the conversation stays:")
        self.type_command("bots", "remove", "matrix")
        self.type_command("chat", "--list")

    def _code_of(self, person: str, text: str) -> str:
        answer = self._say(person, text, lambda answer: "Your code is" in answer)
        code = re.search(r"\*\*([A-Z]{6})\*\*", answer)
        if code is None:
            raise DaemonError(f"the demo's bot gave no code: {answer}")
        return code[1]

    def _say(self, person: str, text: str, is_it: Callable[[str], bool]) -> str:
        """Let a person write, and show the answer once it is all there."""
        before = len(self._server.answers(person))
        say(f"   {person} > {text}")
        self._server.write(person, text)
        return self._show_answer(person, before, is_it)

    def _show_answer(self, person: str, before: int, is_it: Callable[[str], bool]) -> str:
        def new() -> list[str]:
            return self._server.answers(person)[before:]

        self.until(
            lambda: any(is_it(answer) for answer in new()), f"the bot did not answer {person}"
        )
        for answer in new():
            say_lines(f"   {person} < {line}" for line in answer.splitlines() if line)
        return new()[-1]
