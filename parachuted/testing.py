"""Testing: a scripted Messages API, a scripted backend and a harness for modules, for our tests and
for module authors.

The API speaks the real protocol, so that the real agent process runs with no network and no
account.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from types import TracebackType
from typing import Self, TypeAlias

from aiohttp import web

from parachuted.agents.calling import call_tool
from parachuted.agents.job import Job, RunResult, Step, TextStep, ThinkingDelta, ToolCallStep
from parachuted.errors import AgentFailedError
from parachuted.modules.hosting.harness import ModuleHarness, running_module

__all__ = [
    "ApiRefusal",
    "Block",
    "Delay",
    "ModuleHarness",
    "RecordedRequest",
    "Reply",
    "Script",
    "ScriptedBackend",
    "ScriptedMessages",
    "Text",
    "ToolUse",
    "Turn",
    "running_module",
    "say",
    "think",
    "use",
]

_USAGE = {"input_tokens": 100, "output_tokens": 20}
_PIECES = "pieces"
_BODY_LIMIT = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """Words of the model, which come in so many `pieces`; `is_thought`: it thinks them."""

    text: str
    pieces: int = 1
    is_thought: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    """The model asks for a tool, by the name that it sees or the end of one that it is offered."""

    name: str
    input: object


Block: TypeAlias = Text | ToolUse


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A model's answer. `usage` overrides the tokens it reports, `cut` breaks the stream before its
    last event, `stop_reason` replaces the usual one, such as by `refusal`. `error` is sent in place
    of the rest of the stream: after `error_after` events, or half of them.
    """

    blocks: tuple[Block, ...]
    usage: Mapping[str, int] = field(default_factory=dict)
    cut: bool = False
    stop_reason: str | None = None
    error: ApiRefusal | None = None
    error_after: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRefusal:
    """An HTTP error of the API."""

    status: int
    kind: str = "api_error"
    message: str = "refused by the script"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """A wait in seconds before the turn that follows."""

    seconds: float
    then: Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRequest:
    """One request as it arrived; `body` is empty where there was none."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Mapping[str, object]


Turn: TypeAlias = "Sequence[Block] | Reply | ApiRefusal | Delay | Callable[[RecordedRequest], Turn]"


def say(text: str, *, pieces: int = 1) -> Text:
    """Make a block of words."""
    return Text(text=text, pieces=pieces)


def think(text: str) -> Text:
    """Make a block of what the model thinks."""
    return Text(text=text, is_thought=True)


def use(tool: str, **arguments: object) -> ToolUse:
    """Make a block that asks for one of our tools, by the name that we have for it."""
    return ToolUse(name=tool, input=arguments)


_NO_MORE = ApiRefusal(status=400, kind="invalid_request_error", message="the script has ended")


class ScriptedMessages:
    """Serve the Messages API on loopback and answer each request with the next turn; past the last
    turn it refuses.

    Use it as an async context manager: `url` is where it listens, `requests` what it was asked.
    """

    def __init__(self, turns: Sequence[Turn] = ()) -> None:
        self.requests: list[RecordedRequest] = []
        self.url = ""
        self._turns = list(turns)
        self._ids = count(1)
        app = web.Application(client_max_size=_BODY_LIMIT)
        app.router.add_post("/v1/messages", self._messages)
        app.router.add_post("/v1/messages/count_tokens", self._count_tokens)
        app.router.add_route("*", "/{rest:.*}", self._anything)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)

    @property
    def asked(self) -> list[RecordedRequest]:
        """The requests for an answer of the model."""
        return [request for request in self.requests if request.path == "/v1/messages"]

    def add(self, *turns: Turn) -> None:
        """Put turns at the end of the script."""
        self._turns.extend(turns)

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._runner.cleanup()

    async def _record(self, request: web.Request) -> RecordedRequest:
        raw = await request.read()
        seen = RecordedRequest(
            method=request.method,
            path=request.path,
            headers=dict(request.headers),
            body=json.loads(raw) if raw else {},
        )
        self.requests.append(seen)
        return seen

    async def _anything(self, request: web.Request) -> web.StreamResponse:
        await self._record(request)
        return web.Response(status=200 if request.method == "HEAD" else 404)

    async def _count_tokens(self, request: web.Request) -> web.StreamResponse:
        await self._record(request)
        return web.json_response({"input_tokens": _USAGE["input_tokens"]})

    async def _messages(self, request: web.Request) -> web.StreamResponse:
        seen = await self._record(request)
        turn = self._turns.pop(0) if self._turns else _NO_MORE
        while not isinstance(turn, Reply | ApiRefusal):
            if isinstance(turn, Delay):
                await asyncio.sleep(turn.seconds)
                turn = turn.then
            else:
                turn = turn(seen) if callable(turn) else Reply(blocks=tuple(turn))
        if isinstance(turn, Reply) and turn.error is not None and not seen.body.get("stream"):
            turn = turn.error
        if isinstance(turn, ApiRefusal):
            return web.json_response(_error(turn), status=turn.status, headers=dict(turn.headers))
        return await self._answer(request, seen, turn)

    async def _answer(
        self, request: web.Request, seen: RecordedRequest, reply: Reply
    ) -> web.StreamResponse:
        number = next(self._ids)
        message = _message(reply, number=number, asked=seen.body)
        if not seen.body.get("stream"):
            return web.json_response(message)
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}
        )
        await response.prepare(request)
        events = _events(message)
        if reply.error is not None:
            half = len(events) // 2 if reply.blocks else 0
            events = [
                *events[: half if reply.error_after is None else reply.error_after],
                _error(reply.error),
            ]
        for event in events[: len(events) // 2] if reply.cut else events:
            await response.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
        if reply.cut and request.transport is not None:
            request.transport.abort()
        return response


def _error(refusal: ApiRefusal) -> dict[str, object]:
    return {"type": "error", "error": {"type": refusal.kind, "message": refusal.message}}


def _message(reply: Reply, *, number: int, asked: Mapping[str, object]) -> dict[str, object]:
    tools = asked.get("tools")
    names = [str(tool["name"]) for tool in tools] if isinstance(tools, list) else []
    content = [
        _text_block(block)
        if isinstance(block, Text)
        else {
            "type": "tool_use",
            "id": f"toolu_{number:04}_{place:03}",
            "name": _seen_name(block.name, names),
            "input": block.input,
        }
        for place, block in enumerate(reply.blocks)
    ]
    wants_tool = any(isinstance(block, ToolUse) for block in reply.blocks)
    return {
        "id": f"msg_{number:04}",
        "type": "message",
        "role": "assistant",
        "model": str(asked.get("model")),
        "content": content,
        "stop_reason": reply.stop_reason or ("tool_use" if wants_tool else "end_turn"),
        "stop_sequence": None,
        "usage": {**_USAGE, **reply.usage},
    }


def _seen_name(name: str, offered: Sequence[str]) -> str:
    found = [one for one in offered if one.endswith(f"__{name}")]
    return name if name in offered or len(found) != 1 else found[0]


def _text_block(block: Text) -> dict[str, object]:
    if block.is_thought:
        return {"type": "thinking", "thinking": block.text, "signature": "c2lnbmVk"}
    return {
        "type": "text",
        "text": block.text,
        **({_PIECES: block.pieces} if block.pieces > 1 else {}),
    }


def _tool_events(block: Mapping[str, object]) -> tuple[dict[str, object], list[dict[str, object]]]:
    call: dict[str, object] = {
        "type": "input_json_delta",
        "partial_json": json.dumps(block["input"]),
    }
    return {**block, "input": {}}, [call]


def _text_events(block: Mapping[str, object]) -> tuple[dict[str, object], list[dict[str, object]]]:
    """How a block of words begins, and its parts."""
    if block["type"] == "thinking":
        thought = {"type": "thinking_delta", "thinking": block["thinking"]}
        signed = {"type": "signature_delta", "signature": block["signature"]}
        return {"type": "thinking", "thinking": "", "signature": ""}, [thought, signed]
    text, pieces = str(block["text"]), int(str(block.get(_PIECES, 1)))
    size = max(1, -(-len(text) // pieces))
    parts = [text[at : at + size] for at in range(0, len(text), size)] or [""]
    return {"type": "text", "text": ""}, [{"type": "text_delta", "text": part} for part in parts]


def _events(message: Mapping[str, object]) -> list[dict[str, object]]:
    """Cut a whole message into the events of the streaming protocol."""
    usage = message["usage"]
    events: list[dict[str, object]] = [
        {
            "type": "message_start",
            "message": {**message, "content": [], "stop_reason": None, "usage": usage},
        }
    ]
    blocks = message["content"]
    for index, block in enumerate(blocks if isinstance(blocks, list) else []):
        start, deltas = _tool_events(block) if block["type"] == "tool_use" else _text_events(block)
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        events += [
            {"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas
        ]
        events.append({"type": "content_block_stop", "index": index})
    stop = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    return [
        *events,
        {"type": "message_delta", "delta": stop, "usage": usage},
        {"type": "message_stop"},
    ]


Script: TypeAlias = Sequence[Block] | Callable[[Job], Awaitable[Sequence[Block]]]


class ScriptedBackend:
    """Do each job by a script: blocks to say and tools to call, or a coroutine function that makes
    them from the job.

    `jobs` is what it was given. A run costs `cost_usd`; each block counts as a turn; the job's
    limits hold.
    """

    name = "scripted"

    def __init__(self, script: Script = (), *, cost_usd: float = 0.0) -> None:
        self.jobs: list[Job] = []
        self._script = script
        self._cost_usd = cost_usd

    async def run(self, job: Job) -> AsyncIterator[Step]:
        """Follow the script; its session is always the watcher's own."""
        self.jobs.append(job)
        deadline = asyncio.get_running_loop().time() + job.limits.timeout_s
        turns = 0
        problem = (
            None
            if self._cost_usd <= job.limits.max_cost_usd
            else f"the agent had used up its ${job.limits.max_cost_usd:g}"
        )
        try:
            async with asyncio.timeout_at(deadline):
                blocks = await self._script(job) if callable(self._script) else self._script
            for block in blocks:
                if turns == job.limits.max_turns:
                    problem = f"the agent was still at work after {turns} turns"
                    break
                turns += 1
                async with asyncio.timeout_at(deadline):
                    step = await _play(job, block)
                yield step
        except TimeoutError:
            problem = "the agent ran out of time and was ended"
        yield RunResult(
            cost_usd=self._cost_usd,
            input_tokens=0,
            output_tokens=0,
            turns=turns,
            session_id=f"scripted-{job.watcher}",
        )
        if problem is not None:
            raise AgentFailedError(problem)

    async def close(self) -> None:
        """Nothing runs on."""


async def _play(job: Job, block: Block) -> Step:
    if isinstance(block, Text):
        return ThinkingDelta(text=block.text) if block.is_thought else TextStep(text=block.text)
    arguments = block.input if isinstance(block.input, Mapping) else {}
    result = await call_tool(job.tools, block.name, block.input)
    return ToolCallStep(tool=block.name, arguments=arguments, result=result)
