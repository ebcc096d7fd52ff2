"""The stream of events over HTTP."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Final

from sse_starlette import EventSourceResponse, ServerSentEvent

from jqmaster.api.http.endpoint import SECURITY_HEADERS, Call, Streamed

# Each stream says `alive` this often: by it the browser tells a quiet master from a connection that died without a
# word.
PING_S: Final = 15


class _EventStream(EventSourceResponse):
    """The library learns of the end of a server by looking at uvicorn's signal handlers twice a second, in a task that
    nobody owns. Here the feed ends its streams itself."""

    async def _listen_for_exit_signal_with_grace(self) -> None:
        await asyncio.Event().wait()


async def stream(call: Call) -> Streamed:
    call.query()
    feed = call.services.feed
    events = feed.stream(call.is_admitted, has_missed=b"last-event-id" in call.fields)
    # Refused before the answer begins.
    first = await anext(events)
    response = _EventStream(
        _joined(first, events),
        headers={name.decode(): value.decode() for name, value in SECURITY_HEADERS},
        ping=PING_S,
        ping_message_factory=lambda: ServerSentEvent("{}", event="alive", sep="\n"),
        sep="\n",
    )
    return Streamed(response)


async def _joined(first: bytes, rest: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    try:
        yield first
        async for events in rest:
            yield events
    finally:
        # An iterator that is dropped ends only when it is collected; its place in the feed is free at once.
        await rest.aclose()
