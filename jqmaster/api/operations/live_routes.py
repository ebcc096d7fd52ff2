"""The route of the stream of events."""

from typing import Final

from jqmaster.api.http.auth import Scope
from jqmaster.api.http.endpoint import Operation
from jqmaster.api.operations import live

_TEXT: Final = (
    "Server-sent events, at most one of a kind a second. `stats`: the body of `GET /api/stats`; `jobs`: `counts` by state; "
    "`action`: an action on many jobs; `workers`, `masters`, `constraints`, `settings`: fetch them again. Each of these is the "
    "present state: nothing is lost by listening again, and a client that is slow is told the newest. "
    f"`alive` comes each {live.PING_S} s, whatever else does: a stream that is silent for much longer is dead. 503 "
    "`too_many_streams` beyond `max_streams`."
)

OPERATIONS: Final = [
    Operation("GET", "/api/stream", live.stream, Scope.READ, "Hear what changes", "operations", {200: None}, problems=(503,), text=_TEXT,
              is_stream=True, has_effect=True),
]  # fmt: skip
