"""Read values that do not come from the body of a request, such as answers of targets. The limits of arguments in
requests apply."""

from jqmaster.api.encoding.json_bridge import json_to_msgpack
from jqmaster.api.encoding.validator import ScanLimits, scan
from jqmaster.errors import UnparsableError
from jqmaster.live_value import LiveValue


class ContentReader:
    """Reads values under the limits of arguments. The methods raise the errors of an argument in a request:
    UnparsableError, InvalidError and TooLargeError. Every later reader can decode a value that passes."""

    def __init__(self, limits: LiveValue[ScanLimits]) -> None:
        self._limits = limits

    def from_json(self, text: bytes) -> bytes:
        """Return a JSON document as MessagePack."""
        return self.checked(json_to_msgpack(text))

    def checked(self, packed: bytes) -> bytes:
        """Check one MessagePack value and return its bytes unchanged."""
        if scan(packed, limits=self._limits.current) != len(packed):
            raise UnparsableError("bytes follow the value")
        return packed
