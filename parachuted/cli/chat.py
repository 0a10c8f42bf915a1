"""Chat: talk with an agent in the terminal, list conversations."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence

from parachuted.cli.client import ask, follow, quoted
from parachuted.cli.commands import Columns, Json, Steps, verb
from parachuted.cli.show import escape, say, say_table, say_text, when
from parachuted.errors import NotFoundError, ParachuteError

_LAST = frozenset({"done", "error", "typed_error", "aborted"})
_LONGEST_INPUT, _LONGEST_RESULT = 120, 300
_MOST, _SHOWN = 50, 60
_IMPORT_S = 600.0
_ADOPTED = frozenset({"user", "assistant", "summary"})
_KEPT = ("type", "uuid", "timestamp", "isSidechain", "isMeta", "summary", "sessionId")
_NOT_INSTALLED = (
    "conversations are a module's, and it does not run here: `parachute modules status chat` says "
    "why; if it is not installed, `parachute modules install parachute://chat --trust trusted` "
    "installs it"
)
_WRONG_USE = 2
_LEAVE = frozenset({"exit", "quit", "/exit", "/quit"})
_HELP = "Type a message and press Enter. `exit` or Ctrl-D leaves; Ctrl-C stops an answer."
_DENIED = "no person is there to answer"


@verb("chat", "talk with an agent")
def chat(options: Namespace) -> Steps:
    """Talk with an agent. Its words appear as it says them, and the tools that it uses.

    It asks here what it asks a person. Ctrl-C stops its answer; at the prompt, Ctrl-C, Ctrl-D and
    `exit` end the program. The conversation is a note in the vault, and --session continues it.

    message*  what to say; without it, you are asked line by line
    --session ID  go on with that conversation
    --continue  go on with the latest conversation
    --agent NAME  which agent answers
    --model NAME  which model answers
    --context* FOLDER  a folder whose context it is given
    --list  list the conversations there are
    """
    said = " ".join(options.message)
    if options.message and not said.strip():
        sys.stderr.write("parachute: a message is needed, such as parachute chat 'Hello'\n")
        return _WRONG_USE
    session = _session(options)
    if options.list:
        return (yield from _list_conversations())
    session, code = _turn(session, said, options) if said else _converse(session, options)
    if session and sys.stdout.isatty():
        say(f"Go on with: parachute chat --session {session}")
    return code


def _session(options: Namespace) -> str:
    try:
        found = ask("GET /api/chat?limit=1")["sessions"]
    except (NotFoundError, KeyError, TypeError) as error:
        raise NotFoundError(_NOT_INSTALLED) from error
    except ParachuteError as error:
        if "kept for the module chat" in error.message:
            raise NotFoundError(_NOT_INSTALLED) from error
        raise
    if options.session:
        return str(ask(f"GET /api/chat/{quoted(options.session)}")["id"])
    is_latest = vars(options)["continue"]
    if is_latest and not found:
        raise NotFoundError("there is no conversation to go on with")
    return str(found[0]["id"]) if is_latest else ""


def _converse(session: str, options: Namespace) -> tuple[str, int]:
    code = 0
    if sys.stdin.isatty():
        say("Ctrl-D ends; the conversation is kept in Chat/sessions/ of your vault.")
    while (line := _read_message()) is not None and line.strip() not in _LEAVE:
        if line.strip() == "/help":
            say(_HELP)
        elif line.strip():
            session, code = _turn(session, line, options)
    return session, code


def _turn(session: str, said: str, options: Namespace) -> tuple[str, int]:
    """Say that, and follow the answer; the conversation's id, and 1 if it failed."""
    screen = ChatScreen(_read_line)
    body: dict[str, object] = {"message": said, "module": "chat", "sessionId": session or "new"}
    chosen = {"agentType": options.agent, "model": options.model, "contexts": options.context}
    body |= {name: value for name, value in chosen.items() if value}
    try:
        for event in follow("POST /api/chat", body):
            if screen.show(event):
                break
            if event.get("type") == "user_question":
                _answer(screen, event)
    except KeyboardInterrupt:
        if not screen.session:
            raise
        ask(f"POST /api/chat/{quoted(screen.session)}/abort")
        screen.show({"type": "aborted"})
    return screen.session or session, int(screen.has_failed)


