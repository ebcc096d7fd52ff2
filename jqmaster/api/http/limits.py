"""Limits on requests and connections, as the settings give them."""

from dataclasses import dataclass

from jqmaster.api.http.connection_room import RoomLimits
from jqmaster.config import Settings
from jqmaster.live_value import LiveValue


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Limits of a request's head, and of the time that a client takes to send a request and to read an answer."""

    head_bytes: int
    header_count: int
    receipt_s: float
    write_s: float

    @classmethod
    def of(cls, settings: Settings) -> "RequestLimits":
        return cls(
            settings.max_header_bytes,
            settings.max_header_count,
            settings.receipt_deadline_s,
            settings.write_deadline_s,
        )


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Limits of a server. A change applies at once to all connections, also to those that are open."""

    room: LiveValue[RoomLimits]
    request: LiveValue[RequestLimits]
