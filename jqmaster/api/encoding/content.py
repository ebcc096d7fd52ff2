"""Read values that reach a master in other ways than as the body of a request, under the same limits."""

from jqmaster.api.encoding.json_bridge import json_to_msgpack
from jqmaster.api.encoding.validator import ScanLimits, scan
from jqmaster.errors import UnparsableError
from jqmaster.live_value import LiveValue


class ContentReader:
    """Methods raise UnparsableError, InvalidError and TooLargeError, as for an argument in a request. Every later
    reader can decode a value that passes."""

    def __init__(self, limits: LiveValue[ScanLimits]) -> None:
        self._limits = limits

    def from_json(self, text: bytes) -> bytes:
        """Return a JSON document as MessagePack."""
        return self.checked(json_to_msgpack(text))

    def checked(self, packed: bytes) -> bytes:
        """Return MessagePack as it came."""
        if scan(packed, limits=self._limits.current) != len(packed):
            raise UnparsableError("the message goes on after its value")
        return packed
