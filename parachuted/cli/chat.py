"""Chat: talk with an agent in the terminal, by the module of that name."""

from __future__ import annotations

import http.client
import json
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing

from parachuted.cli.chat_history import adopt, list_conversations
from parachuted.cli.client import ask, daemon_record, quoted
from parachuted.cli.commands import JSON, argument, command, flag
from parachuted.cli.show import escape, say, say_text
from parachuted.errors import NoDaemonError, NotFoundError, ParachuteError

TYPE_CHECKING = False  # as in client.py
if TYPE_CHECKING:
    from typing import Any

_SILENCE_S = 180.0  # the daemon gives a sign of life every 15 s
_NOT_FOUND, _REFUSED = 404, 400


def follow_events(method: str, path: str, body: Mapping[str, object]) -> Iterator[Any]:
    """The data of each event, as JSON, until the stream ends.

    Raises NoDaemonError, NotFoundError, and ParachuteError with the daemon's own sentence.
    """
    record = daemon_record()
    headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
    if "token" in record:
        headers["Authorization"] = f"Bearer {record['token']}"
    with closing(
        http.client.HTTPConnection(
            str(record["host"]), int(str(record["port"])), timeout=_SILENCE_S
        )
    ) as connection:
        try:
            connection.request(method, path, json.dumps(body), headers)
            response = connection.getresponse()
            if response.status >= _REFUSED:
                raise _refusal(response.status, response.read())
            for line in response:
                if line.startswith(b"data:"):
                    yield json.loads(line.removeprefix(b"data:"))
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise NoDaemonError(
                f"the connection to the daemon was lost ({error}); the answer goes on there"
            ) from error


def _refusal(status: int, text: bytes) -> ParachuteError:
    try:
        message = str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        message = f"the daemon answered {status}"
    return (NotFoundError if status == _NOT_FOUND else ParachuteError)(message)


if TYPE_CHECKING:
    from typing import Any

_LAST = frozenset({"done", "error", "typed_error", "aborted"})
_LONGEST_INPUT, _LONGEST_RESULT = 120, 300

Answers = dict[str, "str | list[str]"]


class ChatScreen:
    """One turn. `read_line` asks the person a line; None: no person is there to answer."""

    def __init__(self, read_line: Callable[[str], str | None]) -> None:
        self.session = ""
        self.has_failed = False
        self._read_line = read_line
        self._shown = ""

    def show(self, event: Mapping[str, Any]) -> bool:
        kind = event.get("type")
        self.session = str(event.get("sessionId") or self.session)
        if kind == "text":
            self._text(str(event.get("content") or ""))
        elif kind == "tool_use":
            self._end_line()
            tool = event.get("tool") or {}
            say(f"  - {tool.get('name')} {_brief(tool.get('input') or {})}".rstrip())
            self._shown = ""
        elif kind == "tool_result" and event.get("isError"):
            say(f"    refused: {str(event.get('content') or '')[:_LONGEST_RESULT]}")
        elif kind == "warning":
            self._end_line()
            say(f"  ! {event.get('title')}: {event.get('message')}")
        elif kind in {"error", "typed_error"}:
            self.has_failed = True
            self._end_line()
            say(str(event.get("error") or event.get("message") or "it failed"))
        elif kind == "aborted":
            self._end_line()
            say(str(event.get("message") or "Stopped."))
        elif kind == "done":
            self._end(event)
        return kind in _LAST

    def answers_to(self, questions: Sequence[Mapping[str, Any]]) -> Answers | None:
        """What the person answers to each question; None: no person is there."""
        self._end_line()
        found: Answers = {}
        for asked in questions:
            options = [str(one.get("label") or "") for one in asked.get("options") or ()]
            say(f"? {asked.get('question')}")
            for number, one in enumerate(asked.get("options") or (), 1):
                about = f": {one['description']}" if one.get("description") else ""
                say(f"  {number}  {one.get('label')}{about}")
            line = self._read_line("  answer> ")
            if line is None:
                return None
            chosen = [_option(part, options) for part in line.split(",")] if options else [line]
            is_many = asked.get("multiSelect") is True
            found[str(asked.get("question"))] = chosen if is_many else ", ".join(chosen)
        return found

    def _text(self, whole: str) -> None:
        """Each event has all of the text since the last tool: show what is new of it."""
        new = whole.removeprefix(self._shown) if whole.startswith(self._shown) else f"\n{whole}"
        sys.stdout.write("\n".join(map(escape, new.split("\n"))))
        sys.stdout.flush()
        self._shown = whole

    def _end(self, event: Mapping[str, Any]) -> None:
        if not self._shown and event.get("response"):
            say_text(str(event["response"]))
        self._end_line()

    def _end_line(self) -> None:
        if self._shown and not self._shown.endswith("\n"):
            say()
        self._shown = ""


def _option(said: str, options: Sequence[str]) -> str:
    """An option by its number, or the words themselves."""
    word = said.strip()
    return options[int(word) - 1] if word.isdecimal() and 0 < int(word) <= len(options) else word


def _brief(arguments: Mapping[str, object]) -> str:
    text = " ".join(
        f"{name}={value if isinstance(value, str) else json.dumps(value)}"
        for name, value in arguments.items()
    )
    return text if len(text) <= _LONGEST_INPUT else f"{text[:_LONGEST_INPUT]}…"


