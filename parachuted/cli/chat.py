"""Chat: talk with an agent in the terminal, by the module of that name."""

from __future__ import annotations

import sys
from argparse import Namespace

from parachuted.cli.chat_screen import ChatScreen
from parachuted.cli.client import ask, quoted
from parachuted.cli.commands import argument, command, flag
from parachuted.cli.event_stream import follow_events
from parachuted.cli.show import say
from parachuted.errors import NotFoundError, ParachuteError

_NOT_INSTALLED = (
    "conversations are a module's, and it does not run here: `parachute modules install "
    "parachute://chat` installs it"
)
_WRONG_USE = 2
_LEAVE = frozenset({"exit", "quit", "/exit", "/quit"})
_HELP = "Type a message and press Enter. `exit` or Ctrl-D leaves; Ctrl-C stops an answer."
_DENIED = "nobody is there to answer"


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
)
def chat(options: Namespace) -> int:
    """Talk with an agent. Its words appear as it says them, and the tools that it uses.

    It asks here what it asks a person. Ctrl-C stops its answer; at the prompt, Ctrl-C, Ctrl-D and
    `exit` end the program. The conversation is a note in the vault, and --session continues it.
    """
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
    """The conversation to go on with; "": a new one. Raises NotFoundError."""
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
