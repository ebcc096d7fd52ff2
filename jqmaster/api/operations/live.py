"""The stream of events over HTTP."""

from typing import Final

from jqmaster.api.http.endpoint import Call, StreamedAnswer
from jqmaster.api.http.event_stream import streamed

# Interval between `alive` messages of a stream. Without these messages, a browser could not distinguish a quiet
# master from a broken connection.
PING_S: Final = 15


async def stream(call: Call) -> StreamedAnswer:
    call.query()
    events = call.services.feed.stream(call.who, call.is_admitted, has_missed=b"last-event-id" in call.fields)
    return await streamed(events, ping_s=PING_S)
