"""Protocol: the `mcp` package, which answers each message by our tools, notes and prompts.

It is heavy, so it is loaded when the first client connects. It keeps nothing from one request to
the next: sessions, rights and subscriptions are ours.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from mcp import types
from mcp.server import NotificationOptions, Server, ServerRequestContext
from mcp.server.models import InitializationOptions
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.subscriptions import (
    ListenHandler,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError

from parachuted import __version__
from parachuted.api.http.route import ApiCall
from parachuted.errors import ParachuteError
from parachuted.mcp.clients import McpClient
from parachuted.mcp.resources import SCHEME, ClientChanges, NoteResources, VaultChanges
from parachuted.mcp.tools import McpTools, ServedTool

_LONGEST = 2_000


def _prompt(name: str, description: str, argument: str, says: str, text: str) -> _Prompt:
    asked = types.PromptArgument(name=argument, description=says, required=True)
    return types.Prompt(name=name, description=description, arguments=[asked]), argument, text


_Prompt: TypeAlias = tuple[types.Prompt, str, str]
_PROMPTS = (  # `{argument}` in a text stands for the one thing that it asks for
    _prompt(
        "journal",
        "Write what happened into today's journal.",
        "what",
        "What happened.",
        "Write this into my journal of today, in my own words. Use daily-create where there is "
        "such a tool, else append it to Daily/journals/ with today's date:\n\n{argument}",
    ),
    _prompt(
        "recall",
        "Answer a question from the notes, with the notes it comes from.",
        "question",
        "The question.",
        "Answer from my notes alone. Search them with several wordings, read what you find, "
        "and name the path of each note that you rely on. Where the notes do not say, say "
        "so.\n\n{argument}",
    ),
    _prompt(
        "why",
        "Explain where a note's lines come from.",
        "path",
        "The note.",
        "Explain with the tools `why` and `history` who wrote what stands in the note "
        "{argument}, in which runs and because of what. Name the run that I would undo to take "
        "the last change back, and do not undo it yourself.",
    ),
)


Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Context: TypeAlias = ServerRequestContext[Any, Any]

IDEMPOTENCY_KEY = "parachute/idempotencyKey"
"""The entry of a call's `_meta` by which a repeated one is known."""

_ASKED = "parachute.asked"
_MARKDOWN = "text/markdown"
_INSTRUCTIONS = (
    "A vault of markdown notes. Every write is one run: `why` explains lines, `undo` takes a run "
    "back."
)


@dataclass(frozen=True, slots=True)
class _Asked:
    """Who asks, and in which request."""

    client: McpClient
    api: ApiCall