_NOT_INSTALLED = (
    "conversations are a module's, and it does not run here: `parachute modules status chat` says "
    "why; if it is not installed, `parachute modules install parachute://chat --trust trusted` "
    "installs it"
)
_WRONG_USE = 2
_LEAVE = frozenset({"exit", "quit", "/exit", "/quit"})
_HELP = "Type a message and press Enter. `exit` or Ctrl-D leaves; Ctrl-C stops an answer."
_DENIED = "no person is there to answer"


@command(
    "chat",
    "talk with an agent",
    argument("message", nargs="*", help="what to say; without it, you are asked line by line"),
    argument("--session", metavar="ID", help="go on with that conversation"),
    flag("--continue", help="go on with the latest conversation"),
    argument("--agent", metavar="NAME", help="which agent answers"),
    argument("--model", metavar="NAME", help="which model answers"),
    argument(
        "--context", metavar="FOLDER", action="append", help="a folder whose context it is given"
    ),
    flag("--list", help="list the conversations there are"),
    argument(
        "--adopt",
        metavar="FILE",
        nargs="+",
        help="say what adopting these transcripts of Claude Code (or a folder of them) would do",
    ),
    flag("--yes", help="adopt them"),
    JSON,
)
def chat(options: Namespace) -> int:
    """Talk with an agent. Its words appear as it says them, and the tools that it uses.

    It asks here what it asks a person. Ctrl-C stops its answer; at the prompt, Ctrl-C, Ctrl-D and
    `exit` end the program. The conversation is a note in the vault, and --session continues it.
    """
    if options.list or options.adopt:
        _session(options)
        if options.list:
            return list_conversations(as_json=options.json)
        return adopt(options.adopt, is_sure=options.yes, as_json=options.json)
    said = " ".join(options.message)
    if options.message and not said.strip():
        sys.stderr.write("parachute: a message is needed, such as parachute chat 'Hello'\n")
        return _WRONG_USE
    session = _session(options)
    if said:
        session, code = _turn(session, said, options)
    else:
        session, code = _converse(session, options)
    if session and sys.stdout.isatty():
        say(f"Go on with: parachute chat --session {session}")
    return code


def _converse(session: str, options: Namespace) -> tuple[str, int]:
    """Ask line by line; the conversation's id, and 1 if its last turn failed."""
    code = 0
    if sys.stdin.isatty():
        say("Ctrl-D ends; the conversation is kept in Chat/sessions/ of your vault.")
    while (line := _read_message()) is not None and line.strip() not in _LEAVE:
        if line.strip() == "/help":
            say(_HELP)
        elif line.strip():
            session, code = _turn(session, line, options)
    return session, code


def _session(options: Namespace) -> str:
    try:
        found = ask("GET", "/api/chat?limit=1")["sessions"]
    except (NotFoundError, KeyError, TypeError) as error:
        raise NotFoundError(_NOT_INSTALLED) from error
    except ParachuteError as error:
        if "kept for the module chat" in error.message:
            raise NotFoundError(_NOT_INSTALLED) from error
        raise
    if options.session:
        return str(ask("GET", f"/api/chat/{quoted(options.session)}")["id"])
    if getattr(options, "continue") and not found:
        raise NotFoundError("there is no conversation to go on with")
    return str(found[0]["id"]) if getattr(options, "continue") else ""


def _turn(session: str, said: str, options: Namespace) -> tuple[str, int]:
    """Say that, and follow the answer; the conversation's id, and 1 if it failed."""
    screen = ChatScreen(_read_line)
    body: dict[str, object] = {"message": said, "module": "chat", "sessionId": session or "new"}
    if options.agent:
        body["agentType"] = options.agent
    if options.model:
        body["model"] = options.model
    if options.context:
        body["contexts"] = options.context
    events = follow_events("POST", "/api/chat", body)
    try:
        for event in events:
            if screen.show(event):
                break
            if event.get("type") == "user_question":
                _answer(screen, event)
    except KeyboardInterrupt:
        if not screen.session:
            raise
        ask("POST", f"/api/chat/{quoted(screen.session)}/abort", {})
        screen.show({"type": "aborted"})
    return screen.session or session, int(screen.has_failed)


def _answer(screen: ChatScreen, event: dict[str, object]) -> None:
    questions = event.get("questions")
    asked = questions if isinstance(questions, list) else []
    answers = screen.answers_to(asked)
    if answers is None:
        say(f"  ({_DENIED}: the agent goes on without)")
        answers = {str(one.get("question")): _DENIED for one in asked}
    ask(
        "POST",
        f"/api/chat/{quoted(screen.session)}/answer",
        {"request_id": event.get("requestId"), "answers": answers},
    )


def _read_message() -> str | None:
    """The next message; None at the end of what is typed, or after Ctrl-C."""
    try:
        return _read_line("> ")
    except KeyboardInterrupt:
        say()
        return None


def _read_line(prompt: str) -> str | None:
    """A line of the person's; None at the end of what is typed."""
    if sys.stdin.isatty():
        try:
            return input(prompt)
        except EOFError:
            return None
    line = sys.stdin.readline()
    return line.rstrip("\n") if line else None
