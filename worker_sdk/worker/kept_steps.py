"""The encoded checkpoint of a job with steps. It contains the steps' results and the value that the handler saved."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from msgpack import ExtType

from worker_sdk.wire import decode, encode

# The MessagePack extension for a checkpoint with steps. Masters know this number and show the names and times of the
# steps. A checkpoint without steps is the saved value alone, as workers without support for steps write it.
EXTENSION: Final = 83
# The possible first bytes of a MessagePack extension.
_MARKERS: Final = frozenset(b"\xc7\xc8\xc9\xd4\xd5\xd6\xd7\xd8")


class DoneStep(NamedTuple):
    """A step that has ended. `result`: the encoded result. The times are by the worker's clock."""

    name: str
    ended_at_ms: int
    took_ms: int
    result: bytes


class SplitCheckpoint(NamedTuple):
    """The parts of a checkpoint. `own`: the encoded value of `ctx.save`, or None. `steps`: the steps by name."""

    own: bytes | None
    steps: dict[str, DoneStep]


def has_steps(checkpoint: bytes | None) -> bool:
    """Return whether an encoded checkpoint holds steps."""
    return _payload_of(checkpoint) is not None


def _payload_of(checkpoint: bytes | None) -> bytes | None:
    """Return the data of the extension in a checkpoint with steps. Return None for any other checkpoint."""
    if not checkpoint or checkpoint[0] not in _MARKERS:
        return None
    found = decode(checkpoint)
    return found.data if type(found) is ExtType and found.code == EXTENSION else None


def split(checkpoint: bytes | None) -> SplitCheckpoint:
    """Return the parts of an encoded checkpoint."""
    payload = _payload_of(checkpoint)
    if payload is None:
        return SplitCheckpoint(checkpoint, {})
    # Ignore further items, which later versions may append.
    own, steps, *_ = decode(payload)
    return SplitCheckpoint(own, {one[0]: DoneStep(*one[:4]) for one in steps})


def joined(own: bytes | None, steps: Iterable[DoneStep]) -> bytes:
    """Return the encoded checkpoint that holds these parts."""
    return encode(ExtType(EXTENSION, encode([own, list(steps)])))


def own_value(checkpoint: bytes | None) -> Any:
    """Return the value that `ctx.save` saved, decoded. Return None if there is no such value."""
    own = split(checkpoint).own
    return None if own is None else decode(own)


def results_of(checkpoint: bytes | None) -> dict[str, Any]:
    """Return the results of the steps by name, decoded."""
    return {name: decode(one.result) for name, one in split(checkpoint).steps.items()}


def with_results(checkpoint: bytes | None, results: Mapping[str, Any]) -> bytes | None:
    """Return the checkpoint that would exist if steps with these results had ended."""
    if not results:
        return checkpoint
    from worker_sdk.tasks.value_codec import ResultCodec

    return joined(
        checkpoint,
        [
            DoneStep(name, 0, 0, encode(ResultCodec(f"step {name}: the result", Any).encode(value)))
            for name, value in results.items()
        ],
    )