class McpProtocol:
    def __init__(
        self,
        tools: McpTools,
        resources: NoteResources,
        changes: VaultChanges,
        *,
        largest_body: int,
    ) -> None:
        self._tools, self._resources, self._changes = tools, resources, changes
        self._server = _Server(
            "parachute",
            version=__version__,
            instructions=_INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_subscribe_resource=self._subscribe,
            on_unsubscribe_resource=self._unsubscribe,
            on_subscriptions_listen=self._listen,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
        )
        self._largest_body = largest_body

    async def answer(
        self, client: McpClient, api: ApiCall, scope: Message, receive: Receive, send: Send
    ) -> None:
        """Nothing is kept from one request to the next, so each has a manager of its own."""
        manager = StreamableHTTPSessionManager(
            self._server,
            json_response=True,
            stateless=True,
            max_request_body_size=self._largest_body,
        )
        async with manager.run():
            await manager.handle_request({**scope, _ASKED: _Asked(client, api)}, receive, send)

    async def _list_tools(
        self, ctx: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        offered = self._tools.offered(_asked(ctx).client.identity)
        return types.ListToolsResult(tools=[definition(tool) for tool in offered])

    async def _call_tool(
        self, ctx: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        asked = _asked(ctx)
        key = (ctx.meta or {}).get(IDEMPOTENCY_KEY)
        result = await self._tools.call(
            asked.client,
            asked.api,
            params.name,
            params.arguments or {},
            key if isinstance(key, str) else None,
        )
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=result.text)],
            structured_content=None if result.is_error else result.response,
            is_error=result.is_error,
        )

    async def _list_resources(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        try:
            found, following = await self._resources.page(
                _asked(ctx).client, params.cursor if params is not None else None
            )
        except ValueError as error:
            raise MCPError(types.INVALID_PARAMS, "invalid cursor") from error
        resources = [
            types.Resource(
                uri=one.address,
                name=one.name,
                title=one.title,
                mime_type=_MARKDOWN,
                size=one.size,
            )
            for one in found
        ]
        return types.ListResourcesResult(resources=resources, next_cursor=following)

    async def _list_templates(
        self, _ctx: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        template = types.ResourceTemplate(
            uri_template=f"{SCHEME}{{+path}}",
            name="note",
            description="A note, by its path in the vault.",
            mime_type=_MARKDOWN,
        )
        return types.ListResourceTemplatesResult(resource_templates=[template])

    async def _read_resource(
        self, ctx: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        try:
            text = await self._resources.read(_asked(ctx).client, params.uri)
        except ParachuteError as error:
            raise MCPError(types.INVALID_PARAMS, error.message) from error
        content = types.TextResourceContents(uri=params.uri, mime_type=_MARKDOWN, text=text)
        return types.ReadResourceResult(contents=[content])

    async def _subscribe(
        self, ctx: Context, params: types.SubscribeRequestParams
    ) -> types.EmptyResult:
        self._resources.subscribe(_asked(ctx).client, params.uri)
        return types.EmptyResult()

    async def _unsubscribe(
        self, ctx: Context, params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        _asked(ctx).client.subscribed.discard(params.uri)
        return types.EmptyResult()

    async def _listen(
        self, ctx: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """What this client may hear, on the stream that answers it."""
        return await ListenHandler(_ChangesOfOne(self._changes, _asked(ctx).client))(ctx, params)

    async def _list_prompts(
        self, _ctx: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=[prompt for prompt, _, _ in _PROMPTS])

    async def _get_prompt(
        self, _ctx: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        found = [entry for entry in _PROMPTS if entry[0].name == params.name]
        if not found:
            raise MCPError(types.INVALID_PARAMS, f"there is no prompt {params.name[:80]}")
        ((prompt, argument, text),) = found
        value = (params.arguments or {}).get(argument, "").strip()
        if not 0 < len(value) <= _LONGEST:
            why = f"{argument} should be a text of 1 to {_LONGEST} characters"
            raise MCPError(types.INVALID_PARAMS, why)
        content = types.TextContent(type="text", text=text.replace("{argument}", value))
        said = types.PromptMessage(role="user", content=content)
        return types.GetPromptResult(description=prompt.description, messages=[said])


class _ChangesOfOne:
    """The changes that one client may hear of, as the package takes them."""

    def __init__(self, changes: VaultChanges, client: McpClient) -> None:
        self._changes, self._client = changes, client

    async def publish(self, _event: ServerEvent) -> None:
        """Not used: changes come from the vault."""

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        def tell(changes: ClientChanges) -> None:
            for address in sorted(changes.updated):
                listener(ResourceUpdated(uri=address))
            if changes.has_new_list:
                listener(ResourcesListChanged())
            if changes.has_new_tools:
                listener(ToolsListChanged())

        return self._changes.subscribe(self._client, tell)


class _Server(Server[Any]):
    """Says that its lists may change."""

    def create_initialization_options(
        self,
        _notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        return super().create_initialization_options(
            NotificationOptions(tools_changed=True, resources_changed=True),
            experimental_capabilities,
            extensions,
        )


def definition(tool: ServedTool) -> types.Tool:
    hints = types.ToolAnnotations(
        read_only_hint=tool.is_read_only,
        destructive_hint=None if tool.is_read_only else tool.is_destructive,
        idempotent_hint=True if tool.is_idempotent else None,
    )
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=dict(tool.takes),
        output_schema=dict(tool.answers) or None,
        annotations=hints,
    )


def _asked(ctx: Context) -> _Asked:
    if ctx.request is None:
        raise RuntimeError("a message came without its request")
    asked = ctx.request.scope[_ASKED]
    if not isinstance(asked, _Asked):
        raise TypeError("a request does not say who asks")
    return asked
