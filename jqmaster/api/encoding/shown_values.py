"""Convert values in jobs to the form that people see."""

from typing import Final

from jqmaster.api.encoding.answers import RawMsgpack
from jqmaster.domain.content.readable import readable

MAX_SHOWN_BYTES: Final = 64 * 1024


def shown_value(value: bytes | None) -> RawMsgpack | None:
    """Return the form in which views show a value of a job, or None if it is too large."""
    return RawMsgpack(readable(value)) if value is not None and len(value) <= MAX_SHOWN_BYTES else None
