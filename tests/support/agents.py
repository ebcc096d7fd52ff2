"""Agents in tests: the official client of the Model Context Protocol, over both transports. Needs the extra `mcp`."""

import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator
from typing import Any

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from tests.support.cli import clean_environment


class ToolRefused(Exception):
    """A tool answered with an error, which is the text."""


class Agent:
    """A client of a master's tools."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def tools(self) -> dict[str, Any]:
        """Return the tools that the caller may call, by name."""
        return {tool.name: tool for tool in (await self.client.list_tools()).tools}

    async def text(self, tool: str, **arguments: Any) -> str:
        """Return the answer as it was sent. Raise ToolRefused."""
        result = await self.client.call_tool(tool, arguments)
        (content,) = result.content
        text: str = getattr(content, "text", "")
        if result.is_error:
            raise ToolRefused(text)
        return text

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Return the decoded answer."""
        answer: dict[str, Any] = json.loads(await self.text(tool, **arguments))
        return answer


@contextlib.asynccontextmanager
async def agent_at(url: str, token: str = "", mode: str = "auto") -> AsyncIterator[Agent]:
    """Yield an agent that talks to `/mcp` of a master."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30, trust_env=False, verify=False) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=mode) as client,
    ):
        yield Agent(client)


@contextlib.asynccontextmanager
async def agent_by_command(url: str, token: str = "") -> AsyncIterator[Agent]:
    """Yield an agent that talks to the process of `jqmaster mcp`."""
    variables = {**clean_environment(), "JQMASTER_URL": url}
    if token:
        variables["JQMASTER_TOKEN"] = token
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "jqmaster", "mcp"], env=variables, cwd=os.getcwd()
    )
    async with Client(command) as client:
        yield Agent(client)
