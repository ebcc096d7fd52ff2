"""Limits of requests and connections according to the settings."""

from dataclasses import dataclass

from jqmaster.api.http.connection_room import RoomLimits
from jqmaster.config import Settings
from jqmaster.live_value import LiveValue


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Limits of the size of a request's head, and of the times in which a client must send a request and read an
    answer."""

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
    """Limits of a server. A change applies at once, even to open connections."""

    room: LiveValue[RoomLimits]
    request: LiveValue[RequestLimits]
