"""The process that checks arguments against the schemas that workers declared. `SchemaJudge` starts it with `python
-m`.

A schema is untrusted code. The native code that evaluates it may take hours or all memory, and cannot be interrupted.
Therefore it runs in a process of its own, and the kernel enforces the limits: each task has a limit on processor time,
and the process has a limit on memory.

A request is a frame on the standard input with several tasks. The process answers each task with a frame on the
standard output, in order. So the master knows which task ended the process.
"""

import contextlib
import resource
import signal
import struct
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

import msgpack

from jqmaster.domain.workers.contract import schema_of_text
from jqmaster.service.workers.schemas import ArgumentSchema, BadSchemaError, as_json

# Maximum processor time of a task. Unlike elapsed time, it does not grow while the machine is busy or suspended.
MAX_CPU_S: Final = 0.5
MAX_MEMORY_BYTES: Final = 1024**3
# Maximum number of cached schemas. The master counts the schemas that it has sent, and tells this process when to drop
# all of them.
MAX_SCHEMAS: Final = 1_000
LENGTH: Final = struct.Struct(">I")


def main() -> None:
    # A terminal sends Ctrl-C to the whole process group, so ignore it here.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(ValueError, OSError):  # not every system can limit the memory
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    texts: dict[str, str] = {}
    compiled: dict[str, ArgumentSchema] = {}
    for request in _requests(sys.stdin.buffer):
        if request["forget"]:
            texts.clear()
            compiled.clear()
        texts |= request["schemas"]
        for digests, argument in request["tasks"]:
            # Once the processor time is used up, SIGPROF ends the process, even in the middle of native code.
            signal.setitimer(signal.ITIMER_PROF, MAX_CPU_S)
            answer = msgpack.packb(_answer(digests, argument, texts, compiled))
            signal.setitimer(signal.ITIMER_PROF, 0)
            sys.stdout.buffer.write(LENGTH.pack(len(answer)) + answer)
            # Write each answer at once: if this process ends, the master blames the first task without an answer.
            sys.stdout.buffer.flush()


def _requests(source: BinaryIO) -> Iterator[dict[str, Any]]:
    while len(head := source.read(LENGTH.size)) == LENGTH.size:
        (size,) = LENGTH.unpack(head)
        yield msgpack.unpackb(source.read(size))


def _answer(
    digests: list[str], argument: bytes | None, texts: dict[str, str], compiled: dict[str, ArgumentSchema]
) -> Any:
    """Return the misfits of the argument. The list is empty if the argument fits one of the schemas. Without an
    argument, return the fault of the schema, or None if it is valid."""
    try:
        for digest in digests:
            if digest not in compiled:
                compiled[digest] = ArgumentSchema(schema_of_text(texts[digest]))
    except BadSchemaError as exc:
        # A master with another version of the library accepted this schema, but this version cannot apply it.
        return str(exc) if argument is None else []
    if argument is None:
        return None
    try:
        value = as_json(argument)
    except (ValueError, TypeError):
        # JSON cannot express the argument, so JSON Schemas do not apply to it.
        return []
    least: list[Any] | None = None
    for digest in digests:
        misfits = compiled[digest].misfits(value)
        if not misfits:
            return []
        if least is None or len(misfits) < len(least):
            least = [[one.path, one.message, one.keyword] for one in misfits]
    return least or []


if __name__ == "__main__":
    main()
