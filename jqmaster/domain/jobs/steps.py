"""Steps of a job: the calls that its handler makes once, whatever the number of attempts. A worker keeps them in the
checkpoint."""

from typing import Final, NamedTuple

import msgpack

# The MessagePack extension type of a checkpoint that contains steps. `worker_sdk` uses the same number.
EXTENSION: Final = 83
# The last instant that dates can show.
_MAX_AT_MS: Final = 253_402_300_799_999


class JobStep(NamedTuple):
    """A step that has ended, at `at_ms` of its worker's clock."""

    name: str
    at_ms: int
    took_ms: int


def steps_of(checkpoint: bytes | None) -> list[JobStep]:
    """Return the steps in an encoded checkpoint, in the order in which they ended. Workers may write anything into a
    checkpoint. A checkpoint of another form has no steps."""
    if not checkpoint:
        return []
    try:
        found = msgpack.unpackb(checkpoint, strict_map_key=False, unicode_errors="replace", timestamp=0)
        if type(found) is not msgpack.ExtType or found.code != EXTENSION:
            return []
        _, told, *_ = msgpack.unpackb(found.data, strict_map_key=False, unicode_errors="replace", timestamp=0)
        return [_step(*one[:3]) for one in told]
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException):
        return []


def _step(name: object, at_ms: object, took_ms: object) -> JobStep:
    if type(name) is not str or type(at_ms) is not int or type(took_ms) is not int:
        raise ValueError("a step is a name and two numbers")
    return JobStep(name, min(max(at_ms, 0), _MAX_AT_MS), max(took_ms, 0))