def _answer(screen: ChatScreen, event: Json) -> None:
    questions = event.get("questions") or []
    answers = screen.answers_to(questions)
    if answers is None:
        say(f"  ({_DENIED}: the agent goes on without)")
        answers = {str(asked.get("question")): _DENIED for asked in questions}
    body = {"request_id": event.get("requestId"), "answers": answers}
    ask(f"POST /api/chat/{quoted(screen.session)}/answer", body)


def _read_message() -> str | None:
    try:
        return _read_line("> ")
    except KeyboardInterrupt:
        say()
        return None


def _read_line(prompt: str) -> str | None:
    if sys.stdin.isatty():
        try:
            return input(prompt)
        except EOFError:
            return None
    line = sys.stdin.readline()
    return line.rstrip("\n") if line else None


class ChatScreen:
    """One turn. `read_line` asks the person a line; None: no person is there to answer."""

    def __init__(self, read_line: Callable[[str], str | None]) -> None:
        self.session = ""
        self.has_failed = False
        self._read_line = read_line
        self._shown = ""

    def show(self, event: Mapping[str, Json]) -> bool:
        kind = event.get("type")
        self.session = str(event.get("sessionId") or self.session)
        if kind == "text":
            self._text(str(event.get("content") or ""))
        elif kind == "tool_use":
            tool = event.get("tool") or {}
            self._line(f"  - {tool.get('name')} {_brief(tool.get('input') or {})}".rstrip())
        elif kind == "tool_result" and event.get("isError"):
            say(f"    refused: {str(event.get('content') or '')[:_LONGEST_RESULT]}")
        elif kind == "warning":
            self._line(f"  ! {event.get('title')}: {event.get('message')}")
        elif kind in {"error", "typed_error"}:
            self.has_failed = True
            self._line(str(event.get("error") or event.get("message") or "it failed"))
        elif kind == "aborted":
            self._line(str(event.get("message") or "Stopped."))
        elif kind == "done":
            if not self._shown and event.get("response"):
                say_text(str(event["response"]))
            self._end_line()
        return kind in _LAST

    def answers_to(self, questions: Sequence[Mapping[str, Json]]) -> dict[str, Json] | None:
        self._end_line()
        found: dict[str, Json] = {}
        for asked in questions:
            options = list(asked.get("options") or ())
            labels = [str(option.get("label") or "") for option in options]
            say(f"? {asked.get('question')}")
            for number, option in enumerate(options, 1):
                about = f": {option['description']}" if option.get("description") else ""
                say(f"  {number}  {option.get('label')}{about}")
            line = self._read_line("  answer> ")
            if line is None:
                return None
            chosen = [_option(part, labels) for part in line.split(",")] if labels else [line]
            is_many = asked.get("multiSelect") is True
            found[str(asked.get("question"))] = chosen if is_many else ", ".join(chosen)
        return found

    def _text(self, whole: str) -> None:
        """Each event has all of the text since the last tool: show what is new of it."""
        new = whole.removeprefix(self._shown) if whole.startswith(self._shown) else f"\n{whole}"
        sys.stdout.write("\n".join(map(escape, new.split("\n"))))
        sys.stdout.flush()
        self._shown = whole

    def _line(self, text: str) -> None:
        self._end_line()
        say(text)

    def _end_line(self) -> None:
        if self._shown and not self._shown.endswith("\n"):
            say()
        self._shown = ""


def _option(said: str, options: Sequence[str]) -> str:
    word = said.strip()
    return options[int(word) - 1] if word.isdecimal() and 0 < int(word) <= len(options) else word


def _brief(arguments: Mapping[str, object]) -> str:
    text = " ".join(
        f"{name}={value if isinstance(value, str) else json.dumps(value)}"
        for name, value in arguments.items()
    )
    return text if len(text) <= _LONGEST_INPUT else f"{text[:_LONGEST_INPUT]}…"


def _list_conversations() -> Steps:
    answer = yield ask(f"GET /api/chat?limit={_MOST}")
    columns: Columns = {
        "ID": "id",
        "LATEST": lambda session: when(session["updatedAt"]),
        "MESSAGES": "messageCount",
        "TITLE": lambda session: (session["title"] or session["path"])[:_SHOWN],
    }
    say_table(answer["sessions"], columns, nothing="No conversations yet.")
    if answer["next"]:
        say(f"The newest {_MOST}; the rest is in Chat/sessions/ of your vault.")
