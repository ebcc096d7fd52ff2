"""Limit handlers that may read much of the store for one answer."""

import functools

from jqmaster.api.http.endpoint import Call, Handler, Reply, StreamedAnswer


def search(handler: Handler) -> Handler:
    """Decorate a handler so that each caller can run only a few such calls at once."""

    @functools.wraps(handler)
    async def in_turn(call: Call) -> Reply | StreamedAnswer:
        async with call.services.search_turns.taken(call.who):
            return await handler(call)

    return in_turn
