"""`jqmaster mcp`: serve the tools for agents on standard input and output, to a program on the operator's machine."""

import asyncio
import importlib.util
import os

from jqmaster.cli.console import exits
from jqmaster.cli.console.http import MasterSession


def mcp(http: MasterSession) -> None:
    """Serve tools for agents over the Model Context Protocol, on standard input and output.

    An editor or agent starts this command. The tools call the master with the token of the command, and cannot do more
    than the token allows. See docs/agents.md.
    """
    if importlib.util.find_spec("mcp") is None:
        exits.fail(exits.REFUSED, "the tools for agents are not installed: pip install 'jqmaster[mcp]'")
    from jqmaster.agents.server import Confirmations, MasterCalls, serve_stdio

    async def serve() -> None:
        async with http.async_client() as client:
            await serve_stdio(MasterCalls(client), Confirmations(os.urandom(32)))

    try:
        asyncio.run(serve())
    except KeyboardInterrupt:
        return
