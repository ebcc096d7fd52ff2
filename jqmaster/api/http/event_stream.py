"""Answers that are streams of server-sent events."""

import asyncio
import logging
from collections.abc import AsyncGenerator

from sse_starlette import EventSourceResponse, ServerSentEvent

from jqmaster.api.http.endpoint import StreamedAnswer
from jqmaster.api.http.security_headers import DATA_HEADERS

# Turn off the debug messages of this logger. They quote every event, and events of jobs may contain job content.
logging.getLogger("sse_starlette.sse").setLevel(logging.INFO)


class _EventStream(EventSourceResponse):
    """A stream that does not poll for the shutdown of the server.

    The library would check uvicorn's signal handlers twice a second, in a task that nobody owns. In jqmaster, the
    sources of the events end the streams.
    """

    async def _listen_for_exit_signal_with_grace(self) -> None:
        await asyncio.Event().wait()


async def streamed(events: AsyncGenerator[bytes], *, ping_s: int) -> StreamedAnswer:
    """Return an answer that streams these events and sends `alive` every `ping_s` seconds. Wait for the first
    event before returning, so that a refusal can still be a normal error answer."""
    first = await anext(events)
    response = _EventStream(
        _joined(first, events),
        headers={name.decode(): value.decode() for name, value in DATA_HEADERS},
        ping=ping_s,
        ping_message_factory=lambda: ServerSentEvent("{}", event="alive", sep="\n"),
        sep="\n",
    )
    return StreamedAnswer(response)


async def _joined(first: bytes, rest: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    try:
        yield first
        async for events in rest:
            yield events
    finally:
        # Close the iterator now to free its place in the feed. Otherwise, the place would stay taken until
        # garbage collection.
        await rest.aclose()
