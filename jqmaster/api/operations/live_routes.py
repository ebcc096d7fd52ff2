"""The route of the stream of events."""

from typing import Final

from jqmaster.api.http.auth import Scope
from jqmaster.api.http.endpoint import Operation
from jqmaster.api.operations import live

_TEXT: Final = (
    "Server-sent events, at most one of each kind per second. `stats` holds the body of `GET /api/stats`, `jobs` holds `counts` "
    "by state, and `action` holds an action on many jobs. `workers`, `masters`, `constraints` and `settings` mean that the "
    "client should fetch these again. Each event is the current state, so a client that reconnects misses nothing, and a slow "
    f"client gets the newest. `alive` comes every {live.PING_S} s regardless of other events; a stream that is silent for much "
    "longer is dead. Beyond `max_streams` the answer is 503 `too_many_streams`."
)

OPERATIONS: Final = [
    Operation("GET", "/api/stream", live.stream, Scope.READ, "Stream changes", "operations", {200: None}, problems=(503,), text=_TEXT,
              is_stream=True, has_effect=True),
]  # fmt: skip
