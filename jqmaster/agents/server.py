"""The server of the Model Context Protocol, which offers the tools and prompts. Only this file needs the
protocol's SDK."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.types import ASGIApp, Receive, Scope, Send

from jqmaster import __version__
from jqmaster.agents.acting import ACTING
from jqmaster.agents.answers import NOTE, encoded
from jqmaster.agents.confirmation import ConfirmationError, Confirmations, key_of
from jqmaster.agents.master import CallRefusedError, MasterCalls
from jqmaster.agents.prompts import PROMPTS
from jqmaster.agents.reading import READING
from jqmaster.agents.tool import AgentTool, ArgumentError, ToolCall

# Hide this library's messages about each request, because they are of no use to operators.
logging.getLogger("mcp").setLevel(logging.WARNING)

__all__ = (
    "PROMPTS",
    "TOOLS",
    "Confirmations",
    "MasterCalls",
    "http_app",
    "key_of",
    "make_server",
    "serve_stdio",
)

TOOLS: Final = {tool.name: tool for tool in (*READING, *ACTING)}
MAX_REQUEST_BYTES: Final = 256 * 1024
INSTRUCTIONS: Final = (
    "Tools of jqmaster, a job queue. Begin with health. Call why before you guess, and search_docs before "
    "you explain. Tools that act on several jobs are called twice: the first answer tells what would happen "
    "and to how many jobs. Show that answer to the person. Call again with its confirm only if the person "
    f"agrees. An answer has at most 8 KiB. Pass its next to get the rest. {NOTE}"
)


def make_server(master: MasterCalls, confirmations: Confirmations) -> Server[Any]:
    """Return a server that acts for one caller."""
    return Server(
        "jqmaster",
        version=__version__,
        title="jqmaster",
        instructions=INSTRUCTIONS,
        get_tool_input_schema=lambda name: TOOLS[name].schema if name in TOOLS else None,
        on_list_tools=_listing(master),
        on_call_tool=_calling(master, confirmations),
        on_list_prompts=_list_prompts,
        on_get_prompt=_get_prompt,
    )


def http_app(master: MasterCalls, confirmations: Confirmations) -> ASGIApp:
    """Return the application that answers one request of a caller. It keeps nothing between requests, so any
    master can answer any request."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        manager = StreamableHTTPSessionManager(
            make_server(master, confirmations),
            json_response=True,
            stateless=True,
            max_request_body_size=MAX_REQUEST_BYTES,
        )
        async with manager.run():
            await manager.handle_request(scope, receive, send)

    return app


async def serve_stdio(master: MasterCalls, confirmations: Confirmations) -> None:
    """Serve one client on standard input and output, until the client closes them."""
    server = make_server(master, confirmations)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


_Lister = Callable[[Any, types.PaginatedRequestParams | None], Awaitable[types.ListToolsResult]]
_Caller = Callable[[Any, types.CallToolRequestParams], Awaitable[types.CallToolResult]]


def _listing(master: MasterCalls) -> _Lister:
    async def list_tools(ctx: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        """Return the tools that the caller has the right to call."""
        try:
            scopes = (await master.get("/api/session"))["scopes"]
        except CallRefusedError:
            # List all tools, even if the caller lacks rights. When such a tool is called, the master says why it
            # refuses.
            scopes = ["read", "operate"]
        return types.ListToolsResult(
            tools=[_described(tool) for tool in TOOLS.values() if tool.scope in scopes]
        )

    return list_tools


def _calling(master: MasterCalls, confirmations: Confirmations) -> _Caller:
    async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        tool = TOOLS.get(params.name)
        if tool is None:
            return _error(f"no tool {params.name[:100]}; there are {', '.join(TOOLS)}")
        arguments = params.arguments or {}
        try:
            tool.check(arguments)
            # This call writes the audit entry. The master refuses it if the caller lacks the right or calls too often.
            body = {
                "tool": tool.name,
                "subject": tool.subject_of(arguments),
                "acts": not tool.is_read_only,
                "is_confirmed": "confirm" in arguments,
            }
            await master.post("/api/agent-calls", body)
            answer = await tool.run(ToolCall(tool.name, arguments, master, confirmations))
        except (ArgumentError, ConfirmationError) as error:
            return _error(str(error))
        except CallRefusedError as refused:
            return _error(refused.text)
        return types.CallToolResult(content=[types.TextContent(type="text", text=encoded(answer))])

    return call_tool


async def _list_prompts(ctx: Any, params: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
    return types.ListPromptsResult(
        prompts=[
            types.Prompt(
                name=one.name,
                title=one.title,
                description=one.text,
                arguments=[
                    types.PromptArgument(name=name, description=text, required=False)
                    for name, text in one.arguments.items()
                ],
            )
            for one in PROMPTS
        ]
    )


async def _get_prompt(ctx: Any, params: types.GetPromptRequestParams) -> types.GetPromptResult:
    found = next((one for one in PROMPTS if one.name == params.name), None)
    text = found.filled(params.arguments or {}) if found else f"There is no prompt {params.name[:100]}."
    content = types.TextContent(type="text", text=text)
    return types.GetPromptResult(
        description=found.text if found else None,
        messages=[types.PromptMessage(role="user", content=content)],
    )


def _described(tool: AgentTool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.text,
        input_schema=tool.schema,
        annotations=types.ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.is_read_only,
            destructive_hint=tool.is_destructive,
            idempotent_hint=tool.is_read_only,
            open_world_hint=False,
        ),
    )


def _error(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)
